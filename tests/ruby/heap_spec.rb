require "spec_helper"
require "json"
require "objspace"

# Collects all the time, so on a busy machine it takes its time.
RSpec.describe "heap profiling", time_limit: SOAK ? 900 : 240, needs: :heap do
  let(:doors) { Datadog::Profiling::StackRecorder::Testing }
  let(:recorder) { new_heap_recorder }
  let(:worker) do
    new_worker(recorder: recorder, allocation_profiling_enabled: true, dynamic_sampling_rate_enabled: false)
  end

  after do
    @worker_used&.stop
    @recorders.to_a.each(&:forget_objects)
  end

  class LivesForTests
    attr_accessor :a, :b
  end

  def new_heap_recorder(**options)
    made = new_recorder(alloc_samples_enabled: true, heap_samples_enabled: true, heap_size_enabled: true, **options)
    (@recorders ||= []) << made
    made
  end

  # As if `object` had been allocated here just now.
  def track(object, weight: 1, to: recorder, klass: object.class.name, **options)
    doors._native_track_object(to, object, weight, klass)
    record_stack(to, values: { "alloc-samples" => weight }, **options)
    object
  end

  def run_worker
    @worker_used = worker
    start(worker)
    serialize(recorder)
    yield
  end

  def live_of(profile, klass = nil)
    live = profile.samples.select { |it| it.values.fetch("heap-live-samples") > 0 }
    klass ? live.select { |it| it.labels["allocation class"] == klass } : live
  end

  def live(klass = nil)
    live_of(serialize(recorder), klass)
  end

  def count(samples)
    samples.sum { |it| it.values.fetch("heap-live-samples") }
  end

  def bytes(samples)
    samples.sum { |it| it.values.fetch("heap-live-size") }
  end

  # Calls the block deep enough that nothing of it stays on the machine stack, where the collector would find it.
  def far_away(depth = 30, &block)
    depth == 0 ? block.call : far_away(depth - 1, &block)
    nil
  end

  describe "value types" do
    {
      { heap_samples_enabled: true } => %w[cpu-samples wall-time cpu-time alloc-samples heap-live-samples],
      { heap_size_enabled: true } => %w[cpu-samples wall-time cpu-time alloc-samples heap-live-size],
      { heap_samples_enabled: true, heap_size_enabled: true, timeline_enabled: true } =>
        %w[cpu-time cpu-samples wall-time alloc-samples heap-live-samples heap-live-size timeline],
    }.each do |options, names|
      it "are #{names.join(", ")} with #{options.keys.join(", ")}" do
        units = Hash.new("nanoseconds").merge(
          "cpu-samples" => "count", "alloc-samples" => "count", "heap-live-samples" => "count", "heap-live-size" => "bytes"
        )
        types = serialize(new_recorder(alloc_samples_enabled: true, **options)).types
        expect(types).to eq(names.map { |it| [it, units[it]] })
      end
    end
  end

  describe "live objects" do
    it "are those that were not freed, by class, with the line of their allocation" do
      kept = []
      line = nil
      run_worker do
        far_away do
          line = __LINE__ + 1
          200.times { |i| i.even? ? kept << LivesForTests.new : LivesForTests.new }
        end
        GC.start
        got = live("LivesForTests")
        expect(count(got)).to be_between(100, 101) # the last one may still be on the machine stack
        expect(got.map { |it| it.frames.find { |frame| frame.path == __FILE__ }.line }.uniq).to eq([line])
        kept.clear
        GC.start
        expect(count(live("LivesForTests"))).to be <= 1
      end
    end

    it "have the size that ObjectSpace.memsize_of gives, as of now" do
      objects = {
        "String" => "x" * 5_000, "Array" => Array.new(300), "Hash" => (1..100).to_h { |i| [i, i] },
        "LivesForTests" => LivesForTests.new, "Regexp" => /#{"a" * 50}/, "MatchData" => "abc".match(/b/),
        "Struct" => Struct.new(:a, :b).new(1, 2), "Float" => 1e300 * 3, "Integer" => 2**5_000,
        "Rational" => Rational(3, 4), "Complex" => Complex(3, 4), "Symbol" => "symbol of this #{rand}".to_sym,
        "Class" => Class.new, "Module" => Module.new, "IO" => IO.pipe.first, "Proc" => proc { nil },
        "Thread::Queue" => Queue.new, "Enumerator" => [1].each
      }
      objects.each { |name, it| track(it, klass: name) }
      objects["Array"].concat(Array.new(1_000))
      GC.start
      sizes = live.to_h { |it| [it.labels.fetch("allocation class"), it.values.fetch("heap-live-size")] }
      expect(sizes).to eq(objects.transform_values { |it| ObjectSpace.memsize_of(it) })
    end

    it "count for the weight of their sample, times sample_every" do
      recorder = new_heap_recorder(heap_sample_every: 3)
      objects = Array.new(9) { |i| track(Object.new, weight: 10**i, to: recorder, klass: i.to_s) }
      GC.start
      got = live_of(serialize(recorder))
      counts = got.to_h { |it| [it.labels["allocation class"].to_i, it.values["heap-live-samples"]] }
      expect(counts.keys.map { |it| it / 3 }.sort).to eq([0, 1, 2]) # one of each three in a row
      expect(counts).to eq(counts.to_h { |i, _| [i, 3 * 10**i] })
      expect(bytes(got)).to eq(count(got) * ObjectSpace.memsize_of(objects.first))
    end

    it "are chosen with the same chance, wherever they stand in their row" do
      recorder = new_heap_recorder(heap_sample_every: 10)
      objects = Array.new(20_000) { |i| track(Object.new, to: recorder, klass: (i % 10).to_s) }
      GC.start
      by_place = live_of(serialize(recorder)).group_by { |it| it.labels["allocation class"] }
      # 2 000 of 20 000, by chance: 200 at each place, with a deviation of 13.4.
      expect(by_place.transform_values { |it| count(it) / 10 }.values).to all(be_between(130, 270)).and have_attributes(size: 10)
      expect(objects.size).to eq(20_000)
    end

    it "are told right on average when only a few were allocated" do
      found = Array.new(300) do
        recorder = new_heap_recorder(heap_sample_every: 10)
        objects = Array.new(5) { track(Object.new, to: recorder) }
        [recorder, objects]
      end
      GC.start
      counts = found.map { |recorder, _| count(live_of(serialize(recorder))) }
      expect(counts.uniq.sort).to eq([0, 10])
      # 10 with a chance of a half: the mean's deviation is 0.29.
      expect(counts.sum.to_f / counts.size).to be_within(1.5).of(5)
    end

    it "carry their class and age only, and no value but theirs" do
      object = track(LivesForTests.new, labels: { "thread id" => "1 (2)" })
      3.times { GC.start }
      got = live
      expect(got.size).to eq(1)
      expect(got.first.labels).to eq("allocation class" => "LivesForTests", "gc gen age" => 3)
      expect(got.first.values).to include("cpu-samples" => 0, "alloc-samples" => 0, "wall-time" => 0)
      expect(object).to be_a(LivesForTests)
    end

    it "have no class where it is not known" do
      object = track(Object.new, klass: "")
      GC.start
      expect(live.map(&:labels)).to eq(["gc gen age" => 1])
      expect(object).not_to be_nil
    end

    it "are as old as the collections that they have lived through; those that lived through none are left out" do
      GC.disable
      objects = Array.new(4) do |i|
        GC.start
        track([i])
      end
      ages = live.map { |it| it.labels.fetch("gc gen age") }.sort
      expect(ages).to eq([1, 2, 3])
      GC.start
      expect(live.map { |it| it.labels.fetch("gc gen age") }.sort).to eq([1, 2, 3, 4])
      expect(objects.size).to eq(4)
    ensure
      GC.enable
    end

    it "are reported each time, with samples of their stacks" do
      object = track(Object.new)
      GC.start
      expect(Array.new(3) { count(live) }).to eq([1, 1, 1])
      expect(live.first.frames.map(&:to_s)).to include(/heap_spec.rb:\d+:in `track'/)
      expect(object).not_to be_nil
    end

    it "may change and be frozen meanwhile" do
      object = track(+"a")
      object << "b" * 10_000
      object.freeze
      object.instance_variable_get(:@a)
      GC.start
      expect(bytes(live)).to eq(ObjectSpace.memsize_of(object))
    end

    it "are there once if one address is tracked twice" do
      object = Object.new
      3.times { track(object, weight: 5) }
      GC.start
      expect(count(live)).to eq(5)
    end

    it "of what Ruby code never sees are left out" do
      run_worker do
        kept = Array.new(20) { |i| eval("proc { |x| x + #{i} }", binding, __FILE__, __LINE__) }
        GC.start
        classes = live.map { |it| it.labels.fetch("allocation class") }
        expect(classes.grep(/VM Internal, T_IMEMO|T_NODE|T_ICLASS/)).to eq([])
        expect(classes).to include("Proc")
        expect(kept.size).to eq(20)
      end
    end

    it "are within 5 % of the truth when only some are sampled" do
      script = <<~'RUBY'
        require "standalone"
        require "json"
        require "objspace"
        recorder = new_recorder(alloc_samples_enabled: true, heap_samples_enabled: true, heap_size_enabled: true)
        worker = new_worker(recorder: recorder, allocation_profiling_enabled: true,
                            dynamic_sampling_rate_overhead_target_percentage: 20.0)
        class Kept; end
        class Dropped; end
        start(worker)
        kept = []
        random = Random.new(7)
        400_000.times do
          random.rand(3) == 0 ? kept << Kept.new << ("x" * random.rand(100..300)) : Dropped.new
        end
        dropped = 2 * kept.size
        GC.start
        samples = serialize(recorder).samples
        worker.stop
        of = ->(name, type) { samples.select { |it| it.labels["allocation class"] == name }.sum { |it| it.values.fetch(type) } }
        strings = kept.grep(String)
        print JSON.generate(
          kept: [of["Kept", "heap-live-samples"], ObjectSpace.each_object(Kept).count],
          strings: [of["String", "heap-live-samples"], strings.size],
          bytes: [of["String", "heap-live-size"], strings.sum { |it| ObjectSpace.memsize_of(it) }],
          dropped: [of["Dropped", "heap-live-samples"], ObjectSpace.each_object(Dropped).count, dropped],
          stats: worker.stats[:allocation_sampled]
        )
      RUBY
      got = JSON.parse(run_ruby!(script, seconds: 200), symbolize_names: true)
      %i[kept strings bytes].each { |it| expect(got[it].first).to be_within(got[it].last * 0.05).of(got[it].last), "#{it}: #{got}" }
      expect(got[:dropped].first).to be < got[:dropped].last * 0.001
      expect(got[:stats]).to be < 400_000
    end
  end

  describe "sampling" do
    it "bears placeholders and native code where a stack should be" do
      object = track(Object.new, in_gc: true)
      GC.start
      got = live
      expect(got.map { |it| it.frames.map(&:path) }).to eq([["Garbage Collection"]])
      other = track(Object.new)
      GC.start
      expect(count(live)).to eq(2)
      expect([object, other]).not_to include(nil)
    end

    # The VM is in the middle of an allocation then: no object may be made, and its own memory (which may start a
    # collection) is not asked for.
    it "makes no object and asks the VM for no memory" do
      run_worker do
        kept = Array.new(5_000)
        GC.start
        GC.disable
        burn(0.05)
        objects, memory = GC.stat(:total_allocated_objects), GC.stat(:malloc_increase_bytes)
        i = 0
        while i < 5_000
          kept[i] = LivesForTests.new
          i += 1
        end
        objects = GC.stat(:total_allocated_objects) - objects
        memory = GC.stat(:malloc_increase_bytes) - memory
        expect(objects).to be_between(5_000, 5_100) # reading the counts makes some
        expect(memory).to be < 5_000 # less than a byte for each
      ensure
        GC.enable
      end
    end

    it "takes no other sample for that of the allocation" do
      object = Object.new
      doors._native_track_object(recorder, object, 1, "Object")
      record_stack(recorder) # no allocation sample
      GC.start
      expect(live).to eq([])
      record_stack(recorder, values: { "alloc-samples" => 1 })
      GC.start
      expect(count(live)).to eq(1)
    end

    it "tracks the object even if the profile refuses its sample" do
      object = Object.new
      expect { track(object, numeric_labels: { "end_timestamp_ns" => 1 }) }.to raise_error(ArgumentError)
      track(object)
      GC.start
      expect(count(live)).to eq(1)
    end

    it "repairs text that is not UTF-8" do
      object = track(Object.new, klass: "Gr\xF6\xDFe".b)
      GC.start
      expect(live.first.labels["allocation class"]).to match(/\AGr.+e\z/).and(be_valid_encoding)
      expect(object).not_to be_nil
    end

    it "keeps stacks apart and together as their frames say" do
      sources = [
        ["", 1], ["a.rb", 0], ["a.rb", -5], ["a.rb", 2**31 - 1], ["a.rb", 3], ["a.rb", 4], ["größe.rb", 4], ["b.rb" * 500, 4]
      ]
      objects = sources.flat_map do |file, line|
        Array.new(3) { eval("track(Object.new)", binding, file, line) }
      end
      deep = ->(n) { n == 0 ? track(Object.new, max_frames: 50) : deep.call(n - 1) }
      objects += [10, 11, 49, 100, 101].map { |n| deep.call(n) }
      expect(doors._native_check_heap_hashes(recorder)).to be true
      GC.start
      got = live
      expect(count(got)).to eq(objects.size)
      expect(got.map { |it| it.frames.map(&:to_a) }.uniq.size).to eq(recorder.stats[:heap_stacks])
      expect(recorder.stats[:heap_stacks]).to be_between(11, 13)
    end
  end

  describe "memory" do
    it "of objects that died is given back, with their stacks" do
      GC.disable
      200.times do |i|
        eval("5.times { track(Object.new) }", binding, "file_#{i}.rb", i + 1)
      end
      expect(recorder.stats[:heap_stacks]).to be >= 200
      expect(recorder.stats[:heap_bytes]).to be > 50_000
      GC.enable
      far_away { GC.start }
      GC.start
      live
      expect(recorder.stats[:heap_objects]).to be <= 3
      expect(recorder.stats[:heap_stacks]).to be <= 3
      expect(recorder.stats[:heap_bytes]).to be < 30_000
      expect(doors._native_check_heap_hashes(recorder)).to be true
    ensure
      GC.enable
    end

    it "is right however objects come, go and move" do
      random = Random.new(11)
      kept = []
      20.times do |i|
        random.rand(500).times { |n| kept << eval("track(+'text')", binding, "f#{n % 7}.rb", n % 11 + 1) }
        kept.shuffle!(random: random)
        far_away { random.rand(kept.size + 1).times { kept.pop } }
        far_away { GC.start }
        GC.start
        i % 5 == 4 && GC.respond_to?(:compact) ? (GC.compact rescue nil) : nil # rubocop:disable Style/RescueModifier
        expect(doors._native_check_heap_hashes(recorder)).to be true
        expect(count(live)).to be_between(kept.size, kept.size + 3)
      end
    end

    it "is bounded; what does not fit is counted, and what is there stays right" do
      doors._native_set_heap_budget(recorder, 60_000)
      objects = Array.new(5_000) { track(Object.new) }
      stats = recorder.stats
      expect(stats[:heap_bytes]).to be <= 60_000
      expect(stats[:heap_objects_over_budget]).to eq(5_000 - stats[:heap_objects])
      expect(stats[:heap_objects]).to be > 100
      GC.start
      expect(count(live)).to eq(stats[:heap_objects])
      objects.clear
      far_away { GC.start }
      GC.start
      live
      again = track(Object.new)
      GC.start
      expect(count(live)).to be_between(1, 4)
      expect(again).not_to be_nil
    end

    it "is bounded for stacks that have little in common" do
      doors._native_set_heap_budget(recorder, 100_000)
      objects = Array.new(300) { |i| eval("track(Object.new)", binding, "#{i}#{"x" * 1_000}.rb", 1) }
      expect(recorder.stats[:heap_bytes]).to be <= 100_000
      expect(recorder.stats[:heap_objects_over_budget]).to be_between(190, 290)
      expect(doors._native_check_heap_hashes(recorder)).to be true
      expect(objects.size).to eq(300)
    end

    it "does not grow with objects that come and go" do
      skip "the sanitizer keeps freed memory for a while" if ENV["NF_EXTENSION_ASAN"]
      script = <<~'RUBY'
        require "standalone"
        recorder = new_recorder(alloc_samples_enabled: true, heap_samples_enabled: true, heap_size_enabled: true)
        worker = new_worker(recorder: recorder, allocation_profiling_enabled: true, dynamic_sampling_rate_enabled: false)
        start(worker)
        round = lambda do
          20.times { |i| eval("2_000.times { 'x' * 100 }", binding, "f#{rand(1_000)}.rb", i + 1) }
          recorder.serialize!(codec: :none)
          GC.start
          File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i
        end
        5.times { round.call }
        before = round.call
        25.times { round.call }
        print round.call - before
      RUBY
      # kB. What 1 000 000 objects would need if they stayed is 100 000.
      expect(run_ruby!(script, seconds: 200).to_i).to be < 12_000
    end
  end

  describe "compaction" do
    before { skip "this Ruby does not compact" unless GC.respond_to?(:compact) && compaction? }

    def compaction?
      GC.compact
      true
    rescue NotImplementedError
      false
    end

    it "is followed: moved objects are the same ones" do
      kept = Array.new(2_000) { |i| track([i], weight: 1) && track("string #{i}") }
      3.times do
        kept.reject! { rand(3) == 0 }
        far_away { GC.start }
        GC.compact
        GC.start
        expect(count(live("String"))).to be_between(kept.size, kept.size + 2)
      end
      expect(recorder.stats[:heap_objects_lost]).to eq(0)
    end

    it "that moves everything is no trouble either" do
      skip "this Ruby cannot verify compaction" unless GC.respond_to?(:verify_compaction_references)
      script = <<~'RUBY'
        require "standalone"
        recorder = new_recorder(alloc_samples_enabled: true, heap_samples_enabled: true, heap_size_enabled: true)
        worker = new_worker(recorder: recorder, allocation_profiling_enabled: true, dynamic_sampling_rate_enabled: false)
        class Kept; end
        start(worker)
        kept = []
        5.times do |i|
          500.times { kept << Kept.new; Kept.new }
          begin
            RUBY_VERSION >= "3.2" ? GC.verify_compaction_references(expand_heap: true, toward: :empty)
                                  : GC.verify_compaction_references(double_heap: i == 0, toward: :empty)
          rescue NotImplementedError
            kept.concat(Array.new(500 * (4 - i)) { Kept.new })
            break
          end
        end
        GC.start
        live = serialize(recorder).samples.select { |it| it.labels["allocation class"] == "Kept" }
        worker.stop
        print [kept.size, live.sum { |it| it.values.fetch("heap-live-samples") }, recorder.stats[:heap_objects_lost]].inspect
      RUBY
      kept, live, lost = eval(run_ruby!(script, seconds: 200))
      expect(live).to be_between(kept, kept + 5)
      expect(lost).to eq(0)
    end
  end

  describe "while a profile is written" do
    before do
      @objects = Array.new(50) { |i| track("live #{i}") }
      GC.start
    end

    it "objects come and go, and its own are as they were" do
      doors._native_start_fake_slow_heap_serialization(recorder)
      @objects.clear
      far_away { GC.start }
      GC.start
      more = Array.new(20) { track(Object.new) }
      expect { doors._native_start_fake_slow_heap_serialization(recorder) }.to raise_error(RuntimeError, /already/)
      doors._native_end_fake_slow_heap_serialization(recorder)
      GC.start
      expect(count(live("Object"))).to eq(20)
      expect(count(live("String"))).to be <= 2
      expect(more.size).to eq(20)
    end

    it "another serialization still has the rest of the profile" do
      doors._native_start_fake_slow_heap_serialization(recorder)
      profile = serialize(recorder)
      expect(live_of(profile)).to eq([])
      expect(profile.total("alloc-samples")).to eq(50)
      expect(recorder.stats).to include(refused_samples: 1, first_refusal: /being read/)
      doors._native_end_fake_slow_heap_serialization(recorder)
      expect(count(live)).to eq(50)
    end

    it "threads allocate all the time, and nothing is lost or counted twice" do
      run_worker do
        stop = false
        allocator = Thread.new { LivesForTests.new until stop }
        kept = Array.new(100) { LivesForTests.new }
        GC.start
        counts = Array.new(20) do
          GC.start
          count(live("LivesForTests"))
        end
        stop = true
        allocator.join
        expect(counts.min).to be >= 100
        GC.start
        expect(count(live("LivesForTests"))).to be_between(100, 110)
        expect(kept.size).to eq(100)
      ensure
        stop = true
      end
    end

    it "a thread that is killed or interrupted in the middle leaves all as it was" do
      30.times do |i|
        ready = false
        thread = Thread.new do
          Thread.current.report_on_exception = false
          ready = true
          loop { recorder.serialize }
        end
        wait_until { ready }
        sleep(rand * 0.003)
        i.even? ? thread.kill : thread.raise(ArgumentError, "on purpose")
        thread.join rescue nil # rubocop:disable Style/RescueModifier
        expect(count(live)).to eq(50)
      end
    end
  end

  describe "in a forked child" do
    it "the parent's objects are known, live and die" do
      objects = Array.new(100) { |i| track("live #{i}") }
      GC.start
      before, after = in_child do
        recorder.reset_after_fork
        doors._native_watch_objects(recorder, true)
        before = count(live)
        objects.clear
        far_away { GC.start }
        GC.start
        [before, count(live)]
      end
      expect(before).to eq(100)
      expect(after).to be <= 2
      expect(count(live)).to eq(100)
    end

    it "they are reported once if nothing more is sampled there" do
      objects = Array.new(10) { track(Object.new) }
      GC.start
      counts, hook = in_child do
        recorder.reset_after_fork
        [Array.new(3) { count(live) }, doors._native_heap_hook?]
      end
      expect(counts).to eq([10, 0, 0])
      expect(hook).to be false
      expect(objects.size).to eq(10)
    end

    it "a profile that the parent was writing is no trouble" do
      objects = Array.new(10) { track(Object.new) }
      GC.start
      doors._native_start_fake_slow_heap_serialization(recorder)
      counts = in_child do
        recorder.reset_after_fork
        doors._native_watch_objects(recorder, true)
        Array.new(2) { count(live) }
      end
      expect(counts).to eq([10, 10])
      doors._native_end_fake_slow_heap_serialization(recorder)
      expect(objects.size).to eq(10)
    end

    it "a worker goes on where the parent's was" do
      kept = []
      run_worker do
        50.times { kept << LivesForTests.new }
        count = in_child do
          worker.reset_after_fork
          start(worker)
          30.times { kept << LivesForTests.new }
          GC.start
          count(live("LivesForTests")).tap { worker.stop }
        end
        expect(count).to eq(80)
      end
    end
  end

  describe "the VM's hook" do
    it "is there while objects are tracked, and while any of them is still to be reported" do
      expect(doors._native_heap_hook?).to be false
      kept = []
      run_worker do
        expect(doors._native_heap_hook?).to be true
        10.times { kept << LivesForTests.new }
        worker.stop
        GC.start
        expect(doors._native_heap_hook?).to be true
        expect(count(live("LivesForTests"))).to eq(10)
        expect(doors._native_heap_hook?).to be false
        expect(live).to eq([])
      end
      expect(kept.size).to eq(10)
    end

    it "is not there where heap profiling is off" do
      other = new_worker(recorder: new_recorder(alloc_samples_enabled: true), allocation_profiling_enabled: true)
      start(other)
      expect(doors._native_heap_hook?).to be false
    ensure
      other&.stop
    end

    it "goes when there will be no more profiles" do
      object = track(Object.new)
      expect(doors._native_heap_hook?).to be true
      recorder.forget_objects
      expect(doors._native_heap_hook?).to be false
      expect(object).not_to be_nil
    end

    it "serves several recorders, and bears one that is collected" do
      kept = Array.new(20) { Object.new }
      far_away { 20.times { |i| track(kept[i], to: new_heap_recorder) } }
      @recorders.clear
      kept.each { |it| track(it) }
      3.times { GC.start }
      far_away { 10.times { kept.pop } } # pop(10) would share its memory with all of them
      far_away { GC.start }
      GC.start
      expect(count(live)).to be_between(10, 12)
      expect(kept.size).to eq(10)
    end
  end

  # The VM does not tell what it frees while a foreign hook for allocations runs. From Ruby 3.4 on it frees nothing then.
  describe "frees that nobody told of", time_limit: 300 do
    it "are noticed, and what is left is right" do
      script = <<~'RUBY'
        require "standalone"
        require "objspace"
        doors = Datadog::Profiling::StackRecorder::Testing
        recorder = new_recorder(alloc_samples_enabled: true, heap_samples_enabled: true, heap_size_enabled: true)
        worker = new_worker(recorder: recorder, allocation_profiling_enabled: true, dynamic_sampling_rate_enabled: false)
        class Kept; end
        start(worker)
        kept = []
        GC.stress = true # its hook asks for memory, so each allocation collects inside of it
        ObjectSpace.trace_object_allocations { 60.times { kept << Kept.new; Kept.new; "x" * 100 } }
        GC.stress = false
        missed = doors._native_frees_missed
        GC.start
        live = serialize(recorder).samples.select { |it| it.labels["allocation class"] == "Kept" }
        GC.compact if GC.respond_to?(:compact)
        GC.start
        again = serialize(recorder).samples.select { |it| it.labels["allocation class"] == "Kept" }
        worker.stop
        print [missed, live, again].map { |it| it.is_a?(Array) ? it.sum { |one| one.values.fetch("heap-live-samples") } : it }.inspect
      RUBY
      missed, live, again = eval(run_ruby!(script, seconds: 250))
      expect(missed).to Gem::Version.new(RUBY_VERSION) >= Gem::Version.new("3.4") ? eq(0) : be > 0
      expect(live).to be_between(60, 62)
      expect(again).to be_between(60, 62)
    end

    it "lead to a look through the whole heap, which changes nothing when all are there" do
      objects = Array.new(100) { |i| track("live #{i}") }
      GC.start
      doors._native_pretend_frees_missed
      expect(count(live)).to eq(100)
      expect(recorder.stats[:heap_objects_lost]).to eq(0)
      expect(objects.size).to eq(100)
    end

    it "make all objects unknown when it then compacts, as addresses cannot be trusted" do
      skip "this Ruby does not compact" unless GC.respond_to?(:compact)
      objects = Array.new(100) { |i| track("live #{i}") }
      doors._native_pretend_frees_missed
      begin
        GC.compact
      rescue NotImplementedError
        skip "this Ruby does not compact"
      end
      expect(recorder.stats).to include(heap_objects: 0, heap_objects_lost: 100)
      objects.each { |it| track(it) }
      GC.start
      expect(count(live)).to eq(100)
    end
  end

  describe "under", time_limit: 600 do
    # Runs in a process of its own what a program might do, and returns what is said at its end.
    def torture(seconds, preamble: "", step: "")
      script = <<~RUBY
        require "standalone"
        require "json"
        recorder = new_recorder(alloc_samples_enabled: true, heap_samples_enabled: true, heap_size_enabled: true)
        worker = new_worker(recorder: recorder, allocation_profiling_enabled: true, gc_profiling_enabled: true,
                            dynamic_sampling_rate_enabled: false)
        class Kept; attr_accessor :x; end
        start(worker)
        kept = []
        deadline = monotonic + #{seconds}
        rounds = 0
        #{preamble}
        while monotonic < deadline
          20.times { |i| kept << Kept.new; kept.last.x = [i.to_s, { i => 1.0 * i }, :"a\#{i}"] }
          kept.shift(20) if kept.size > 500
          Thread.new { Array.new(10) { Kept.new } }.join
          begin
            raise ArgumentError, "\#{rounds}"
          rescue ArgumentError
            nil
          end
          #{step}
          recorder.serialize!(codec: :lz4) if (rounds += 1) % 20 == 0
        end
        GC.stress = false
        GC.auto_compact = false rescue nil
        GC.start
        GC.disable
        consistent = Datadog::Profiling::StackRecorder::Testing._native_check_heap_hashes(recorder)
        live = serialize(recorder).samples.select { |it| it.labels["allocation class"] == "Kept" }
        worker.stop
        print JSON.generate(kept: ObjectSpace.each_object(Kept).count, live: live.sum { |it| it.values.fetch("heap-live-samples") }, rounds: rounds,
                            lost: recorder.stats[:heap_objects_lost], consistent: consistent, failure: worker.failure_exception&.message)
      RUBY
      JSON.parse(run_ruby!(script, seconds: seconds + 300), symbolize_names: true)
    end

    def expect_sound(result)
      expect(result[:failure]).to be_nil
      expect(result[:consistent]).to be true
      # No more than there are. Those of new threads, and what is made while an exception is raised, are not known.
      expect(result[:live]).to be_between(result[:kept] * 0.95 - 10, result[:kept])
      expect(result[:rounds]).to be > 0
      expect(result[:lost]).to eq(0)
    end

    let(:seconds) { SOAK ? 60 : 3 }

    it("GC.stress it is sound") { expect_sound(torture(seconds, preamble: "GC.stress = true")) }

    it "compaction with each collection it is sound" do
      skip "this Ruby does not compact" unless GC.respond_to?(:auto_compact=)
      expect_sound(torture(seconds, preamble: "GC.auto_compact = true rescue nil", step: "GC.start if rounds % 10 == 0"))
    end

    it "collections at all times it is sound" do
      expect_sound(torture(seconds, step: "[-> { GC.start }, -> { GC.start(full_mark: false) }, -> { GC.start(immediate_sweep: false) }].sample.call"))
    end
  end
end
