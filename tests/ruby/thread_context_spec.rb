require "spec_helper"
require "objspace"

RSpec.describe Datadog::Profiling::Collectors::ThreadContext do
  let(:recorder) { new_recorder }
  subject!(:context) { new_thread_context(recorder) }

  def sample(overhead_of = Thread.current)
    described_class::Testing._native_sample(context, overhead_of)
  end

  def profile
    serialize(recorder)
  end

  def samples_of(thread, of = profile)
    of.of_thread(thread)
  end

  def per_thread(thread)
    described_class::Testing._native_per_thread_context(context)[thread]
  end

  describe "one sample" do
    it "has every living thread once, and the overhead" do
      with_sleeping_thread do |one|
        with_sleeping_thread do |two|
          wait_until { Thread.list.all? { |it| kernel_id(it) } } # one of the specs' own may just have been made
          sample
          got = profile.samples
          ids = got.reject(&:overhead?).map { |it| it.labels["thread id"] }
          expect(ids).to match_array(Thread.list.map { |it| thread_id(it) })
          expect(ids).to include(thread_id(one), thread_id(two), thread_id(Thread.current))
          expect(got.select(&:overhead?).map { |it| it.labels["thread id"] }).to eq([thread_id(Thread.current)])
          expect(got.map(&:count)).to all(eq(1))
        end
      end
    end

    it "shows each thread's own stack", needs: :other_stacks do
      with_sleeping_thread(-> { [1].each { |_| 1.times { sleep } } }) do |thread|
        sample
        expected = thread.backtrace_locations.map { |it| [it.base_label, it.path, it.lineno] }
        expect(samples_of(thread).map { |it| it.frames.map(&:to_a) }).to eq([expected])
      end
    end

    it "is the same from any thread" do
      with_sleeping_thread do |thread|
        Thread.new { sample }.join
        got = profile
        expect(samples_of(thread, got).size).to eq(1)
        expect(samples_of(Thread.main, got).size).to eq(1)
      end
    end

    it "has the same stacks from any thread", needs: %i[other_stacks native_methods] do
      with_sleeping_thread do
        Thread.new { sample }.join
        expect(samples_of(Thread.main).first.names).to include("join")
      end
    end

    it "has no labels but the known ones" do
      sample
      got = profile.samples
      expect(got.reject(&:overhead?).map { |it| it.labels.keys.sort }).to all(eq(["state", "thread id", "thread name"]))
      expect(got.select(&:overhead?).map { |it| it.labels.keys.sort }).to eq(
        [["profiler overhead", "state", "thread id", "thread name"]]
      )
    end
  end

  describe "thread names" do
    def name_of(thread)
      sample
      samples_of(thread).first.thread_name
    end

    it "are those that the program gave" do
      with_sleeping_thread do |thread|
        thread.name = "worker 1 of größe 日本"
        expect(name_of(thread)).to eq("worker 1 of größe 日本")
      end
    end

    it "follow a change" do
      with_sleeping_thread do |thread|
        thread.name = "before"
        expect(name_of(thread)).to eq("before")
        thread.name = "after"
        expect(name_of(thread)).to eq("after")
        thread.name = nil
        expect(name_of(thread)).to match(%r{/support/threads\.rb:\d+\z})
      end
    end

    it "may be empty, long, or of another encoding" do
      with_sleeping_thread do |thread|
        thread.name = ""
        expect(name_of(thread)).to eq("")
        thread.name = "n" * 20_000
        expect(name_of(thread)).to eq("n" * 20_000)
        thread.name = "gr\xFC\xDFe".dup.force_encoding("ISO-8859-1")
        expect(name_of(thread)).to match(/\Agr.*e\z/)
        thread.name = "damaged \xff".dup.force_encoding("UTF-8")
        expect(name_of(thread)).to eq("damaged \uFFFD")
      end
    end

    it "fall back to `main` for the main thread, unless it has a name" do
      expect(Thread.main.name).to be_nil.or eq("")
      Thread.new { sample }.join
      expect(samples_of(Thread.main).first.thread_name).to eq("main")
      Thread.main.name = "the boss"
      Thread.new { sample }.join
      expect(samples_of(Thread.main).first.thread_name).to eq("the boss")
    ensure
      Thread.main.name = nil
    end

    it "fall back to the place of the thread's block" do
      thread = Thread.new { sleep }
      line = __LINE__ - 1
      wait_until { thread.status == "sleep" }
      expect(name_of(thread)).to eq("#{__FILE__}:#{line}")
    ensure
      thread&.kill&.join
    end

    it "fall back to the place of a method that was turned into the block" do
      object = Object.new
      def object.nap() sleep end
      line = __LINE__ - 1
      thread = Thread.new(&object.method(:nap))
      wait_until { thread.status == "sleep" }
      expect(name_of(thread)).to eq("#{__FILE__}:#{line}").or match(/\(Unnamed thread/)
    ensure
      thread&.kill&.join
    end

    it "fall back to a fixed text for a block of a library that starts threads for others" do
      block = eval("proc { sleep }", binding, "/gems/logging-2.0/lib/logging/diagnostic_context.rb", 471)
      thread = Thread.new(&block)
      wait_until { thread.status == "sleep" }
      expect(name_of(thread)).to eq("(Unnamed thread)")
    ensure
      thread&.kill&.join
    end

    it "fall back to a fixed text for threads that C started", needs: :thread_ids do
      waiter = Process.detach(fork { sleep })
      pid = waiter.pid
      wait_until { waiter.status == "sleep" }
      sample
      got = samples_of(waiter).first
      expect(got.thread_name).to eq("(Unnamed thread from native code)")
    ensure
      Process.kill(:KILL, pid) if pid
      waiter&.join
    end

    it "cut places that are too long, and keep the profile valid" do
      path = "/#{"größe/" * 200}x.rb"
      thread = Thread.new(&eval("proc { sleep }", binding, path, 1))
      wait_until { thread.status == "sleep" }
      name = name_of(thread)
      expect(name).to be_valid_encoding
      expect(name).to start_with("/größe/")
      expect(name.bytesize).to be <= 511
    ensure
      thread&.kill&.join
    end
  end

  describe "thread ids" do
    it "are the kernel's and Ruby's" do
      with_sleeping_thread do |thread|
        sample
        expect(per_thread(thread)[:thread_id]).to eq("#{kernel_id(thread)} (#{thread.object_id})")
        expect(File.directory?("/proc/self/task/#{kernel_id(thread)}")).to be true
      end
    end

    it "are the child's own after a fork" do
      ids = in_child do
        context.reset_after_fork
        with_sleeping_thread do |thread|
          sample
          got = profile.samples.map { |it| it.labels["thread id"].to_i }
          [got.uniq, [Process.pid, kernel_id(thread)]]
        end
      end
      expect(ids.first).to match_array(ids.last)
    end
  end

  describe "what is remembered of a thread" do
    it "is its id, birthplace, clock and times" do
      with_sleeping_thread do |thread|
        expect(per_thread(thread)).to be_nil
        sample
        clock = per_thread(thread).fetch(:thread_cpu_time_id)
        before, cpu_before = [Process::CLOCK_MONOTONIC, clock].map { |it| Process.clock_gettime(it, :nanosecond) }
        sample
        it = per_thread(thread)
        expect(it[:thread_cpu_time_id]).to eq(clock)
        expect(it.keys).to match_array(%i[
          thread_id thread_invoke_location thread_cpu_time_id_valid? thread_cpu_time_id cpu_time_at_previous_sample_ns
          wall_time_at_previous_sample_ns gc_tracking.cpu_time_at_start_ns gc_tracking.wall_time_at_start_ns
        ])
        expect(it[:thread_id]).to eq(thread_id(thread))
        expect(it[:thread_invoke_location]).to match(%r{/support/threads\.rb:\d+\z})
        expect(it[:wall_time_at_previous_sample_ns]).to be_between(before, Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond))
        expect(it[:thread_cpu_time_id_valid?]).to be true
        # It sleeps, or is about to: its clock stands still, or nearly so.
        expect(it[:cpu_time_at_previous_sample_ns]).to be_between(cpu_before, Process.clock_gettime(clock, :nanosecond))
        expect(it.values_at(:"gc_tracking.cpu_time_at_start_ns", :"gc_tracking.wall_time_at_start_ns")).to eq([-1, -1])
        expect(per_thread(Thread.main)[:thread_invoke_location]).to eq("")
      end
    end
  end

  describe "wall time" do
    it "is nothing at first, and then what has passed" do
      with_sleeping_thread do |thread|
        sample
        expect(samples_of(thread).map(&:wall)).to eq([0])
        started = per_thread(thread)[:wall_time_at_previous_sample_ns]
        sleep(0.05)
        sample
        wall = samples_of(thread).map(&:wall)
        expect(wall).to eq([per_thread(thread)[:wall_time_at_previous_sample_ns] - started])
        expect(wall.first).to be >= 50_000_000
      end
    end

    it "adds up, whatever the number of samples" do
      with_sleeping_thread do |thread|
        before = monotonic
        sample
        after_first = monotonic
        40.times { sleep(0.002) and sample }
        sleep(0.002)
        before_last = monotonic
        sample
        least, most = [before_last - after_first, monotonic - before].map { |it| (it * 10**9).to_i }
        expect(samples_of(thread).sum(&:wall)).to be_between(least, most)
      end
    end

    it "is the same for all threads of a sample" do
      with_sleeping_thread do |one|
        with_sleeping_thread do |two|
          sample
          sleep(0.01)
          sample
          got = profile
          expect(samples_of(one, got).sum(&:wall)).to eq(samples_of(two, got).sum(&:wall))
        end
      end
    end
  end

  describe "CPU time" do
    it "is nothing for a thread that sleeps" do
      with_sleeping_thread do |thread|
        sample
        sleep(0.05)
        sample
        expect(samples_of(thread).sum(&:cpu)).to eq(0)
      end
    end

    it "is what the thread has used" do
      start = Queue.new
      done = Queue.new
      thread = Thread.new do
        loop do
          start.pop
          before = cpu_time
          burn(0.05)
          done << cpu_time - before
        end
      end
      wait_until { thread.status == "sleep" }
      sample
      profile
      start << true
      used = done.pop
      wait_until { thread.status == "sleep" }
      sample
      got = samples_of(thread)
      expect(got.sum(&:cpu)).to be_within(2_000_000).of(used * 10**9)
      expect(got.map { |it| it.labels["state"] }).to eq(["had cpu"])
    ensure
      thread&.kill&.join
    end

    it "is counted for the thread that takes the sample up to its beginning, the rest is overhead" do
      sample
      started = cpu_time
      profile
      burn(0.05)
      before = cpu_time
      sample
      took = ((cpu_time - before) * 10**9).to_i
      got = profile
      own = samples_of(Thread.current, got)
      overhead = got.samples.select(&:overhead?)
      expect(own.sum(&:cpu)).to be_within(2_000_000).of((before - started) * 10**9)
      expect(overhead.sum(&:cpu)).to be <= took
      expect(overhead.sum(&:cpu)).to be > 0
    end

    it "adds up to what the clock says, over many samples" do
      before = cpu_time
      sample
      profile
      after_first = cpu_time
      100.times { burn(0.0005) || sample }
      before_last = cpu_time
      sample
      least, most = [before_last - after_first, cpu_time - before].map { |it| (it * 10**9).to_i }
      got = profile.samples.select { |it| it.labels["thread id"] == thread_id(Thread.current) }
      expect(got.sum(&:cpu)).to be_between(least, most)
    end
  end

  describe "the overhead sample" do
    it "has the labels of the thread that was held up" do
      with_sleeping_thread do |profiler|
        profiler.name = "the profiler"
        sample(profiler)
        overhead = profile.samples.select(&:overhead?)
        expect(overhead.size).to eq(1)
        expect(overhead.first.labels).to include(
          "thread id" => thread_id(Thread.current), "thread name" => "main", "profiler overhead" => 1
        )
      end
    end

    it "has the stack of the profiler's thread", needs: :other_stacks do
      with_sleeping_thread do |profiler|
        sample(profiler)
        expect(profile.samples.find(&:overhead?).frames.map(&:to_s)).to eq(
          profiler.backtrace_locations.map { |it| "#{it.path}:#{it.lineno}:in `#{it.base_label}'" }
        )
      end
    end

    it "refuses what is not a thread" do
      [nil, 1, Object.new].each { |it| expect { sample(it) }.to raise_error(TypeError) }
    end
  end

  describe "the list of threads" do
    let(:doors) { described_class::Testing }

    it "is Thread.list" do
      expect(doors._native_thread_list).to eq(Thread.list)
      with_sleeping_thread do
        with_sleeping_thread { expect(doors._native_thread_list).to eq(Thread.list) }
      end
      expect(doors._native_thread_list).to eq(Thread.list)
    end

    it "is Thread.list after a thread that was killed before it began" do
      10.times do
        thread = Thread.new { sleep }
        sample(thread)
        thread.kill.join
      end
      new_thread_context(recorder) # which looks at all threads
      expect(doors._native_thread_list).to eq(Thread.list)
    end

    it "is Thread.list with a thousand threads, of which some have ended" do
      threads = Array.new(1_000) { |i| Thread.new { i.even? ? nil : sleep } }
      wait_until { threads.count(&:alive?) == 500 }
      expect(doors._native_thread_list).to match_array(Thread.list)
    ensure
      threads&.each(&:kill)&.each(&:join)
    end

    it "is Thread.list in a forked child" do
      with_sleeping_thread { expect(in_child { doors._native_thread_list == Thread.list }).to be true }
    end
  end

  describe "threads that end" do
    it "are not in the next sample" do
      thread = Thread.new { sleep }
      wait_until { thread.status == "sleep" }
      sample
      expect(samples_of(thread).size).to eq(1)
      id = thread_id(thread)
      thread.kill.join
      sample
      expect(profile.samples.map { |it| it.labels["thread id"] }).not_to include(id)
      expect(per_thread(thread)).to be_nil
    end

    it "leave no trace after 10 000 short ones" do
      sample
      size = -> { ObjectSpace.memsize_of(context) }
      before = size.call
      (SOAK ? 100 : 10).times do
        1_000.times { |i| Thread.new { sample if (i % 50).zero? }.join }
      end
      sample
      expect(context.stats.fetch(:threads)).to eq(Thread.list.size)
      expect(described_class::Testing._native_per_thread_context(context).keys).to match_array(Thread.list)
      expect(size.call).to be <= before * 2
    end

    it "give back the room that a burst of them took" do
      sample
      before = ObjectSpace.memsize_of(context)
      threads = Array.new(500) { Thread.new { sleep } }
      wait_until { threads.all? { |it| it.status == "sleep" } }
      sample
      expect(context.stats.fetch(:threads)).to eq(Thread.list.size)
      expect(profile.samples.size).to be >= 500
      threads.each(&:kill).each(&:join)
      sample
      expect(ObjectSpace.memsize_of(context)).to be < before + 20_000
    end

    it "can be collected" do
      ids = Array.new(20) { Thread.new { sleep }.tap { |it| sample and it.kill.join }.object_id }
      sample
      5.times { GC.start }
      alive = ids.count do |id|
        ObjectSpace._id2ref(id)
        true
      rescue RangeError
        false
      end
      expect(alive).to be < 10 # some may still be found on the machine stack
    end
  end

  describe "reset_after_fork" do
    it "forgets the threads and the samples" do
      with_sleeping_thread do |thread|
        sample
        expect(context.stats.fetch(:threads)).to be >= 2
        context.reset_after_fork
        expect(context.stats.fetch(:threads)).to eq(0)
        expect(profile.samples).to eq([])
        sample
        expect(samples_of(thread).map(&:wall)).to eq([0])
      end
    end

    it "makes the forking thread the child's main thread" do
      names = Thread.new do
        in_child do
          context.reset_after_fork
          sample
          profile.samples.reject(&:overhead?).map { |it| [it.thread_name, it.labels["thread id"].to_i == Process.pid] }
        end
      end.value
      expect(names).to eq([["main", true]])
    end
  end

  describe "the file of a method written in C" do
    def frames_of(thread, **options)
      described_class::Testing._native_sample(new_thread_context(recorder, **options), Thread.current)
      samples_of(thread).first.frames.map { |it| [it.name, it.path, it.line] }
    end

    let(:ruby_library) do
      # Where `Kernel#sleep` is: libruby, or the program itself.
      maps = File.readlines("/proc/self/maps").map { |it| it.split(" ", 6).last.chomp }.uniq
      maps.find { |it| File.basename(it).start_with?("libruby") } || File.readlink("/proc/self/exe")
    end

    it "is that of its caller, or its library when that is asked for", needs: :native_files do
      with_sleeping_thread do |thread|
        path, line = thread.backtrace_locations.find { |it| it.base_label == "sleep" }.then { |it| [it.path, it.lineno] }
        expect(frames_of(thread)).to include(["sleep", path, line])
        native = frames_of(thread, native_filenames_enabled: true).find { |it| it.first == "sleep" }
        expect(File.realpath(native[1])).to eq(File.realpath(ruby_library))
        expect(native[2]).to eq(0)
      end
    end

    it "is the extension's for those of extensions, and Ruby methods keep theirs", needs: :native_files do
      zlib = $LOADED_FEATURES.find { |it| File.basename(it).start_with?("zlib.") }
      block = -> { Zlib::GzipWriter.wrap(File.open(File::NULL, "wb")) { sleep } }
      with_sleeping_thread(block) do |thread|
        with = frames_of(thread, native_filenames_enabled: true)
        without = frames_of(thread)
        wrap = with.find { |it| it.first == "wrap" }
        expect(File.realpath(wrap[1])).to eq(File.realpath(zlib))
        expect(with.map(&:first)).to eq(without.map(&:first))
        ruby = with.select { |it| it[1].end_with?(".rb") }
        expect(ruby).not_to be_empty
        expect(without).to include(*ruby)
      end
    end

    it "takes no Ruby object to find out" do
      context = new_thread_context(recorder, native_filenames_enabled: true)
      doors = described_class::Testing
      thread = Thread.current
      with_sleeping_thread do
        3.times { doors._native_sample(context, thread) }
        GC.disable
        before = GC.stat(:total_allocated_objects)
        200.times { doors._native_sample(context, thread) }
        expect(GC.stat(:total_allocated_objects) - before).to be <= 5
      ensure
        GC.enable
      end
    end
  end

  describe "the timeline" do
    let(:nanoseconds) { -> { Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond) } }

    it "gives each sample the time at which it was taken" do
      timed = new_thread_context(recorder, timeline_enabled: true)
      with_sleeping_thread do |thread|
        before = nanoseconds.call
        3.times { described_class::Testing._native_sample(timed, Thread.current) && sleep(0.002) }
        after = nanoseconds.call
        got = profile
        times = samples_of(thread, got).map { |it| it.labels.fetch("end_timestamp_ns") }
        expect(times.size).to eq(3)
        expect(times).to eq(times.uniq.sort)
        # The two clocks may drift apart a little.
        expect(times).to all(be_between(before - 1_000_000, after + 1_000_000))
        expect(samples_of(Thread.current, got).map { |it| it.labels["end_timestamp_ns"] }).to eq(times)
        overhead = got.samples.select(&:overhead?).map { |it| it.labels.fetch("end_timestamp_ns") }
        expect(overhead.zip(times).map { |later, earlier| later >= earlier }).to eq([true] * 3)
      end
    end

    it "is not there without being asked for" do
      sample
      expect(profile.samples.flat_map { |it| it.labels.keys }).not_to include("end_timestamp_ns")
    end
  end

  describe "arguments" do
    it "must be true or false where that is asked for" do
      %i[endpoint_collection_enabled timeline_enabled allocation_type_enabled native_filenames_enabled].each do |name|
        [nil, 0, "true"].each { |it| expect { new_thread_context(recorder, name => it) }.to raise_error(TypeError) }
        [true, false].each { |it| expect(new_thread_context(recorder, name => it)).to be_a(described_class) }
      end
    end

    it "must be a recorder and a sensible limit" do
      [nil, 1, Object.new].each { |it| expect { new_thread_context(it) }.to raise_error(TypeError) }
      [4, 10_001, -1, 0].each do |limit|
        expect { new_thread_context(recorder, max_frames: limit) }.to raise_error(ArgumentError, /max_frames/)
      end
      expect { new_thread_context(recorder, max_frames: "400") }.to raise_error(TypeError)
      [5, 10_000].each { |limit| expect(new_thread_context(recorder, max_frames: limit)).to be_a(described_class) }
    end

    it "limit the frames", needs: :other_stacks do
      small = new_thread_context(recorder, max_frames: 5)
      with_sleeping_thread(-> { [1].each { [1].each { [1].each { sleep } } } }) do |thread|
        described_class::Testing._native_sample(small, Thread.current)
        frames = samples_of(thread).first.frames
        expect(frames.size).to eq(5)
        expect(frames.last.path).to eq("#{thread.backtrace_locations.size - 4} frames omitted")
      end
    end
  end

  it "can be looked at" do
    sample
    expect(context.inspect).to start_with("#<#{described_class}").and end_with(">")
  end

  it "raises or answers, and does not crash, when it was never initialized" do
    empty = described_class.allocate
    [-> { described_class::Testing._native_sample(empty, Thread.current) }, -> { empty.stats }, -> { empty.inspect },
     -> { described_class._native_reset_after_fork(empty) }].each do |action|
      action.call
    rescue StandardError => e
      expect(e.message).not_to be_empty
    end
    GC.start
    expect(sample).to be_truthy
  end

  it "makes no Ruby object for threads that it knows" do
    with_sleeping_thread do
      3.times { sample }
      GC.disable
      before = GC.stat(:total_allocated_objects)
      doors = described_class::Testing
      thread = Thread.current
      200.times { doors._native_sample(context, thread) }
      made = GC.stat(:total_allocated_objects) - before
      expect(made).to be <= 5 # what counting takes: the loop's own
    ensure
      GC.enable
    end
  end

  it "survives heap compaction between samples" do
    with_sleeping_thread do |thread|
      10.times do
        sample
        GC.compact
      end
      GC.verify_compaction_references(double_heap: true, toward: :empty) if GC.respond_to?(:verify_compaction_references)
      sample
      got = profile
      expect(samples_of(thread, got).sum(&:count)).to eq(11)
    end
  end
end
