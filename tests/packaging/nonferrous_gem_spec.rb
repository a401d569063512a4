# frozen_string_literal: true

require_relative "spec_helper"
require "rubygems/package"

GEM = File.expand_path(ENV.fetch("NF_NONFERROUS_GEM"))
UNPACKED = Dir.mktmpdir("nf-gem")
Gem::Package.new(GEM).extract_files(UNPACKED)
require File.join(UNPACKED, "ext/nonferrous/skip_reasons")

# As if LZ4's header were not there.
NO_LZ4 = Dir.mktmpdir("nf-header")
File.write(File.join(NO_LZ4, "lz4frame.h"), "#error none\n")

RSpec.describe "the gem nonferrous" do
  after(:all) { [UNPACKED, NO_LZ4].each { |folder| FileUtils.remove_entry(folder) } }

  # From the gem's file alone; the network is cut where the system lets us.
  def install(home, env: {}, umask: 0o022)
    cut = run("unshare", "-rn", "true").last.success? ? ["unshare", "-rn"] : []
    run(*cut, RbConfig.ruby, "-S", "gem", "install", "--local", "--no-document", "--install-dir", home, GEM,
        env: { "HOME" => scratch, "GEM_HOME" => nil, "GEM_PATH" => nil }.merge(env), umask: umask)
  rescue Errno::ENOENT # no unshare
    run(RbConfig.ruby, "-S", "gem", "install", "--local", "--no-document", "--install-dir", home, GEM, env: env, umask: umask)
  end

  def gem_folder(home)
    Dir[File.join(home, "gems", "nonferrous-*")].first
  end

  def in_gem(home, script)
    run(RbConfig.ruby, "-I", File.join(gem_folder(home), "lib"), "-e", script)
  end

  def ddprofrb(home, *arguments)
    run(RbConfig.ruby, File.join(home, "bin", "ddprofrb"), *arguments, env: { "GEM_HOME" => home })
  end

  describe "its files" do
    it "are all that the tree has for it" do
      expected = Dir["ruby/lib/**/*.rb"].map { |file| file.delete_prefix("ruby/") } +
                 Dir["ruby/{loader,pprof_reader,profiler,signal_relay,uploader}/*"].map { |file| "src/#{file}" }
      expect(expected.size).to be > 50
      expect(Gem::Package.new(GEM).contents).to include(*expected, "bin/ddprofrb", "LICENSE", "NOTICE", "src/core/profile.c")
      expect(Gem::Package.new(GEM).contents.grep(/\.(so|o|a|bundle)\z|skipped_reason/)).to be_empty
    end

    it "can be read by everybody, and run if they are commands" do
      modes = Dir[File.join(UNPACKED, "**/*")].select { |file| File.file?(file) }
                                              .to_h { |file| [file.delete_prefix("#{UNPACKED}/"), File.stat(file).mode & 0o777] }
      expect(modes.delete("bin/ddprofrb")).to eq(0o755)
      expect(modes.values.uniq).to eq([0o644])
    end
  end

  describe "installed without a network and without pkg-config, into a path with a space, under a strict umask" do
    # As if these were not there.
    def path_without(*commands)
      commands.each do |name|
        File.write(File.join(scratch, name), "#!/bin/sh\necho $0 >> '#{File.join(scratch, "asked")}'\nexit 127\n", perm: 0o755)
      end
      [scratch, ENV.fetch("PATH")].join(File::PATH_SEPARATOR)
    end

    it "profiles, also after it was moved; only Init_ functions are visible; everybody can read it" do
      first = File.join(scratch, "first home")
      output, status = install(first, umask: 0o077, env: { "PATH" => path_without("pkg-config", "pkgconf") })
      expect([output, status.exitstatus]).to match([/1 gem installed/, 0])

      libraries = Dir[File.join(gem_folder(first), "lib", "*.so")]
      expect(libraries.size).to eq(5)
      expect(libraries.flat_map { |file| exported_names(file) }).to all(start_with("Init_datadog_"))
      expect(libraries.map { |file| dynamic_section(file) }).to all(match(/FLAGS_1.*NOW/).and(satisfy { |text| !text.match?(/RUNPATH|RPATH/) }))
      expect(Dir[File.join(gem_folder(first), "**/*")].map { |file| File.stat(file).mode & 0o044 }.uniq).to eq([0o044])

      home = File.join(scratch, "second home")
      FileUtils.mv(first, home)
      profile = File.join(scratch, "profile.pb.gz")
      output, status = ddprofrb(home, "record", "-o", profile, "--", RbConfig.ruby, "-e",
                                "def busy; 200_000.times { |i| i.to_s }; end; t = Time.now; busy while Time.now - t < 1")
      expect([output, status.exitstatus]).to match([anything, 0])
      expect(ddprofrb(home, "report", profile).first).to include("busy")
    end

    it "profiles by public functions where the compiler cannot read the header of Ruby's inside" do
      File.write(File.join(scratch, "picky-cc"), <<~SH, perm: 0o755)
        #!/bin/sh
        for word do
          case $word in *.c) if grep -q 'mjit.*header' "$word"; then echo "I do not know _Float32x"; exit 1; fi ;; esac
        done
        exec cc "$@"
      SH
      home = File.join(scratch, "home")
      output, status = install(home, env: { "CC" => "picky-cc", "PATH" => "#{scratch}:#{ENV.fetch("PATH")}" })
      expect([output, status.exitstatus]).to match([/1 gem installed/, 0])

      output, status = in_gem(home, "require 'datadog/profiling'; p Datadog::Profiling.capabilities.values_at(:tier, :why_public)")
      expect([output, status.exitstatus]).to match([/\A\[:public, ".*no header .* could read"\]$/, 0])
    end
  end

  describe "where it cannot be compiled" do
    [
      ["by a compiler that does not work", { "CC" => "false" }, /the C compiler `false` does not work/],
      ["by the user's wish", { "DD_PROFILING_NO_EXTENSION" => " True " }, /DD_PROFILING_NO_EXTENSION/],
      ["for want of libraries", { "CPPFLAGS" => "-I#{NO_LZ4}" }, /not found: lz4frame\.h/],
    ].each do |why, env, reason|
      it "installs, and says why, then and when it is used: #{why}" do
        home = File.join(scratch, "home")
        output, status = install(home, env: env)
        expect([output, status.exitstatus]).to match([/1 gem installed/, 0])
        expect(Dir[File.join(gem_folder(home), "**/*.{so,o,a,new}")]).to be_empty

        output, status = in_gem(home, "require 'datadog/profiling'; puts Datadog::Profiling.unsupported_reason")
        expect([output, status.exitstatus]).to match([reason, 0])
        output, status = ddprofrb(home, "record", "-o", File.join(scratch, "p"), "--", RbConfig.ruby, "-e", "puts 'ran'")
        expect([output, status.exitstatus]).to match([reason, 1])
      end
    end

    it "fails to install if that is asked for, and tells why" do
      output, status = install(File.join(scratch, "home"),
                               env: { "CC" => "false", "DD_PROFILING_FAIL_INSTALL_IF_MISSING_EXTENSION" => "true" })
      expect([output, status.exitstatus]).to match([/the C compiler `false` does not work/, 1])
    end
  end

  describe Nonferrous::SkipReasons do
    let(:fine) { described_class::System.new("ruby", "x86_64-linux", false, "3.1.2", true, {}, nil) }

    def first_of(**changes)
      system = fine.dup
      changes.each { |key, value| system[key] = value }
      described_class.first_of(system)&.reason&.join(" ")
    end

    it "finds nothing against Linux and Ruby 2.7 or newer, on any processor" do
      expect(first_of).to be_nil
      %w[aarch64-linux arm64-linux s390x-linux-gnu armv7l-linux-gnueabihf x86_64-linux-musl].each do |platform|
        expect(first_of(platform: platform)).to be_nil
      end
      %w[2.7.0 2.7.10 3.0.6 3.1.10 3.10.0].each { |version| expect(first_of(version: version)).to be_nil }
      expect(first_of(env: { "DD_PROFILING_NO_EXTENSION" => "false" })).to be_nil
    end

    # In the order of the table: each of them wins over all that come after it.
    ROWS = [
      [{ env: { "DD_PROFILING_NO_EXTENSION" => "true" } }, /DD_PROFILING_NO_EXTENSION/],
      [{ engine: "jruby" }, /JRuby/],
      [{ engine: "truffleruby" }, /TruffleRuby/],
      [{ windows: true }, /Windows/],
      [{ platform: "arm64-darwin22" }, /macOS/],
      [{ platform: "x86_64-freebsd13" }, /x86_64-freebsd13/],
      [{ version: "2.6.10" }, /Ruby 2\.6\.10 .* 2\.7/],
      [{ ruby_headers: false }, /headers/],
      [{ build_problem: ["it did not compile", "try again"] }, /it did not compile/],
    ].freeze

    ROWS.each_with_index do |(changes, reason), index|
      it "refuses #{changes.inspect}, before it looks at what comes later in the table" do
        expect(first_of(**changes)).to match(reason)
        later = ROWS.drop(index + 1).map(&:first).reduce({}, :merge)
        expect(first_of(**later, **changes)).to match(reason)
      end
    end

    it "puts reason and advice into a box of 80 columns" do
      box = described_class.box(described_class::Reason.new(["a reason " * 20], ["an advice"]))
      expect(box.lines.map { |line| line.chomp.size }.uniq).to eq([80])
      expect(box).to include("a reason", "an advice", "cannot profile")
    end
  end
end
