require "spec_helper"

RSpec.describe Datadog::Profiling::Collectors::DynamicSamplingRate do
  let(:doors) { described_class::Testing }
  let(:now) { 1_000_000_000_000 }
  let(:second) { 1_000_000_000 }

  describe "after a sample" do
    # So much time must pass that the sample was just its share of it.
    {
      [2.0, 1_000_000] => 49_000_000,
      [1.0, 1_000_000] => 99_000_000,
      [50.0, 1_000_000] => 1_000_000,
      [25.0, 500] => 1_500,
      [99.0, 99_000] => 1_000,
      [100.0, 1_000_000] => 0,
      [2.0, 0] => 0,
      [0.5, 1] => 199,
    }.each do |(target, took), gap|
      it "that took #{took} ns, the next one at #{target} % is due in #{gap} ns" do
        expect(doors._native_after_sample(target, now, took)).to be_within(1).of(now + gap)
      end
    end

    it "waits for 10 s at most, however long it took" do
      [1 * 10**9, 3600 * 10**9, 2**62].each do |took|
        expect(doors._native_after_sample(2.0, now, took)).to eq(now + 10 * second)
      end
      longest_below = (10 * second / 49.0).floor - 1
      expect(doors._native_after_sample(2.0, now, longest_below)).to be_between(now + 10 * second - 200, now + 10 * second - 1)
    end

    it "is due at once when the clock says that it took no time or less" do
      expect(doors._native_after_sample(2.0, now, -5)).to be <= now
    end

    it "keeps the cost of many samples at the target" do
      random = Random.new(1)
      [0.5, 2.0, 10.0].each do |target|
        time = now
        spent = 0
        1_000.times do
          took = random.rand(10_000..2_000_000)
          time += took
          spent += took
          time = doors._native_after_sample(target, time, took)
        end
        expect(100.0 * spent / (time - now)).to be_within(target * 0.01).of(target)
      end
    end
  end

  describe "when asked whether a sample is due" do
    it "says yes from the very nanosecond on" do
      expect(doors._native_should_sample(2.0, now, now - 1)).to be false
      expect(doors._native_should_sample(2.0, now, now)).to be true
      expect(doors._native_should_sample(2.0, now, now + 1)).to be true
    end

    it "says yes before any sample" do
      expect(doors._native_should_sample(2.0, 0, now)).to be true
    end
  end

  describe "when asked how long to sleep" do
    it "says what is left" do
      expect(doors._native_get_sleep(2.0, now + 12_345, now)).to eq(12_345)
    end

    it "says 100 ms at most, so that the worker stays responsive" do
      expect(doors._native_get_sleep(2.0, now + 100_000_001, now)).to eq(100_000_000)
      expect(doors._native_get_sleep(2.0, now + 10 * second, now)).to eq(100_000_000)
      expect(doors._native_get_sleep(2.0, now + 99_999_999, now)).to eq(99_999_999)
    end

    it "says nothing when a sample is due already" do
      expect(doors._native_get_sleep(2.0, now, now)).to eq(0)
      expect(doors._native_get_sleep(2.0, now - second, now)).to eq(0)
      expect(doors._native_get_sleep(2.0, 0, now)).to eq(0)
    end
  end
end
