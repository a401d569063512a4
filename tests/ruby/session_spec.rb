require "spec_helper"
require "stringio"
require "zlib"

RSpec.describe Datadog::Profiling::Session do
  subject(:session) { described_class.new }

  after { session.stop }

  def only_here(seconds)
    burn(seconds)
  end

  describe "from start to stop" do
    it "gives a profile of what ran between, as a gzip file" do
      before = Time.now
      expect(session.start).to be true
      only_here(0.3)
      profile = session.stop
      expect(profile).to be_a(Datadog::Profiling::Profile)
      expect(profile.bytes).to start_with("\x1f\x8b".b)
      expect(profile.bytes.encoding).to eq(Encoding::BINARY)
      expect(profile.start).to be_between(before, profile.finish)
      expect(profile.finish).to be_between(before + 0.3, Time.now)
      expect(profile.duration).to be_within(1e-6).of(profile.finish - profile.start)
      expect(profile.failure).to be_nil

      decoded = decode(profile.bytes)
      expect(decoded.types.map(&:first)).to eq(%w[cpu-samples wall-time cpu-time])
      expect(decoded.total("cpu-samples")).to eq(profile.sample_count)
      expect(decoded.samples.map { |it| it.labels["thread id"] }.uniq.size).to eq(profile.thread_count)
      expect(decoded.samples.flat_map(&:names)).to include("only_here")
      expect(decoded.duration_nanos).to eq((profile.finish.to_r - profile.start.to_r) * 10**9)
    end

    it "leaves out what this Ruby does not bear, and says so in the profile" do
      rules = Datadog::Profiling::RubyRules
      verbose, $VERBOSE = $VERBOSE, nil
      { heap_refused: %w[alloc-samples], allocation_refused: [] }.each do |rule, left|
        original = rules.method(rule)
        rules.define_singleton_method(rule) { |*| "too old for this" }
        begin
          limited = described_class.new(heap: true)
          limited.start
          profile = limited.stop
          expect(profile.failure).to be_a(Datadog::Profiling::Unsupported).and have_attributes(message: "too old for this")
          expect(decode(profile.bytes).types.map(&:first)).to eq(%w[cpu-samples wall-time cpu-time] + left)
        ensure
          limited&.stop
          rules.define_singleton_method(rule, original)
        end
      end
    ensure
      $VERBOSE = verbose
    end

    it "counts allocations, and finds live objects, if asked to", needs: :heap do
      with_heap = described_class.new(heap: true)
      kept = []
      with_heap.start
      20_000.times { |i| i.even? ? kept << "kept #{i}" : Object.new }
      GC.start
      profile = with_heap.stop
      expect(profile.failure).to be_nil
      decoded = decode(profile.bytes)
      expect(decoded.types.map(&:first)).to include("alloc-samples", "heap-live-samples", "heap-live-size")
      expect(decoded.total("alloc-samples")).to be > 20_000
      live = decoded.samples.select { |it| it.labels["allocation class"] == "String" }
      expect(live.sum { |it| it.values.fetch("heap-live-size") }).to be > 10_000 * 15
      expect(Datadog::Profiling::StackRecorder::Testing._native_heap_hook?).to be false

      allocations_only = described_class.new(allocations: true)
      allocations_only.start
      expect(decode(allocations_only.stop.bytes).types.map(&:first)).to eq(%w[cpu-samples wall-time cpu-time alloc-samples])
      expect(kept.size).to eq(10_000)
    ensure
      with_heap&.stop
      allocations_only&.stop
    end

    it "leaves no thread behind, and SIGPROF harmless" do
      threads = Thread.list
      session.start
      session.stop
      expect(Thread.list).to eq(threads)
      10.times { Process.kill(:PROF, Process.pid) }
    end

    it "works again and again, each profile for itself" do
      first = Array.new(3) do |i|
        session.start
        eval("def run_#{i}() burn(0.06) end\nrun_#{i}", binding, __FILE__, __LINE__)
        decode(session.stop.bytes).samples.flat_map(&:names).grep(/\Arun_\d\z/).uniq
      end
      expect(first).to eq([["run_0"], ["run_1"], ["run_2"]])
    end

    it "counts no time before the start, nor between two runs" do
      with_sleeping_thread do |thread|
        2.times do
          sleep(0.2)
          begun = monotonic
          session.start
          sleep(0.1)
          wall = decode(session.stop.bytes).of_thread(thread).sum(&:wall)
          expect(wall).to be_between(0, (monotonic - begun) * 1e9)
        end
      end
    end

    it "holds something even if it was stopped at once" do
      session.start
      profile = session.stop
      expect(decode(profile.bytes).types.size).to eq(3)
      expect(profile.sample_count).to be >= 0
    end
  end

  describe "start" do
    it "is true when it runs already" do
      session.start
      expect(session.start).to be true
      expect(Thread.list.count { |it| it.name.to_s.include?("CpuAndWallTimeWorker") }).to eq(1)
    end

    it "raises what is in the way: a second session" do
      session.start
      other = described_class.new
      expect { quietly { other.start } }.to raise_error(Datadog::Profiling::Unsupported, /another instance/)
      expect(other.stop).to be_nil
      expect(session.stop).to be_a(Datadog::Profiling::Profile)
      expect(other.start).to be true
      expect(other.stop).to be_a(Datadog::Profiling::Profile)
    end

    it "raises what is in the way: a SIGPROF handler of somebody else" do
      doors = Datadog::Profiling::Collectors::CpuAndWallTimeWorker::Testing
      doors._native_install_testing_signal_handler
      theirs = doors._native_sigaction
      expect { quietly { session.start } }.to raise_error(Datadog::Profiling::Unsupported, /SIGPROF/)
      expect(doors._native_sigaction).to eq(theirs)
      expect(session.started?).to be false
      expect(session.stop).to be_nil
      doors._native_remove_testing_signal_handler
      expect(session.start).to be true
    ensure
      doors&._native_remove_testing_signal_handler
    end
  end

  describe "stop" do
    it "is nil when there is nothing to stop" do
      expect(session.stop).to be_nil
      session.start
      expect(session.stop).not_to be_nil
      expect(session.stop).to be_nil
    end

    it "gives what was seen until a failure, and the failure" do
      session.start
      only_here(0.1)
      worker = session.instance_variable_get(:@worker)
      quietly do
        Datadog::Profiling::Collectors::CpuAndWallTimeWorker::Testing._native_delayed_error(worker, "on purpose")
        wait_until { worker.failure_exception }
      end
      profile = session.stop
      expect(profile.failure).to be_a(RuntimeError)
      expect(profile.failure.message).to eq("on purpose")
      expect(decode(profile.bytes).samples.flat_map(&:names)).to include("only_here")
      expect(session.start).to be true
    end

    it "gives what was seen until the program killed the profiler's threads, and says so" do
      session.start
      only_here(0.1)
      Thread.list.select { |it| ours?(it) }.each { |it| it.kill.join }
      profile = session.stop
      expect(profile.failure).to be_a(StandardError)
      expect(profile.failure.message).not_to be_empty
      expect(decode(profile.bytes).samples.flat_map(&:names)).to include("only_here")
      expect(session.start).to be true
    end

    it "gives what was seen until the program raised in the profiler's threads, and says so" do
      session.start
      only_here(0.1)
      quietly do
        Thread.list.select { |it| ours?(it) }.each do |thread|
          thread.report_on_exception = false
          thread.raise(ArgumentError, "on purpose")
        end
        sleep(0.1)
        profile = session.stop
        expect(profile.failure).to be_a(StandardError)
        expect(decode(profile.bytes).samples.flat_map(&:names)).to include("only_here")
      end
      expect(session.start).to be true
    end

    it "works from another thread, and while many threads run" do
      stop = false
      threads = Array.new(8) { Thread.new { Thread.pass until stop } }
      session.start
      profile = Thread.new { session.stop }.value
      expect(profile).to be_a(Datadog::Profiling::Profile)
    ensure
      stop = true
      threads&.each(&:join)
    end

    it "is asked for by many threads, of which one gets the profile" do
      session.start
      results = Array.new(8) { Thread.new { session.stop } }.map(&:value)
      expect(results.compact.size).to eq(1)
    end
  end

  describe "options" do
    it "limit the frames" do
      profile, = profile_of(max_frames: 5) { burn(0.1) }
      expect(profile.samples.map { |it| it.frames.size }.max).to eq(5)
      expect(profile.samples.flat_map { |it| it.frames.map(&:path) }).to include(/\A\d+ frames omitted\z/)
    end

    it "set the interval" do
      few, _, few_raw = profile_of(interval: 0.1) { burn(0.5) }
      many, _, many_raw = profile_of(interval: 0.002) { burn(0.5) }
      main = ->(profile) { profile.of_thread(Thread.current).sum(&:count) }
      # A sample at the end and one or two at the beginning come on top.
      expect(main.call(few)).to be_between(3, few_raw.duration / 0.1 + 4)
      expect(main.call(many)).to be_between(60, many_raw.duration / 0.002 + 4)
      expect(main.call(many) / many_raw.duration).to be > 4 * main.call(few) / few_raw.duration
    end

    it "do without signals" do
      handler = -> { Datadog::Profiling::Collectors::CpuAndWallTimeWorker::Testing._native_sigaction }
      before = handler.call
      profile, = profile_of(no_signals: true) do
        sleep(0.2)
        expect(handler.call).to eq(before)
      end
      expect(profile.of_thread(Thread.current).sum(&:count)).to be > 8
    end

    it "choose the codec" do
      { gzip: "\x1f\x8b".b, lz4: "\x04\x22\x4d\x18".b, zstd: "\x28\xb5\x2f\xfd".b, none: "".b }.each do |codec, magic|
        profile, _, raw = profile_of(codec: codec) { burn(0.03) }
        expect(raw.bytes).to start_with(magic)
        expect(profile.samples).not_to be_empty
      end
    end

    it "are refused when they make no sense" do
      expect { described_class.new(max_frames: 4) }.to raise_error(ArgumentError, /max_frames/)
      expect { described_class.new(max_frames: "many") }.to raise_error(TypeError)
      expect { described_class.new(interval: 0) }.to raise_error(ArgumentError, /interval/)
      expect { described_class.new(interval: 2) }.to raise_error(ArgumentError, /interval/)
      expect { described_class.new(overhead_target_percentage: 0) }.to raise_error(ArgumentError)
      expect { described_class.new(no_signals: 1) }.to raise_error(TypeError)
      expect { described_class.new(codec: :brotli) }.to raise_error(ArgumentError, /codec/)
    end
  end

  describe "stats" do
    it "say what was done" do
      session.start
      burn(0.1)
      stats = session.stats
      expect(stats[:cpu_sampled]).to be > 3
      expect(stats[:threads]).to be >= 3
      expect(stats[:recorded_samples]).to be >= stats[:cpu_sampled]
      expect(stats.keys).to all(be_a(Symbol))
    end
  end

  describe "reset_after_fork" do
    it "does nothing in the process that started it" do
      session.start
      expect(session.reset_after_fork).to be false
      expect(session.started?).to be true
    end

    it "does nothing in the child of a process that did not start it" do
      expect(in_child { [session.reset_after_fork, session.started?, session.stop] }).to eq([false, false, nil])
    end
  end

  def quietly
    before = $stderr
    $stderr = StringIO.new
    yield
  ensure
    $stderr = before
  end
end
