require "spec_helper"
require "support/stack_scenarios"

RSpec.describe Datadog::Profiling::Collectors::CpuAndWallTimeWorker do
  let(:recorder) { new_recorder }
  let(:options) { {} }
  let(:doors) { described_class::Testing }
  subject(:worker) { new_worker(recorder: recorder, **options) }

  after { worker.stop }

  def thread
    Thread.list.find { |it| it.name == described_class.name }
  end

  describe "start" do
    it "makes one thread with the name of the class, safe for forking servers" do
      expect(worker.start).to be true
      expect_running(worker)
      expect(thread.thread_variable_get(:fork_safe)).to be true
      expect(Thread.list.count { |it| it.name == described_class.name }).to eq(1)
      expect(doors._native_is_running?(worker)).to be true
    end

    it "gives the thread its name for the system, too" do
      tasks = -> { Dir["/proc/self/task/*/comm"].map { |it| File.read(it).chomp } }
      with_sleeping_thread do |other|
        other.name = "a rather long name"
        skip "this Ruby does not tell the system long names of threads" unless tasks.call.include?("a rather long n")
      end
      start(worker)
      expect(tasks.call.count { |it| described_class.name.start_with?(it) && it.size == 15 }).to be >= 1
    end

    it "does nothing when it runs already" do
      start(worker)
      before = thread
      expect(worker.start).to be_nil
      expect(thread).to be before
    end

    it "refuses a second instance, and the first goes on" do
      start(worker)
      other = new_worker
      failure = nil
      output = silently do
        other.start(on_failure_proc: ->(*error) { failure = error })
        wait_until { other.failure_exception }
      end
      expect(other.failure_exception.message).to include("another instance")
      expect(output).to include("another instance")
      wait_until { failure }
      expect(other.wait_until_running).to be false
      before = worker.stats[:cpu_sampled]
      wait_until { worker.stats[:cpu_sampled] > before + 3 }
      expect(doors._native_current_sigprof_signal_handler).to eq(:profiling)
      expect(doors._native_is_running?(worker)).to be true
    ensure
      other&.stop
    end

    it "lets the second instance run once the first was stopped" do
      start(worker)
      worker.stop
      other = new_worker
      start(other)
      expect(doors._native_is_running?(other)).to be true
    ensure
      other&.stop
    end
  end

  describe "stop" do
    it "ends all threads of the profiler soon" do
      start(worker)
      before = monotonic
      worker.stop
      expect(monotonic - before).to be < 0.3
      expect(Thread.list.select { |it| ours?(it) }).to eq([])
      expect(doors._native_is_running?(worker)).to be false
    end

    it "works before, right after and without start, and twice" do
      expect { 2.times { worker.stop } }.not_to raise_error
      100.times do
        worker.start
        worker.stop
        expect(thread).to be_nil
      end
      expect(worker.failure_exception).to be_nil
      expect(doors._native_current_sigprof_signal_handler).to eq(:empty)
    end

    it "ends the sampling: nothing is recorded any more" do
      start(worker)
      wait_until { worker.stats[:cpu_sampled] > 3 }
      worker.stop
      serialize(recorder)
      burn(0.05)
      sleep(0.05)
      expect(serialize(recorder).samples).to eq([])
    end

    it "works while the process is busy, while it sleeps, and from another thread" do
      stop = false
      busy = Array.new(3) { Thread.new { nil until stop } }
      start(worker)
      worker.stop
      start(worker)
      Thread.new { worker.stop }.join
      stop = true
      busy.each(&:join)
      start(worker)
      sleep(0.05)
      worker.stop
      expect(doors._native_is_running?(worker)).to be false
    ensure
      stop = true
      busy&.each(&:join)
    end

    it "works after the worker's thread was killed" do
      start(worker)
      thread.kill.join
      expect(doors._native_is_running?(worker)).to be false
      expect(doors._native_current_sigprof_signal_handler).to eq(:empty)
      expect(worker.start).to be true
      expect_running(worker)
      worker.stop
    end

    it "starts the next run from zero" do
      start(worker)
      wait_until { worker.stats[:cpu_sampled] > 5 }
      worker.stop
      serialize(recorder)
      sleep(0.2)
      with_sleeping_thread do |sleeper|
        start(worker)
        wait_until { serialize(recorder).of_thread(sleeper).any? }
        wall = serialize(recorder).of_thread(sleeper).sum(&:wall)
        expect(wall).to be < 150_000_000 # not the time between the runs
      end
    end
  end

  describe "samples" do
    it "are taken of busy and of sleeping threads" do
      with_sleeping_thread do |sleeper|
        start(worker)
        burn(0.3)
        worker.stop
        got = serialize(recorder)
        expect(got.of_thread(Thread.current).sum(&:count)).to be > 10
        expect(got.of_thread(Thread.current).sum(&:cpu)).to be > 200_000_000
        expect(got.of_thread(sleeper).sum(&:count)).to be > 10
        expect(got.of_thread(sleeper).sum(&:cpu)).to eq(0)
      end
    end

    it "say what a thread sleeps in", needs: :other_stacks do
      with_sleeping_thread do |sleeper|
        start(worker)
        burn(0.1)
        worker.stop
        expect(serialize(recorder).of_thread(sleeper).map { |it| it.labels["state"] }).to include("sleeping")
      end
    end

    it "are taken when all threads sleep" do
      start(worker)
      Timeout.timeout(10) { sleep(0.1) until worker.stats[:cpu_sampled] > 20 }
    end

    it "are taken with the help of the idle thread when all threads sleep" do
      start(worker)
      sleep(0.5)
      stats = worker.stats
      expect(stats[:cpu_sampled]).to be > 20
      expect(stats[:trigger_simulated_signal_delivery_attempts]).to be > stats[:trigger_sample_attempts] * 0.8
      expect(stats[:simulated_signal_delivery]).to be >= stats[:cpu_sampled] * 0.8
    end

    it "reach the right thread when one is busy" do
      start(worker)
      burn(0.5)
      stats = worker.stats
      # On a machine with other work two signals may become one, as the thread did not run in between.
      expect(stats[:signal_handler_enqueued_sample]).to be >= stats[:trigger_sample_attempts] * 0.6
      expect(stats[:signal_handler_wrong_thread]).to be <= stats[:trigger_sample_attempts] * 0.1
      expect(stats[:cpu_sampled]).to be >= 30
    end

    it "come in the first moments already" do
      start(worker)
      burn(0.2)
      expect(worker.stats[:cpu_sampled]).to be >= 8
    end

    it "hold the profiler's own threads, by their names" do
      start(worker)
      burn(0.1)
      worker.stop
      names = serialize(recorder).samples.map(&:thread_name).uniq
      expect(names).to include(described_class.name, Datadog::Profiling::Collectors::IdleSamplingHelper.name)
    end

    it "carry what they cost" do
      start(worker)
      burn(0.3)
      worker.stop
      overhead = serialize(recorder).samples.select(&:overhead?)
      expect(overhead).not_to be_empty
      expect(overhead.sum(&:cpu)).to be < 0.05 * 300_000_000
    end

    it "carry their cost with the worker's stack", needs: :other_stacks do
      start(worker)
      burn(0.1)
      worker.stop
      expect(serialize(recorder).samples.select(&:overhead?).flat_map(&:names)).to include("_native_sampling_loop")
    end

    it "are taken beside Process::Waiter threads, and of them", needs: :thread_ids do
      waiter = Process.detach(fork { sleep })
      pid = waiter.pid
      start(worker)
      burn(0.1)
      worker.stop
      expect(worker.failure_exception).to be_nil
      expect(serialize(recorder).of_thread(waiter)).not_to be_empty
    ensure
      Process.kill(:KILL, pid) if pid
      waiter&.join
    end

    it "make no Ruby object" do
      with_sleeping_thread(-> { Support::StackScenarios.recurse(60, -> { sleep }) }) do
        start(worker)
        burn(0.1) # all threads are known now
        GC.disable
        sampled = worker.stats[:cpu_sampled]
        before = GC.stat(:total_allocated_objects)
        finish = cpu_time + 0.4
        nil while cpu_time < finish
        made = GC.stat(:total_allocated_objects) - before
        GC.enable
        expect(worker.stats[:cpu_sampled] - sampled).to be > 20
        expect(made).to be <= 5
      end
    ensure
      GC.enable
    end

    it "keep `$!`, `$~` and `$_` of the program" do
      start(worker)
      begin
        raise ArgumentError, "kept"
      rescue ArgumentError
        "abc" =~ /b/
        burn(0.1)
        expect($!&.message).to eq("kept") # rubocop:disable Style/SpecialGlobalVars
        expect($~[0]).to eq("b")
      end
    end
  end

  describe "a failure" do
    it "ends the run, is kept, shown once and told to who asked; the program goes on" do
      start(worker)
      worker.stop
      told = Queue.new
      output = silently do
        start(worker, on_failure_proc: ->(error) { told << error })
        doors._native_delayed_error(worker, "on purpose")
        wait_until { worker.failure_exception }
        expect(told.pop).to be worker.failure_exception
      end
      expect(worker.failure_exception).to be_a(RuntimeError)
      expect(worker.failure_exception.message).to eq("on purpose")
      expect(output.scan("on purpose").size).to eq(1)
      expect(doors._native_is_running?(worker)).to be false
      expect(doors._native_current_sigprof_signal_handler).to eq(:empty)
      expect(doors._native_is_sigprof_blocked_in_current_thread).to be false
      burn(0.02)
    end

    it "is forgotten by stop, and by the next start" do
      silently do
        start(worker)
        doors._native_delayed_error(worker, "on purpose")
        wait_until { worker.failure_exception }
        worker.stop
        expect(worker.failure_exception).to be_nil
        start(worker)
        doors._native_delayed_error(worker, "again")
        wait_until { worker.failure_exception && !thread }
        expect(worker.start).to be true
        expect_running(worker)
        expect(worker.failure_exception).to be_nil
      end
    end

    it "before the start ends that run, or not at all" do
      silently do
        doors._native_delayed_error(worker, "early")
        worker.start
        wait_until { worker.failure_exception || worker.running? }
        worker.stop
        start(worker)
      end
    end

    it "in what was told is the caller's" do
      output = silently do
        start(worker, on_failure_proc: -> { raise IOError, "from the caller" })
        doors._native_delayed_error(worker, "on purpose")
        wait_until { worker.failure_exception && !thread }
      end
      expect(output).to include("on purpose")
      expect(worker.failure_exception.message).to eq("on purpose")
      start(worker)
    end
  end

  describe "stats" do
    let(:keys) do
      %i[
        trigger_sample_attempts trigger_simulated_signal_delivery_attempts simulated_signal_delivery
        signal_handler_enqueued_sample signal_handler_wrong_thread postponed_job_skipped_already_existed
        postponed_job_success postponed_job_full postponed_job_unknown_result cpu_sampled cpu_skipped
        cpu_effective_sample_rate cpu_sampling_time_ns_min cpu_sampling_time_ns_max cpu_sampling_time_ns_total
        cpu_sampling_time_ns_avg
      ]
    end
    let(:empty_when_unknown) do
      %i[cpu_effective_sample_rate cpu_sampling_time_ns_min cpu_sampling_time_ns_max cpu_sampling_time_ns_total cpu_sampling_time_ns_avg]
    end

    it "have all keys, with zero or nil before the first run" do
      stats = worker.stats
      expect(stats.keys).to include(*keys)
      expect(stats.slice(*empty_when_unknown).values).to all(be_nil)
      expect(stats.slice(*(keys - empty_when_unknown)).values).to all(eq(0))
    end

    it "agree with each other" do
      start(worker)
      burn(0.2)
      sleep(0.1)
      worker.stop
      stats = worker.stats
      results = stats.slice(:postponed_job_skipped_already_existed, :postponed_job_success, :postponed_job_full,
                            :postponed_job_unknown_result)
      expect(stats[:cpu_sampled]).to be > 0
      expect(stats[:cpu_sampled] + stats[:cpu_skipped]).to be <= stats[:postponed_job_success]
      expect(results.values.sum).to eq(stats[:signal_handler_enqueued_sample])
      expect(stats[:signal_handler_enqueued_sample]).to be <= stats[:trigger_sample_attempts]
      expect(stats[:simulated_signal_delivery]).to be <= stats[:signal_handler_enqueued_sample]
      expect(stats[:postponed_job_unknown_result]).to eq(0)
      least, most, total, average = stats.values_at(*empty_when_unknown.drop(1))
      expect([1, least, average, most, total, 1_000_000_000]).to eq([1, least, average, most, total, 1_000_000_000].sort)
      expect(average).to be_within(1e-6).of(total.to_f / stats[:cpu_sampled])
      expect(stats[:cpu_effective_sample_rate]).to be_within(1e-9)
        .of(stats[:cpu_sampled].to_f / (stats[:cpu_sampled] + stats[:cpu_skipped]))
    end

    it "can be taken and set to zero" do
      start(worker)
      burn(0.1)
      worker.stop
      taken = worker.stats_and_reset_not_thread_safe
      expect(taken[:cpu_sampled]).to be > 0
      expect(worker.stats[:cpu_sampled]).to eq(0)
      expect(worker.stats[:trigger_sample_attempts]).to eq(0)
      expect(worker.stats[:cpu_sampling_time_ns_min]).to be_nil
    end
  end

  describe "pacing" do
    it "keeps the cost of sampling near its target however many threads there are" do
      threads = Array.new(1_000) { Thread.new { sleep } }
      wait_until { threads.all? { |it| it.status == "sleep" } }
      start(worker)
      before = monotonic
      burn(1.5)
      passed = monotonic - before
      stats = worker.stats
      worker.stop
      overhead = serialize(recorder).samples.select(&:overhead?).sum(&:cpu)
      expect(stats[:cpu_sampled]).to be_between(3, 80 * passed)
      expect(overhead / 1e9).to be < 0.06 * passed # 2 % are aimed at; the first sample comes on top
    ensure
      threads&.each(&:kill)&.each(&:join)
    end

    it "can be switched off" do
      other = new_worker(dynamic_sampling_rate_enabled: false)
      start(other)
      burn(0.3)
      expect(other.stats[:cpu_skipped]).to eq(0)
    ensure
      other&.stop
    end
  end

  describe "in a forked child" do
    # How often, by the time that this should be so or 5 seconds are over: on a busy machine no tick is in time.
    def burn_until_sampled(worker)
      deadline = monotonic + 5
      burn(0.02) until worker.stats[:cpu_sampled] >= 8 || monotonic > deadline
      worker.stats[:cpu_sampled]
    end

    it "does not run, and can be started again by the same or another instance" do
      start(worker)
      wait_until { worker.stats[:cpu_sampled] > 2 }
      running, same, other = in_child do
        before = doors._native_is_running?(worker)
        worker.reset_after_fork
        serialize(recorder)
        start(worker)
        first = burn_until_sampled(worker)
        worker.stop
        second = new_worker
        start(second)
        [before, first, burn_until_sampled(second)].tap { second.stop }
      end
      expect(running).to be false
      expect(same).to be >= 8
      expect(other).to be >= 8
      before = worker.stats[:cpu_sampled]
      wait_until { worker.stats[:cpu_sampled] > before + 2 }
    end

    it "can be started by another instance without a reset of the first" do
      start(worker)
      sampled = in_child do
        other = new_worker
        start(other)
        burn_until_sampled(other).tap { other.stop }
      end
      expect(sampled).to be >= 8
    end

    it "starts its counters at zero" do
      start(worker)
      burn(0.2)
      stats = in_child { worker.reset_after_fork && worker.stats.slice(:cpu_sampled, :trigger_sample_attempts) }
      expect(stats).to eq(cpu_sampled: 0, trigger_sample_attempts: 0)
    end

    it "lets a child go that cares nothing for it, even with signals on their way" do
      start(worker)
      10.times do
        expect(in_child { 50.times { Process.kill(:PROF, Process.pid) } && GC.start.nil? }).to be true
      end
    end
  end

  describe "other Ractors", :ractors do
    it "run beside it, are not sampled, and cannot start one" do
      script = <<~'RUBY'
        require "standalone"
        worker = new_worker(interval: 0.001)
        start(worker)
        ractors = Array.new(2) { Ractor.new { 300.times { Array.new(1000, &:to_s) }; :done } }
        burn(0.3)
        print ractors.map(&:take).inspect
        print worker.failure_exception.inspect, worker.stats[:cpu_sampled] > 50
        worker.stop
      RUBY
      expect(run_ruby!(script, options: ["-W0"])).to eq("[:done, :done]niltrue")
    end
  end

  describe "arguments" do
    it "must be a percentage above 0 and up to 100" do
      [0, 0.0, -1.0, 100.1, Float::NAN, Float::INFINITY].each do |it|
        expect { new_worker(dynamic_sampling_rate_overhead_target_percentage: it) }.to raise_error(ArgumentError)
      end
      ["2", nil, :two].each do |it|
        expect { new_worker(dynamic_sampling_rate_overhead_target_percentage: it) }.to raise_error(TypeError)
      end
      [3, 100, 0.1, 2.0].each { |it| expect(new_worker(dynamic_sampling_rate_overhead_target_percentage: it)).to be_a(described_class) }
    end

    it "must be true or false where that is asked for" do
      %i[no_signals_workaround_enabled dynamic_sampling_rate_enabled gc_profiling_enabled allocation_profiling_enabled].each do |it|
        [nil, 0, "false"].each { |value| expect { new_worker(it => value) }.to raise_error(TypeError) }
      end
    end

    it "must be a thread context and an idle helper" do
      [nil, 1, Object.new].each do |it|
        expect { new_worker(context: it || "nil") }.to raise_error(TypeError)
        expect { new_worker(idle_sampling_helper: it) }.to raise_error(TypeError)
      end
    end

    it "must be an interval between a millisecond and a second" do
      [0, 0.0009, 1.1, -1].each { |it| expect { new_worker(interval: it) }.to raise_error(ArgumentError, /interval/) }
      [0.001, 1, 0.01].each { |it| expect(new_worker(interval: it)).to be_a(described_class) }
    end
  end

  it "takes more samples with a shorter interval" do
    rates = [0.05, 0.001].map do |interval|
      one = new_worker(interval: interval, dynamic_sampling_rate_enabled: false)
      start(one)
      before = monotonic
      burn(0.4)
      (one.stats[:cpu_sampled] / (monotonic - before)).tap { one.stop }
    end
    expect(rates.last).to be > 2 * rates.first
  end

  it "raises or answers, and does not crash, when it was never initialized" do
    empty = described_class.allocate
    [-> { described_class._native_sampling_loop(empty) }, -> { described_class._native_stop(empty, Thread.current) },
     -> { described_class._native_stats(empty) }, -> { described_class._native_reset_after_fork(empty) },
     -> { described_class._native_stats_reset_not_thread_safe(empty) }, -> { doors._native_is_running?(empty) }].each do |action|
      action.call
    rescue StandardError => e
      expect(e.message).not_to be_empty
    end
    [nil, 1, Object.new].each do |it|
      expect { described_class._native_sampling_loop(it) }.to raise_error(TypeError)
      expect { described_class._native_stats(it) }.to raise_error(TypeError)
    end
    GC.start
  end

  it "can be collected, also while its handler is still in place" do
    20.times do
      temporary = new_worker
      start(temporary)
      temporary.stop
    end
    GC.start
    20.times { Process.kill(:PROF, Process.pid) }
    start(worker)
    wait_until { worker.stats[:cpu_sampled] > 1 }
  end
end
