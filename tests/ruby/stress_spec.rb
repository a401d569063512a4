require "spec_helper"

# Programs that do much of what is hard for a profiler, each in a process of its own, so that a crash is seen as one. Each must
# end well, with a profile that makes sense.
RSpec.describe "a profiled program under stress", time_limit: SOAK ? 900 : 120 do
  # `seconds` is how long the script works; soaks are ten times as long. All that can be recorded is.
  def survive(work, seconds: 1.5, interval: 0.001, options: [], env: {}, no_signals: false, check: "true")
    duration = SOAK ? seconds * 10 : seconds
    script = <<~RUBY
      require "standalone"
      require "objspace"
      require "timeout"
      DEADLINE = monotonic + #{duration}
      def going?
        monotonic < DEADLINE
      end
      session = Datadog::Profiling::Session.new(
        interval: #{interval}, no_signals: #{no_signals}, gc: true, timeline: true,
        heap: !Datadog::Profiling.capabilities.fetch(:missing).key?(:heap)
      )
      session.start
      #{work}
      nil until session.stats[:cpu_sampled] >= 10 || monotonic > DEADLINE + 30 # where much else runs
      raw = session.stop
      abort("the profiler stopped: \#{raw.failure.full_message}") if raw.failure
      profile = decode(raw.bytes)
      abort("only \#{raw.sample_count} samples") if raw.sample_count < 10
      abort("\#{profile.total("cpu-samples")} samples in the profile, \#{raw.sample_count} taken") unless profile.total("cpu-samples").between?(10, raw.sample_count)
      abort("negative values") if profile.samples.any? { |it| it.values.values.any?(&:negative?) }
      abort("the check failed: \#{session.stats}") unless (#{check})
      print "survived"
    RUBY
    outcome = run_ruby(script, seconds: duration + 60, options: options, env: env)
    expect(outcome.to_s).to include("exit 0").and include("survived")
  end

  it "survives threads that are killed while they are sampled" do
    survive(<<~'RUBY')
      killed = 0
      while going?
        threads = Array.new(20) { |i| Thread.new { i.even? ? (loop { [1, 2, 3].map { |it| it * 2 } and Thread.pass }) : sleep } }
        sleep(rand * 0.003)
        threads.shuffle.each { |it| it.kill; killed += 1 }
        threads.each(&:join) if rand(3).zero?
      end
      abort("killed but #{killed}") if killed < 100
    RUBY
  end

  it "survives threads that end by exceptions, throws and exits of their own" do
    survive(<<~'RUBY')
      Thread.report_on_exception = false
      while going?
        threads = Array.new(10) do |i|
          Thread.new do
            case i % 5
            when 0 then raise "on purpose"
            when 1 then Thread.exit
            when 2 then catch(:out) { throw :out }
            when 3 then Thread.current.kill
            else Thread.stop
            end
          end
        end
        threads.each { |it| it.raise(IOError, "from outside") if it.alive? } if rand(2).zero?
        threads.each { |it| it.kill; it.join rescue nil }
      end
    RUBY
  end

  it "survives 10 000 short threads, with tables that stay small" do
    survive(<<~RUBY, check: "session.stats[:threads] <= 50 && ObjectSpace.memsize_of(session.instance_variable_get(:@thread_context)) < 200_000")
      #{SOAK ? 100_000 : 10_000}.times.each_slice(20) { |slice| slice.map { Thread.new { Thread.pass } }.each(&:join) }
      GC.start
      sleep(0.05)
    RUBY
  end

  it "survives 5 000 new threads per second, and what they leave is bounded" do
    survive(<<~'RUBY', seconds: 3, check: "session.stats[:cpu_clock_failures] < 100 && session.stats[:threads] < 100")
      born = 0
      while going?
        Array.new(25) { Thread.new { born += 1 } }.each(&:join)
      end
      GC.start
      sleep(0.05)
    RUBY
  end

  it "survives GC.stress" do
    survive(<<~'RUBY', seconds: 2, interval: 0.002)
      GC.stress = true
      while going?
        text = "x" * 10
        [text, text.dup].map(&:upcase)
        Thread.new { "y" * 3 }.join
      end
      GC.stress = false
    RUBY
  end

  it "survives a heap that is compacted all the time" do
    skip "this Ruby does not compact by itself" unless GC.respond_to?(:auto_compact=)
    survive(<<~'RUBY', seconds: 2)
      GC.auto_compact = true
      keep = []
      while going?
        keep << Array.new(100) { |i| "text #{i}" } << Class.new { define_method(:"m#{rand(1000)}") { sleep(0) } }.new
        keep.shift(keep.size / 2) if keep.size > 200
        Thread.new { eval("[1].each { |it| it.to_s }") }.join
        GC.start if rand(20).zero?
        GC.compact if rand(40).zero?
      end
      GC.auto_compact = false
      GC.verify_compaction_references(double_heap: true, toward: :empty)
    RUBY
  end

  it "survives storms of Timeout" do
    survive(<<~'RUBY', seconds: 2)
      expired = 0
      while going?
        begin
          Timeout.timeout(0.001) { rand(20).zero? ? (loop { nil }) : sleep }
        rescue Timeout::Error
          expired += 1
        end
        Timeout.timeout(1) { nil }
      end
      abort("only #{expired}") if expired < 20
    RUBY
  end

  it "survives exceptions from other threads at any moment" do
    survive(<<~'RUBY')
      caught = 0
      victim = Thread.handle_interrupt(IOError => :never) do # the new thread begins like this, too
        Thread.new do
          while going?
            begin
              Thread.handle_interrupt(IOError => :immediate) { rand(2).zero? ? sleep(0.001) : [1, 2].each { |it| it.to_s } }
            rescue IOError
              caught += 1
            end
          end
        end
      end
      victim.report_on_exception = false
      while victim.alive?
        victim.raise(IOError, "from outside")
        sleep(0.0005)
      end
      victim.join rescue nil
      abort("only #{caught}") if caught < 20
    RUBY
  end

  it "survives a churn of finalizers, at 1 kHz" do
    # Ruby bug 19991: postponed jobs that are registered from a signal handler can take the argument of the finalizers' one.
    survive(<<~'RUBY', seconds: 5, interval: 0.001, check: "$finalized > 1_000")
      $finalized = 0
      finalizer = proc { $finalized += 1 }
      while going?
        200.times { ObjectSpace.define_finalizer(Object.new, finalizer) }
        GC.start(full_mark: false) if rand(3).zero?
      end
      GC.start
    RUBY
  end

  it "survives fibers that come, go and are resumed" do
    survive(<<~'RUBY')
      while going?
        fibers = Array.new(30) { Fiber.new { 5.times { Fiber.yield([1, 2].map(&:to_s)) } } }
        fibers.each(&:resume)
        fibers.each { |it| 3.times { it.resume } }
        Enumerator.new { |out| 10.times { |i| out << i } }.then { |it| 5.times { it.next } }
      end
    RUBY
  end

  it "survives stacks that overflow, in many threads" do
    survive(<<~'RUBY')
      def deeper(n)
        [n].each { |it| deeper(it + 1) }
      end
      overflows = 0
      while going?
        begin
          rand(2).zero? ? deeper(0) : Thread.new { Thread.current.report_on_exception = false; deeper(0) }.join
        rescue SystemStackError
          overflows += 1
        end
      end
      abort("no overflow") if overflows.zero?
    RUBY
  end

  it "survives code that is defined, redefined, traced and removed" do
    survive(<<~'RUBY')
      trace = TracePoint.new(:call, :return, :c_call, :line) { nil }
      while going?
        Object.class_eval("class Passing; def work(n) n.zero? ? 0 : work(n - 1) end; end")
        Passing.new.work(20)
        trace.enable { Passing.new.work(20) } if rand(5).zero?
        Passing.define_method(:work) { |n| n }
        Passing.new.work(1)
        Passing.undef_method(:work)
        Object.send(:remove_const, :Passing)
      end
    RUBY
  end

  it "survives signals of the program's own" do
    survive(<<~'RUBY', check: "$received > 20")
      $received = 0
      trap(:USR1) { $received += 1 }
      trap(:ALRM) { $received += 1 }
      trap(:CHLD) { $received += 1 }
      while going?
        Process.kill(:USR1, Process.pid)
        Process.kill(:ALRM, Process.pid)
        `true` if rand(10).zero?
        sleep(0.001)
      end
    RUBY
  end

  it "survives SIGPROF from anywhere, to anybody" do
    survive(<<~'RUBY')
      doors = Datadog::Profiling::NativeExtension::Testing
      sleepers = Array.new(5) { Thread.new { sleep } }
      sleep(0.01)
      while going?
        50.times { Process.kill(:PROF, Process.pid) }
        sleepers.each { |it| doors._native_signal_thread(it) }
        doors._native_signal_native_threads(4, 200)
        Thread.new { nil }.join
      end
    RUBY
  end

  it "survives starts and stops beside all of it" do
    survive(<<~'RUBY')
      session.stop
      stop = false
      others = [
        Thread.new { Thread.new { nil }.join until stop },
        Thread.new { GC.start || sleep(0.002) until stop },
        Thread.new { Thread.pass until stop },
      ]
      runs = 0
      while going?
        session.start
        sleep(rand * 0.02)
        abort("no profile") unless session.stop
        runs += 1
      end
      stop = true
      others.each(&:join)
      session.start
      burn(0.2)
    RUBY
  end

  it "survives all of it without signals, too" do
    survive(<<~'RUBY', no_signals: true, seconds: 2)
      while going?
        threads = Array.new(10) { |i| Thread.new { i.even? ? (loop { [1].map(&:to_s) and Thread.pass }) : sleep } }
        begin
          Timeout.timeout(0.002) { sleep }
        rescue Timeout::Error
          nil
        end
        GC.start if rand(10).zero?
        threads.each(&:kill).each(&:join)
      end
    RUBY
  end

  it "survives the interpreter's options: -W2, frozen strings, odd encodings" do
    work = <<~'RUBY'
      Thread.new { [1].each { |it| it.to_s } }.join while going?
    RUBY
    survive(work, seconds: 0.3, options: ["-W2"])
    survive(work, seconds: 0.3, options: ["--enable=frozen-string-literal"])
    survive(work, seconds: 0.3, options: ["-Eeuc-jp:utf-8"])
    survive(work, seconds: 0.3, options: ["-Eascii-8bit"], env: { "LC_ALL" => "C" })
  end

  it "survives the JIT compilers of Ruby" do
    work = <<~'RUBY'
      def calculate(n)
        n < 2 ? n : calculate(n - 1) + calculate(n - 2)
      end
      calculate(18) while going?
    RUBY
    %w[--mjit --yjit].each do |jit|
      known = run_ruby("print 1", options: [jit])
      if known.status.success? && known.stderr.empty?
        survive(work, seconds: 1, options: [jit])
      else
        puts "skipped: this Ruby has no #{jit}: #{known.stderr.lines.first}"
      end
    end
  end

  describe "that ends while it is profiled" do
    # Nobody stops the session.
    {
      "by itself" => ["burn(0.02)", 0],
      "by exit" => ["burn(0.02); exit(3)", 3],
      "by exit!" => ["burn(0.02); exit!(4)", 4],
      "by abort" => ["burn(0.02); $stderr.reopen(File::NULL); abort", 1],
      "by an exception" => ["burn(0.02); $stderr.reopen(File::NULL); raise 'on purpose'", 1],
      "by exit in a thread" => ["Thread.new { burn(0.01); exit(5) }.join", 5],
      "with busy threads" => ["3.times { Thread.new { loop { nil } } }; burn(0.02)", 0],
      "in a finalizer and at_exit" => ["at_exit { burn(0.02) }; ObjectSpace.define_finalizer(Object.new, proc { burn(0.02) }); GC.start", 0],
      "by exec" => ["burn(0.02); exec('sh', '-c', 'sleep 0.05; exit 6')", 6],
      "by SIGTERM" => ["burn(0.02); Process.kill(:TERM, $$); sleep", 15],
      "by SIGINT" => ["$stderr.reopen(File::NULL); burn(0.02); Process.kill(:INT, $$); sleep", 2],
      "by a signal that it handles" => ["trap(:TERM) { exit(7) }; burn(0.02); Process.kill(:TERM, $$); sleep", 7],
    }.each do |how, (script, status)|
      it "ends as it would have without a profiler: #{how}" do
        start = "require 'standalone'; $session = Datadog::Profiling::Session.new(interval: 0.001); $session.start; "
        (SOAK ? 100 : 3).times do
          outcome = run_ruby(start + script, seconds: 20)
          expect([outcome.status.exitstatus || outcome.status.termsig, outcome.stderr]).to eq([status, ""])
        end
      end
    end
  end

  # With so many threads most of the time goes into samples, so most of what is sent comes in the midst of one.
  { "as it is" => {}, "by public functions only" => { "DD_PROFILING_VM_ACCESS" => "public" } }.each do |way, env|
    it "gets every exception that its threads send each other, when its Ruby is read #{way}" do
      script = <<~'RUBY'
        require "standalone"
        class Sent < Exception; end
        start(new_worker(interval: 0.001, dynamic_sampling_rate_overhead_target_percentage: 100.0))
        300.times { Thread.new { sleep } }
        receiver = Thread.current
        orders = Queue.new
        Thread.new { receiver.raise(Sent) while orders.pop }
        ends = monotonic + Float(ARGV.first)
        while monotonic < ends
          limit = monotonic + 20
          begin
            orders << true
            [1].map(&:to_s) while monotonic < limit
            abort("Thread#raise was lost")
          rescue Sent
            nil
          end
          victim = Thread.new { loop { [1].map(&:to_s) } }
          Thread.pass
          victim.kill.join(20) or abort("Thread#kill was lost")
        end
        print "survived"
        $stdout.flush
        exit!(0)
      RUBY
      outcome = run_ruby(script, (SOAK ? 60 : 6).to_s, seconds: 100, env: env)
      expect(outcome.to_s).to include("exit 0").and include("survived")
    end
  end
end
