require "spec_helper"
require "fiddle"
require "fileutils"
require "open3"
require "tmpdir"

RSpec.describe Datadog::Profiling::Loader do
  around { |example| Dir.mktmpdir { |folder| (@folder = folder) && example.run } }
  let(:folder) { @folder }

  def path_of(extension)
    Datadog::Profiling::Extensions.path_of(extension)
  end

  def load(path, init = "Init_something")
    described_class._native_load(path, init)
  end

  it "knows the files of the extensions by Ruby's version and platform" do
    expected = "datadog_profiling_native_extension.#{RUBY_VERSION}_#{RUBY_PLATFORM}.#{RbConfig::CONFIG["DLEXT"]}"
    expect(File.basename(path_of("datadog_profiling_native_extension"))).to eq(expected)
    expect(File).to exist(path_of("datadog_profiling_native_extension"))
    expect(File).to exist(path_of("datadog_profiling_loader"))
  end

  describe "answers" do
    it "[:ok, nil] after it has called the init function" do
      library = compile("int called; void Init_something(void) { called++; } int was_called(void) { return called; }", into: folder)
      expect(load(library)).to eq([:ok, nil])
      expect(call(library, "was_called")).to eq(1)
    end

    it "[:error, why] for a file that is not there" do
      missing = File.join(folder, "missing.so")
      expect(load(missing)).to match([:error, a_string_including(missing).and(including("No such file"))])
    end

    it "[:error, why] for files that are no libraries" do
      text = File.join(folder, "text.so")
      File.write(text, "not a library")
      expect(load(text)).to match([:error, a_string_including(text)])

      File.write(text, "")
      expect(load(text)).to match([:error, a_string_including(text)])

      expect(load(folder)).to match([:error, a_string_including(folder)])
    end

    it "[:error, why] for a library with something missing" do
      library = compile("void absent_function(void); void Init_something(void) { absent_function(); }
                         void *p = (void *)absent_function;", into: folder)
      expect(load(library)).to match([:error, a_string_including("absent_function")])
    end

    it "[:error, why] when the library has no such init function" do
      library = compile("void Init_other(void) {}", into: folder)
      expect(load(library)).to match([:error, a_string_including("Init_something")])
      expect(load(library, "")).to match([:error, String])
    end

    it "[:error, why] for a library that is linked to another Ruby" do
      # It brings its own ruby_xmalloc, as a library linked to another libruby would.
      other = compile("void *ruby_xmalloc(unsigned long n) { return (void *)n; }", into: folder, name: "libother-ruby.so")
      library = compile(
        "extern void *ruby_xmalloc(unsigned long); void Init_something(void) { ruby_xmalloc(1); __builtin_trap(); }",
        into: folder, flags: ["-L#{folder}", "-l:#{File.basename(other)}", "-Wl,-rpath,#{folder}"]
      )
      expect(load(library)).to match([:error, a_string_including("different Ruby").and(including(library))])
    end

    it "[:ok, nil] for a library without a Ruby of its own, as with a static Ruby" do
      library = compile("void Init_something(void) {}", into: folder)
      expect(load(library)).to eq([:ok, nil])
    end
  end

  it "closes what it refuses" do
    library = compile("void Init_other(void) {}", into: folder)
    load(library)
    expect(File.read("/proc/self/maps")).not_to include(library)
  end

  it "passes on what the init function raises" do
    library = compile(<<~C, into: folder)
      extern unsigned long rb_eRuntimeError;
      void rb_raise(unsigned long, const char *, ...);
      void Init_something(void) { rb_raise(rb_eRuntimeError, "from the init function"); }
    C
    expect { load(library) }.to raise_error(RuntimeError, "from the init function")
  end

  # Calls a function of a library without showing the library to the rest of the process.
  def call(library, function)
    handle = Fiddle::Handle.new(library, Fiddle::RTLD_LAZY)
    Fiddle::Function.new(handle[function], [], Fiddle::TYPE_INT).call
  end

  it "keeps the symbols of two libraries apart" do
    # Both have a function of the same name; with a global scope one would win for all.
    %w[first second].each_with_index do |name, i|
      library = compile(<<~C, into: folder, name: "#{name}.so")
        int same_name(void) { return #{i}; }
        int result(void) { return same_name(); }
        void Init_#{name}(void) {}
      C
      expect(load(library, "Init_#{name}")).to eq([:ok, nil])
    end
    expect(call(File.join(folder, "first.so"), "result")).to eq(0)
    expect(call(File.join(folder, "second.so"), "result")).to eq(1)
    expect { Fiddle::Handle::DEFAULT["same_name"] }.to raise_error(Fiddle::DLError)
  end

  it "lets a library prefer its own symbols over those of the process" do
    skip "AddressSanitizer does without RTLD_DEEPBIND, as it must" if ENV["NF_EXTENSION_ASAN"]
    shown = compile("int shown_to_all(void) { return 1; }", into: folder, name: "shown.so")
    Fiddle::Handle.new(shown, Fiddle::RTLD_LAZY | Fiddle::RTLD_GLOBAL)
    library = compile(<<~C, into: folder)
      int shown_to_all(void) { return 2; }
      int result(void) { return shown_to_all(); }
      void Init_something(void) {}
    C
    expect(load(library)).to eq([:ok, nil])
    expect(call(library, "result")).to eq(2)
  end

  it "wants two Strings" do
    [[nil, "Init"], ["path", nil], [1, 2], ["path", :Init], [Object.new, "Init"]].each do |path, init|
      expect { load(path, init) }.to raise_error(TypeError)
    end
    expect { described_class._native_load("path") }.to raise_error(ArgumentError)
    expect { load("path\0more", "Init") }.to raise_error(ArgumentError)
    expect { load("path", "In\0it") }.to raise_error(ArgumentError)
  end

  describe "the built extensions" do
    {
      "datadog_profiling_loader" => "Init_datadog_profiling_loader",
      "datadog_profiling_native_extension" => "Init_datadog_profiling_native_extension",
    }.each do |extension, only|
      it "show nothing of #{extension} but #{only}" do
        output, status = Open3.capture2("nm", "-D", "--defined-only", path_of(extension))
        expect(status).to be_success
        names = output.lines.map { |it| it.split.last.sub(/@@?.*/, "") }.reject { |it| it.match?(/\A(_init|_fini|_edata|_end|__bss_start)\z/) }
        names.reject! { |it| it.match?(/\A(__asan|__odr_asan|__start_|__stop_)/) }
        expect(names).to eq([only])
      end

      it "need nothing of Rust in #{extension}" do
        output, = Open3.capture2e("ldd", path_of(extension))
        expect(output).not_to match(/libdatadog|rust/i)
        symbols, = Open3.capture2("nm", "-D", path_of(extension))
        expect(symbols).not_to match(/rust_|_ZN4core/)
      end
    end

    # With RTLD_DEEPBIND our free is libc's. What these give out comes from the malloc that the program brought (jemalloc).
    it "free nothing that libc has taken for them" do
      output, status = Open3.capture2("nm", "-D", "--undefined-only", path_of("datadog_profiling_native_extension"))
      expect(status).to be_success
      names = output.lines.map { |it| it.split.last.sub(/@.*/, "") }
      expect(names).to include("malloc", "free")
      expect(names.grep(/strn?dup|asprintf|\A_*get(line|delim|cwd)|realpath|scandir|memstream|canonicalize/)).to eq([])
    end

    it "do not get into the way of other extensions" do
      expect { Fiddle::Handle::DEFAULT["ddog_prof_Profile_new"] }.to raise_error(Fiddle::DLError)
    end
  end

  it "load into a program that runs under a sanitizer" do
    skip "this extension is built with one" if ENV["NF_EXTENSION_ASAN"]
    %w[libasan.so libtsan.so libubsan.so].each do |sanitizer|
      library = `#{ENV.fetch("CC", "gcc")} -print-file-name=#{sanitizer}`.strip
      environment = {
        "LD_PRELOAD" => library, "ASAN_OPTIONS" => "detect_leaks=0:use_sigaltstack=0", "TSAN_OPTIONS" => "report_bugs=0"
      }
      plain = File.file?(library) && run_ruby("print 1", env: environment)
      unless plain && [plain.stdout, plain.stderr, plain.status.exitstatus] == ["1", "", 0]
        puts "skipped: no Ruby runs with #{sanitizer} here"
        next
      end
      script = "require 'datadog/profiling'; it = Datadog::Profiling::Session.new; it.start; print it.stop.bytes.size > 100"
      outcome = run_ruby(script, env: environment)
      expect([outcome.stdout, outcome.stderr, outcome.status.exitstatus]).to eq(["true", "", 0]), "#{sanitizer}: #{outcome}"
    end
  end

  it "opens the extension once per process, however often it is asked for" do
    script = <<~'RUBY'
      3.times { require "datadog/profiling" }
      maps = File.readlines("/proc/self/maps").grep(/datadog_profiling_native_extension/).map { |it| it.split.last }.uniq
      print maps.size
    RUBY
    expect(run_ruby!(script)).to eq("1")
  end

  it "loads from wherever the folder was moved to" do
    moved = File.join(folder, "some where/else größe")
    FileUtils.mkdir_p(File.dirname(moved))
    system("cp", "-rL", Support.extension_folder, moved, exception: true)
    script = <<~'RUBY'
      $LOAD_PATH.unshift(ARGV.first)
      require "datadog/profiling"
      Datadog::Profiling::Session.new
      loaded = File.binread("/proc/self/maps").lines.grep(/native_extension/n).map { |it| it.split(" ", 6).last.chomp }.uniq
      print loaded.all? { |it| it.include?("some where/else gr".b) }, loaded.size
    RUBY
    expect(run_ruby!(script, moved)).to eq("true1")
  end

  it "says what to do when the loader is missing" do
    script = <<~'RUBY'
      begin
        load ARGV.first
      rescue LoadError => e
        print e.message
      end
    RUBY
    lib = File.join(folder, "datadog/profiling")
    FileUtils.mkdir_p(lib)
    %w[extensions.rb loader.rb].each do |file|
      FileUtils.cp(File.realpath(File.join(Support.extension_folder, "datadog/profiling", file)), lib)
    end
    expect(run_ruby!(script, File.join(lib, "loader.rb"))).to include(RUBY_VERSION).and match(/install|build/)
  end
end
