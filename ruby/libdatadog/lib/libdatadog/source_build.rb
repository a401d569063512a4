# frozen_string_literal: true

require "English"
require "fileutils"
require "open3"
require "rbconfig"
require "shellwords"
require "tmpdir"

require_relative "../libdatadog"

module Libdatadog
  # Compiles the library and puts it, whole or not at all, into the gem's vendor folder.
  class SourceBuild
    class Failed < StandardError; end

    ROOT = File.expand_path("../..", __dir__)

    # header, a function in it, how to link it (ways that are tried in turn), packages of Debian, Fedora and Alpine
    LIBRARIES = [
      ["protobuf-c/protobuf-c.h", "protobuf_c_version", "-lprotobuf-c", "libprotobuf-c-dev", "protobuf-c-devel", "protobuf-c-dev"],
      ["zlib.h", "zlibVersion", "-lz", "zlib1g-dev", "zlib-devel", "zlib-dev"],
      ["lz4frame.h", "LZ4F_getVersion", "-llz4", "liblz4-dev", "lz4-devel", "lz4-dev"],
      ["zstd.h", "ZSTD_versionNumber", "-lzstd", "libzstd-dev", "libzstd-devel", "zstd-dev"],
      ["curl/curl.h", nil, "", "libcurl4-openssl-dev", "libcurl-devel", "curl-dev"],
      ["ares.h", "ares_library_init", "-l:libcares.a", "libc-ares-dev", "c-ares-devel (static)", "c-ares-static c-ares-dev"],
      ["msgpack.h", "msgpack_version", "-l:libmsgpackc.a|-l:libmsgpack-c.a", "libmsgpack-dev", "msgpack-devel (static)", "msgpack-c-dev"],
    ].freeze

    # Both only for tests.
    def initialize(compiler: ENV["CC"] || RbConfig::CONFIG["CC"] || "cc", vendor: nil)
      @compiler = compiler
      @vendor = vendor || File.join(ROOT, "vendor", "libdatadog-#{LIB_VERSION}")
    end

    # Raises Failed with all that a person needs to know.
    def run
      check_system
      Dir.mktmpdir("libdatadog") do |work|
        make(work)
        put_in_place(File.join(work, "tree"))
      end
      true
    rescue SystemCallError => e
      fail_with("the library cannot be put into #{@vendor}: #{e.message}")
    end

    private

    def check_system
      unless RbConfig::CONFIG["host_os"].include?("linux")
        fail_with("#{RbConfig::CONFIG["host_os"]} is not supported, only Linux is")
      end
      %w[make ld ar objcopy strip].each { |tool| fail_with("`#{tool}` was not found (Debian: build-essential)") unless tool?(tool) }
      fail_with("the C compiler `#{@compiler}` does not work (Debian: build-essential)") unless compiles?("int main(void) { return 0; }")

      missing = LIBRARIES.reject { |header, function, link, *| there?(header, function, link) }
      return if missing.empty?

      fail_with(<<~TEXT.chomp)
        these libraries were not found: #{missing.map(&:first).join(", ")}
        Debian, Ubuntu: apt-get install #{missing.map { |row| row[3] }.join(" ")}
        Fedora: dnf install #{missing.map { |row| row[4] }.join(" ")}
        Alpine: apk add #{missing.map { |row| row[5] }.join(" ")}
      TEXT
    end

    def tool?(name)
      ENV["PATH"].to_s.split(File::PATH_SEPARATOR).any? { |folder| File.executable?(File.join(folder, name)) }
    end

    def there?(header, function, link)
      use = function ? "void *volatile address = (void *)&#{function}; return !address;" : "return 0;"
      program = "#include <stddef.h>\n#include <#{header}>\nint main(void) { #{use} }"
      link.empty? ? compiles?(program) : link.split("|").any? { |way| compiles?(program, way) }
    end

    def compiles?(program, link = "")
      Dir.mktmpdir("libdatadog") do |work|
        source = File.join(work, "try.c")
        File.write(source, program)
        words = [*@compiler.shellsplit, *flags("CPPFLAGS"), *flags("CFLAGS"), source, "-o", File.join(work, "try"), *flags("LDFLAGS")]
        _out, status = Open3.capture2e(*words, *link.split)
        status.success?
      end
    rescue SystemCallError
      false
    end

    def flags(name)
      ENV[name].to_s.shellsplit
    end

    def make(work)
      command = [
        "make", "-s", "-f", File.join(ROOT, "ext", "libdatadog", "build.mk"), "-j#{processors}", "-C", work, "tree",
        "SOURCE=.", "CC=#{@compiler}", "PLATFORM=#{Libdatadog.current_platform}", "TRIPLE=#{triple}", "VERSION=#{LIB_VERSION}",
      ]
      # Make cannot bear spaces in names, so it works on a copy, by names without any.
      FileUtils.cp_r(File.join(ROOT, "src", "."), work)
      output, status = Open3.capture2e({ "MAKEFLAGS" => nil, "MAKELEVEL" => nil }, *command)
      fail_with("compiling failed:\n#{output.lines.last(40).join}") unless status.success?
    end

    def processors
      require "etc"
      [Etc.nprocessors, 8].min
    end

    def triple
      libc = Libdatadog.current_platform.include?("musl") ? "musl" : "gnu"
      "#{RbConfig::CONFIG["host_cpu"]}-unknown-linux-#{libc}"
    end

    # A rename is all or nothing, and must not cross file systems.
    def put_in_place(tree)
      created = missing_folders(File.dirname(@vendor))
      FileUtils.mkdir_p(File.dirname(@vendor))
      created.each { |folder| File.chmod(0o755, folder) } # whatever the umask is
      fresh = "#{@vendor}.new-#{$PROCESS_ID}"
      FileUtils.rm_rf(fresh)
      FileUtils.cp_r(tree, fresh, preserve: true)
      FileUtils.rm_rf(@vendor)
      File.rename(fresh, @vendor)
    ensure
      FileUtils.rm_rf(fresh) if fresh
    end

    def missing_folders(folder)
      return [] if File.directory?(folder)

      missing_folders(File.dirname(folder)) + [folder]
    end

    def fail_with(reason)
      raise Failed, "libdatadog #{VERSION} (Nonferrous) cannot be compiled here: #{reason}"
    end
  end
end
