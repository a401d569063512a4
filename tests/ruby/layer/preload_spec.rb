require "layer_helper"
require "fileutils"

# Whole processes, with the profiler started by the environment.
RSpec.describe "datadog/profiling/preload" do
  preload = ["-rdatadog/profiling/preload"]
  busy = <<~RUBY
    def busy(seconds)
      finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
      nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
    end
  RUBY
  mine_and_childs = "def mine() busy(0.3) end; def childs() busy(0.3) end"

  around { |example| Dir.mktmpdir { |it| @folder = it and example.run } }
  after { @agent&.close }

  define_method(:run_profiled) do |script, *arguments, env: {}, options: preload, **others|
    run_ruby(busy + script, *arguments, options: options, **others,
             env: { "DD_PROFILING_ENABLED" => "true", "DD_PROFILING_FILES_FOLDER" => @folder }.merge(env))
  end

  def agent(statuses = [200])
    @agent ||= Support::AgentStub.new(statuses)
  end

  def to_agent
    { "DD_TRACE_AGENT_URL" => agent.url }
  end

  def profiles
    Dir.children(@folder).sort.map { |name| decode(File.binread(File.join(@folder, name))) }
  end

  def names(profile)
    profile.samples.flat_map(&:names).uniq
  end

  it "does nothing unless it is wanted" do
    [nil, "false", "0", ""].each do |value|
      outcome = run_profiled('print defined?(Datadog::Profiling).inspect', env: { "DD_PROFILING_ENABLED" => value })
      expect([outcome.stdout, outcome.stderr]).to eq(["nil", ""])
    end
    expect(Dir.children(@folder)).to eq([])
  end

  it "writes a profile of a short program" do
    outcome = run_profiled('def mine; busy(0.3); end; mine; p Datadog::Profiling.enabled?, Datadog::Profiling.allocation_count; exit 4')
    expect([outcome.stdout, outcome.stderr, outcome.status.exitstatus]).to eq(["true\nnil\n", "", 4])
    expect(profiles.size).to eq(1)
    expect(names(profiles.first)).to include("mine")
    expect(profiles.first.types.map(&:first)).to contain_exactly("cpu-samples", "wall-time", "cpu-time", "timeline")
  end

  it "records allocations, live objects and garbage collection if the environment says so", needs: :heap do
    outcome = run_profiled(
      'busy(0.2); KEPT = Array.new(20_000) { "x" * 50 }; 3.times { GC.start }; busy(0.3); p Datadog::Profiling.allocation_count > 20_000',
      env: { "DD_PROFILING_ALLOCATION_ENABLED" => "true", "DD_PROFILING_EXPERIMENTAL_HEAP_ENABLED" => "true",
             "DD_PROFILING_FORCE_ENABLE_GC" => "true", "DD_PROFILING_EXPERIMENTAL_HEAP_SAMPLE_RATE" => "1" }
    )
    expect(outcome.stdout).to eq("true\n"), outcome.to_s
    profile = profiles.first
    expect(profile.types.map(&:first)).to include("alloc-samples", "heap-live-samples", "heap-live-size", "timeline")
    expect(profile.total("alloc-samples")).to be > 20_000
    expect(profile.samples.map { |it| it.labels["event"] }).to include("gc")
  end

  it "reports to an agent, with what belongs to a report" do
    outcome = run_profiled("def mine; busy(1.2); end; mine", env: to_agent.merge("DD_SERVICE" => "shop", "DD_ENV" => "qa", "DD_TAGS" => "team:a"))
    expect(outcome.stderr).to eq("")
    report = agent.report
    expect(report.tags).to include("service" => "shop", "env" => "qa", "team" => "a", "language" => "ruby", "profile_seq" => "0")
    expect(report.event["internal"].keys).to include(
      "no_signals_workaround_enabled", "timeline_enabled", "heap_sample_every", "worker_stats", "recorder_stats", "gc"
    )
    expect(report.event["info"].keys).to contain_exactly("platform", "runtime", "application", "profiler")
    expect(names(decode(report.parts["rubyprofile.pprof"]))).to include("mine")
    expect(Dir.children(@folder)).to eq([])
  end

  it "lets the program end within moments if the agent does not answer" do
    agent([:hang])
    outcome = run_profiled("busy(1.2); puts :over", env: to_agent)
    expect([outcome.stdout, outcome.status.exitstatus]).to eq(["over\n", 0])
  end

  it "profiles a master and its workers, each by itself" do
    script = <<~RUBY
      def in_master(seconds); busy(seconds); end
      def in_worker_1(seconds); busy(seconds); end
      def in_worker_2(seconds); busy(seconds); end
      in_master(1.1)
      pids = [1, 2].map { |i| fork { send("in_worker_\#{i}", 1.3) } }
      pids.each { |pid| Process.wait(pid) }
      puts Process.pid, pids
    RUBY
    outcome = run_profiled(script, env: to_agent)
    pids = outcome.stdout.split
    reports = pids.map { agent.report }
    expect(reports.map { |it| it.tags["process_id"] }).to match_array(pids)
    expect(reports.map { |it| it.tags["runtime-id"] }.uniq.size).to eq(3)
    seen = reports.to_h { |it| [it.tags["process_id"], names(decode(it.parts["rubyprofile.pprof"])) & %w[in_master in_worker_1 in_worker_2]] }
    expect(seen).to eq(pids[0] => %w[in_master], pids[1] => %w[in_worker_1], pids[2] => %w[in_worker_2])
  end

  it "follows forks in forks, and daemons" do
    script = <<~RUBY
      def grandchild; busy(0.4); end
      def daemon_work; busy(0.4); end
      Process.wait(fork { Process.wait(fork { grandchild }) })
      reader, writer = IO.pipe
      fork { reader.close; Process.daemon(true, true); daemon_work; }
      writer.close
      reader.read
    RUBY
    outcome = run_profiled(script)
    expect(outcome.stderr).to eq("")
    wait_until(seconds: 30) { profiles.any? { |it| names(it).include?("daemon_work") } }
    expect(profiles.count { |it| names(it).include?("grandchild") }).to eq(1)
  end

  it "keeps what was before an exec, which nothing of ours disturbs" do
    outcome = run_profiled('def before; busy(1.2); end; before; exec(RbConfig.ruby, "-e", "print :new")')
    expect([outcome.stdout, outcome.stderr, outcome.status.exitstatus]).to eq(["new", "", 0])
    expect(profiles.count { |it| names(it).include?("before") }).to eq(1)
  end

  it "does not report a parent's samples in a child" do
    outcome = run_profiled("def parents; busy(0.4); end; parents; Process.wait(fork { def childs; busy(0.4); end; childs })")
    expect(outcome.status).to be_success
    expect(profiles.map { |it| names(it) & %w[parents childs] }).to contain_exactly(%w[parents], %w[childs])
  end

  it "leaves no growth and no trouble in a parent of many jobs", time_limit: SOAK ? 3000 : 120 do
    jobs = SOAK ? 2000 : 60
    script = <<~RUBY
      def resident; File.read("/proc/self/status")[/VmRSS:\\s+(\\d+)/, 1].to_i; end
      job = -> { Process.wait(fork { 10.times { "x" * 100 } }); $?.success? or abort "job failed" }
      20.times { job.call }
      GC.start
      before = resident
      #{jobs}.times { job.call }
      GC.start
      puts resident - before
    RUBY
    outcome = run_profiled(script, seconds: SOAK ? 2900 : 110)
    expect(outcome.stderr).to eq("")
    expect(outcome.stdout.to_i).to be < 12_000 # KiB
  end

  it "does nothing beside the datadog gem's profiler, and says so" do
    fake = File.join(@folder, "fake.rb")
    File.write(fake, "module Datadog; module VERSION; STRING = '2.0.0'; end; module Profiling; def self.enabled?; :theirs; end; end; end")
    outcome = run_profiled("p Datadog::Profiling.enabled?, Datadog.respond_to?(:configure)", options: ["-r#{fake}", *preload])
    expect(outcome.stdout).to eq(":theirs\nfalse\n")
    expect(outcome.stderr.lines.size).to eq(1)
    expect(outcome.stderr).to include("datadog gem")
  end

  it "does nothing where the datadog gem is going to be loaded, and says so" do
    fake = File.join(@folder, "fake.rb")
    File.write(fake, "Gem.loaded_specs['datadog'] = Gem::Specification.new('datadog', '2.0.0')")
    outcome = run_profiled("p defined?(Datadog)", options: ["-r#{fake}", *preload])
    expect(outcome.stdout).to eq("nil\n")
    expect(outcome.stderr.lines).to contain_exactly(include("datadog gem"))
  end

  # Without Bundler nobody knows beforehand that it will come. Its modules and classes have other kinds and parents than ours.
  it "makes room for the datadog gem's profiler when that comes later, and says so" do
    theirs = File.join(@folder, "theirs")
    FileUtils.mkdir_p(File.join(theirs, "datadog", "profiling"))
    File.write(File.join(theirs, "datadog.rb"), "require_relative 'datadog/core'; require_relative 'datadog/profiling'")
    File.write(File.join(theirs, "datadog", "core.rb"), <<~RUBY)
      module Datadog
        module Core
          def self.theirs; :core; end
          module Extensions; def configure; :theirs; end; end
        end
        extend Core::Extensions
      end
    RUBY
    File.write(File.join(theirs, "datadog", "profiling.rb"), <<~RUBY)
      module Datadog
        module Profiling
          module Session; end
          class Collectors < Struct.new(:a); end
          class << self
            def start_if_enabled; :theirs; end
          end
          require "datadog_profiling_loader.\#{RUBY_VERSION}_\#{RUBY_PLATFORM}"
        end
      end
    RUBY
    File.write(File.join(theirs, "datadog_profiling_loader.#{RUBY_VERSION}_#{RUBY_PLATFORM}.rb"), "$theirs_loaded = true")
    script = <<~RUBY
      ours = Datadog::Profiling
      caught = -> { File.read("/proc/self/status")[/SigCgt:\\s+(\\h+)/, 1].hex[Signal.list["PROF"] - 1] }
      running = [ours.enabled?, caught.call]
      busy(1.2)
      $LOAD_PATH.push("#{theirs}")
      require "datadog"
      p running, [ours.enabled?, caught.call], Datadog.configure, Datadog::Core.theirs, $theirs_loaded
      p Datadog::Profiling.equal?(ours), Datadog::Profiling.start_if_enabled, ours.start_if_enabled
      p Process.wait2(fork { exit!(Thread.list.size) }).last.exitstatus, Thread.list.size
    RUBY
    outcome = run_profiled(script, env: { "DD_PROFILING_FILES_FOLDER" => File.join(@folder, "profiles") })
    expect(outcome.stderr.lines).to contain_exactly(include("datadog gem"))
    expect(outcome.stdout.lines.map(&:chomp)).to eq(
      ["[true, 1]", "[false, 0]", ":theirs", ":core", "true", "false", ":theirs", "false", "1", "1"]
    )
    @folder = File.join(@folder, "profiles")
    expect(profiles.size).to eq(1) # what there was until then is not lost
    expect(names(profiles.first)).to include("busy")
  end

  it "goes on beside the datadog gem's other parts, also where a file of the program has its name" do
    theirs = File.join(@folder, "theirs")
    FileUtils.mkdir_p(File.join(theirs, "datadog"))
    FileUtils.mkdir_p(File.join(@folder, "initializers"))
    File.write(File.join(theirs, "datadog", "core.rb"), "module Datadog; module Core; def self.theirs; :core; end; end; end")
    File.write(File.join(theirs, "datadog", "tracing.rb"), "require_relative 'core'; module Datadog; module Tracing; end; end")
    File.write(initializer = File.join(@folder, "initializers", "datadog.rb"), "require 'datadog/tracing'")
    script = <<~RUBY
      $LOAD_PATH.push("#{theirs}")
      require "#{initializer}"
      p Datadog::Core.theirs, Datadog::Profiling.enabled?, Datadog::Profiling::Session.name
    RUBY
    outcome = run_profiled(script, env: { "DD_PROFILING_FILES_FOLDER" => File.join(@folder, "profiles") })
    expect([outcome.stdout, outcome.stderr]).to eq([":core\ntrue\n\"Datadog::Profiling::Session\"\n", ""])
  end

  # Their tracer takes parts of the profiler along, into the module that it finds.
  it "makes room for the datadog gem's profiler also when the gem's tracer has come before, and says so once" do
    theirs = File.join(@folder, "theirs")
    FileUtils.mkdir_p(File.join(theirs, "datadog", "profiling"))
    {
      "datadog.rb" => "require_relative 'datadog/tracing'; require_relative 'datadog/profiling'",
      "datadog/core.rb" => "module Datadog; module Core; end; end; require_relative 'profiling/ext'",
      "datadog/tracing.rb" => "require_relative 'core'; module Datadog; module Tracing; end; end",
      "datadog/profiling/ext.rb" => "module Datadog; module Profiling; module Ext; THEIRS = true; end; end; end",
      "datadog/profiling/session.rb" => "module Datadog; module Profiling; module Session; end; end; end",
      "datadog/profiling.rb" => <<~RUBY
        require_relative 'core'
        module Datadog
          module Profiling
            def self.supported?; :theirs; end
            def self.enabled?; Session.class; end
            require_relative 'profiling/session'
          end
        end
      RUBY
    }.each { |name, text| File.write(File.join(theirs, name), text) }
    script = <<~RUBY
      ours = Datadog::Profiling
      $LOAD_PATH.push("#{theirs}")
      require "datadog/tracing"
      p ours.enabled?, Datadog::Profiling.equal?(ours)
      def ours.added; end # by the program: no reason to go
      p ours.enabled?
      require "datadog"
      p Datadog::Profiling.equal?(ours), Datadog::Profiling.supported?, Datadog::Profiling.enabled?, Datadog::Profiling::Ext::THEIRS
      p Datadog::Profiling.constants.sort, File.read("/proc/self/status")[/SigCgt:\\s+(\\h+)/, 1].hex[Signal.list["PROF"] - 1]
    RUBY
    outcome = run_profiled(script, env: { "DD_PROFILING_FILES_FOLDER" => File.join(@folder, "profiles") })
    expect(outcome.stderr.lines).to contain_exactly(include("datadog gem"))
    expect(outcome.stdout.lines.map(&:chomp)).to eq(%w[true true true false :theirs Module true] + ["[:Ext, :Session]", "0"])
  end

  # What libraries for tests, and servers, do to Ruby. None of it is a reason to lose a profile.
  {
    "a frozen Time.now" => "def Time.now() at(1_000) end",
    "a Time.now that gives something else" => "def Time.now() :later end",
    "a frozen clock" => "def Process.clock_gettime(*) 5.0 end",
    "a clock that raises" => "def Process.clock_gettime(*) raise end",
    "a pretended file system" => "class Fake; def self.method_missing(*) raise end; end; " \
                                 "%i[File Dir].each { |it| Object.send(:remove_const, it); Object.const_set(it, Fake) }",
    "odd encodings" => "$VERBOSE = nil; Encoding.default_internal = 'UTF-16LE'; Encoding.default_external = 'EUC-JP'",
    "odd separators" => "$VERBOSE = nil; $, = 'o'; $; = 'e'; $/ = 'a'; $\\ = 'Z'",
    "another program name" => "$0 = 'server: waiting for requests'",
    "closed files" => "3.upto(99) { |it| IO.for_fd(it, autoclose: false).close rescue nil }; [$stdin, $stdout, $stderr].each(&:close)",
    "few files" => "Process.setrlimit(:NOFILE, 8)",
    "signal handlers that do nothing" => "(Signal.list.keys - %w[EXIT PROF]).each { |it| trap(it, 'IGNORE') rescue nil }"
  }.each do |what, script|
    it "keeps the profile of a program with #{what}" do
      outcome = run_profiled("def mine; busy(0.3); end; mine; #{script}")
      expect([outcome.stdout.delete("Z"), outcome.stderr, outcome.status.exitstatus]).to eq(["", "", 0])
      expect(profiles.map { |it| names(it) & %w[mine] }).to eq([%w[mine]])
    end
  end

  it "profiles children of a program that wants its texts in another encoding" do
    outcome = run_profiled(<<~'RUBY')
      $VERBOSE = nil
      Encoding.default_internal = "UTF-16LE"
      Encoding.default_external = "EUC-JP"
      def mine() busy(0.3) end
      Process.wait(fork { mine })
      mine
    RUBY
    expect([outcome.stdout, outcome.stderr, outcome.status.exitstatus]).to eq(["", "", 0])
    expect(profiles.map { |it| names(it) & %w[mine] }).to eq([%w[mine], %w[mine]])
  end

  it "keeps the profile of a program whose root folder has nothing in it, not even Ruby's files" do
    skip "only root can change the root folder" unless Process.uid.zero?
    outcome = run_profiled("def mine; busy(0.3); end; mine; Dir.chroot(ARGV[0]); Dir.chdir('/')", @folder,
                           env: { "DD_PROFILING_FILES_FOLDER" => "/some/where" })
    expect([outcome.stderr, outcome.status.exitstatus]).to eq(["", 0])
    @folder = File.join(@folder, "some/where")
    expect(profiles.map { |it| names(it) & %w[mine] }).to eq([%w[mine]])
  end

  it "keeps the profile of a program that ends by exit!, in children and signal handlers too" do
    ["exit!(3)", "Process.exit!(3)", "Kernel.exit!(3)", "trap(:USR1) { exit!(3) }; Process.kill(:USR1, $$); sleep 30"].each do |ending|
      outcome = run_profiled(<<~RUBY)
        #{mine_and_childs}
        mine
        p Process.wait2(fork { childs; #{ending} })[1].exitstatus
        $stdout.flush
        #{ending}
      RUBY
      expect([outcome.stdout, outcome.stderr, outcome.status.exitstatus]).to eq(["3\n", "", 3])
      expect(profiles.map { |it| names(it) & %w[mine childs] }).to contain_exactly(%w[mine], %w[childs])
      FileUtils.rm_f(Dir.glob(File.join(@folder, "*")))
    end
  end

  it "lets a program end by exit! within moments if the agent does not answer" do
    agent([:hang])
    outcome = run_profiled("busy(1.2); $stdout.puts :over; $stdout.flush; exit!(5)", env: to_agent, seconds: 30)
    expect([outcome.stdout, outcome.status.exitstatus]).to eq(["over\n", 5])
    expect(outcome.stderr).to include("the last profile is lost")
  end

  it "lets the program end as it would have where our end fails" do
    %w[RuntimeError NotImplementedError NoMemoryError SystemStackError].each do |error|
      script = "def (Datadog::Profiling::Configuration.profiler).shutdown!(**) raise(#{error}, 'broken') end; exit 6"
      outcome = run_profiled(script)
      expect([outcome.stdout, outcome.status.exitstatus]).to eq(["", 6]), outcome.to_s
      expect(outcome.stderr.scan("broken").size).to eq(1), outcome.to_s
    end
  end

  it "can be set up, and follows forks, in signal handlers" do
    outcome = run_profiled(<<~RUBY)
      #{mine_and_childs}
      trap(:USR1) { Datadog.configure { |c| c.profiling.advanced.max_frames = 100 } }
      trap(:USR2) { p Process.wait2(fork { childs; exit 0 })[1].exitstatus }
      %i[USR1 USR2].each { |it| Process.kill(it, $$); busy(0.1) }
      mine
      p Datadog::Profiling.enabled?, Datadog::Profiling::Configuration.settings.profiling.advanced.max_frames
    RUBY
    expect([outcome.stdout, outcome.stderr, outcome.status.exitstatus]).to eq(["0\ntrue\n100\n", "", 0])
    expect(profiles.map { |it| names(it) & %w[mine childs] }).to include(%w[mine], %w[childs])
  end

  it "says what a start in a signal handler failed by, as it does elsewhere" do
    outcome = run_profiled(<<~RUBY)
      Datadog::Profiling::Configuration.profiler.define_singleton_method(:start) { Mutex.new.synchronize { raise "broken" } }
      trap(:USR1) { p Datadog::Profiling.start_if_enabled }
      p Datadog::Profiling.start_if_enabled
      Process.kill(:USR1, $$)
      sleep(0.1)
    RUBY
    expect(outcome.stdout).to eq("false\nfalse\n")
    expect(outcome.stderr.scan("The profiler does not start: broken (RuntimeError").size).to eq(2), outcome.to_s
  end

  it "keeps the profile when the program has ended our threads, and says so" do
    outcome = run_profiled("def mine; busy(0.3); end; mine; (Thread.list - [Thread.main]).each(&:kill).each(&:join)")
    expect(outcome.status.exitstatus).to eq(0)
    expect(outcome.stderr.lines).to contain_exactly(include("Profiling has stopped").and(include("the program has ended")))
    expect(profiles.map { |it| names(it) & %w[mine] }).to eq([%w[mine]])
  end

  # Each step of the way from the environment to a running profiler, broken. The program must not notice.
  [
    "Output.define_singleton_method(:plan) { |*| raise 'broken' }",
    "NoSignals.define_singleton_method(:enabled?) { |*, **| raise 'broken' }",
    "StackRecorder.define_singleton_method(:new) { |*, **| raise 'broken' }",
    "Collectors::ThreadContext.define_singleton_method(:new) { |*, **| raise LoadError, 'broken' }",
    "Collectors::CpuAndWallTimeWorker.define_singleton_method(:new) { |*, **| raise TypeError, 'broken' }",
    "Collectors::Info.define_singleton_method(:new) { |*| raise NotImplementedError, 'broken' }",
    "Collectors::CodeProvenance.define_singleton_method(:new) { |*, **| raise 'broken' }",
    "Exporter.define_singleton_method(:new) { |*, **| raise NoMemoryError, 'broken' }",
    "Scheduler.define_singleton_method(:new) { |*, **| raise 'broken' }",
    "Profiler.define_singleton_method(:new) { |*, **| raise 'broken' }",
    "Component.define_singleton_method(:build_profiler_component) { |*, **| raise 'broken' }",
    "Tasks::Setup.define_singleton_method(:run) { raise 'broken' }",
    "Ext::Forking.define_singleton_method(:apply!) { raise 'broken' }",
    "ExecGuard.define_singleton_method(:install) { raise 'broken' }",
    "OwnThread.define_singleton_method(:start) { |*| raise ThreadError, 'broken' }",
    "define_singleton_method(:unsupported_reason) { 'broken' }",
    "Settings.prepend(Module.new { def profiling; raise 'broken'; end })"
  ].each do |fault|
    it "costs the program nothing but a warning: #{fault}" do
      script = <<~RUBY
        module Datadog::Profiling
          #{fault}
        end
        result = Datadog::Profiling.start_if_enabled
        print "fine ", Process.wait2(fork { exit 7 })[1].exitstatus, [true, false].include?(result)
      RUBY
      outcome = run_profiled(script, options: ["-rdatadog/profiling"])
      expect([outcome.stdout, outcome.status.exitstatus]).to eq(["fine 7true", 0]), outcome.to_s
      warnings = outcome.stderr.lines.grep(/broken/)
      expect(warnings).not_to be_empty
      expect(warnings.uniq.size).to be <= 2 # one of the child
    end
  end

  it "never raises for settings that cannot be, and says which" do
    {
      "DD_PROFILING_MAX_FRAMES" => "many", "DD_PROFILING_OUTPUT" => "smoke", "DD_TRACE_AGENT_URL" => "gopher://x",
      "DD_TRACE_AGENT_PORT" => "99999", "DD_PROFILING_UPLOAD_PERIOD" => "soon"
    }.each do |name, value|
      outcome = run_profiled("print :fine", env: { name => value })
      expect(outcome.stdout).to eq("fine")
      expect(outcome.stderr.lines.size).to eq(1)
      expect(outcome.stderr).to include("Profiling is off")
    end
  end

  it "says why where the extension is not there" do
    lib = File.join(@folder, "lib")
    system("cp", "-RL", Support.extension_folder, lib, exception: true)
    system("chmod", "-R", "u+w", lib, exception: true)
    Dir.glob(File.join(lib, "datadog_profiling_native*")).each { |it| File.unlink(it) }
    script = "$LOAD_PATH.unshift(#{lib.inspect}); require 'datadog/profiling/preload'; p Datadog::Profiling.enabled?, Datadog::Profiling.supported?"
    outcome = run_profiled(script, options: [])
    expect(outcome.stdout).to eq("false\nfalse\n")
    expect(outcome.stderr.lines.size).to eq(1)
    expect(outcome.stderr).to include("Profiling is enabled, but")
  end

  it "is set up anew by the program, and then starts in code too" do
    script = <<~RUBY
      require "datadog/profiling"
      Datadog.configure { |c| c.profiling.enabled = true; c.profiling.files.folder = ARGV[0]; c.service = "a" }
      first = Datadog::Profiling::Configuration.profiler
      Datadog.configure { |c| c.profiling.advanced.overhead_target_percentage = 3 }
      second = Datadog::Profiling::Configuration.profiler
      p first.equal?(second), first.running?, second.running?, Datadog::Profiling.enabled?
      begin
        Datadog.configure { |c| c.profiling.enabled = "yes" }
      rescue ArgumentError => e
        puts e.message
      end
      Datadog.configure { |c| c.profiling.enabled = false }
      p Datadog::Profiling.enabled?, Datadog::Profiling.start_if_enabled
    RUBY
    outcome = run_ruby(script, @folder)
    expect(outcome.stdout).to eq("false\nfalse\ntrue\ntrue\nenabled cannot be set to \"yes\": it takes true or false\nfalse\nfalse\n"), outcome.to_s
  end

  it "does not go on with old settings where the new ones cannot be" do
    script = <<~RUBY
      require "datadog/profiling"
      Datadog.configure { |c| c.profiling.enabled = true; c.profiling.files.folder = ARGV[0] }
      first = Datadog::Profiling::Configuration.profiler
      print first.running?
      Datadog.configure { |c| c.profiling.output = "smoke" }
      print first.running?, Datadog::Profiling.enabled?
      Datadog.configure { |c| c.profiling.output = "files" }
      print Datadog::Profiling.enabled?
    RUBY
    outcome = run_ruby(script, @folder)
    expect(outcome.stdout).to eq("truefalsefalsetrue")
    expect(outcome.stderr.lines).to contain_exactly(include("smoke"))
  end
end
