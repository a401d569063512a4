# frozen_string_literal: true

require "fileutils"
require "open3"
require "rbconfig"
require "tmpdir"

VENDOR_TREE = File.expand_path(ENV["NF_VENDOR_TREE"].to_s)
STANDALONE_TREE = "#{VENDOR_TREE}_standalone"
LIBDATADOG_GEM = ENV["NF_LIBDATADOG_GEM"]
VERSION = "6.0.0.2.0"

# What both kinds of packaging are asked.
module PackagingHelper
  def scratch
    @scratch ||= Dir.mktmpdir("nf")
    File.join(@scratch, "a b").tap { |folder| FileUtils.mkdir_p(folder) } # mktmpdir takes spaces out
  end

  # [what it printed, Process::Status]
  def run(program, *arguments, env: {}, **options)
    Open3.capture2e(env, [program, program], *arguments, **options) # no shell, whatever the name
  end

  def run!(*command, **options)
    output, status = run(*command, **options)
    raise "#{command.inspect} failed:\n#{output}" unless status.success?

    output
  end

  def ruby(script, **options)
    run(RbConfig.ruby, "-e", script, **options)
  end

  def exported_names(library)
    run!("nm", "-D", "--defined-only", "--format=posix", library).lines.map { |line| line.split.first }
  end

  def global_names(archive)
    run!("nm", "-g", "--defined-only", "--format=posix", archive).lines.reject { |line| line.end_with?(":\n") }
                                                                .map { |line| line.split.first }
  end

  def dynamic_section(library)
    run!("readelf", "-dW", library)
  end

  def needed(library)
    dynamic_section(library).scan(/NEEDED.*\[(.*?)\]/).flatten
  end

  # Functions that a header declares.
  def declared_names(include_folder)
    Dir[File.join(include_folder, "datadog", "*.h")].sum("") { |file| File.read(file) }
                                                    .gsub(%r{//.*|/\*.*?\*/}m, "").scan(/\b(ddog_\w+)\s*\(/).flatten.uniq
  end

  PROGRAM = <<~C
    #include <datadog/profiling.h>
    #include <stdio.h>
    #include <string.h>
    int main(void) {
      ddog_prof_ValueType type = {.type_ = {"cpu", 3}, .unit = {"ns", 2}};
      ddog_prof_Profile_NewResult made = ddog_prof_Profile_new((ddog_prof_Slice_ValueType){&type, 1}, NULL, NULL);
      ddog_prof_Profile_SerializeResult out = ddog_prof_Profile_serialize(&made.ok, NULL, NULL, NULL);
      if (out.tag != DDOG_PROF_PROFILE_SERIALIZE_RESULT_OK) return 1;
      /* the magic number of an LZ4 frame, from its specification */
      printf("%s", memcmp(out.ok.buffer.ptr, "\\x04\\x22\\x4d\\x18", 4) ? "no frame" : "an LZ4 frame");
      return 0;
    }
  C

  # Compiles PROGRAM with what pkg-config says; what it prints when it runs.
  def compile_and_run(pkgconfig_folder, name, env: {})
    file = File.join(scratch, "program.c")
    File.write(file, PROGRAM)
    program = File.join(scratch, "program-#{name}")
    flags = run!("pkg-config", "--cflags", "--libs", name, env: { "PKG_CONFIG_PATH" => pkgconfig_folder })
    run!("sh", "-c", "cc \"$0\" -o \"$1\" #{flags.strip}", file, program)
    [program, run!(program, env: env)]
  end
end

RSpec.configure do |config|
  config.include(PackagingHelper)
  config.after { FileUtils.remove_entry(@scratch) if @scratch }
end
