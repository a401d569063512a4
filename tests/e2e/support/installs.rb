# frozen_string_literal: true

require "digest"
require "etc"
require "fileutils"
require "open3"
require "rbconfig"

# Gems as a user has them: installed by RubyGems from the files that fetch_gems has got, without a network, into folders
# below ${NF_CACHE:-~/.cache/nonferrous}/e2e. What has been installed from the same files is used again.
module Installs
  # Everything that Ruby takes from the environment, so that nothing depends on how the specs were started.
  CLEAN = (ENV.keys.grep(/\A(RUBY|BUNDLE|GEM_|DD_|NF_RECORD|LIBDATADOG)/) + ["LD_PRELOAD"]).to_h { |it| [it, nil] }.freeze

  # home: GEM_HOME; gem_path: where else gems are
  Install = Struct.new(:name, :home, :gem_path) do
    def env
      path = [File.join(home, "bin"), *gem_path.map { |it| File.join(it, "bin") }, RbConfig::CONFIG["bindir"],
              ENV.fetch("PATH", "/usr/bin:/bin")]
      CLEAN.merge("GEM_HOME" => home, "GEM_PATH" => [home, *gem_path].join(":"), "PATH" => path.join(":"))
    end

    # The folder of an installed gem.
    def gem(name)
      Dir[File.join(home, "gems", "#{name}-[0-9]*")].first
    end

    def extension(name = "datadog_profiling_native_extension")
      Dir[File.join(gem("datadog"), "lib", "#{name}.*.so")].first
    end

    def run(*command, **options)
      Installs.run(*command, env: env, **options)
    end
  end

  # tools: what the datadog gem and the programs need; rubocop: RuboCop; both without anything of ours
  GROUPS = {
    tools: %w[debase-ruby_core_source libddwaf ffi msgpack nio4r puma rack webrick],
    rubocop: %w[ast language_server-protocol parallel parser rainbow regexp_parser rexml rubocop-ast ruby-progressbar
                unicode-display_width rubocop],
  }.freeze
  DATADOG = "datadog"
  DATADOG_VERSION = "2.0.0.beta1"
  RUST_GEM = "libdatadog-6.0.0.2.0-x86_64-linux.gem" # tests/conformance/fetch_oracle gets it
  KEPT = 3 # installations of each kind, for those who go back and forth between two branches

  class << self
    def cache
      # Bazel gives a test a HOME of its own, or none.
      ENV["NF_CACHE"] || File.join(Etc.getpwuid.dir, ".cache/nonferrous")
    end

    def gem_file(name)
      row = list.fetch(name)
      File.join(cache, "gems", "#{[name, row[0], *(row[1] unless row[1] == "ruby")].join("-")}.gem")
    end

    # Why nothing can be run here, or nil.
    def missing
      return "the prebuilt gems are for x86_64 Linux only" unless RUBY_PLATFORM.start_with?("x86_64-linux")
      if Gem::Version.new(RUBY_VERSION) >= Gem::Version.new("3.4")
        return "the datadog gem of that time is for Ruby below 3.4, this is #{RUBY_VERSION}"
      end

      lacking = list.keys.map { |it| gem_file(it) }.push(File.join(cache, RUST_GEM)).reject { |it| File.exist?(it) }
      "#{lacking.size} gems are not there, e.g. #{lacking.first} (tests/e2e/fetch_gems gets them)" if lacking.any?
    end

    def tools
      @tools ||= gems(:tools)
    end

    def rubocop
      @rubocop ||= gems(:rubocop)
    end

    # The datadog gem on the original library.
    def rust
      @rust ||= datadog("rust", [File.join(cache, RUST_GEM)], [])
    end

    # On ours, where LIBDATADOG_VENDOR_OVERRIDE has the original libdatadog gem look for it.
    def override(vendor_tree)
      vendor_tree = File.realpath(vendor_tree)
      files = Dir[File.join(vendor_tree, "**/*")].select { |it| File.file?(it) }.sort
      datadog("override", [File.join(cache, RUST_GEM)], files) do |home|
        FileUtils.cp_r(File.join(vendor_tree, "."), FileUtils.mkdir_p(File.join(home, "vendor")).first)
        { "LIBDATADOG_VENDOR_OVERRIDE" => File.join(home, "vendor") }
      end
    end

    # On ours, with our libdatadog gem instead of the original one.
    def own_gem(file)
      datadog("gem", [file], [file])
    end

    # [what it printed, Process::Status]
    def run(*command, env: CLEAN, **options)
      Open3.capture2e(env, *command, **options)
    end

    private

    def list
      @list ||= File.readlines(File.expand_path("../gems.tsv", __dir__), chomp: true).reject { |it| it.start_with?("#") }
                    .to_h { |it| it.split("\t").then { |name, *rest| [name, rest] } }
    end

    def gems(group)
      files = GROUPS.fetch(group).map { |it| gem_file(it) }
      home = installed(group.to_s, files) { |folder| install(folder, [], files) }
      Install.new(group.to_s, home, [])
    end

    # libdatadog: the gem files of that name; parts: what the result depends on beside them. The block prepares the folder
    # and returns what the environment has to say during the installation.
    def datadog(name, libdatadog, parts)
      needed = tools
      home = installed(name, libdatadog + [gem_file(DATADOG)] + parts) do |folder|
        install(folder, [needed.home], libdatadog)
        install(folder, [needed.home], [gem_file(DATADOG)], block_given? ? yield(folder) : {})
      end
      Install.new(name, home, [needed.home])
    end

    def install(home, gem_path, files, env = {})
      env = CLEAN.merge("GEM_HOME" => home, "GEM_PATH" => [home, *gem_path].join(":")).merge(env)
      gem = [RbConfig.ruby, File.join(RbConfig::CONFIG["bindir"], "gem")]
      output, status = run(*gem, "install", "--local", "--ignore-dependencies", "--no-document", "--norc",
                           "--install-dir", home, *files, env: env)
      raise "gem install in #{home} failed:\n#{output}" unless status.success?
    end

    # The folder that the block has filled, now or earlier from the same files.
    def installed(kind, files)
      key = Digest::SHA256.hexdigest([RbConfig.ruby, *files.flat_map { |it| [it, Digest::SHA256.file(it)] }].join("\0"))
      root = FileUtils.mkdir_p(File.join(cache, "e2e", "#{RUBY_VERSION}_#{RUBY_PLATFORM}")).first
      home = File.join(root, "#{kind}-#{key[0, 16]}")
      File.open(File.join(root, "#{kind}.lock"), File::CREAT | File::RDWR) do |lock|
        lock.flock(File::LOCK_EX)
        unless File.exist?(File.join(home, "complete"))
          FileUtils.rm_rf(home)
          yield FileUtils.mkdir_p(home).first
        end
        FileUtils.touch(File.join(home, "complete"))
        forget_old(root, kind)
      end
      home
    end

    def forget_old(root, kind)
      homes = Dir[File.join(root, "#{kind}-*")].sort_by { |it| File.mtime(it) }
      FileUtils.rm_rf(homes[0...-KEPT]) if homes.size > KEPT
    end
  end
end
