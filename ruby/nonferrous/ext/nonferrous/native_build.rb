# frozen_string_literal: true

require "etc"
require "fileutils"
require "open3"
require "rbconfig"
require "shellwords"
require "tmpdir"

module Nonferrous
  # Compiles the extensions and puts them, all or none, into the gem's lib folder.
  class NativeBuild
    ROOT = File.expand_path("../..", __dir__)
    LIB = File.join(ROOT, "lib")
    CONFIG = RbConfig::CONFIG

    # As in tools/bazel/ruby.bzl.
    PRIVATE_TIER_SERIES = %w[2.7 3.1].freeze

    # header, a function of it, how it is linked (ways that are tried in turn), Debian's package
    LIBRARIES = [
      ["protobuf-c/protobuf-c.h", "protobuf_c_version", "-lprotobuf-c", "libprotobuf-c-dev"],
      ["zlib.h", "zlibVersion", "-lz", "zlib1g-dev"],
      ["lz4frame.h", "LZ4F_getVersion", "-llz4", "liblz4-dev"],
      ["zstd.h", "ZSTD_versionNumber", "-lzstd", "libzstd-dev"],
      ["curl/curl.h", nil, "", "libcurl4-openssl-dev"],
      ["ares.h", "ares_library_init", "-l:libcares.a", "libc-ares-dev"],
      ["msgpack.h", "msgpack_version", "-l:libmsgpackc.a|-l:libmsgpack-c.a", "libmsgpack-dev"],
    ].freeze

    def self.ruby_headers?
      File.exist?(File.join(CONFIG["rubyhdrdir"].to_s, "ruby.h"))
    end

    def initialize
      @compiler = ENV["CC"] || CONFIG["CC"] || "cc"
    end

    # nil when all is in its place; otherwise [why not, what helps …].
    def problem
      problem_of_system || compile
    rescue SystemCallError => e
      ["the profiler cannot be compiled or put into its place: #{e.message}"]
    end

    private

    def problem_of_system
      lacking = %w[make ld ar objcopy strip].reject { |tool| tool?(tool) }
      return ["#{lacking.first} was not found", "Install it (Debian: build-essential)."] if lacking.any?
      unless compiles?("#include <stdatomic.h>\nint main(void) { atomic_int i = 0; return i; }")
        return ["the C compiler `#{@compiler}` does not work, or is too old for C11", "Install one (Debian: build-essential)."]
      end

      missing = LIBRARIES.reject { |header, function, link, _| there?(header, function, link) }
      return if missing.empty?

      ["these libraries were not found: #{missing.map(&:first).join(", ")}",
       "Install them (Debian: apt-get install #{missing.map(&:last).join(" ")}), then install this gem again."]
    end

    def tool?(name)
      ENV["PATH"].to_s.split(File::PATH_SEPARATOR).any? { |folder| File.executable?(File.join(folder, name)) }
    end

    def there?(header, function, link)
      use = function ? "void *volatile used = (void *)#{function}; (void)used;" : ""
      program = "#include <stddef.h>\n#include <#{header}>\nint main(void) { #{use} return 0; }"
      link.empty? ? compiles?(program) : link.split("|").any? { |way| compiles?(program, way) }
    end

    # The header of this Ruby's inside, or "" where there is none that the profiler knows what to do with. It was made by
    # and for the compiler that Ruby was built by: another one (clang, for gcc's) may not be able to read it.
    def mjit_header
      header = "rb_mjit_min_header-#{RUBY_VERSION}.h"
      known = PRIVATE_TIER_SERIES.include?(RUBY_VERSION[/\A\d+\.\d+/])
      return "" unless known && File.exist?(File.join(CONFIG["rubyarchhdrdir"].to_s, header))

      Dir.mktmpdir("nonferrous") do |work|
        File.write(File.join(work, "try.c"), "#include \"#{header}\"\n")
        folders = %w[rubyarchhdrdir rubyhdrdir].map { |key| "-I#{CONFIG[key]}" }
        _output, status = Open3.capture2e(*@compiler.shellsplit, "-w", "-fsyntax-only", *folders, "try.c", chdir: work)
        status.success? ? header : ""
      end
    end

    def compiles?(program, link = "")
      Dir.mktmpdir("nonferrous") do |work|
        File.write(File.join(work, "try.c"), program)
        words = %w[CPPFLAGS CFLAGS LDFLAGS].map { |name| ENV[name].to_s.shellsplit }
        command = @compiler.shellsplit + words[0] + words[1] + ["try.c", "-o", "try"] + words[2] + link.split
        _output, status = Open3.capture2e(*command, chdir: work)
        status.success? && File.exist?(File.join(work, "try"))
      end
    rescue SystemCallError
      false
    end

    def compile
      Dir.mktmpdir("nonferrous") do |work|
        # Make cannot bear spaces in names, so it works on a copy, by names without any; likewise for Ruby's headers.
        FileUtils.cp_r(File.join(ROOT, "src", "."), work)
        FileUtils.cp(File.join(__dir__, "extensions.mk"), work)
        { "ruby-headers" => "rubyhdrdir", "ruby-arch-headers" => "rubyarchhdrdir" }.each do |name, key|
          File.symlink(CONFIG[key], File.join(work, name))
        end
        output, status = Open3.capture2e({ "MAKEFLAGS" => nil, "MAKELEVEL" => nil }, *make_command(work))
        next ["compiling failed: #{output.lines.last(20).join.strip}", "Please tell us."] unless status.success?

        put_in_place(Dir[File.join(work, "datadog_*.so")])
        nil
      end
    end

    def make_command(work)
      ["make", "-s", "-C", work, "-f", "extensions.mk", "-j#{[Etc.nprocessors, 8].min}", "SOURCE=.", "CC=#{@compiler}",
       "RUBY_VERSION=#{RUBY_VERSION}", "MJIT_HEADER=#{mjit_header}", "LIBRUBY=#{libruby}", "extensions"]
    end

    # As Ruby links its own extensions, so that ours can only work with this Ruby.
    def libruby
      return "" unless CONFIG["ENABLE_SHARED"] == "yes"

      ["-L#{CONFIG["libdir"]}", "-l#{CONFIG["RUBY_SO_NAME"]}"].map(&:shellescape).join(" ")
    end

    # Each gets its final name by a rename; the profiler itself, which all depends on, last.
    def put_in_place(files)
      suffix = "#{RUBY_VERSION}_#{RUBY_PLATFORM}.#{CONFIG["DLEXT"]}"
      fresh = files.sort_by { |file| file.include?("native_extension") ? 1 : 0 }.map do |file|
        to = File.join(LIB, "#{File.basename(file, ".so")}.#{suffix}")
        FileUtils.cp(file, "#{to}.new")
        File.chmod(0o755, "#{to}.new") # whatever the umask is
        to
      end
      fresh.each { |to| File.rename("#{to}.new", to) }
    ensure
      FileUtils.rm_f(Dir[File.join(LIB, "datadog_*.new")])
    end
  end
end
