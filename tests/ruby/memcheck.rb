# Runs smoke.rb under Valgrind and fails on memory errors of ours: in the profiler's extension, in the engine that is linked
# into it, or in what they call. Ruby itself reads uninitialized memory by design (its collector looks through the machine
# stack) and never frees much; none of that is counted.
#
#   ruby memcheck.rb LIB_FOLDER      LIB_FOLDER: the built extension (bazel-bin/ruby/extension/lib)
#
# Before it trusts a clean result it runs a library with errors of known kinds through the same filter: each must be found.
require "open3"
require "rbconfig"
require "rexml/document"
require "tmpdir"

class Memcheck
  OURS = /datadog_profiling_(native_extension|loader|canary)/
  # Helpers that work for their caller: an error in them is the caller's.
  HELPERS = %r{vgpreload|/libc[.-]|ld-linux|/libz\.|/liblz4|/libzstd|/libprotobuf-c}

  Frame = Struct.new(:function, :object, :place) do
    def to_s
      "    #{function || "?"} #{place || File.basename(object.to_s)}"
    end
  end

  Finding = Struct.new(:kind, :what, :stacks) do
    def to_s
      "#{kind}: #{what}\n#{stacks.map { |stack| stack.first(12).join("\n") }.join("\n    --\n")}"
    end
  end

  def initialize(lib, here)
    @lib = lib
    @here = here
  end

  # [findings, output, status] of a script
  def run(*arguments)
    Dir.mktmpdir do |folder|
      report = File.join(folder, "report.xml")
      command = ["valgrind", "--tool=memcheck", "--xml=yes", "--xml-file=#{report}", "--leak-check=full",
                 "--show-leak-kinds=definite", "--num-callers=40", "--error-limit=no", "--child-silent-after-fork=yes",
                 "--suppressions=#{File.join(@here, "ruby.supp")}", "--max-stackframe=8388608", "--main-stacksize=8388608", "--vgdb=no", "--keep-debuginfo=yes",
                 RbConfig.ruby, "-I", @lib, "-I", @here, *arguments]
      output, status = Open3.capture2e({ "RUBYOPT" => ENV["RUBYOPT"] }, *command)
      [findings(report), output, status]
    end
  end

  private

  def findings(report)
    # Parsing all that Ruby itself loses would take minutes.
    File.read(report).scan(%r{<error>.*?</error>}m).grep(OURS).filter_map do |xml|
      error = REXML::Document.new(xml).root
      stacks = error.get_elements("stack").map { |stack| stack.get_elements("frame").map { |frame| to_frame(frame) } }
      next unless ours?(text(error, "kind"), stacks)
      Finding.new(text(error, "kind"), text(error, "what") || text(error, "xwhat/text"), stacks)
    end
  end

  def to_frame(element)
    file = text(element, "file")
    Frame.new(text(element, "fn"), text(element, "obj").to_s, file && "#{file}:#{text(element, "line")}")
  end

  def text(element, path)
    element.elements[path]&.text
  end

  # Ours is what happens in our code or in helpers that it called; bad addresses also when one of Ruby's functions meets them
  # that our code has called, but not somewhere far below.
  def ours?(kind, stacks)
    stacks = stacks.first(1) if kind.start_with?("Leak", "Uninit")
    stacks.any? do |stack|
      frames = stack.drop_while { |frame| frame.object.match?(HELPERS) }
      depth = kind.start_with?("Leak", "Uninit") ? 1 : 4
      frames.first(depth).any? { |frame| frame.object.match?(OURS) }
    end
  end
end

CANARY = <<~C
  #include <stdio.h>
  #include <stdlib.h>
  #include <string.h>

  extern unsigned long rb_str_new(const char *, long);
  static char *volatile kept;
  static char sink[64];

  __attribute__((noinline)) static void use_after_free(void) { char *p = malloc(40); kept = p; free(p); sink[0] = kept[3]; }
  __attribute__((noinline)) static void write_too_far(void) { char *p = malloc(40); kept = p; kept[40] = 1; free(p); }
  __attribute__((noinline)) static void not_initialized(void) { char *p = malloc(40); kept = p; if (kept[5]) sink[1]++; free(p); }
  __attribute__((noinline)) static void lose(void) { // more than one: the address of the last may stay on the stack
    for (int i = 0; i < 8; i++) kept = malloc(12345);
    kept = NULL;
  }
  __attribute__((noinline)) static void free_twice(void) { char *p = malloc(40); kept = p; free(p); free(kept); }
  __attribute__((noinline)) static void through_libc(void) { char *p = malloc(40); kept = p; free(p); memcpy(sink, kept, 33); }
  __attribute__((noinline)) static void through_ruby(void) { char *p = malloc(40); kept = p; free(p); rb_str_new(kept, 33); }

  void Init_datadog_profiling_canary(void) {
    use_after_free(), write_too_far(), not_initialized(), lose(), free_twice(), through_libc(), through_ruby();
  }
C
EXPECTED = {
  "use_after_free" => "InvalidRead", "write_too_far" => "InvalidWrite", "not_initialized" => "UninitCondition",
  "lose" => "Leak_DefinitelyLost", "free_twice" => "InvalidFree", "through_libc" => "InvalidRead", "through_ruby" => "InvalidRead",
}.freeze

lib = File.expand_path(ARGV.fetch(0) { abort("usage: memcheck.rb LIB_FOLDER") })
here = __dir__
unless system("valgrind", "--version", out: File::NULL)
  puts "skipped: valgrind is not installed (Debian: apt-get install valgrind)"
  exit
end
memcheck = Memcheck.new(lib, here)

Dir.mktmpdir do |folder|
  library = File.join(folder, "datadog_profiling_canary.so")
  File.write("#{library}.c", CANARY)
  system(ENV.fetch("CC", "gcc"), "-g", "-O0", "-shared", "-fPIC", "-w", "-o", library, "#{library}.c", exception: true)
  script = <<~RUBY
    require "datadog/profiling"
    p Datadog::Profiling::Loader._native_load(#{library.inspect}, "Init_datadog_profiling_canary")
  RUBY
  found, output, = memcheck.run("-e", script)
  missed = EXPECTED.reject do |function, kind|
    found.any? { |finding| finding.kind == kind && finding.stacks.first.any? { |frame| frame.function == function } }
  end
  abort("known errors were not found: #{missed}\n#{found.join("\n")}\n#{output}") if missed.any?
  puts "#{EXPECTED.size} known errors: all found"
end

found, output, status = memcheck.run(File.join(here, "smoke.rb"))
puts output.lines.last(20) unless status.success?
abort("smoke.rb did not end well: #{status}") unless status.success? && output.include?("smoke: fine")
abort("#{found.size} errors:\n\n#{found.join("\n\n")}") if found.any?
puts "smoke.rb: no error of ours"
