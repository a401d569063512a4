require "spec_helper"
require "zlib"

RSpec.describe Datadog::Profiling::StackRecorder do
  let(:recorder) { new_recorder }

  def add(to = recorder, thread: Thread.current, **options)
    record_stack(to, thread, **options)
  end

  def active_slot
    described_class::Testing._native_active_slot(recorder)
  end

  describe "value types" do
    {
      {} => %w[cpu-samples wall-time cpu-time],
      { cpu_time_enabled: false } => %w[cpu-samples wall-time],
      { alloc_samples_enabled: true } => %w[cpu-samples wall-time cpu-time alloc-samples],
      { timeline_enabled: true } => %w[cpu-samples wall-time cpu-time timeline],
      { cpu_time_enabled: false, timeline_enabled: true } => %w[cpu-samples wall-time timeline],
    }.each do |options, types|
      it "are #{types.join(", ")} with #{options.empty? ? "CPU and wall time" : options}" do
        units = { "cpu-samples" => "count", "alloc-samples" => "count" }
        expected = types.map { |it| [it, units.fetch(it, "nanoseconds")] }
        expect(serialize(new_recorder(**options)).types).to eq(expected)
      end
    end

    it "take the values by name, whatever the order" do
      add(values: { "wall-time" => 3, "cpu-time" => 1, "cpu-samples" => 2 }, labels: { "state" => "x" })
      expect(serialize(recorder).samples.map(&:values)).to eq(["cpu-samples" => 2, "wall-time" => 3, "cpu-time" => 1])
    end

    it "leave out what is switched off" do
      without_cpu = new_recorder(cpu_time_enabled: false)
      add(without_cpu, values: { "cpu-time" => 77, "wall-time" => 5 })
      expect(serialize(without_cpu).samples.map(&:values)).to eq(["cpu-samples" => 1, "wall-time" => 5])
    end

    it "keep 64 bits" do
      biggest = 2**63 - 1
      add(values: { "wall-time" => biggest, "cpu-time" => 1 })
      expect(serialize(recorder).samples.first.wall).to eq(biggest)
    end
  end

  describe "switches" do
    it "must be there, all of them" do
      expect { described_class.new }.to raise_error(ArgumentError, /missing keyword/)
    end

    it "must be true or false" do
      %i[cpu_time_enabled alloc_samples_enabled heap_samples_enabled heap_size_enabled timeline_enabled].each do |option|
        [nil, 1, "true", :true].each do |value| # rubocop:disable Lint/BooleanSymbol
          expect { new_recorder(option => value) }.to raise_error(TypeError)
        end
      end
    end

    it "must sample every n-th object with n above 0" do
      [0, -1].each { |it| expect { new_recorder(heap_sample_every: it) }.to raise_error(ArgumentError) }
      expect { new_recorder(heap_sample_every: "1") }.to raise_error(TypeError)
    end
  end

  describe "serialize" do
    it "gives start and finish in UTC, and bytes" do
      before = Time.now
      recorder
      add
      start, finish, bytes = recorder.serialize
      expect([start, finish]).to all(be_a(Time).and(be_utc))
      expect(before..start).to be_cover(start)
      expect(start).to be_between(before, finish)
      expect(finish).to be_between(start, Time.now)
      expect(bytes.encoding).to eq(Encoding::BINARY)
      expect(bytes).not_to be_empty
    end

    it "writes the times into the profile, to the nanosecond" do
      start, finish, bytes = recorder.serialize(codec: :none)
      profile = decode(bytes)
      expect(profile.time_nanos).to eq(start.to_i * 10**9 + start.nsec)
      expect(profile.duration_nanos).to eq((finish.to_r - start.to_r) * 10**9)
    end

    it "gives an empty but valid profile when nothing was recorded" do
      profile = serialize(recorder)
      expect(profile.samples).to eq([])
      expect(profile.types.size).to eq(3)
    end

    it "empties the recorder" do
      add
      expect(serialize(recorder).samples.size).to eq(1)
      expect(serialize(recorder).samples).to eq([])
    end

    it "starts each profile where the one before ended, or later" do
      times = Array.new(5) do
        add
        recorder.serialize.first(2)
      end
      times.each_cons(2) { |(_, finish), (start, _)| expect(start).to be >= finish }
      times.each { |start, finish| expect(finish).to be >= start }
    end

    it "keeps its duration when the clock is set, and the next profile begins by the new time" do
      [3600, -3600].each do |seconds|
        begun = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        recorder.serialize
        expect(described_class::Testing._native_set_clock_back(recorder, seconds)).to be(true)
        add
        sleep 0.05
        start, finish, bytes = recorder.serialize
        passed = Process.clock_gettime(Process::CLOCK_MONOTONIC) - begun
        expect(finish - start).to be_between(0.05, passed)
        expect(decode(bytes).duration_nanos / 1e9).to be_between(0.05, passed)
        expect(recorder.serialize.first).to be_within(passed + 5).of(Time.now)
      end
    end

    it "uses the other slot each time" do
      expect(Array.new(4) { active_slot.tap { recorder.serialize } }).to eq([1, 2, 1, 2])
    end

    it "adds up equal samples, and keeps others apart" do
      with_sleeping_thread do |thread|
        3.times { add(thread: thread, values: { "wall-time" => 5 }) }
        add(thread: thread, values: { "wall-time" => 1 }, labels: { "other" => "label" })
        samples = serialize(recorder).samples
        expect(samples.map { |it| [it.count, it.wall, it.labels["other"]] }).to contain_exactly([3, 15, nil], [1, 1, "label"])
      end
    end

    describe "codecs" do
      let(:plain) do
        add(labels: { "text" => "abc" * 50_000 })
        recorder.serialize!(codec: :none)
      end

      def encode(codec)
        add(labels: { "text" => "abc" * 50_000 })
        recorder.serialize!(codec: codec)
      end

      it "gzip is what every pprof tool reads, without a name or a time in its header" do
        bytes = encode(:gzip)
        expect(bytes.byteslice(0, 4).bytes).to eq([0x1f, 0x8b, 8, 0])
        expect(bytes.bytesize).to be < 10_000
        expect(decode(bytes).samples.first.labels["text"]).to eq("abc" * 50_000)
      end

      it "none is the message itself" do
        expect(decode(plain).samples.first.labels["text"]).to eq("abc" * 50_000)
      end

      it "gzip and none say the same to a reader that shares no code with ours" do
        with_sleeping_thread(-> { eval("sleep", binding, "größe.rb", 3) }) do |thread|
          %i[gzip none].each do |codec|
            5.times { |i| add(thread: thread, labels: { "text" => "日本 #{i}" }, numeric_labels: { "number" => -i - 1 }) }
            bytes = recorder.serialize!(codec: codec)
            ours = decode(bytes)
            theirs = decode_independently(bytes)
            expect(theirs.types).to eq(ours.types)
            expect(theirs.samples).to eq(ours.samples)
            expect([theirs.time_nanos, theirs.duration_nanos]).to eq([ours.time_nanos, ours.duration_nanos])
            expect(ours.samples.map { |it| it.labels["number"] }).to match_array([-1, -2, -3, -4, -5])
          end
        end
      end

      it "lz4 is a frame" do
        bytes = encode(:lz4)
        expect(bytes.byteslice(0, 4).unpack1("V")).to eq(0x184D2204)
        expect(bytes.bytesize).to be < 10_000
        expect(decode(bytes).samples.first.labels["text"]).to eq("abc" * 50_000)
      end

      it "zstd is a frame" do
        bytes = encode(:zstd)
        expect(bytes.byteslice(0, 4).unpack1("V")).to eq(0xFD2FB528)
        expect(bytes.bytesize).to be < 10_000
        expect(decode(bytes).samples.first.labels["text"]).to eq("abc" * 50_000)
      end

      it "others are refused with their names, and nothing is lost" do
        add
        [:brotli, :"", :GZIP].each { |it| expect { recorder.serialize(codec: it) }.to raise_error(ArgumentError, /codec/) }
        ["gzip", nil, 1].each { |it| expect { recorder.serialize(codec: it) }.to raise_error(TypeError) }
        expect(serialize(recorder).samples.size).to eq(1)
      end
    end

    describe "while others sample" do
      it "loses no sample and counts none twice" do
        stop = false
        added = 0
        sampler = Thread.new do
          until stop
            add
            added += 1
            Thread.pass
          end
        end
        counted = rounds = 0
        # A busy machine lets the sampler run seldom.
        while (rounds += 1) <= 300 || (added <= 100 && rounds < 20_000)
          counted += serialize(recorder).total("cpu-samples")
          Thread.pass
        end
        stop = true
        sampler.join
        counted += serialize(recorder).total("cpu-samples")
        expect(added).to be > 100
        expect(counted).to eq(added)
      ensure
        stop = true
        sampler&.join
      end

      it "loses no sample when several threads serialize" do
        counted = Queue.new
        stop = false
        serializers = Array.new(4) do
          Thread.new { counted << serialize(recorder).total("cpu-samples") until stop }
        end
        2_000.times { add }
        stop = true
        serializers.each(&:join)
        counted << serialize(recorder).total("cpu-samples")
        expect(Array.new(counted.size) { counted.pop }.sum).to eq(2_000)
      ensure
        stop = true
        serializers&.each(&:join)
      end

      it "is not held up: other threads run while a big profile is encoded" do
        30_000.times { |i| add(labels: { "text" => "a rather long and different text, #{i}" * 4 }) }
        ticks = 0
        stop = false
        ticker = Thread.new { ticks += 1 and sleep(0.0005) until stop }
        wait_until { ticks > 2 }
        before = ticks
        started = monotonic
        recorder.serialize!(codec: :gzip)
        took = monotonic - started
        expect(ticks - before).to be > took / 0.0005 / 20
        expect(took).to be > 0.01
      ensure
        stop = true
        ticker&.join
      end
    end

    it "survives a thread that is killed, or interrupted, in the middle of it" do
      30.times do |i|
        200.times { |n| add(labels: { "text" => "#{i} #{n} #{"x" * 500}" }) }
        thread = Thread.new do
          Thread.current.report_on_exception = false
          loop { recorder.serialize }
        end
        sleep(rand * 0.003)
        i.even? ? thread.kill : thread.raise(ArgumentError, "on purpose")
        thread.join rescue nil # rubocop:disable Style/RescueModifier
        serialize(recorder)
        add
        expect(serialize(recorder).total("cpu-samples")).to eq(1)
      end
    end
  end

  describe "serialize!" do
    it "gives the bytes alone" do
      expect(recorder.serialize!).to be_a(String)
    end
  end

  describe "after a fork" do
    it "holds none of the parent's samples once reset" do
      10.times { add }
      expect(in_child { described_class._native_reset_after_fork(recorder) && serialize(recorder).samples.size }).to eq(0)
      expect(serialize(recorder).total("cpu-samples")).to eq(10)
    end

    it "starts its profile now" do
      sleep(0.01)
      start, forked_at = in_child do
        now = Time.now
        described_class._native_reset_after_fork(recorder)
        [recorder.serialize.first, now]
      end
      expect(start).to be >= forked_at
    end

    it "can be used at once in the child" do
      counts = in_child do
        described_class._native_reset_after_fork(recorder)
        Array.new(3) do
          7.times { add }
          serialize(recorder).total("cpu-samples")
        end
      end
      expect(counts).to eq([7, 7, 7])
    end

    it "is sound whatever another thread was doing when the fork came" do
      stop = false
      workers = [
        Thread.new { add(labels: { "n" => rand(1_000).to_s }) && Thread.pass until stop },
        Thread.new { recorder.serialize(codec: :gzip) until stop },
      ]
      (SOAK ? 500 : 60).times do
        count = in_child(seconds: 10) do
          described_class._native_reset_after_fork(recorder)
          5.times { add }
          serialize(recorder).total("cpu-samples")
        end
        expect(count).to eq(5)
      end
      expect(workers).to all(be_alive)
    ensure
      stop = true
      workers&.each(&:join)
    end

    it "does not need to be told when only the child's recorder is torn" do
      described_class::Testing._native_pretend_torn_by_fork(recorder)
      count = in_child do
        described_class._native_reset_after_fork(recorder)
        3.times { add }
        counts = Array.new(3) { serialize(recorder).total("cpu-samples") }
        GC.start
        counts
      end
      expect(count).to eq([3, 0, 0])
      expect(in_child { 3.times { add } && serialize(recorder).total("cpu-samples") }).to eq(3)
    end
  end

  describe "bad labels" do
    it "are ArgumentErrors that name them, and the profile stays whole" do
      add
      expect { add(numeric_labels: { "local root span id" => 0 }) }.to raise_error(ArgumentError, /local root span id/)
      expect { add(labels: { "local root span id" => "1" }) }.to raise_error(ArgumentError, /local root span id/)
      expect { add(numeric_labels: { "end_timestamp_ns" => 1 }) }.to raise_error(ArgumentError, /end_timestamp_ns/)
      add
      expect(serialize(recorder).total("cpu-samples")).to eq(2)
    end
  end

  describe "an object that was never initialized" do
    it "raises or answers, and does not crash" do
      empty = described_class.allocate
      [
        -> { described_class._native_reset_after_fork(empty) },
        -> { add(empty) },
        -> { described_class._native_serialize(empty, :none) },
        -> { described_class._native_stats(empty) },
        -> { empty.inspect },
      ].each do |action|
        action.call
      rescue StandardError => e
        expect(e.message).not_to be_empty
      end
      GC.start
      expect(serialize(recorder).samples).to eq([])
    end
  end

  it "refuses objects of other classes" do
    [nil, 1, Object.new, Class].each do |it|
      expect { add(it) }.to raise_error(TypeError)
      expect { described_class._native_reset_after_fork(it) }.to raise_error(TypeError)
      expect { described_class._native_stats(it) }.to raise_error(TypeError)
    end
  end

  it "gives its memory back" do
    script = <<~'RUBY'
      require "standalone"
      make = lambda do
        200.times do
          recorder = new_recorder
          50.times do |i|
            record_stack(recorder, labels: { "n" => "#{i} #{"x" * 1000}" })
          end
          recorder.serialize!(codec: :none)
        end
        GC.start
      end
      rss = -> { File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i }
      3.times { make.call }
      before = rss.call
      10.times { make.call }
      print rss.call - before
    RUBY
    expect(run_ruby!(script).to_i).to be < 8_000 # kB; each recorder that stays would cost 100 or more, so 2 000 of them 200 000
  end
end
