require "spec_helper"
require "json"
require "objspace"
require "set"

RSpec.describe "allocation profiling", time_limit: 240 do
  let(:worker_class) { Datadog::Profiling::Collectors::CpuAndWallTimeWorker }
  let(:doors) { worker_class::Testing }
  let(:recorder) { new_recorder(alloc_samples_enabled: true) }
  let(:context) { new_thread_context(recorder, max_frames: 100) }
  let(:options) { { dynamic_sampling_rate_enabled: false } }
  subject(:worker) { new_worker(recorder: recorder, context: context, allocation_profiling_enabled: true, **options) }

  after { worker.stop }

  class AllocatedForTests; end

  # The allocation samples that the block leaves, all or those of one class.
  def allocations(of: nil)
    start(worker)
    serialize(recorder)
    yield
    worker.stop
    samples = serialize(recorder).samples.select { |it| it.values.fetch("alloc-samples") > 0 }
    of ? samples.select { |it| it.labels["allocation class"] == of } : samples
  end

  def count(samples)
    samples.sum { |it| it.values.fetch("alloc-samples") }
  end

  describe "of a worker without a dynamic rate" do
    it "counts each object, with its class, type, line and thread" do
      line = nil
      got = allocations(of: "AllocatedForTests") do
        line = __LINE__ + 1
        123.times { AllocatedForTests.new }
      end
      expect(count(got)).to eq(123)
      expect(got.size).to eq(1)
      expect(got.first.frames.find { |it| it.path == __FILE__ }.line).to eq(line)
      expect(got.first.labels).to eq(
        "thread id" => thread_id(Thread.current), "thread name" => "main", "ruby vm type" => "T_OBJECT",
        "allocation class" => "AllocatedForTests"
      )
      expect(got.first.values).to include("cpu-samples" => 0, "wall-time" => 0, "cpu-time" => 0)
    end

    it "counts an object where a method written in C made it", needs: :native_methods do
      expect(allocations(of: "AllocatedForTests") { AllocatedForTests.new }.first.names.first).to eq("new")
    end

    it "counts exactly as the VM does" do
      GC.disable
      made = line = nil
      got = allocations do
        before = GC.stat(:total_allocated_objects)
        line = __LINE__ + 1
        2_000.times { |i| [i.to_s, { i => 1.5 * i }, Object.new] }
        made = GC.stat(:total_allocated_objects) - before
      end
      here = got.select { |it| it.frames.any? { |frame| frame.path == __FILE__ && frame.line == line } }
      expect(count(here)).to be_within(2).of(8_000)
      expect(made).to be_between(8_000, 8_050) # reading the counts makes some, and so may a CPU sample (see capabilities)
    ensure
      GC.enable
    end

    it "sees threads that were born meanwhile, and each thread's by itself" do
      got = allocations(of: "AllocatedForTests") do
        Array.new(4) { |i| Thread.new { (100 * (i + 1)).times { AllocatedForTests.new } } }.each(&:join)
      end
      expect(count(got)).to be_between(970, 1_000) # a new thread's first ones are among the skipped
      by_thread = got.group_by { |it| it.labels["thread id"] }.values.map { |it| count(it) }.sort
      expect(by_thread.size).to eq(4)
      by_thread.zip([100, 200, 300, 400]) { |seen, made| expect(seen).to be_between(made - 10, made) }
      expect(got.map { |it| it.labels["thread id"] }).to all(match(/\A\d+ \(\d+\)\z/))
    end

    it "records nothing before the start and after the stop" do
      AllocatedForTests.new
      allocations { nil }
      expect(doors._native_allocation_hook?).to be false
      10.times { AllocatedForTests.new }
      expect(serialize(recorder).samples).to eq([])
    end

    it "has its hook once, however often it is started" do
      3.times do
        start(worker)
        expect(doors._native_allocation_hook?).to be true
        worker.stop
      end
      expect(count(allocations(of: "AllocatedForTests") { 10.times { AllocatedForTests.new } })).to eq(10)
    end

    it "goes on across garbage collections and compaction" do
      got = allocations(of: "AllocatedForTests") do
        50.times do
          20.times { AllocatedForTests.new }
          GC.start
        end
        GC.compact if GC.respond_to?(:compact)
        500.times { AllocatedForTests.new }
      end
      expect(count(got)).to eq(1_500)
    end

    it "bears objects made while an exception is raised, and exceptions by the thousand" do
      made = nil
      got = allocations do
        before = GC.stat(:total_allocated_objects)
        1_000.times do
          raise ArgumentError, "on purpose #{AllocatedForTests.new}"
        rescue ArgumentError
          nil
        end
        recurse = -> { recurse.call }
        begin
          recurse.call
        rescue SystemStackError
          AllocatedForTests.new
        end
        catch(:done) { [1].each { throw :done } }
        made = GC.stat(:total_allocated_objects) - before
      end
      # What cannot be looked at while an exception is raised counts for the next object.
      expect(count(got)).to be_between(made, made + 1_500)
      expect(count(got.select { |it| it.labels["allocation class"] == "AllocatedForTests" })).to be >= 1_000
    end
  end

  describe "classes" do
    def class_of(object, type: true)
      context = new_thread_context(recorder, allocation_type_enabled: type)
      Datadog::Profiling::Collectors::ThreadContext::Testing._native_sample_allocation(context, 7, object)
      sample = serialize(recorder).samples.first
      expect(sample.values.fetch("alloc-samples")).to eq(7)
      expect(sample.labels["thread id"]).to eq(thread_id(Thread.current))
      sample.labels.values_at("ruby vm type", "allocation class")
    end

    {
      "Object" => [-> { Object.new }, "T_OBJECT"],
      "Class" => [-> { Class.new }, "T_CLASS"],
      "Module" => [-> { Module.new }, "T_MODULE"],
      "String" => [-> { +"text" }, "T_STRING"],
      "Regexp" => [-> { /a#{1}/ }, "T_REGEXP"],
      "Array" => [-> { [] }, "T_ARRAY"],
      "Hash" => [-> { {} }, "T_HASH"],
      "Integer" => [-> { 2**70 }, "T_BIGNUM"],
      "Float" => [-> { 1e300 * 10 }, "T_FLOAT"],
      "File" => [-> { File.open(File::NULL) }, "T_FILE"],
      "Proc" => [-> { proc {} }, "T_DATA"],
      "Thread" => [-> { Thread.current }, "T_DATA"],
      "MatchData" => [-> { "a".match(/a/) }, "T_MATCH"],
      "Complex" => [-> { Complex(1, 2) }, "T_COMPLEX"],
      "Rational" => [-> { Rational(1, 2) }, "T_RATIONAL"],
      "Symbol" => [-> { "a symbol made #{rand}".to_sym }, "T_SYMBOL"],
      "Set" => [-> { Set.new }, RUBY_VERSION >= "3.5" ? "T_DATA" : "T_OBJECT"],
      "IO" => [-> { IO.pipe.first }, "T_FILE"],
      "Process::Status" => [-> { Process.wait2(fork { exit! }).last }, nil],
      "RuntimeError" => [-> { RuntimeError.new }, "T_OBJECT"],
    }.each do |name, (make, type)|
      it "say #{name}, #{type || "whatever its type"}" do
        got = class_of(make.call)
        expect(got.last).to eq(name)
        expect(got.first).to eq(type) if type
      end
    end

    it "leave singleton classes out" do
      object = AllocatedForTests.new
      object.define_singleton_method(:a) { nil }
      object.extend(Comparable)
      expect(class_of(object)).to eq(%w[T_OBJECT AllocatedForTests])
    end

    it "of structs are their names" do
      stub_const("AStructForTests", Struct.new(:a))
      expect(class_of(AStructForTests.new(1))).to eq(%w[T_STRUCT AStructForTests])
    end

    it "without a name have the text that Ruby gives them" do
      anonymous = Class.new
      expect(class_of(anonymous.new)).to eq(["T_OBJECT", anonymous.inspect])
      anonymous.const_set(:Inner, Class.new)
      expect(class_of(anonymous::Inner.new)).to eq(["T_OBJECT", anonymous::Inner.inspect])
      liar = Class.new { define_singleton_method(:name) { "Liar" } }
      expect(class_of(liar.new).last).to match(/\A#<Class:0x\h{16}>\z/)
    end

    it "may have any name" do
      stub_const("GrößeDerKlasse", Class.new)
      expect(class_of(GrößeDerKlasse.new).last).to eq("GrößeDerKlasse")
      latin = "Gr\xF6\xDFe".dup.force_encoding("ISO-8859-1")
      Object.const_set(latin, Class.new)
      expect(class_of(Object.const_get(latin).new).last).to match(/\AGr.+e\z/).and(be_valid_encoding)
    ensure
      Object.send(:remove_const, latin) if latin && Object.const_defined?(latin)
    end

    it "are not there when that is switched off, the type is" do
      expect(class_of(Object.new, type: false)).to eq(["T_OBJECT", nil])
    end

    it "of BasicObject are no trouble" do
      basic = Class.new(BasicObject)
      stub_const("BasicForTests", basic)
      expect(class_of(basic.new)).to eq(%w[T_OBJECT BasicForTests])
    end

    it "are asked for heap objects only" do
      [1, nil, true, :a, 1.5].each do |it|
        expect do
          Datadog::Profiling::Collectors::ThreadContext::Testing._native_sample_allocation(context, 1, it)
        end.to raise_error(ArgumentError)
      end
    end

    it "of what only the VM sees say so" do
      got = allocations do
        20.times do |i|
          eval("def method_for_tests_#{i}; [1].each { |x| x + #{i} }; end", binding, __FILE__, __LINE__)
          send("method_for_tests_#{i}")
          singleton_class.send(:remove_method, "method_for_tests_#{i}") rescue nil # rubocop:disable Style/RescueModifier
        end
      end
      internal = got.map { |it| it.labels["allocation class"] }.grep(/\A\(VM Internal/).uniq
      kinds = RUBY_VERSION < "3.0" ? ["(VM Internal, T_IMEMO)"] : ["(VM Internal, T_IMEMO, iseq)", "(VM Internal, T_IMEMO, ment)"]
      expect(internal).to include(*kinds)
      expect(internal).to all(match(/\A\(VM Internal, T_[A-Z]+(, [a-z_]+)?\)\z/))
      expect(got.map { |it| it.labels["ruby vm type"] }).to all(match(/\AT_[A-Z]+\z/))
    end

    it "of hidden strings are String" do
      # Kernel#format and IO#puts with several arguments use strings without a class.
      got = allocations do
        reader, writer = IO.pipe
        50.times { writer.write("a", "b", 1) }
        [reader, writer].each(&:close)
        "%s %d" % ["a" * 300, 5]
      end
      expect(got.map { |it| it.labels["allocation class"] }).to all(be_a(String).and(satisfy { |it| !it.empty? }))
    end
  end

  describe "weights" do
    def sample(weight)
      Datadog::Profiling::Collectors::ThreadContext::Testing._native_sample_allocation(context, weight, Object.new)
      serialize(recorder).samples
    end

    it "up to 10 000 are the sample's" do
      got = sample(10_000)
      expect(got.map { |it| it.values.fetch("alloc-samples") }).to eq([10_000])
    end

    it "above that are recorded as skipped samples, so that no count is lost" do
      got = sample(123_456)
      skipped, sampled = got.partition { |it| it.labels["thread id"] == "SS" }
      expect(count(sampled)).to eq(10_000)
      expect(count(skipped)).to eq(113_456)
      expect(skipped.size).to eq(1)
      expect(skipped.first.labels).to eq(
        "thread id" => "SS", "thread name" => "Skipped Samples", "allocation class" => "(Skipped Samples)"
      )
      expect(skipped.first.frames.map(&:to_a)).to eq([["", "Skipped Samples", 0]])
    end
  end

  describe "with a dynamic rate" do
    let(:options) { {} }

    it "stands for all allocations" do
      made = nil
      got = allocations do
        before = GC.stat(:total_allocated_objects)
        400_000.times { AllocatedForTests.new }
        made = GC.stat(:total_allocated_objects) - before
      end
      expect(count(got)).to be_within(made * 0.03).of(made)
      stats = worker.stats
      expect(stats[:allocation_sampled]).to be < made / 10
    end

    it "agrees with ObjectSpace.trace_object_allocations about each class" do
      script = <<~'RUBY'
        require "standalone"
        require "objspace"
        require "json"
        GC.disable
        recorder = new_recorder(alloc_samples_enabled: true)
        worker = new_worker(recorder: recorder, allocation_profiling_enabled: true,
                            dynamic_sampling_rate_overhead_target_percentage: 20.0)
        class One; end
        class Two; end
        start(worker)
        serialize(recorder)
        kept = []
        ObjectSpace.trace_object_allocations do
          # A walk whose shares are fixed, but whose order is not in step with any interval.
          random = Random.new(3)
          200_000.times { kept << (random.rand(4) == 0 ? Two.new : One.new) }
        end
        worker.stop
        samples = serialize(recorder).samples
        counts = [One, Two].to_h do |klass|
          truth = kept.count { |it| klass === it && ObjectSpace.allocation_sourcefile(it) }
          [klass.name, [truth, samples.select { |it| it.labels["allocation class"] == klass.name }.sum { |it| it.values["alloc-samples"] }]]
        end
        print JSON.generate(counts: counts, sampled: worker.stats[:allocation_sampled])
      RUBY
      counts, sampled_objects = JSON.parse(run_ruby!(script, seconds: 200)).values_at("counts", "sampled")
      total = counts.values.sum(&:first)
      expect(counts.values.sum(&:last)).to be_within(total * 0.03).of(total)
      # How many are sampled depends on the machine's speed, and chance on how many: four standard deviations.
      chance = 4 * Math.sqrt(0.25 * 0.75 / sampled_objects)
      counts.each_value { |truth, sampled| expect(sampled).to be_within(total * [0.03, chance].max).of(truth) }
    end

    # That it keeps to it is shown in discrete_dynamic_sampler_spec, where time passes as the test says.
    it "has half of the overhead target, the other half is for CPU and wall time" do
      start(worker)
      wait_until(seconds: 20) do
        20_000.times { Object.new }
        worker.stats[:allocation_sampled] > 500
      end
      stats = worker.stats
      expect(stats[:allocation_sampler_snapshot]).to include(target_overhead: 1.0, max_sampling_time_ns: 10_000_000)
      expect(stats[:allocation_skipped]).to be > stats[:allocation_sampled]
    end
  end

  it "leaves out no allocation, not even those for which no sample stood yet when it ended" do
    other = new_worker(recorder: recorder, context: context, allocation_profiling_enabled: true)
    start(other)
    50_000.times { AllocatedForTests.new }
    other.stop
    stats = other.stats
    expect(count(serialize(recorder).samples)).to eq(stats[:allocation_sampled] + stats[:allocation_skipped])
  ensure
    other&.stop
  end

  describe "stats" do
    it "are nil, or zero, where allocations are not profiled" do
      other = new_worker
      stats = other.stats
      expect(stats.select { |key, _| key.to_s.start_with?("allocation") }.values).to all(be_nil)
      expect(stats.keys).to include(:allocation_sampled, :allocation_sampler_snapshot, :allocations_during_sample)
    end

    it "agree with each other and with what was recorded" do
      got = allocations { 1_000.times { Object.new } }
      stats = worker.stats
      least, most, total, average = %i[min max total avg].map { |it| stats.fetch(:"allocation_sampling_time_ns_#{it}") }
      expect(stats[:allocation_sampled]).to be >= count(got)
      expect([least, average, most, total]).to eq([least, average, most, total].sort)
      expect(average).to be_within(1e-6).of(total.to_f / stats[:allocation_sampled])
      expect(stats[:allocation_effective_sample_rate]).to be_between(0.9, 1.0)
      expect(stats[:allocation_sampler_snapshot].keys).to include(:target_overhead, :sampling_interval, :sampling_probability)
      expect(worker.stats_and_reset_not_thread_safe[:allocation_sampled]).to be > 0
      expect(worker.stats).to include(allocation_sampled: 0, allocation_skipped: 0, allocation_sampling_time_ns_min: nil)
    end

    it "show that sampling allocates nothing" do
      skip "where the VM's structures are not known its lists of threads are made anew" if RUBY_VERSION >= "3.3"
      with_sleeping_thread do
        start(worker)
        burn(0.1) # all threads are known now
        before = worker.stats[:allocations_during_sample]
        20_000.times { Object.new }
        burn(0.2)
        expect(worker.stats[:allocations_during_sample]).to eq(before)
      end
    end
  end

  describe "allocation_count" do
    it "is that of the current thread, while allocations are counted" do
      expect(worker_class._native_allocation_count).to be_nil
      start(worker)
      before = worker_class._native_allocation_count
      100.times { Object.new }
      after = worker_class._native_allocation_count
      other = Thread.new do
        mine = worker_class._native_allocation_count
        50.times { Object.new }
        worker_class._native_allocation_count - mine
      end.value
      expect(after - before).to be_between(100, 104)
      expect(other).to be_between(50, 54)
      worker.stop
      expect(worker_class._native_allocation_count).to be_nil
    end

    it "is nil when the running worker does not profile allocations" do
      other = new_worker
      start(other)
      expect(worker_class._native_allocation_count).to be_nil
    ensure
      other&.stop
    end
  end

  describe "in a forked child" do
    it "is off until it is started there" do
      start(worker)
      hook, again, count = in_child do
        100.times { Object.new }
        hook = doors._native_allocation_hook?
        worker.reset_after_fork
        start(worker)
        serialize(recorder)
        77.times { AllocatedForTests.new }
        worker.stop
        seen = serialize(recorder).samples.select { |it| it.labels["allocation class"] == "AllocatedForTests" }
        [hook, doors._native_allocation_hook?, seen.sum { |it| it.values.fetch("alloc-samples") }]
      end
      expect([hook, again, count]).to eq([false, false, 77])
      expect(doors._native_allocation_hook?).to be true
    end

    it "starts its counts at zero" do
      start(worker)
      1_000.times { Object.new }
      stats = in_child { worker.reset_after_fork && worker.stats }
      expect(stats).to include(allocation_sampled: 0, allocations_during_sample: 0)
    end
  end

  describe "a hook that the VM has forgotten" do
    it "is noticed by the objects that nobody told of, and put back" do
      start(worker)
      100.times { Object.new }
      expect(worker.stats[:allocation_hook_revived]).to eq(0)
      doors._native_lose_allocation_hook
      wait_until(seconds: 20) do
        2_000.times { Object.new }
        worker.stats[:allocation_hook_revived] == 1
      end
      serialize(recorder)
      55.times { AllocatedForTests.new }
      worker.stop
      got = serialize(recorder).samples.select { |it| it.labels["allocation class"] == "AllocatedForTests" }
      expect(count(got)).to eq(55)
      expect(worker.stats[:allocation_hook_revived]).to eq(1)
    end

    it "is what a Ractor leaves when it is collected (Ruby bug 19112)" do
      skip "this Ruby cannot have Ractors beside such a hook (Ruby bug 18464)" if RUBY_VERSION < "3.2.3"
      script = <<~'RUBY'
        require "standalone"
        recorder = new_recorder(alloc_samples_enabled: true, heap_samples_enabled: true, heap_size_enabled: true)
        worker = new_worker(recorder: recorder, allocation_profiling_enabled: true, dynamic_sampling_rate_enabled: false)
        class Kept; end
        start(worker)
        kept = Array.new(500) { Kept.new }
        3.times { ractor = Ractor.new { Array.new(1_000) { Object.new }.size }; ractor.respond_to?(:value) ? ractor.value : ractor.take }
        far = ->(depth) { depth == 0 ? GC.start : far.call(depth - 1) }
        far.call(50)
        3.times { GC.start }
        deadline = monotonic + 3
        (Object.new while monotonic < deadline)
        kept.concat(Array.new(500) { Kept.new })
        GC.start
        samples = serialize(recorder).samples
        worker.stop
        print samples.select { |it| it.labels["allocation class"] == "Kept" }.sum { |it| it.values.fetch("heap-live-samples") }
      RUBY
      expect(run_ruby!(script, seconds: 200, options: ["-W0"]).to_i).to be_between(1_000, 1_010)
    end
  end

  it "ends with the worker's failure, and the program goes on allocating" do
    silently do
      start(worker)
      doors._native_delayed_error(worker, "on purpose")
      wait_until { worker.failure_exception }
      100.times { Object.new }
    end
    expect(doors._native_allocation_hook?).to be false
  end

  it "may be collected while it runs no more" do
    10.times do
      other = new_worker(recorder: new_recorder(alloc_samples_enabled: true), allocation_profiling_enabled: true)
      start(other)
      other.stop
    end
    GC.start
    1_000.times { Object.new }
  end
end
