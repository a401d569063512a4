require "spec_helper"
require "support/stack_scenarios"
require "tmpdir"

RSpec.describe Datadog::Profiling::Collectors::Stack do
  let(:recorder) { new_recorder }

  def native_sample(thread, values: {}, **options)
    record_stack(recorder, thread, values: { "wall-time" => 1 }.merge(values), **options)
  end

  # The sample taken of a thread.
  def sample(thread, **options)
    native_sample(thread, **options)
    samples = serialize(recorder).samples
    expect(samples.size).to eq(1)
    samples.first
  end

  # Where a thread is, as Ruby itself says.
  def reference(locations)
    locations.map { |it| Support::Profiles::Frame.new(it.base_label, it.path, it.lineno) }
  end

  # Some ways into the VM show frames of methods in C that a backtrace does not, or none of these methods.
  def expect_frames(sampled, expected)
    lacks = Datadog::Profiling.capabilities.fetch(:missing)
    expected = without_native_methods(expected, sampled) if lacks.key?(:native_methods)
    sampled, expected = [sampled, expected].map { |frames| frames.map(&:to_s) }
    return expect(sampled).to eq(expected) unless lacks.key?(:exact_frames)
    missing = expected.dup
    more = sampled.reject { |frame| frame == missing.first && missing.shift }
    expect(missing).to eq([])
    expect(more.size).to be <= 3
  end

  # A backtrace does not say which they are, but they have the place of their caller.
  def without_native_methods(frames, sampled)
    sampled = sampled.dup
    caller = Support::Profiles::Frame.new
    frames.reverse.reject do |frame|
      native = frame != sampled.last && [[caller.path, caller.line], [nil, 0]].include?([frame.path, frame.line])
      caller = frame
      sampled.pop unless native
      native
    end.reverse
  end

  def frames(thread, **options)
    sample(thread, **options).frames
  end

  # Those of the current thread in a method of that name, from its second line.
  def frames_in(method, file)
    got = nil
    object = Object.new
    object.instance_eval("def #{method}(probe)\n probe.call\nend", file, 1)
    object.public_send(method, -> { got = frames(Thread.current) })
    got
  end

  # Both views from inside, from this method outwards. They must be asked for on one line.
  def capture
    [native_sample(Thread.current, max_frames: 1000), reference(Thread.current.backtrace_locations)]
  end

  def from_capture(frames)
    frames.drop_while { |it| it.name != "capture" }
  end

  # Runs a scenario on this thread and compares at each call of the probe.
  def expect_same_inside(scenario)
    seen = 0
    probe = lambda do
      _, expected = capture
      sampled = serialize(recorder).samples.first.frames
      expect_frames(from_capture(sampled), from_capture(expected))
      expect(from_capture(sampled).size).to be >= 3
      seen += 1
      1
    end
    scenario.call(probe)
    expect(seen).to be > 0
  end

  Support::StackScenarios::ALL.each do |name, scenario|
    describe "in #{name}" do
      it "shows the main thread as Ruby does" do
        expect(Thread.current).to be Thread.main
        expect_same_inside(scenario)
      end

      it "shows a background thread as Ruby does" do
        Thread.new { expect_same_inside(scenario) }.join
      end

      it "shows a sleeping thread as Ruby does", needs: :other_stacks do
        stops = Queue.new
        go_on = Queue.new
        probe = lambda do
          stops << true
          go_on.pop
          1
        end
        thread = Thread.new do
          Thread.current.report_on_exception = false
          scenario.call(probe)
        ensure
          stops << false
        end
        seen = 0
        while stops.pop
          wait_until { thread.status == "sleep" && go_on.num_waiting == 1 }
          expected = reference(thread.backtrace_locations)
          expect(expected.first.name).to eq("pop")
          expect_frames(frames(thread), expected)
          seen += 1
          go_on << true
        end
        thread.join
        expect(seen).to be > 0
      ensure
        thread&.kill&.join
      end
    end
  end

  describe "what a frame says" do
    it "is the method, the path as it was loaded, and the line", needs: :other_stacks do
      with_sleeping_thread(-> { [1].each { |_| sleep } }) do |thread|
        line = __LINE__ - 1
        here = "is the method" # keeps the block's name out of it
        expect(here).not_to be_empty
        sleeping, block, each, = frames(thread)
        expect(sleeping.to_a.drop(1)).to eq([__FILE__, line])
        expect(sleeping.name).to eq("sleep")
        expect(block.to_a.drop(1)).to eq([__FILE__, line])
        expect(each.to_a).to eq(["each", __FILE__, line])
      end
    end

    it "gives a method in C the place of its caller", needs: :other_stacks do
      with_sleeping_thread(-> { eval("\n\nsleep", binding, "caller.rb", 10) }) do |thread|
        expect(frames(thread).first(2).map(&:to_a)).to match([["sleep", "caller.rb", 12], [anything, "caller.rb", 12]])
      end
    end

    it "names eval as Ruby does when no file was given", needs: :other_stacks do
      with_sleeping_thread(-> { eval("\nsleep") }) do |thread|
        path = thread.backtrace_locations[1].path # "(eval)", since 3.3 with the place of the call
        expect(path).to start_with("(eval")
        expect(frames(thread)[1].to_a.drop(1)).to eq([path, 2])
      end
    end

    it "holds neither addresses nor mappings of any substance" do
      native_sample(Thread.current)
      expect(decode_independently(recorder.serialize!(codec: :none)).mappings).to be <= 1
    end
  end

  describe "the whole program's frames" do
    it "are shown for the top level, required files and the main thread", needs: :other_stacks do
      script = <<~'RUBY'
        require "standalone"
        recorder = new_recorder
        show = lambda do |thread|
          record_stack(recorder, thread)
          serialize(recorder).samples.first.frames.map(&:to_s)
        end
        main = Thread.main
        ours = theirs = nil
        observer = Thread.new do
          Thread.pass until main.status == "sleep" # the join below
          theirs = main.backtrace_locations.map { |it| "#{it.path}:#{it.lineno}:in `#{it.base_label}'" }
          ours = show.call(main)
        end
        observer.join
        abort("#{ours}\n#{theirs}") unless ours == theirs && ours.last.end_with?("<main>'")
        print "same"
      RUBY
      expect(run_ruby!(script)).to eq("same")
    end
  end

  describe "deep stacks" do
    def dive(depth)
      return yield if depth.zero?
      dive(depth - 1) { yield }
    end

    # A frame without arguments and locals: 10 000 of them just fit into the stack that Ruby gives a thread.
    def descend
      (@left -= 1).zero? ? sleep : descend
    end

    # So many frames in all, for a thread that sleeps.
    def with_stack_of(depth, &block)
      work = -> { descend }
      @left = 1
      base = with_sleeping_thread(work) { |thread| thread.backtrace_locations.size }
      @left = depth - base + 1
      with_sleeping_thread(work) do |thread|
        expect(thread.backtrace_locations.size).to eq(depth)
        block.call(thread)
      end
    end

    # Whole stacks are compared elsewhere; here it is the cut that counts.
    def expect_cut(thread, max_frames)
      expected = reference(thread.backtrace_locations)
      got = frames(thread, max_frames: max_frames)
      omitted = expected.size - (max_frames - 1)
      expect(got.size).to eq(max_frames)
      expect(got.first(max_frames - 1).map(&:to_s)).to eq(expected.first(max_frames - 1).map(&:to_s))
      expect(got.last.to_a).to eq(["", "#{omitted} frames omitted", 0])
    end

    it "are cut, with the exact number of what was left out", needs: :other_stacks do
      with_stack_of(100) { |thread| expect_cut(thread, 10) }
    end

    it "are whole when they just fit", needs: :other_stacks do
      with_stack_of(50) do |thread|
        expect(frames(thread, max_frames: 50).map(&:to_s)).to eq(reference(thread.backtrace_locations).map(&:to_s))
      end
    end

    it "are cut when they are one frame too deep", needs: :other_stacks do
      with_stack_of(51) { |thread| expect_cut(thread, 50) }
    end

    it "are whole when there is one frame to spare", needs: :other_stacks do
      with_stack_of(49) do |thread|
        expect(frames(thread, max_frames: 50).map(&:to_s)).to eq(reference(thread.backtrace_locations).map(&:to_s))
      end
    end

    it "are counted exactly for a thread that a plain block started", needs: :other_stacks do
      depth = 60
      thread = Thread.new { Fiber.new { 0.then { |_| Support::StackScenarios.recurse(depth, -> { sleep }) } }.resume }
      wait_until { thread.status == "sleep" }
      [5, 10, depth - 1].each { |max_frames| expect_cut(thread, max_frames) }
    ensure
      thread&.kill&.join
    end

    it "are counted exactly for threads of every kind of block", needs: :other_stacks do
      method_block = method(:sleep).to_proc
      lambda_block = lambda { sleep }
      symbol = Class.new { def nap; sleep; end }.new
      [
        Thread.new { sleep },
        Thread.new(&lambda_block),
        Thread.new(&method_block),
        Thread.new(symbol, &:nap),
        Thread.start { [1].each { [1].each { [1].each { sleep } } } },
        Thread.fork { eval("[1].each { [1].each { [1].each { sleep } } }") },
      ].each do |thread|
        wait_until { thread.status == "sleep" }
        depth = thread.backtrace_locations.size
        expect_frames(frames(thread), reference(thread.backtrace_locations))
        expect_cut(thread, 5) if depth > 5
      ensure
        thread.kill.join
      end
    end

    it "of 10 000 frames are cut exactly at any limit", needs: :other_stacks do
      with_stack_of(10_000) do |thread|
        [5, 400, 9_999].each { |max_frames| expect_cut(thread, max_frames) }
        expect(frames(thread, max_frames: 10_000).map(&:to_s)).to eq(reference(thread.backtrace_locations).map(&:to_s))
      end
    end

    it "of 10 000 calls are cut on the main thread too" do
      dive(3_000) { [10_000, 100].each { |it| native_sample(Thread.current, max_frames: it) } }
      whole, cut = serialize(recorder).samples.map(&:frames).sort_by(&:size).reverse
      expect(whole.size).to be > 6_000
      expect(cut.first(99)).to eq(whole.first(99))
      expect(cut.last.to_a).to eq(["", "#{whole.size - 99} frames omitted", 0])
    end

    it "leave the innermost native frames with a place when the cut goes through the middle of them", needs: :other_stacks do
      work = -> { [1].each { |_| [1].each { |_| [1].map { |_| [1].each { |_| Queue.new.pop } } } } }
      with_sleeping_thread(work) do |thread|
        (5..thread.backtrace_locations.size - 1).each { |max_frames| expect_cut(thread, max_frames) }
      end
    end

    it "refuse limits that make no sense" do
      [-1, 0, 4, 10_001, 1 << 31, 1 << 40].each do |limit|
        expect { native_sample(Thread.current, max_frames: limit) }.to raise_error(StandardError) { |error|
          expect(error).to be_a(ArgumentError).or be_a(RangeError)
        }
      end
      expect { native_sample(Thread.current, max_frames: "10") }.to raise_error(TypeError)
    end
  end

  describe "threads without a Ruby stack" do
    it "records a dead thread with no frames" do
      dead = Thread.new {}.tap(&:join)
      expect(frames(dead)).to eq([])
    end

    it "records a thread that failed with no frames" do
      dead = Thread.new { Thread.current.report_on_exception = false; raise "on purpose" }
      expect { dead.join }.to raise_error("on purpose")
      expect(frames(dead)).to eq([])
    end

    it "says that a thread runs native code when Ruby has no frame for it" do
      waiter = Process.detach(fork { sleep })
      pid = waiter.pid
      wait_until { waiter.status == "sleep" }
      sampled = frames(waiter)
      if waiter.backtrace_locations.to_a.empty?
        expect(sampled.map(&:to_a)).to eq([["", "In native code", 0]])
      else
        expect(sampled.map(&:to_s)).to eq(reference(waiter.backtrace_locations).map(&:to_s))
      end
    ensure
      Process.kill(:KILL, pid) if pid
      waiter&.join
    end

    it "survives threads at the very moment of their start" do
      200.times do
        thread = Thread.new { sleep }
        native_sample(thread)
        Thread.pass
        native_sample(thread)
        thread.kill
        native_sample(thread)
        thread.join
        native_sample(thread)
      end
      expect(serialize(recorder).total("cpu-samples")).to eq(800)
    end

    it "refuses what is not a thread" do
      [nil, 1, "thread", Object.new, Thread, Fiber.new {}, Mutex.new].each do |it|
        expect { native_sample(it) }.to raise_error(TypeError)
      end
      expect(serialize(recorder).samples).to eq([])
    end

    it "survives a Thread that was never initialized" do
      begin
        native_sample(Thread.allocate)
      rescue StandardError => e
        expect(e.message).not_to be_empty
      end
      serialize(recorder)
      expect(sample(Thread.current).count).to eq(1)
    end
  end

  describe "the state of a thread" do
    def state(work, **options)
      with_sleeping_thread(work) { |thread| sample(thread, **options).labels.fetch("state") }
    end

    let(:mutex) { Mutex.new }

    it "is `had cpu` when CPU time was used, wherever it sleeps now" do
      expect(state(-> { sleep }, values: { "cpu-time" => 1 })).to eq("had cpu")
    end

    it "is `unknown` when no time has passed at all" do
      expect(state(-> { sleep }, values: { "wall-time" => 0 })).to eq("unknown")
    end

    it "is `sleeping` in sleep", needs: :other_stacks do
      expect(state(-> { sleep })).to eq("sleeping")
      expect(state(-> { sleep(100) })).to eq("sleeping")
      expect(state(-> { Kernel.sleep(100) })).to eq("sleeping")
    end

    it "is `waiting` in select", needs: :other_stacks do
      expect(state(-> { Kernel.select([IO.pipe.first]) })).to eq("waiting")
      expect(state(-> { IO.select([IO.pipe.first]) })).to eq("waiting")
    end

    it "is `waiting` in a queue", needs: :other_stacks do
      expect(state(-> { Queue.new.pop })).to eq("waiting")
      expect(state(-> { SizedQueue.new(1).pop })).to eq("waiting")
    end

    it "is found in Ruby's own files too, where newer versions have such methods", needs: :other_stacks do
      state_in = lambda do |file|
        work = Object.new
        work.instance_eval("def pop\n nil while true\nend", file, 1)
        thread = Thread.new { work.pop }
        wait_until { thread.backtrace_locations&.first&.base_label == "pop" }
        sample(thread).labels.fetch("state")
      ensure
        thread.kill.join
      end
      expect(state_in.call("<internal:thread_sync>")).to eq("waiting")
      expect(state_in.call("own_queue.rb")).to eq("unknown")
    end

    it "is `blocked` at a mutex or a join", needs: :other_stacks do
      mutex.synchronize do
        expect(state(-> { mutex.lock })).to eq("blocked")
        expect(state(-> { mutex.synchronize { nil } })).to eq("blocked")
      end
      with_sleeping_thread { |other| expect(state(-> { other.join })).to eq("blocked") }
    end

    it "is `network` when a socket is awaited", needs: :other_stacks do
      require "socket"
      server = TCPServer.new("127.0.0.1", 0)
      client = TCPSocket.new("127.0.0.1", server.addr[1])
      require "io/wait"
      expect(state(-> { client.wait_readable })).to eq("network")
    ensure
      client&.close
      server&.close
    end

    it "is `unknown` elsewhere" do
      expect(state(-> { Thread.stop })).to eq("unknown")
      expect(state(-> { IO.pipe.first.read })).to eq("unknown")
    end

    it "goes by the innermost frame and by methods in C only" do
      namesake = Class.new { def sleep; Thread.stop; end }.new
      expect(state(-> { namesake.sleep })).to eq("unknown")
      ruby_only = Class.new { def sleep(thread, test); test.call(thread); end }.new
      burner = Thread.new { ruby_only.sleep(nil, ->(_) { loop { nil } }) }
      wait_until { burner.status == "run" }
      expect(sample(burner).labels["state"]).to eq("unknown")
    ensure
      burner&.kill&.join
    end

    it "must have its label when the sample counts" do
      expect { native_sample(Thread.current, labels: { "state" => nil }) }.to raise_error(RuntimeError, /state/)
    end
  end

  describe "values and labels" do
    it "are recorded as given" do
      got = sample(
        Thread.current, values: { "cpu-time" => 123, "cpu-samples" => 456, "wall-time" => 789 },
                        labels: { "label_a" => "text", "leer" => "" }, numeric_labels: { "count" => 987, "negative" => -5 }
      )
      expect(got.values).to eq("cpu-time" => 123, "cpu-samples" => 456, "wall-time" => 789)
      expect(got.labels).to eq(
        "label_a" => "text", "leer" => "", "state" => "had cpu", "count" => 987, "negative" => -5
      )
    end

    it "refuse what the profile cannot hold, and record what comes next" do
      {
        { labels: { "local root span id" => "text" } } => /local root span id/,
        { numeric_labels: { "local root span id" => 0 } } => /local root span id/,
        { numeric_labels: { "end_timestamp_ns" => 1 } } => /end_timestamp_ns/,
        { labels: { "twice" => "1" }, numeric_labels: { "twice" => 1 } } => /twice|duplicate/i,
      }.each do |options, message|
        expect { native_sample(Thread.current, **options) }.to raise_error(ArgumentError, message)
      end
      expect(sample(Thread.current).count).to eq(1)
    end
  end

  describe "compiled templates" do
    it "have the same name in each process, and look-alikes keep theirs" do
      {
        ["_app_views_users_show_html_erb__123_456", "/srv/app/views/users/show.html.erb"] => "_app_views_users_show_html_erb",
        ["_app_views_users_show_html_erb___99_7", "/srv/app/views/users/show.html.erb"] => "_app_views_users_show_html_erb",
        ["__tilt_1480", "/srv/views/show.erb"] => "__tilt",
        ["_app_views_users_show_html_erb__1_2", "/srv/lib/mine.rb"] => "_app_views_users_show_html_erb__1_2",
      }.each do |(method, file), name|
        expect(frames_in(method, file).map(&:to_a)).to include([name, file, 2])
      end
    end
  end

  describe "odd names" do
    it "of 10 000 characters are kept whole" do
      name = "long_" * 2_000
      path = "/#{"p" * 10_000}.rb"
      expect(Support::Profiles::Frame.members).to include(:path)
      expect(frames_in(name, path).map(&:to_a)).to include([name, path, 2])
    end

    it "that are not UTF-8 lose neither the sample nor the profile" do
      got = frames_in("broken", "/tmp/\xff\xfe.rb".dup.force_encoding("BINARY"))
      expect(got.find { |it| it.name == "broken" }.path).to start_with("/tmp/").and end_with(".rb")
    end

    it "that another encoding spells are readable" do
      path = "/tmp/gr\xF6\xDFe.rb".dup.force_encoding("ISO-8859-1")
      got = frames_in("latin", path).find { |it| it.name == "latin" }.path
      expect(got).to match(%r{\A/tmp/gr.+e\.rb\z})
      expect(got).to be_valid_encoding
    end

    it "with NUL bytes and line ends are kept", needs: :other_stacks do
      object = Object.new
      object.define_singleton_method("odd\nname \u0000!") { sleep }
      with_sleeping_thread(-> { object.public_send("odd\nname \u0000!") }) do |thread|
        expect_frames(frames(thread), reference(thread.backtrace_locations))
      end
    end

    # Ruby makes such methods for itself. What asks for the name of their id gets false instead of a String.
    it "that are none at all have a stand-in", needs: :native_methods do
      Dir.mktmpdir do |folder|
        require(compile(<<~C, into: folder, name: "nameless.so", flags: ["-Wl,--unresolved-symbols=ignore-all"]))
          typedef unsigned long VALUE, ID;
          void rb_define_method_id(VALUE, ID, VALUE (*)(), int);
          void rb_define_singleton_method(VALUE, const char *, VALUE (*)(), int);
          VALUE rb_define_module(const char *);
          VALUE rb_funcallv(VALUE, ID, int, const VALUE *);
          ID rb_intern(const char *);
          VALUE rb_singleton_class(VALUE);
          static VALUE method(VALUE self) { return rb_funcallv(self, rb_intern("inside"), 0, 0); }
          static VALUE call_without_name(VALUE self, VALUE object) {
            ID id = (77777777UL << 4) | 0xf; // of no symbol: far beyond all that there are
            rb_define_method_id(rb_singleton_class(object), id, method, 0);
            return rb_funcallv(object, id, 0, 0);
          }
          void Init_nameless(void) { rb_define_singleton_method(rb_define_module("Nameless"), "call", call_without_name, 1); }
        C
      end
      spec = self
      caller = Object.new
      caller.define_singleton_method(:inside) { spec.frames(Thread.current) }
      expect(Nameless.call(caller).map(&:name).count("(unnamed)")).to eq(1)
    end
  end

  describe "names and constants that go away" do
    it "stay right in the profile after the code was removed and the heap compacted" do
      script = <<~'RUBY'
        require "standalone"
        recorder = new_recorder
        50.times do |i|
          Object.class_eval("class Gone#{i}; def self.work#{i}() record_stack($recorder) end; end", "/gone/file#{i}.rb", i)
          $recorder = recorder
          Object.const_get("Gone#{i}").public_send("work#{i}")
          Object.send(:remove_const, "Gone#{i}")
          GC.start
          GC.compact if i % 10 == 0
        end
        GC.verify_compaction_references(double_heap: true, toward: :empty)
        got = serialize(recorder).samples.map { |it| it.frames.find { |frame| frame.path.start_with?("/gone/") }.to_a }.sort
        want = Array.new(50) { |i| ["work#{i}", "/gone/file#{i}.rb", i] }.sort
        abort((want - got).inspect) unless got == want
        print "right"
      RUBY
      expect(run_ruby!(script)).to eq("right")
    end
  end

  it "makes no Ruby object" do
    with_sleeping_thread(-> { Support::StackScenarios.recurse(100, -> { sleep }) }) do |thread|
      3.times { record_stack(recorder, thread) }
      GC.disable
      before = GC.stat(:total_allocated_objects)
      100.times { record_stack(recorder, thread) }
      made = GC.stat(:total_allocated_objects) - before
      # The door itself makes some for its checks and buffers: a few for each call, none for each frame.
      expect(made).to be < 100 * 20
    ensure
      GC.enable
    end
  end
end
