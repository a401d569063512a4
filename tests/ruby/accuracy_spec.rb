require "spec_helper"

# Numbers that a reader of the profile relies on. What the right number is comes from the system's own clocks.
RSpec.describe "accuracy" do
  def share(profile, name, type = "cpu-time")
    with_it, without = profile.samples.partition { |it| it.names.include?(name) }
    total = [with_it, without].flatten.sum { |it| it.values[type] }
    with_it.sum { |it| it.values[type] }.to_f / total
  end

  def own_cpu(profile, name)
    profile.samples.select { |it| it.names.include?(name) }.sum(&:cpu)
  end

  def measured
    before = cpu_time
    yield
    cpu_time - before
  end

  def first_method(seconds)
    burn(seconds)
  end

  def second_method(seconds)
    burn(seconds)
  end

  def third_method(seconds)
    burn(seconds)
  end

  describe "of one busy thread" do
    it "is 90 samples per second and more" do
      seconds = SOAK ? 10 : 2
      profile, used, raw = profile_of do
        before = monotonic
        used = measured { burn(seconds) }
        @busy = used / (monotonic - before)
        used
      end
      samples = profile.of_thread(Thread.current).select { |it| it.names.include?("burn") }
      # Where other programs take the CPU away, only the time on the CPU can be asked for.
      per_second = samples.sum(&:count) / (@busy > 0.95 ? raw.duration : used)
      expect(per_second).to be >= 90
    end

    it "is the thread's CPU time, as the system counts it" do
      profile, used = profile_of { measured { burn(1) } }
      expect(own_cpu(profile, "burn") / 1e9).to be_within(0.05 * used).of(used)
      expect(profile.of_thread(Thread.current).sum(&:cpu) / 1e9).to be_within(0.05 * used).of(used)
    end

    it "is each method's share of the CPU time" do
      profile, used = profile_of do
        Array.new(3) { 0.0 }.tap do |used|
          10.times do
            used[0] += measured { first_method(0.060) }
            used[1] += measured { second_method(0.030) }
            used[2] += measured { third_method(0.010) }
          end
        end
      end
      %w[first_method second_method third_method].zip(used) do |name, seconds|
        expect(100 * share(profile, name)).to be_within(5).of(100 * seconds / used.sum)
      end
    end

    it "is each method's share too when their turns are much shorter than the interval" do
      profile, used = profile_of do
        [0.0, 0.0].tap do |used|
          2_400.times do # so many that chance alone moves a share by 2 points
            used[0] += measured { first_method(0.0015) }
            used[1] += measured { second_method(0.0005) }
          end
        end
      end
      first = own_cpu(profile, "first_method").to_f
      second = own_cpu(profile, "second_method").to_f
      expect(100 * first / (first + second)).to be_within(8).of(100 * used[0] / used.sum)
    end

    it "is met everywhere in work that keeps time with the profiler" do
      # 10 ms of work with two halves, in step with the interval: a profiler without some jitter would see one half only.
      profile, used = profile_of do
        [0.0, 0.0].tap do |used|
          150.times do
            used[0] += measured { first_method(0.005) }
            used[1] += measured { second_method(0.005) }
          end
        end
      end
      first = own_cpu(profile, "first_method").to_f
      second = own_cpu(profile, "second_method").to_f
      expect(first + second).to be > 0.8e9 * used.sum
      expect([first, second].min / (first + second)).to be > 0.1
    end
  end

  describe "of several threads" do
    it "is each thread's CPU time" do
      profile, used = profile_of do
        [0.2, 0.4, 0.6].map { |seconds| Thread.new { [thread_id(Thread.current), measured { burn(seconds) }].tap { sleep(0.05) } } }.map(&:value)
      end
      used.each do |id, seconds|
        got = profile.samples.select { |it| it.labels["thread id"] == id && !it.overhead? }.sum(&:cpu) / 1e9
        expect(got).to be_within(0.05).of(seconds)
      end
    end

    it "is no CPU time for threads that wait for a busy one" do
      joins = 4
      profile, = profile_of do
        busy = Thread.new { burn(1) }
        Array.new(joins) { Thread.new { busy.join } }.each(&:join)
      end
      total = profile.total("cpu-time")
      joined = profile.samples.select { |it| it.names.first == "join" }
      expect(joined.sum(&:wall)).to be > joins * 0.8e9
      expect(joined.sum(&:cpu)).to be < 0.02 * total
      expect(share(profile, "burn")).to be > 0.9
    end

    it "is wall time that adds up to the duration for each thread that was there all the time" do
      sleepers = Array.new(3) { Thread.new { sleep } }
      stop = false
      busy = Thread.new { nil until stop }
      wait_until { sleepers.all? { |it| it.status == "sleep" } }
      profile, _, raw = profile_of { sleep(1) }
      [*sleepers, busy, Thread.current].each do |thread|
        # With the overhead, which is a part of the time of whoever it held up.
        wall = profile.samples.select { |it| it.labels["thread id"] == thread_id(thread) }.sum(&:wall) / 1e9
        expect(wall).to be_within(0.05 * raw.duration).of(raw.duration)
      end
    ensure
      stop = true
      sleepers&.each(&:kill)
      busy&.join
    end

    it "is the CPU time of the whole process" do
      profile, used = profile_of do
        before = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
        Array.new(3) { |i| Thread.new { burn(0.15 * (i + 1)) || sleep(0.05) } }.each(&:join)
        Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - before
      end
      expect(profile.total("cpu-time") / 1e9).to be_within(0.06 * used).of(used)
    end
  end

  describe "of threads that sleep" do
    it "is wall time without CPU time, in the method that sleeps" do
      profile, = profile_of { sleep(0.5) }
      asleep = profile.of_thread(Thread.current).select { |it| it.names.first == "sleep" }
      expect(asleep.sum(&:wall)).to be > 0.4e9
      expect(asleep.sum(&:cpu)).to be < 0.05e9
    end

    it "is there even when nobody runs" do
      profile, = profile_of { sleep(0.2) }
      expect(profile.of_thread(Thread.current).sum(&:count)).to be >= 8
    end

    it "stands where they wait: queues, mutexes, pipes, processes" do
      mutex = Mutex.new
      mutex.lock
      reader, writer = IO.pipe
      threads = {
        "pop" => Thread.new { Queue.new.pop }, "lock" => Thread.new { mutex.lock }, "read" => Thread.new { reader.read(1) },
        "wait" => Thread.new { Process.wait(spawn("sleep", "1")) }, "select" => Thread.new { IO.select([reader]) },
      }
      profile, = profile_of { sleep(0.4) }
      threads.each do |name, thread|
        innermost = profile.of_thread(thread).select { |it| it.names.first == name }
        expect(innermost.sum(&:wall)).to be > 0.3e9
      end
    ensure
      mutex&.unlock
      writer&.write("x")
      threads&.each_value(&:kill)
      threads&.each_value(&:join)
    end
  end

  describe "of the garbage collector and of code in C" do
    it "is CPU time of the method that caused it" do
      profile, used = profile_of { measured { collect_garbage } }
      expect(own_cpu(profile, "collect_garbage") / 1e9).to be_within(0.1 * used + 0.03).of(used)
    end

    it "is CPU time of the C function and of its caller's line" do
      profile, used = profile_of { measured { sort_in_c } }
      expect(own_cpu(profile, "sort_in_c") / 1e9).to be_within(0.1 * used + 0.03).of(used)
      expect(share(profile, "sort_by")).to be > 0.4
    end

    def collect_garbage
      60.times { GC.start }
    end

    def sort_in_c
      12.times { Array.new(60_000) { |i| (i * 7919) % 60_013 }.sort_by { |it| -it } }
    end
  end

  describe "of what the profiler costs" do
    it "is shown, and small" do
      profile, _, raw = profile_of { burn(1) }
      overhead = profile.samples.select(&:overhead?).sum(&:cpu) / 1e9
      expect(overhead).to be > 0
      expect(overhead).to be < 0.03 * raw.duration
    end
  end
end
