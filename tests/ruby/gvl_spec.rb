# frozen_string_literal: true

require "spec_helper"

# Time that threads wait for the GVL, and threads that have not had it.
RSpec.describe "waiting for the GVL" do
  supported = Datadog::Profiling::Collectors::ThreadContext._native_gvl_supported?
  let(:recorder) { new_recorder }
  let(:context) { new_thread_context(recorder, gvl_enabled: true) }
  let(:worker) { new_worker(recorder: recorder, context: context, dynamic_sampling_rate_enabled: false) }

  after { worker.stop }

  def waits(samples)
    samples.select { |it| it.labels["state"] == "waiting for gvl" }
  end

  # With what the profiler itself has cost the thread.
  def all_of(thread, profile)
    profile.samples.select { |it| it.labels["thread id"] == thread_id(thread) }
  end

  it "is told by Ruby 3.3 and newer ones" do
    expect(supported).to be(Gem::Version.new(RUBY_VERSION) >= Gem::Version.new("3.3"))
  end

  it "must be true or false" do
    [nil, 0, "true"].each { |it| expect { new_thread_context(recorder, gvl_enabled: it) }.to raise_error(TypeError) }
  end

  it "changes nothing where no worker runs" do
    with_sleeping_thread do |thread|
      3.times { context.class::Testing._native_sample(context, Thread.current) }
      expect(serialize(recorder).of_thread(thread).sum(&:count)).to eq(3)
      expect(serialize(recorder).samples).to eq([])
      expect(context.stats).to include(threads_skipped: 0, gvl_waits: 0)
    end
  end

  it "changes nothing on an older Ruby" do
    skip "this Ruby tells" if supported
    with_sleeping_thread do |thread|
      start(worker)
      wait_until { worker.stats[:cpu_sampled] > 10 }
      worker.stop
      expect(serialize(recorder).of_thread(thread).sum(&:count)).to be >= 10
      expect(context.stats).to include(threads_skipped: 0, gvl_waits: 0)
    end
  end

  context "on this Ruby" do
    before { skip "this Ruby does not tell" unless supported }

    # Lets that many threads compete for two seconds; yields them, the nanoseconds that must be in the profile, and that.
    def with_busy_threads(count)
      stop = false
      threads = Array.new(count) { Thread.new { nil until stop } }
      start(worker)
      context.begin_profile
      begun = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
      sleep(2)
      finished = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
      context.finish_profile
      yield threads, finished - begun, serialize(recorder)
    ensure
      stop = true
      threads&.each(&:join)
    end

    it "is a state of its own, without CPU time" do
      with_busy_threads(3) do |threads, passed, profile|
        threads.each do |thread|
          samples = all_of(thread, profile)
          wall = samples.sum(&:wall)
          expect(wall).to be >= passed
          expect(wall).to be_within(1_000_000).of(all_of(threads.first, profile).sum(&:wall))
          expect(waits(samples).sum(&:cpu)).to eq(0)
          # Each of the three has to wait for the two others.
          expect(waits(samples).sum(&:wall)).to be > wall * 0.4
          expect(waits(samples).map { |it| it.frames.map(&:path) }.flatten.uniq).to include(__FILE__)
          expect((samples - waits(samples)).sum(&:cpu)).to be > 0
        end
      end
      expect(context.stats.fetch(:gvl_waits)).to be >= 6
    end

    it "is not said of threads that wait for something else, nor of a thread alone" do
      with_sleeping_thread do |thread|
        start(worker)
        context.begin_profile
        burn(0.3)
        context.finish_profile
        profile = serialize(recorder)
        expect(waits(profile.of_thread(thread)).sum(&:wall)).to eq(0)
        expect(profile.of_thread(thread).map { |it| it.labels["state"] }.uniq).to include("sleeping")
        # The profiler's threads take their turns.
        expect(waits(profile.of_thread(Thread.current)).sum(&:wall)).to be < 0.25 * profile.of_thread(Thread.current).sum(&:wall)
      end
    end

    it "leaves out threads that do not run, and forgets none of their time" do
      with_sleeping_thread do |thread|
        start(worker)
        context.begin_profile
        begun = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
        wait_until(seconds: 30) { worker.stats[:cpu_sampled] > 30 }
        expect(context.stats.fetch(:threads_skipped)).to be >= 20
        finished = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
        samples = serialize(recorder).of_thread(thread) # which asks for what is missing
        expect(samples.sum(&:count)).to be_between(1, 5)
        expect(samples.sum(&:wall)).to be >= finished - begun
        expect(samples.sum(&:cpu)).to eq(0)
        expect(samples.map { |it| it.labels["state"] }.uniq - ["unknown"]).to eq(["sleeping"])

        wait_until(seconds: 30) { worker.stats[:cpu_sampled] > 60 }
        later = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
        worker.stop
        samples = serialize(recorder).of_thread(thread)
        expect(samples.sum(&:wall)).to be >= later - finished
        expect(serialize(recorder).samples).to eq([])
      end
    end

    it "samples a thread again once it has run" do
      napper = Thread.new { loop { sleep(0.005) } }
      start(worker)
      context.begin_profile
      wait_until(seconds: 30) { worker.stats[:cpu_sampled] > 50 }
      worker.stop
      samples = serialize(recorder).of_thread(napper)
      expect(samples.sum(&:count)).to be > 10
    ensure
      napper&.kill&.join
    end

    it "makes no Ruby object" do
      stop = false
      busy = Array.new(2) { Thread.new { nil until stop } }
      with_sleeping_thread do
        start(worker)
        wait_until(seconds: 30) { worker.stats[:cpu_sampled] > 20 }
        GC.disable
        before = GC.stat(:total_allocated_objects)
        finish = cpu_time + 0.3
        nil while cpu_time < finish
        made = GC.stat(:total_allocated_objects) - before
        expect(made).to be <= 5
      ensure
        GC.enable
        stop = true
        busy.each(&:join)
      end
    end

    it "survives threads that come and go, and forks" do
      start(worker)
      300.times { Array.new(5) { Thread.new { Thread.pass } }.each(&:join) }
      got = in_child do
        worker.reset_after_fork
        start(worker)
        wait_until { worker.stats[:cpu_sampled] > 5 }
        worker.stop
        serialize(recorder).samples.size
      end
      expect(got).to be > 0
      expect(worker.failure_exception).to be_nil
      expect(context.stats.fetch(:threads)).to be <= 20
    end
  end
end
