# frozen_string_literal: true

require "spec_helper"

RSpec.describe "the vendor tree" do
  # A copy, so that nothing of the build's own folder can be what makes it work.
  let(:tree) { File.join(scratch, "tree").tap { |to| FileUtils.cp_r(File.join(VENDOR_TREE, "."), to) } }
  let(:top) { File.join(tree, "x86_64-linux", "libdatadog-x86_64-unknown-linux-gnu") }
  let(:library) { File.join(top, "lib", "libdatadog_profiling.so") }
  let(:pkgconfig) { File.join(top, "lib", "pkgconfig") }

  it "exports the functions of its headers and nothing else" do
    expect(exported_names(library).sort).to eq(declared_names(File.join(top, "include")).sort)
  end

  it "has archives in which nothing but these functions is global" do
    archives = Dir[File.join(top, "lib", "*.a")]
    expect(archives.size).to eq(2)
    archives.each { |archive| expect(global_names(archive).sort).to eq(exported_names(library).sort) }
  end

  it "has a library without a name of its own or a path of the build, bound when loaded" do
    section = dynamic_section(library)
    expect(section).not_to match(/SONAME|RPATH|RUNPATH|TEXTREL/)
    expect(section).to match(/BIND_NOW|FLAGS_1.*NOW/)
    expect(run!("readelf", "-lW", library)).to include("GNU_RELRO")
    expect(run!("readelf", "-SW", library)).not_to include(".symtab")
    # Some linkers take a version script as a reason to write where they put the result.
    expect(run!("readelf", "-VW", library)).not_to include("Version definition")
  end

  it "has a library of at most 250 KiB, that needs what it says it needs" do
    expect(File.size(library)).to be <= 250 * 1024
    allowed = %w[libc libm libpthread libdl ld-linux libcurl libz liblz4 libzstd libprotobuf-c libmsgpackc]
    expect(needed(library).reject { |name| allowed.any? { |it| name.start_with?("#{it}.", "#{it}-") } }).to eq([])
  end

  it "works from wherever it is, also after it was moved" do
    _program, printed = compile_and_run(pkgconfig, "datadog_profiling_with_rpath")
    expect(printed).to eq("an LZ4 frame")

    moved = File.join(scratch, "moved to another place")
    FileUtils.mv(tree, moved)
    folder = File.dirname(Dir[File.join(moved, "**", "datadog_profiling.pc")].fetch(0))
    program, printed = compile_and_run(folder, "datadog_profiling", env: { "LD_LIBRARY_PATH" => File.dirname(folder) })
    expect(printed).to eq("an LZ4 frame")
    expect(run(program).last.success?).to be(false) # without a path it is not found: nothing else stood in
  end

  it "has archives that a program can link, one of which brings all but libc along" do
    program, printed = compile_and_run(pkgconfig, "datadog_profiling_static")
    expect(printed).to eq("an LZ4 frame")
    expect(needed(program)).not_to include("libdatadog_profiling.so")

    program, printed = compile_and_run(pkgconfig, "datadog_profiling_standalone")
    expect(printed).to eq("an LZ4 frame")
    expect(needed(program) - %w[libc.so.6 libm.so.6 ld-linux-x86-64.so.2]).to eq([])
  end

  it "comes with a shared library that needs libc and libm only, too" do
    other = Dir[File.join(STANDALONE_TREE, "**", "libdatadog_profiling.so")].fetch(0)
    expect(needed(other) - %w[libc.so.6 libm.so.6 ld-linux-x86-64.so.2]).to eq([])
    expect(exported_names(other).sort).to eq(exported_names(library).sort)
    expect(dynamic_section(other)).not_to match(/SONAME|RPATH|RUNPATH|TEXTREL/)
    folder = File.join(File.dirname(other), "pkgconfig")
    expect(compile_and_run(folder, "datadog_profiling_with_rpath").last).to eq("an LZ4 frame")
  end

  it "lets two copies live in one process, neither of which sees the other" do
    other = File.join(scratch, "other.so")
    FileUtils.cp(library, other)
    script = <<~'RUBY'
      require "fiddle"
      paths = ARGV
      libraries = paths.map { |path| Fiddle.dlopen(path) }
      lines = File.readlines("/proc/self/maps")
      libraries.zip(paths).each do |library, path|
        address = library["ddog_prof_Profile_new"]
        owner = lines.find { |it| (a, b = it.split.first.split("-").map { |x| x.to_i(16) }) && (a...b).cover?(address) }
        abort "#{path} has another's function" unless owner.strip.end_with?(File.realpath(path))
      end
      print "apart"
    RUBY
    output, = run(RbConfig.ruby, "-e", script, library, other, env: { "LD_BIND_NOW" => "1" })
    expect(output).to eq("apart")
  end

  it "has the licences of all that is in it" do
    expect(Dir.children(top)).to include("LICENSE", "LICENSE.Apache", "LICENSE.BSD3", "NOTICE", "LICENSE-3rdparty.csv")
    linked = needed(library).grep(/lz4|zstd|libz\.|protobuf/)
    names = { /lz4/ => "LZ4", /zstd/ => "Zstandard", /libz\./ => "zlib", /protobuf/ => "protobuf-c" }
    listed = File.read(File.join(top, "LICENSE-3rdparty.csv"))
    linked.each { |file| expect(listed).to include(names.find { |pattern, _| file.match?(pattern) }.last) }
  end
end
