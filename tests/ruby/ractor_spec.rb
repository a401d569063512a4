require "spec_helper"

# Ruby 3.0 to 3.2.2 crashes when a Ractor is made while anybody is told of new objects or of collections (bug 18464). Each
# program is in a process of its own, as a Ractor changes the VM for good.
RSpec.describe "a profiled program with Ractors", :ractors do
  affected = !Datadog::Profiling::RubyRules.ractors_survive_tracepoints?

  prelude = <<~'RUBY'
    require "standalone"
    def take(ractor)
      ractor.respond_to?(:value) ? ractor.value : ractor.take
    end

    def ractors(count)
      Array.new(count) { Ractor.new { 50.times { Array.new(50) { |i| i.to_s } }; :done } }.map { |it| take(it) }
    end

    def all_on
      Datadog::Profiling::Session.new(interval: 0.001, gc: true, timeline: true, heap: true)
    end

    def burn_some
      burn(0.1)
    end
    class Early; end
    class Late; end
    def count_of(profile, name)
      profile.samples.select { |it| it.labels["allocation class"] == name }.sum { |it| it.values.fetch("alloc-samples") }
    end
  RUBY

  define_method(:run) do |script|
    outcome = run_ruby(prelude + script, options: ["-W0"], seconds: SOAK ? 300 : 60)
    expect(outcome.to_s).to include("exit 0")
    outcome.stdout
  end

  it "goes on, with all that was recorded before its first one, and CPU and wall time to the end", :ractors_beside_threads do
    output = run(<<~RUBY)
      session = all_on
      session.start
      10_000.times { Early.new }
      burn_some
      #{SOAK ? 3000 : 30}.times { |i| ractors(3); GC.start if i % 10 == 0; 100.times { Late.new } }
      def afterwards
        burn(0.3)
      end
      afterwards
      raw = session.stop
      profile = decode(raw.bytes)
      after = profile.samples.select { |it| it.names.include?("afterwards") }.sum { |it| it.values.fetch("cpu-time") }
      p count_of(profile, "Early").between?(5_000, 15_000), after > 100_000_000, raw.failure&.message.to_s
    RUBY
    expect(output.lines.first(2)).to eq(["true\n", "true\n"])
    expect(output.lines.last).to affected ? include("18464") : eq("\"\"\n")
  end

  it "is recorded without its objects when a Ractor is there first, or was, and says so" do
    ["$waiting = Ractor.new { Ractor.receive }", "session = all_on; session.start; ractors(2); session.stop"].each do |first|
      output = run(<<~RUBY)
        #{first}
        session = all_on
        session.start
        20_000.times { Late.new }
        GC.start
        burn_some
        ractors(10)
        raw = session.stop
        profile = decode(raw.bytes)
        p count_of(profile, "Late") > 5_000, profile.total("cpu-time") > 50_000_000, raw.failure&.message.to_s
        $waiting&.send(1)
      RUBY
      expect(output.lines.first(2)).to eq(affected ? ["false\n", "true\n"] : ["true\n", "true\n"])
      expect(output.lines.last).to affected ? include("18464") : eq("\"\"\n")
    end
  end

  it "sees its Ractors as without a profiler: place, arguments, errors, warning" do
    script = <<~'RUBY'
      start
      begin
        Ractor.new(1)
      rescue ArgumentError => e
        puts e.message, e.backtrace
      end
      first = Ractor.new(1, [2], name: "named") { |a, b| [a, b, Ractor.current.name, Ractor.new(3) { |c| c }.then { |it| it.respond_to?(:value) ? it.value : it.take }] }
      puts first.inspect[/ -e:\d+ /].inspect, take(first).inspect
      class Mine < Ractor; end
      mine = Mine.new { :mine }
      puts mine.class, take(mine).inspect
      begin
        take(Ractor.new { raise "on purpose" })
      rescue Ractor::RemoteError => e
        puts e.cause.message, e.cause.backtrace
      end
    RUBY
    outcomes = ["def start; end", "def start; ($session = all_on).start; end"].map { |it| run_ruby("#{prelude}#{it}\n#{script}") }
    expect(outcomes.map { |it| it.status.exitstatus }).to eq([0, 0]), outcomes.join("\n")
    # The frame of our `new` shows itself as Ruby's own does that it calls.
    plain, profiled = outcomes.map { |it| it.stdout.lines.reject { |line| line.include?("in `new'") || line.include?("in 'Ractor.new'") } }
    expect(profiled).to eq(plain)
    expect(outcomes.last.stderr.lines.grep(/experimental/)).to eq(outcomes.first.stderr.lines.grep(/experimental/))
  end

  it "may have its first Ractor in a forked child, with or without a session there" do
    output = run(<<~'RUBY')
      session = all_on
      session.start
      1_000.times { Early.new }
      burn_some
      ["nil", "session.reset_after_fork", "other = all_on; other.start"].each do |first|
        pid = fork do
          eval(first)
          print ractors(3).inspect
          GC.start
          $stdout.flush
          exit!(0)
        end
        print Process.wait2(pid).last.exitstatus
      end
      1_000.times { Early.new }
      raw = session.stop
      print raw.failure.inspect # here there was none
    RUBY
    expect(output).to eq("[:done, :done, :done]0" * 3 + "nil")
  end

  it "may make Ractors from any thread, at any time, while sessions start and stop", :ractors_beside_threads do
    output = run(<<~RUBY)
      deadline = monotonic + #{SOAK ? 60 : 1}
      maker = Thread.new { sleep(0.2); ractors(2) while monotonic < deadline }
      while monotonic < deadline
        session = all_on
        session.start
        100.times { Early.new }
        sleep(rand * 0.02)
        session.stop or abort("no profile")
      end
      maker.join
      print "survived"
    RUBY
    expect(output).to eq("survived")
  end

  it "has the reason in the log, once, and in its next report" do
    skip "this Ruby bears both" unless affected
    output = run(<<~'RUBY')
      require "stringio"
      reports = []
      transport = Object.new
      transport.define_singleton_method(:export) { |flush| reports << flush.internal_metadata_json }
      log = $stderr = StringIO.new
      Datadog.configure do |c|
        c.profiling.enabled = c.profiling.allocation_enabled = c.profiling.advanced.force_enable_gc_profiling = true
        c.profiling.exporter.transport = transport
      end
      burn(0.2)
      2.times { ractors(2) }
      fork { Datadog::Profiling.start_if_enabled; burn(0.1); $stderr = STDERR; STDOUT.print log.string.scan("18464").size; STDOUT.flush; exit!(0) }
      Process.wait
      burn(1)
      Datadog.shutdown!
      print " ", log.string.scan("18464").size, " ", reports.size, " ", reports.join.scan("18464").size
    RUBY
    expect(output).to eq("1 1 1 1")
  end
end
