# frozen_string_literal: true

require "spec_helper"

RSpec.describe "the libdatadog gem" do
  def gem_env(home, **more)
    { "GEM_HOME" => home, "GEM_PATH" => home, "RUBYOPT" => nil, "LIBDATADOG_VENDOR_OVERRIDE" => nil }.merge(more)
  end

  # Without a network, where the system lets us cut it.
  def offline
    @offline ||= run("unshare", "-n", "true").last.success? ? %w[unshare -n] : []
  end

  def install(home, env: {}, **options)
    run(*offline, RbConfig.ruby, "-S", "gem", "install", "--local", "--no-document", LIBDATADOG_GEM, env: gem_env(home, **env), **options)
  end

  def ask(home, question, env: {})
    output, status = run(RbConfig.ruby, "-e", "require 'libdatadog'; print((#{question}).inspect)", env: gem_env(home, **env))
    raise output unless status.success?

    output
  end

  # Installing takes its time, so what can share one installation does.
  before(:context) do
    @top = Dir.mktmpdir("nf")
    @home = File.join(@top, "my gems")
    @printed, @status = install(@home, umask: 0o077)
    @folder = File.join(@home, "gems", "libdatadog-#{VERSION}")
  end
  after(:context) { FileUtils.remove_entry(@top) }

  it "installs without a network, into a folder whose name has a space" do
    expect(@printed).to include("1 gem installed")
    expect(@status.success?).to be(true)
  end

  it "has the interface that the datadog gem asks" do
    expect(ask(@home, "[Libdatadog::VERSION, Libdatadog::LIB_VERSION]")).to eq('["6.0.0.2.0", "6.0.0"]')
    expect(ask(@home, "Libdatadog.available_binaries")).to eq('["x86_64-linux"]')
    expect(ask(@home, "Libdatadog.current_platform")).to eq('"x86_64-linux"')
    expect(ask(@home, "Libdatadog.pkgconfig_folder('nothing.pc')")).to eq("nil")
  end

  it "has compiled a library that a program can use" do
    folder = eval(ask(@home, "Libdatadog.pkgconfig_folder")) # rubocop:disable Security/Eval
    _program, printed = compile_and_run(folder, "datadog_profiling_with_rpath")
    expect(printed).to eq("an LZ4 frame")
    library = File.join(folder, "..", "libdatadog_profiling.so")
    expect(File.size(library)).to be <= 250 * 1024
    expect(exported_names(library).sort).to eq(declared_names(File.join(folder, "..", "..", "include")).sort)
    expect(dynamic_section(library)).not_to match(/SONAME|RPATH|RUNPATH/)
  end

  it "is readable for everybody, whatever the umask was" do
    closed = Dir[File.join(@folder, "**", "*")].reject { |file| File.directory?(file) || File.stat(file).mode & 0o044 == 0o044 }
    expect(closed).to eq([])
    closed = Dir[File.join(@folder, "vendor", "**", "*")].select { |file| File.directory?(file) && File.stat(file).mode & 0o055 != 0o055 }
    expect(closed).to eq([])
  end

  it "works after the whole tree was moved" do
    moved = File.join(scratch, "moved")
    FileUtils.cp_r(@home, moved)
    folder = eval(ask(moved, "Libdatadog.pkgconfig_folder")) # rubocop:disable Security/Eval
    expect(folder).to start_with(File.realpath(moved))
    expect(compile_and_run(folder, "datadog_profiling_with_rpath").last).to eq("an LZ4 frame")
  end

  it "takes another vendor folder instead, if told so" do
    env = { "LIBDATADOG_VENDOR_OVERRIDE" => VENDOR_TREE }
    expect(ask(@home, "Libdatadog.pkgconfig_folder", env: env)).to include(VENDOR_TREE)
    empty = { "LIBDATADOG_VENDOR_OVERRIDE" => scratch }
    expect(ask(@home, "[Libdatadog.available_binaries, Libdatadog.pkgconfig_folder]", env: empty)).to eq("[[], nil]")
  end

  it "maps what RubyGems and Ruby call a platform" do
    {
      %w[x86_64-linux x86_64-linux-gnu] => "x86_64-linux",
      %w[x86_64-linux-gnu x86_64-linux-gnu] => "x86_64-linux",
      %w[x86_64-linux x86_64-linux-musl] => "x86_64-linux-musl",
      %w[x86_64-linux-musl x86_64-linux-musl] => "x86_64-linux-musl",
      %w[aarch64-linux aarch64-linux-gnu] => "aarch64-linux",
      %w[aarch64-linux-gnu aarch64-linux-gnu] => "aarch64-linux",
      %w[arm64-linux arm64-linux] => "aarch64-linux",
      %w[s390x-linux s390x-linux-gnu] => "s390x-linux",
      %w[arm64-darwin-22 arm64-darwin22] => "arm64-darwin-22",
    }.each do |(rubygems, arch), expected|
      expect(ask(@home, "Libdatadog.send(:normalize, #{rubygems.inspect}, #{arch.inspect})")).to eq(expected.inspect)
    end
  end

  it "is compiled when it is first asked for, where Bundler takes it from a path" do
    path = File.join(scratch, "unpacked")
    FileUtils.cp_r(@folder, path)
    FileUtils.rm_rf(File.join(path, "vendor"))
    File.write(File.join(scratch, "Gemfile"), "gem 'libdatadog', path: #{path.inspect}\n")
    spec = Dir[File.join(@home, "specifications", "libdatadog-*.gemspec")].fetch(0)
    FileUtils.cp(spec, File.join(path, "libdatadog.gemspec"))
    script = "require 'bundler/setup'; require 'libdatadog'; print Libdatadog.pkgconfig_folder"
    output, status = run(*offline, RbConfig.ruby, "-e", script, chdir: scratch,
                                                                env: { "BUNDLE_GEMFILE" => File.join(scratch, "Gemfile") })
    expect(status.success?).to be(true), output
    expect(output).to start_with(File.realpath(path))
    expect(Dir[File.join(path, "vendor", "**", "*.so")].size).to eq(1)
  end

  describe "where it cannot compile" do
    def expect_refusal(reason, env)
      home = File.join(scratch, "gems")
      printed, status = install(home, env: env)
      expect(status.success?).to be(false)
      expect(printed).to include(reason)
      expect(Dir[File.join(home, "specifications", "*")]).to eq([])
      expect(Dir[File.join(home, "gems", "*", "vendor")]).to eq([])
    end

    it "says that there is no compiler" do
      expect_refusal("the C compiler `false` does not work", { "CC" => "false" })
    end

    it "names the libraries that are missing, and their packages" do
      folder = File.join(scratch, "bin")
      Dir.mkdir(folder)
      compiler = File.join(folder, "cc-without-lz4")
      File.write(compiler, "#!/bin/sh\ncase \"$*\" in *-llz4*) exit 1;; esac\nexec cc \"$@\"\n")
      File.chmod(0o755, compiler)
      expect_refusal("these libraries were not found: lz4frame.h\nDebian, Ubuntu: apt-get install liblz4-dev", { "CC" => compiler.gsub(" ", "\\ ") })
    end

    it "says where compiling stopped, and leaves nothing behind" do
      expect_refusal("compiling failed", { "CPPFLAGS" => "-DLZ4F_VERSION=nonsense(" })
    end
  end
end
