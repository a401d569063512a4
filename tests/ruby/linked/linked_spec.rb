require "spec_helper"
require "fileutils"
require "open3"
require "tmpdir"

# The profiler inside of Ruby's own program. What Ruby finds on the load path has no native part.
RSpec.describe "the profiler linked into a Ruby" do
  here = File.expand_path("tests/ruby/linked")
  archive = "ruby/libdatadog_profiling_ruby.a"
  extensions = %w[
    datadog_folder_uploader datadog_pprof_reader datadog_profiling_loader datadog_profiling_native_extension
    datadog_signal_relay
  ]

  around do |example|
    Dir.mktmpdir do |folder|
      @folder = File.realpath(folder)
      # Files, not Bazel's links: older Rubies load a file twice that comes by two names.
      system("cp", "-rL", Support.extension_folder, "#{folder}/lib", exception: true)
      system("chmod", "-R", "u+w", "#{folder}/lib", exception: true)
      FileUtils.rm_f(Dir["#{folder}/lib/datadog_*"])
      FileUtils.mkdir("#{folder}/bin")
      FileUtils.cp("ruby/bin/ddprofrb", "#{folder}/bin")
      example.run
    end
  end

  define_method(:embedded) do |*arguments, env: {}|
    output, status = Open3.capture2e(env, File.join(here, "embedded_ruby"), *arguments)
    skip output if status.exitstatus == 77
    raise "#{status}: #{output}" unless status.success?
    output
  end

  it "brings no global name but its Init functions" do
    output, status = Open3.capture2("nm", "-g", "--defined-only", archive)
    expect(status).to be_success
    names = output.lines.map(&:split).select { |it| it.size == 3 }.map(&:last)
    expect(names).to match_array(extensions.map { |it| "Init_#{it}" })
  end

  it "works without any library being opened, in forked children too" do
    lines = embedded("-I", "#{@folder}/lib", "-rdatadog_profiling_loader", "#{here}/program.rb").lines.map(&:chomp)
    expect(lines).to eq(
      ["supported: true", "here: true", "in a child: true",
       "linked: datadog_pprof_reader.so datadog_profiling_loader.so datadog_profiling_native_extension.so", "opened: "]
    )
  end

  it "records and reports by ddprofrb" do
    script = "#{@folder}/script.rb"
    File.write(script, <<~RUBY)
      def hot_method
        finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 0.5
        nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
      end
      hot_method
      puts File.read("/proc/self/maps").scan(%r{/[^\\n]*datadog_[^\\n/]*\\.so}).size
    RUBY
    file = "#{@folder}/profile.pb.gz"
    ruby = File.join(here, "embedded_ruby")
    output = embedded("#{@folder}/bin/ddprofrb", "record", "-q", "-o", file, "--", ruby, script)
    expect(output.sub(/^ddprofrb: something is missing in every profile: .*\n/, "")).to eq("0\n") # on some Rubies
    expect(embedded("#{@folder}/bin/ddprofrb", "report", file)).to include("hot_method")
  end

  it "uploads a spool by ddprofrb" do
    FileUtils.mkdir("#{@folder}/spool")
    output = embedded("#{@folder}/bin/ddprofrb", "upload", "#{@folder}/spool", "--agent", "http://127.0.0.1:9")
    expect(output).not_to match(/cannot be loaded/)
  end

  it "still opens extensions that are files" do
    library = compile("int called; void Init_something(void) { called++; }", into: @folder)
    output = embedded("-I", "#{@folder}/lib", "-rdatadog/profiling/loader", "-e",
                      'p Datadog::Profiling::Loader._native_load(ARGV[0], "Init_something")', library)
    expect(output).to eq("[:ok, nil]\n")
  end

  it "is not looked for in folders" do
    File.write("#{@folder}/datadog_profiling_loader.so", "not a library")
    extension = Datadog::Profiling::Extensions
    $LOAD_PATH.unshift(@folder)
    expect(extension.load_linked("datadog_profiling_loader")).to be(false)
  ensure
    $LOAD_PATH.delete(@folder)
  end
end
