require "spec_helper"

RSpec.describe Datadog::Profiling::Collectors::DiscreteDynamicSampler do
  let(:second) { 1_000_000_000 }
  let(:sampler) { described_class::Testing::Sampler.new(@now) }

  before { @now = 10_000 * second }

  def use_target(percentage)
    sampler._native_set_overhead_target_percentage(percentage, @now)
  end

  # Events that come `rate` times a second for `seconds` of the program's own time, each sample taking `cost`
  # nanoseconds (or what the block says). What happened: events, samples, their weights, the time that samples took.
  Load = Struct.new(:events, :samples, :weight, :sampling_ns, :total_ns) do
    def overhead
      100.0 * sampling_ns / total_ns
    end

    def ratio
      samples.to_f / events
    end
  end

  def simulate(rate:, seconds:, cost: nil)
    load = Load.new(0, 0, 0, 0, 0)
    started = @now
    gap = 1e9 / rate
    (rate * seconds).round.times do
      @now += gap
      load.events += 1
      next unless sampler._native_should_sample(@now.to_i)
      took = cost || yield
      @now += took
      load.samples += 1
      load.sampling_ns += took
      load.weight += sampler._native_after_sample(@now.to_i)
    end
    load.total_ns = @now - started
    load
  end

  # One that costs nothing.
  def run_event(at)
    sampler._native_after_sample(at) if sampler._native_should_sample(at)
  end

  # A load for which one event of `interval` is just what the target allows, 2 % of the time, up to when that is known.
  def learn(interval:)
    # a / (events × cost × (1 − a)) = 1 / interval
    cost = (interval * 0.02 / 0.98 * 1_000_000).floor
    simulate(rate: 1_000, seconds: 60, cost: cost)
    simulate(rate: 1_000, seconds: 0.001, cost: cost) until snapshot[:events_since_last_readjustment].zero?
    @now = @now.to_i
    expect(snapshot[:sampling_interval]).to be_within(1).of(interval)
    snapshot[:sampling_interval]
  end

  def snapshot
    sampler._native_state_snapshot
  end

  before { use_target(2.0) }

  describe "at the start" do
    it "samples each event, for itself" do
      weights = Array.new(500) { sampler._native_after_sample(@now) if sampler._native_should_sample(@now) }
      expect(weights).to all(eq(1))
    end

    it "samples each n-th event on average, and no gap is more than half of n away from it" do
      interval = learn(interval: 50)
      samples = Array.new(50_000) do |i|
        [i, sampler._native_after_sample(@now)] if sampler._native_should_sample(@now)
      end.compact
      gaps = samples.each_cons(2).map { |(before, _), (at, _)| at - before }
      expect(samples.drop(1).map(&:last)).to eq(gaps)
      expect(gaps.minmax).to eq([interval - interval / 2, interval + interval / 2])
      expect(gaps.sum.to_f / gaps.size).to be_within(2).of(interval)
    end

    it "meets all of what comes in step with it" do
      learn(interval: 50)
      weights = Array.new(10, 0)
      200_000.times do |i|
        weights[i % 10] += sampler._native_after_sample(@now) if sampler._native_should_sample(@now)
      end
      expect(weights).to all(be_within(20_000 * 0.25).of(20_000))
    end

    it "knows nothing yet" do
      expect(snapshot).to eq(
        target_overhead: 2.0, target_overhead_adjustment: 0.0, events_per_sec: 0.0, sampling_time_ns: 0.0,
        sampling_interval: 1, sampling_probability: 100.0, events_since_last_readjustment: 0,
        samples_since_last_readjustment: 0, max_sampling_time_ns: 20_000_000, sampling_time_clamps: 0
      )
    end

    it "forgets all when it is reset, or gets another target" do
      simulate(rate: 1_000, seconds: 10, cost: 1_000_000)
      expect(snapshot[:events_per_sec]).to be > 0
      sampler._native_reset(@now.to_i)
      expect(snapshot).to include(events_per_sec: 0.0, sampling_interval: 1, target_overhead: 2.0)
      simulate(rate: 1_000, seconds: 10, cost: 1_000_000)
      use_target(3.0)
      expect(snapshot).to include(events_per_sec: 0.0, sampling_interval: 1, target_overhead: 3.0)
    end

    it "takes a target above 0 and up to 100 percent" do
      [0, -1, 100.1, Float::NAN, Float::INFINITY].each { |it| expect { use_target(it) }.to raise_error(ArgumentError) }
      expect { use_target("2") }.to raise_error(TypeError)
      [0.001, 100].each { |it| expect { use_target(it) }.not_to raise_error }
    end
  end

  describe "under a load" do
    it "so low that all events fit into the target, samples all of them" do
      simulate(rate: 10, seconds: 20, cost: 100_000) # 1 ms each second: 0.1 %
      expect(simulate(rate: 10, seconds: 60, cost: 100_000).ratio).to eq(1)
      expect(snapshot).to include(sampling_interval: 1, sampling_probability: 100.0)
    end

    # a / (events × cost × (1 − a)) of the events can be sampled in the share a of the time.
    {
      "medium" => [1_000, 100_000],
      "heavy" => [100_000, 10_000],
      "very heavy" => [400_000, 50_000],
    }.each do |name, (rate, cost)|
      it "that is #{name}, keeps to the target" do
        [1.0, 2.0, 5.0].each do |target|
          use_target(target)
          simulate(rate: rate, seconds: 3, cost: cost)
          later = simulate(rate: rate, seconds: 4, cost: cost)
          expect(later.overhead).to be_within(target * 0.15).of(target)
          share = target / 100.0
          expect(later.ratio).to be_within(share * 1e9 / (rate * cost * (1 - share)) * 0.2).of(share * 1e9 / (rate * cost * (1 - share)))
        end
      end
    end

    it "loses no event: the weights are all of them" do
      load = simulate(rate: 5_000, seconds: 20, cost: 80_000)
      later = 1
      later += 1 until sampler._native_should_sample(@now.to_i)
      expect(load.weight + sampler._native_after_sample(@now.to_i)).to eq(load.events + later)
    end

    it "samples more with a higher target" do
      counts = [0.5, 1.0, 2.0, 10.0].map do |target|
        use_target(target)
        simulate(rate: 20_000, seconds: 6, cost: 100_000).samples
      end
      expect(counts).to eq(counts.sort.uniq)
    end

    it "that gets cheaper or dearer, follows" do
      simulate(rate: 10_000, seconds: 8, cost: 100_000)
      before = snapshot[:sampling_interval]
      simulate(rate: 10_000, seconds: 8, cost: 10_000)
      cheap = snapshot[:sampling_interval]
      expect(cheap).to be_within(before * 0.03).of(before / 10.0)
      simulate(rate: 10_000, seconds: 12, cost: 100_000)
      expect(snapshot[:sampling_interval]).to be_within(before * 0.1).of(before)
    end

    it "that rises at once, spends little above the target, and less afterwards" do
      simulate(rate: 100, seconds: 20, cost: 100_000)
      expect(snapshot[:sampling_interval]).to eq(1)
      spike = simulate(rate: 50_000, seconds: 3, cost: 100_000)
      expect(spike.overhead).to be < 4 * 2.0
      expect(simulate(rate: 50_000, seconds: 5, cost: 100_000).overhead).to be_within(0.5).of(2.0)
    end
  end

  describe "when samples cost more than there is to spend" do
    it "goes down to none, and comes back when time has passed" do
      simulate(rate: 100, seconds: 2, cost: 500_000_000)
      intervals = Array.new(60) do
        simulate(rate: 100, seconds: 1, cost: 100_000)
        snapshot[:sampling_interval]
      end
      expect(intervals.last).to be_between(1, 2)
    end

    it "says none by an interval of 0, and a negative adjustment that fades" do
      sampler._native_should_sample(@now)
      @now += second
      sampler._native_after_sample(@now)
      expect(snapshot).to include(sampling_interval: 0, sampling_probability: 0.0, target_overhead_adjustment: -2.0)
      adjustments = Array.new(5) do
        @now += second
        run_event(@now)
        snapshot[:target_overhead_adjustment]
      end
      expected = (1..5).map { |i| -2.0 * 0.4**i }
      adjustments.zip(expected) { |got, it| expect(got).to be_within(1e-9).of(it) }
      expect(snapshot[:sampling_interval]).to be >= 1
    end

    it "after a hiccup of 1000 s samples at least once a second again" do
      simulate(rate: 1_000, seconds: 10, cost: 1_000)
      once = false
      simulate(rate: 1_000, seconds: 2) do
        (once ? 1_000 : 1_000 * second).tap { once = true }
      end
      expect(snapshot[:sampling_time_clamps]).to eq(1)
      expect(snapshot[:sampling_time_ns]).to be <= snapshot[:max_sampling_time_ns]
      expect(simulate(rate: 1_000, seconds: 10, cost: 1_000).samples).to be >= 10
    end
  end

  describe "readjusting" do
    it "comes after a second, by events that are not sampled too" do
      learn(interval: 50)
      events = 1
      events += 1 until sampler._native_should_sample(@now)
      sampler._native_after_sample(@now)
      rate = snapshot[:events_per_sec]
      10.times { expect(sampler._native_should_sample(@now + second - 1)).to be false }
      expect(snapshot).to include(
        events_since_last_readjustment: events + 10, samples_since_last_readjustment: 1, events_per_sec: rate
      )
      expect(sampler._native_should_sample(@now + second)).to be false
      expect(snapshot).to include(events_since_last_readjustment: 0, samples_since_last_readjustment: 0)
      expect(snapshot[:events_per_sec]).to be_within(1e-6).of(0.6 * (events + 11) + 0.4 * rate)
    end

    it "comes after a hundred samples" do
      99.times { simulate_sample(1_000) }
      expect(snapshot[:samples_since_last_readjustment]).to eq(99)
      simulate_sample(1_000)
      expect(snapshot).to include(samples_since_last_readjustment: 0, sampling_time_ns: 1_000.0)
    end

    def simulate_sample(cost)
      @now += 1_000 until sampler._native_should_sample(@now)
      @now += cost
      sampler._native_after_sample(@now)
    end

    it "takes what it sees first as it is, and later 0.6 of the newest second" do
      10.times { |i| run_event(@now + second * (i + 1) / 10) }
      expect(snapshot[:events_per_sec]).to be_within(1e-6).of(10)
      @now += second
      20.times { |i| run_event(@now + second * (i + 1) / 20) }
      expect(snapshot[:events_per_sec]).to be_within(1e-6).of(0.6 * 20 + 0.4 * 10)
    end

    it "bears clocks that stand still or go back" do
      1_000.times { run_event(@now) }
      1_000.times { |i| run_event(@now - i) }
      expect(snapshot[:sampling_interval]).to be >= 1
      expect(snapshot.values.grep(Float)).to all(be_finite)
    end
  end
end
