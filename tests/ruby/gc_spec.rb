# frozen_string_literal: true

require "spec_helper"

# Garbage collection, in the thread context (with events of our own) and in the worker (with those of the VM).
RSpec.describe "garbage collection" do
  let(:recorder) { new_recorder(timeline_enabled: true) }
  let(:options) { {} }
  let(:context) { new_thread_context(recorder, **options) }
  let(:doors) { Datadog::Profiling::Collectors::ThreadContext::Testing }
  let(:not_known) { -1 }

  def sample
    doors._native_sample(context, Thread.current)
  end

  def per_thread
    doors._native_per_thread_context(context).fetch(Thread.current)
  end

  def tracking
    doors._native_gc_tracking(context)
  end

  def one_gc
    doors._native_on_gc_start(context)
    yield if block_given?
    doors._native_on_gc_finish(context)
  end

  # The first one may have a reason of its own, that it was due.
  def forced_collection
    GC.disable
    2.times { GC.start }
  end

  # Ruby makes a major one of it when it wants.
  def minor_collection
    wait_until(message: "a minor collection") do
      GC.disable
      GC.start(full_mark: false, immediate_sweep: true)
      GC.latest_gc_info(:major_by).nil? && GC.latest_gc_info(:state) == :none
    end
  end

  def nanoseconds(clock)
    Process.clock_gettime(clock, :nanosecond)
  end

  def gc_samples(profile = serialize(recorder))
    profile.samples.select { |it| it.labels["thread id"] == "GC" }
  end

  describe "a start" do
    it "of a thread that was never sampled is counted, and nothing else" do
      doors._native_on_gc_start(context)
      expect(context.stats).to include(gc_samples_missed_due_to_missing_context: 1, threads: 0)
      expect(doors._native_on_gc_finish(context)).to be false
      expect(tracking).to eq(
        accumulated_cpu_time_ns: 0, accumulated_wall_time_ns: 0, wall_time_at_previous_gc_ns: not_known,
        wall_time_at_last_flushed_gc_event_ns: not_known
      )
    end

    it "is noted by wall and CPU clock" do
      sample
      expect(per_thread).to include("gc_tracking.cpu_time_at_start_ns": not_known, "gc_tracking.wall_time_at_start_ns": not_known)
      wall_before = nanoseconds(Process::CLOCK_MONOTONIC)
      cpu_before = nanoseconds(Process::CLOCK_THREAD_CPUTIME_ID)
      doors._native_on_gc_start(context)
      noted = per_thread
      expect(noted.fetch(:"gc_tracking.cpu_time_at_start_ns"))
        .to be_between(cpu_before, nanoseconds(Process::CLOCK_THREAD_CPUTIME_ID))
      expect(noted.fetch(:"gc_tracking.wall_time_at_start_ns"))
        .to be_between(wall_before, nanoseconds(Process::CLOCK_MONOTONIC))
      expect(context.stats.fetch(:gc_samples_missed_due_to_missing_context)).to eq(0)
    end
  end

  describe "a finish" do
    it "without a start counts nothing" do
      sample
      expect(doors._native_on_gc_finish(context)).to be false
      expect(tracking.fetch(:wall_time_at_previous_gc_ns)).to eq(not_known)
    end

    it "adds up the time since the start" do
      sample
      wall_before = nanoseconds(Process::CLOCK_MONOTONIC)
      cpu_before = nanoseconds(Process::CLOCK_THREAD_CPUTIME_ID)
      one_gc { burn(0.01) }
      wall = nanoseconds(Process::CLOCK_MONOTONIC) - wall_before
      cpu = nanoseconds(Process::CLOCK_THREAD_CPUTIME_ID) - cpu_before
      expect(tracking.fetch(:accumulated_cpu_time_ns)).to be_between(10_000_000, cpu)
      expect(tracking.fetch(:accumulated_wall_time_ns)).to be_between(tracking.fetch(:accumulated_cpu_time_ns), wall)
      expect(tracking.fetch(:wall_time_at_previous_gc_ns)).to be_between(wall_before, nanoseconds(Process::CLOCK_MONOTONIC))
      expect(per_thread).to include("gc_tracking.cpu_time_at_start_ns": not_known, "gc_tracking.wall_time_at_start_ns": not_known)

      before = tracking
      one_gc { burn(0.002) }
      expect(tracking.fetch(:accumulated_cpu_time_ns)).to be >= before.fetch(:accumulated_cpu_time_ns) + 2_000_000
      expect(tracking.fetch(:accumulated_wall_time_ns)).to be >= before.fetch(:accumulated_wall_time_ns) + 2_000_000
      expect(tracking.fetch(:wall_time_at_previous_gc_ns)).to be > before.fetch(:wall_time_at_previous_gc_ns)
    end

    it "takes its CPU time off the thread's, and leaves the wall time alone" do
      sample
      before = per_thread
      one_gc { burn(0.01) }
      after = per_thread
      expect(after.fetch(:cpu_time_at_previous_sample_ns))
        .to eq(before.fetch(:cpu_time_at_previous_sample_ns) + tracking.fetch(:accumulated_cpu_time_ns))
      expect(after.fetch(:wall_time_at_previous_sample_ns)).to eq(before.fetch(:wall_time_at_previous_sample_ns))
    end

    it "asks for a sample at first, then each 10 ms" do
      minor_collection
      sample
      expect(one_gc).to be true
      doors._native_sample_after_gc(context)
      # The next one comes within 10 ms, unless the machine was elsewhere.
      wait_until { one_gc ? doors._native_sample_after_gc(context) && false : true }
      sleep(0.011)
      expect(one_gc).to be true
    ensure
      GC.enable
    end

    it "asks for a sample when a major collection is over" do
      sample
      forced_collection
      one_gc
      doors._native_sample_after_gc(context)
      expect(GC.latest_gc_info).to include(state: :none, major_by: :force)
      expect(Array.new(20) { one_gc }).to all(be(true))
    ensure
      GC.enable
    end
  end

  describe "a thread that is collecting" do
    it "is charged with CPU time up to the start only, and with all wall time" do
      sample
      serialize(recorder)
      before = per_thread
      burn(0.005)
      doors._native_on_gc_start(context)
      started = per_thread.fetch(:"gc_tracking.cpu_time_at_start_ns")
      burn(0.005)
      sample
      profile = serialize(recorder)
      expect(profile.of_thread(Thread.current).sum(&:cpu)).to eq(started - before.fetch(:cpu_time_at_previous_sample_ns))
      expect(profile.of_thread(Thread.current).sum(&:wall)).to be >= 10_000_000

      burn(0.002)
      sample
      profile = serialize(recorder)
      expect(profile.samples.select { |it| it.labels["thread id"] == thread_id(Thread.current) }.sum(&:cpu)).to eq(0)
      expect(profile.of_thread(Thread.current).sum(&:wall)).to be >= 2_000_000

      before = nanoseconds(Process::CLOCK_THREAD_CPUTIME_ID)
      doors._native_on_gc_finish(context)
      after = nanoseconds(Process::CLOCK_THREAD_CPUTIME_ID)
      expect(per_thread.fetch(:cpu_time_at_previous_sample_ns)).to be_between(before, after)
      expect(tracking.fetch(:accumulated_cpu_time_ns)).to be_between(7_000_000, after - started)
    end

    it "loses nothing: its own and the collector's CPU time are what the clock says" do
      clock = -> { nanoseconds(Process::CLOCK_THREAD_CPUTIME_ID) }
      before = clock.call
      sample
      serialize(recorder)
      begun = clock.call
      20.times { |i| burn(0.001) || (one_gc { burn(0.001) }) || (sample if (i % 3).zero?) }
      least = clock.call - begun
      sample
      most = clock.call - before
      doors._native_sample_after_gc(context)
      profile = serialize(recorder)
      own = profile.samples.select { |it| ["GC", thread_id(Thread.current)].include?(it.labels["thread id"]) }
      expect(own.sum(&:cpu)).to be_between(least, most)
      expect(gc_samples(profile).sum(&:cpu)).to be_between(20_000_000, most - 20_000_000)
    end
  end

  describe "its sample" do
    before { sample && serialize(recorder) }

    it "is refused when there was nothing" do
      expect { doors._native_sample_after_gc(context) }.to raise_error(RuntimeError, /no garbage collection/)
      one_gc
      doors._native_sample_after_gc(context)
      expect { doors._native_sample_after_gc(context) }.to raise_error(RuntimeError, /no garbage collection/)
    end

    it "has all that was added up, as CPU, wall and timeline value, and starts again from zero" do
      3.times { one_gc { burn(0.001) } }
      added = tracking
      doors._native_sample_after_gc(context)
      got = gc_samples
      expect(got.size).to eq(1)
      expect(got.first.values).to eq(
        "cpu-time" => added[:accumulated_cpu_time_ns], "cpu-samples" => 1,
        "wall-time" => added[:accumulated_wall_time_ns], "timeline" => added[:accumulated_wall_time_ns]
      )
      expect(got.first.frames.map(&:to_a)).to eq([["", "Garbage Collection", 0]])
      expect(context.stats.fetch(:gc_samples)).to eq(1)
      expect(tracking).to eq(
        accumulated_cpu_time_ns: 0, accumulated_wall_time_ns: 0, wall_time_at_previous_gc_ns: not_known,
        wall_time_at_last_flushed_gc_event_ns: added[:wall_time_at_previous_gc_ns]
      )
    end

    it "is the only one with a timeline value" do
      one_gc { burn(0.001) }
      sample
      expect(serialize(recorder).total("timeline")).to eq(0)
    end

    # No other collection shall come in between.
    def labels_after
      yield
      GC.disable
      one_gc
      doors._native_sample_after_gc(context)
      gc_samples.first.labels
    ensure
      GC.enable
    end

    it "says that a major collection was asked for" do
      expect(labels_after { forced_collection }).to eq(
        "thread id" => "GC", "thread name" => "Garbage Collection", "state" => "had cpu", "event" => "gc",
        "gc reason" => "requested (FORCE)", "gc cause" => "GC.start()", "gc type" => "major"
      )
    end

    it "has no reason when the collection was minor" do
      expect(labels_after { minor_collection }).to eq(
        "thread id" => "GC", "thread name" => "Garbage Collection", "state" => "had cpu", "event" => "gc",
        "gc cause" => "GC.start()", "gc type" => "minor"
      )
    end

    it "says when memory made it necessary" do
      objects = labels_after do
        GC.start
        before = GC.count
        Object.new while GC.count == before
      end
      expect(objects).to include("gc cause" => "object allocation")
      memory = labels_after do
        GC.start
        GC.latest_gc_info(:gc_by) == :malloc || "x" * 1_000_000 until GC.latest_gc_info(:gc_by) == :malloc
      end
      expect(memory).to include("gc cause" => "malloc()")
    end

    it "tells how far a major collection has come" do
      seen = []
      wait_until(seconds: 30, message: "a collection in both phases") do
        GC.start(full_mark: true, immediate_mark: false, immediate_sweep: false)
        state = GC.latest_gc_info(:state)
        one_gc
        doors._native_sample_after_gc(context)
        seen << [state, gc_samples.first.labels["gc type"]]
        seen.map(&:first).include?(:marking)
      end
      GC.start(full_mark: true, immediate_mark: true, immediate_sweep: false)
      state = GC.latest_gc_info(:state)
      one_gc
      doors._native_sample_after_gc(context)
      seen << [state, gc_samples.first.labels["gc type"]]
      names = { none: "major", marking: "major (ongoing, marking)", sweeping: "major (ongoing, sweeping)" }
      expect(seen.map(&:last)).to eq(seen.map { |it| names.fetch(it.first) })
      expect(seen.map(&:first)).to include(:marking, :sweeping)
    end

    it "makes no Ruby object, and so do the events" do
      doors._native_sample_after_gc(context) if one_gc
      GC.disable
      before = GC.stat(:total_allocated_objects)
      100.times do
        doors._native_on_gc_start(context)
        doors._native_on_gc_finish(context)
        doors._native_sample_after_gc(context)
      end
      made = GC.stat(:total_allocated_objects) - before
      expect(made).to be <= 5
    ensure
      GC.enable
    end

    it "has no time without a timeline" do
      one_gc
      doors._native_sample_after_gc(context)
      expect(gc_samples.first.labels).not_to include("end_timestamp_ns")
    end

    context "with a timeline" do
      let(:options) { { timeline_enabled: true } }

      it "has the time at which the last collection ended" do
        before = nanoseconds(Process::CLOCK_REALTIME)
        one_gc { burn(0.001) }
        after = nanoseconds(Process::CLOCK_REALTIME)
        sleep(0.01)
        doors._native_sample_after_gc(context)
        # The two clocks may drift apart a little.
        expect(gc_samples.first.labels.fetch("end_timestamp_ns")).to be_between(before - 1_000_000, after + 1_000_000)
      end
    end
  end

  describe "in a new profile" do
    it "starts from zero" do
      sample
      one_gc
      context.begin_profile
      expect(tracking).to include(accumulated_wall_time_ns: 0, wall_time_at_previous_gc_ns: not_known)
      expect(context.stats).to include(gc_samples: 0, gc_samples_missed_due_to_missing_context: 0)
    end

    it "is complete when the profile is finished" do
      sample
      one_gc { burn(0.001) }
      context.finish_profile
      expect(gc_samples.sum(&:cpu)).to be >= 1_000_000
    end

    it "is not that of the parent of a fork" do
      sample
      one_gc
      got = in_child do
        context.reset_after_fork
        [tracking, context.stats]
      end
      expect(got.first).to include(accumulated_wall_time_ns: 0, wall_time_at_previous_gc_ns: not_known)
      expect(got.last).to include(gc_samples: 0)
    end
  end

  describe "with the worker" do
    let(:worker) { new_worker(recorder: recorder, context: context, gc_profiling_enabled: true) }
    let(:tracepoint) { Datadog::Profiling::Collectors::CpuAndWallTimeWorker::Testing._native_gc_tracepoint }

    after { worker.stop }

    it "is observed while the worker runs, and only if it shall be" do
      expect(tracepoint.enabled?).to be false
      start(worker)
      wait_until { tracepoint.enabled? }
      worker.stop
      expect(tracepoint.enabled?).to be false
      other = new_worker
      start(other)
      expect(tracepoint.enabled?).to be false
      other.stop
    end

    it "is not observed any more after a failure" do
      silently do
        start(worker)
        wait_until { tracepoint.enabled? }
        worker.class::Testing._native_delayed_error(worker, "on purpose")
        wait_until { worker.failure_exception }
      end
      expect(tracepoint.enabled?).to be false
    end

    def run_with_gcs(count)
      start(worker)
      wait_until { worker.stats[:cpu_sampled] > 1 }
      serialize(recorder)
      context.begin_profile
      count.times { GC.start }
      wait_until { context.stats.fetch(:gc_samples) >= 1 }
      worker.stop
      context.finish_profile
      serialize(recorder)
    end

    it "is recorded" do
      before = nanoseconds(Process::CLOCK_PROCESS_CPUTIME_ID)
      got = gc_samples(run_with_gcs(5))
      passed = nanoseconds(Process::CLOCK_PROCESS_CPUTIME_ID) - before
      expect(got.map { |it| it.labels["gc cause"] }).to include("GC.start()")
      expect(got.map { |it| it.labels["gc type"] }).to include("major")
      expect(got.map { |it| it.labels["gc reason"] }).to include("requested (FORCE)")
      expect(got.sum(&:count)).to be_between(1, context.stats.fetch(:gc_samples))
      expect(got.sum(&:cpu)).to be_between(1, passed)
      expect(got.sum { |it| it.values["timeline"] }).to eq(got.sum(&:wall))
    end

    it "takes as much time as GC.measure_total_time says" do
      skip "this Ruby does not measure" unless GC.respond_to?(:measure_total_time)
      start(worker)
      wait_until { worker.stats[:cpu_sampled] > 1 }
      context.begin_profile
      measured = GC.respond_to?(:total_time) ? -> { GC.total_time / 1e9 } : -> { GC.stat(:time) / 1e3 }
      before = measured.call
      objects = Array.new(50_000) { +"x" }
      20.times { GC.start }
      truth = measured.call - before
      worker.stop
      context.finish_profile
      expect(objects.size).to eq(50_000)
      # Ruby's own measure leaves out what lies around marking and sweeping.
      expect(gc_samples.sum(&:cpu) / 1e9).to be_between(truth * 0.9, truth * 1.25 + 0.01)
    end

    it "does not count for the thread that had to do it, and nothing is lost or counted twice" do
      objects = Array.new(100_000) { +"x" }
      start(worker)
      wait_until { worker.stats[:cpu_sampled] > 1 }
      clock = -> { nanoseconds(Process::CLOCK_THREAD_CPUTIME_ID) }
      before = clock.call
      context.begin_profile
      begun = clock.call
      30.times { GC.start || burn(0.002) }
      working = clock.call
      context.finish_profile
      most = clock.call - before
      least = working - begun
      worker.stop
      profile = serialize(recorder)
      own = profile.samples.select { |it| it.labels["thread id"] == thread_id(Thread.current) }
      collecting = gc_samples(profile).sum(&:cpu)
      expect(objects.size).to eq(100_000)
      # The burning takes 60 ms and a little; all else that this thread did was to collect.
      expect(own.sum(&:cpu)).to be_between(60_000_000, most - least * 0.3)
      # (Another thread may have had to do a step of a collection, too.)
      expect(own.sum(&:cpu) + collecting).to be_between(least, most * 1.01)
    end

    it "makes few samples of many small steps" do
      start(worker)
      wait_until { worker.stats[:cpu_sampled] > 1 }
      started = monotonic
      before = GC.count
      burn(0.01) || Array.new(20_000) { Object.new } until GC.count > before + 30
      passed = monotonic - started
      worker.stop
      expect(context.stats.fetch(:gc_samples)).to be_between(1, GC.count - before + passed / 0.01 + 2)
      expect(worker.failure_exception).to be_nil
    end

    it "goes on in a forked child that starts the profiler again" do
      start(worker)
      wait_until { tracepoint.enabled? }
      got = in_child do
        enabled = [tracepoint.enabled?]
        GC.start # tells nobody
        worker.reset_after_fork
        enabled << tracepoint.enabled?
        start(worker)
        wait_until { tracepoint.enabled? && worker.stats[:cpu_sampled] > 1 }
        GC.start
        wait_until { context.stats.fetch(:gc_samples) >= 1 }
        worker.stop
        [enabled, gc_samples.size >= 1, tracepoint.enabled?]
      end
      expect(got).to eq([[true, false], true, false])
    end

    it "goes on when a Ractor was collected, which ends all tracepoints (Ruby bug 19112)" do
      # Where there can be no Ractor beside the hook (Ruby bug 18464), it is turned off as such a Ractor would.
      rules = Datadog::Profiling::RubyRules
      ractors = defined?(Ractor) && rules.ractors_survive_tracepoints?
      lose = ractors ? "10.times { Ractor.new { 1 }.then { |it| it.respond_to?(:value) ? it.value : it.take } }" : "worker.class::Testing._native_gc_tracepoint.disable"
      script = <<~RUBY
        require "standalone"
        context = new_thread_context(new_recorder)
        worker = new_worker(context: context, gc_profiling_enabled: true)
        start(worker)
        #{lose}
        5.times { GC.start && sleep(0.02) }
        before = context.stats.fetch(:gc_samples)
        seen = worker.stats[:cpu_sampled]
        wait_until { worker.stats[:cpu_sampled] > seen + 2 }
        5.times { GC.start && sleep(0.02) }
        print context.stats.fetch(:gc_samples) - before >= 4, worker.failure_exception.inspect
        worker.stop
      RUBY
      expect(run_ruby!(script, options: ["-W0"])).to eq("truenil")
    end

    it "survives GC.stress and compaction" do
      start(worker)
      GC.stress = true
      200.times { +"x" * 10 }
      GC.stress = false
      GC.compact if GC.respond_to?(:compact)
      GC.start
      wait_until { context.stats.fetch(:gc_samples) >= 1 }
      expect(worker.failure_exception).to be_nil
    ensure
      GC.stress = false
    end
  end

  it "is in the profile of a session that asks for it, and in no other" do
    work = -> { 10.times { GC.start } }
    with, = profile_of(gc: true, &work)
    without, = profile_of(&work)
    expect(gc_samples(with)).not_to be_empty
    expect(gc_samples(without)).to be_empty
  end
end
