require "spec_helper"
require "fiddle"
require "stringio"
require "tmpdir"
require "support/stack_scenarios"

RSpec.describe Datadog::Profiling::Collectors::CpuAndWallTimeWorker do
  let(:recorder) { new_recorder }
  let(:options) { {} }
  let(:doors) { described_class::Testing }
  let(:native) { Datadog::Profiling::NativeExtension::Testing }
  subject(:worker) { new_worker(recorder: recorder, **options) }

  after { worker.stop }

  def thread
    Thread.list.find { |it| it.name == described_class.name }
  end

  def silently
    before = $stderr
    $stderr = StringIO.new
    yield
    $stderr.string
  ensure
    $stderr = before
  end

  describe "start" do
    it "makes one thread with the name of the class, safe for forking servers" do
      expect(worker.start).to be true
      expect_running(worker)
      expect(thread.thread_variable_get(:fork_safe)).to be true
      expect(Thread.list.count { |it| it.name == described_class.name }).to eq(1)
      expect(doors._native_is_running?(worker)).to be true
    end

    it "gives the thread its name for the system, too" do
      start(worker)
      names = Dir["/proc/self/task/*/comm"].map { |it| File.read(it).chomp }
      expect(names.count { |it| described_class.name.start_with?(it) && it.size == 15 }).to be >= 1
    end

    it "does nothing when it runs already" do
      start(worker)
      before = thread
      expect(worker.start).to be_nil
      expect(thread).to be before
    end

    it "refuses a second instance, and the first goes on" do
      start(worker)
      other = new_worker
      failure = nil
      output = silently do
        other.start(on_failure_proc: ->(*error) { failure = error })
        wait_until { other.failure_exception }
      end
      expect(other.failure_exception.message).to include("another instance")
      expect(output).to include("another instance")
      wait_until { failure }
      expect(other.wait_until_running).to be false
      before = worker.stats[:cpu_sampled]
      wait_until { worker.stats[:cpu_sampled] > before + 3 }
      expect(doors._native_current_sigprof_signal_handler).to eq(:profiling)
      expect(doors._native_is_running?(worker)).to be true
    ensure
      other&.stop
    end

    it "lets the second instance run once the first was stopped" do
      start(worker)
      worker.stop
      other = new_worker
      start(other)
      expect(doors._native_is_running?(other)).to be true
    ensure
      other&.stop
    end
  end

  describe "stop" do
    it "ends all threads of the profiler soon" do
      start(worker)
      before = monotonic
      worker.stop
      expect(monotonic - before).to be < 0.3
      expect(Thread.list.select { |it| ours?(it) }).to eq([])
      expect(doors._native_is_running?(worker)).to be false
    end

    it "works before, right after and without start, and twice" do
      expect { 2.times { worker.stop } }.not_to raise_error
      100.times do
        worker.start
        worker.stop
        expect(thread).to be_nil
      end
      expect(worker.failure_exception).to be_nil
      expect(doors._native_current_sigprof_signal_handler).to eq(:empty)
    end

    it "ends the sampling: nothing is recorded any more" do
      start(worker)
      wait_until { worker.stats[:cpu_sampled] > 3 }
      worker.stop
      serialize(recorder)
      burn(0.05)
      sleep(0.05)
      expect(serialize(recorder).samples).to eq([])
    end

    it "works while the process is busy, while it sleeps, and from another thread" do
      stop = false
      busy = Array.new(3) { Thread.new { nil until stop } }
      start(worker)
      worker.stop
      start(worker)
      Thread.new { worker.stop }.join
      stop = true
      busy.each(&:join)
      start(worker)
      sleep(0.05)
      worker.stop
      expect(doors._native_is_running?(worker)).to be false
    ensure
      stop = true
      busy&.each(&:join)
    end

    it "works after the worker's thread was killed" do
      start(worker)
      thread.kill.join
      expect(doors._native_is_running?(worker)).to be false
      expect(doors._native_current_sigprof_signal_handler).to eq(:empty)
      expect(worker.start).to be true
      expect_running(worker)
      worker.stop
    end

    it "starts the next run from zero" do
      start(worker)
      wait_until { worker.stats[:cpu_sampled] > 5 }
      worker.stop
      serialize(recorder)
      sleep(0.2)
      with_sleeping_thread do |sleeper|
        start(worker)
        wait_until { serialize(recorder).of_thread(sleeper).any? }
        wall = serialize(recorder).of_thread(sleeper).sum(&:wall)
        expect(wall).to be < 150_000_000 # not the time between the runs
      end
    end
  end

  describe "the signal handler" do
    it "is ours during the run, and an empty one afterwards" do
      script = <<~'RUBY'
        require "standalone"
        doors = Datadog::Profiling::Collectors::CpuAndWallTimeWorker::Testing
        kind = -> { print doors._native_current_sigprof_signal_handler.inspect, " " }
        worker = new_worker
        kind.call
        start(worker)
        kind.call
        worker.stop
        kind.call
        start(worker)
        kind.call
        worker.stop
        kind.call
      RUBY
      expect(run_ruby!(script)).to eq("nil :profiling :empty :profiling :empty ")
    end

    it "restarts interrupted system calls, takes siginfo, and blocks nothing" do
      start(worker)
      _, flags, blocked = doors._native_sigaction
      sa_siginfo = 4
      sa_restart = 0x10000000
      expect(flags & (sa_siginfo | sa_restart)).to eq(sa_siginfo | sa_restart)
      expect(blocked).to eq([])
    end

    it "stays in place of nothing when it was ignored" do
      doors._native_remove_testing_signal_handler # SIG_IGN
      start(worker)
      expect(doors._native_current_sigprof_signal_handler).to eq(:profiling)
    end

    it "does not end the process when a signal comes after stop" do
      script = <<~'RUBY'
        require "standalone"
        worker = new_worker
        start(worker)
        worker.stop
        100.times { Process.kill(:PROF, Process.pid) }
        sleep(0.05)
        GC.start
        100.times { Process.kill(:PROF, Process.pid) }
        print "alive"
      RUBY
      expect(run_ruby!(script)).to eq("alive")
    end

    it "does not let a late signal end what the process becomes" do
      script = <<~'RUBY'
        require "standalone"
        worker = new_worker(interval: 0.001)
        start(worker)
        burn(0.02)
        20.times { exit!(1) unless system("true") }
        20.times { exit!(1) unless `echo hello` == "hello\n" }
        10.times { exit!(1) unless IO.popen(["cat"], "r+") { |io| io.write("x"); io.close_write; io.read } == "x" }
        worker.stop
        exec("echo", "alive")
      RUBY
      expect(run_ruby!(script)).to eq("alive\n")
    end

    describe "of somebody else" do
      before do
        doors._native_install_testing_signal_handler
        @theirs = doors._native_sigaction
      end
      after { doors._native_remove_testing_signal_handler }

      it "is an error that names it, and stays untouched" do
        failure = nil
        output = silently do
          worker.start(on_failure_proc: -> { failure = :called })
          wait_until { worker.failure_exception }
        end
        expect(worker.failure_exception.message).to match(/SIGPROF/)
        expect(output).to include("SIGPROF")
        expect(worker.wait_until_running).to be false
        wait_until { failure }
        expect(doors._native_sigaction).to eq(@theirs)
        worker.stop
        expect(doors._native_sigaction).to eq(@theirs)
        expect([1, 2].sum).to eq(3)
      end

      it "is an error only as long as it is there" do
        silently do
          worker.start
          wait_until { worker.failure_exception }
        end
        doors._native_remove_testing_signal_handler
        wait_until { !thread }
        expect(worker.start).to be true # without a stop between
        expect_running(worker)
        expect(worker.failure_exception).to be_nil
      end

      it "that came during our run ends the run with an error, and stays" do
        doors._native_remove_testing_signal_handler
        start(worker)
        doors._native_install_testing_signal_handler
        output = silently { wait_until { worker.failure_exception && !worker.running? } }
        expect(worker.failure_exception.message).to match(/replaced the SIGPROF/)
        expect(output).to include("SIGPROF")
        expect(doors._native_sigaction).to eq(@theirs)
        worker.stop
        expect(doors._native_sigaction).to eq(@theirs)
      end

      it "that came during our run is left alone when we stop at once" do
        doors._native_remove_testing_signal_handler
        start(worker)
        doors._native_install_testing_signal_handler
        theirs = doors._native_sigaction
        worker.stop
        expect(doors._native_sigaction).to eq(theirs)
      end

      it "does not keep the no-signals mode from running" do
        other = new_worker(no_signals_workaround_enabled: true)
        start(other)
        wait_until { other.stats[:cpu_sampled] > 3 }
        other.stop
        expect(doors._native_sigaction).to eq(@theirs)
      ensure
        other&.stop
      end
    end

    it "is the same before and after 200 runs, in the process and in a child that was forked in between" do
      start(worker)
      worker.stop
      before = doors._native_sigaction
      during = nil
      child = nil
      200.times do |i|
        worker.start
        worker.wait_until_running if i % 4 == 0
        if i == 100
          worker.wait_until_running
          during = doors._native_sigaction
          child = in_child do
            at_fork = doors._native_sigaction
            worker.reset_after_fork
            in_run = nil
            50.times do |n|
              worker.start
              worker.wait_until_running if n % 4 == 0
              in_run ||= doors._native_sigaction
              worker.stop
            end
            [at_fork, in_run, doors._native_sigaction]
          end
        end
        worker.stop
        expect(doors._native_sigaction).to eq(before)
      end
      expect(during).not_to eq(before)
      expect(child).to eq([during, during, before])
    end
  end

  describe "the handler's own code" do
    # Stands between the system and the program: knows when the handler runs, and ends the process when memory is asked for
    # or a lock is taken meanwhile.
    let(:guard) do
      <<~C
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <pthread.h>
        #include <signal.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>

        extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
        extern void __libc_free(void *);
        static __thread volatile int in_handler __attribute__((tls_model("initial-exec")));
        static volatile int runs, break_rule;
        static void (*theirs)(int, siginfo_t *, void *);

        static void check(const char *what) {
          if (!in_handler) return;
          in_handler = 0;
          if (write(2, what, strlen(what)) < 0) _exit(98);
          _exit(99);
        }
        void *malloc(size_t n) { check("malloc in the handler"); return __libc_malloc(n); }
        void *calloc(size_t n, size_t m) { check("calloc in the handler"); return __libc_calloc(n, m); }
        void *realloc(void *p, size_t n) { check("realloc in the handler"); return __libc_realloc(p, n); }
        void free(void *p) { check("free in the handler"); __libc_free(p); }
        int pthread_mutex_lock(pthread_mutex_t *mutex) {
          static int (*real)(pthread_mutex_t *);
          check("pthread_mutex_lock in the handler");
          if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_lock");
          return real(mutex);
        }
        void *dlopen(const char *file, int flags) { // deep binding would lead around us
          static void *(*real)(const char *, int);
          if (!real) *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
          return real(file, flags & ~RTLD_DEEPBIND);
        }
        static void around(int signal, siginfo_t *info, void *context) {
          in_handler = 1;
          runs++;
          if (break_rule && runs > 3) { void *volatile p = malloc(10); free(p); }
          theirs(signal, info, context);
          in_handler = 0;
        }
        int sigaction(int signal, const struct sigaction *action, struct sigaction *old) {
          static int (*real)(int, const struct sigaction *, struct sigaction *);
          if (!real) *(void **)&real = dlsym(RTLD_NEXT, "sigaction");
          struct sigaction wrapped, before;
          if (signal == SIGPROF && action && action->sa_flags & SA_SIGINFO) {
            theirs = action->sa_sigaction;
            wrapped = *action;
            wrapped.sa_sigaction = around;
            action = &wrapped;
          }
          int result = real(signal, action, &before);
          if (old) {
            *old = before;
            if (before.sa_sigaction == around) old->sa_sigaction = theirs;
          }
          return result;
        }
        __attribute__((constructor)) static void begin(void) { break_rule = getenv("BREAK_RULE") != NULL; }
        __attribute__((destructor)) static void end(void) { fprintf(stderr, "%d handler runs\\n", runs); }
      C
    end

    let(:script) do
      <<~'RUBY'
        require "standalone"
        worker = new_worker(interval: 0.001)
        start(worker)
        doors = Datadog::Profiling::NativeExtension::Testing
        deadline = monotonic + (ENV["NF_SOAK"] ? 20 : 1)
        while monotonic < deadline
          Array.new(50) { |i| "text #{i}" }
          Thread.new { nil }.join
          doors._native_signal_native_threads(2, 5)
        end
        worker.stop
        print "fine"
      RUBY
    end

    it "asks for no memory and takes no lock" do
      skip "AddressSanitizer has an allocator of its own" if ENV["NF_EXTENSION_ASAN"]
      Dir.mktmpdir do |folder|
        library = compile(guard, into: folder, flags: ["-O1", "-ldl"])
        env = { "LD_PRELOAD" => library }
        outcome = run_ruby(script, env: env)
        expect(outcome.stdout).to eq("fine"), outcome.to_s
        expect(outcome.stderr[/(\d+) handler runs/, 1].to_i).to be > 100

        broken = run_ruby(script, env: env.merge("BREAK_RULE" => "1"))
        expect(broken.to_s).to include("malloc in the handler").and include("exit 99") # the guard itself works
      end
    end
  end

  describe "SIGPROF" do
    it "is not blocked for anybody once the worker has ended" do
      10.times do
        start(worker)
        expect(doors._native_is_sigprof_blocked_in_current_thread).to be false
        worker.stop
        # Ruby gives native threads to new threads again.
        blocked = Array.new(5) { Thread.new { doors._native_is_sigprof_blocked_in_current_thread } }.map(&:value)
        expect(blocked).to all(be false)
      end
      expect(doors._native_is_sigprof_blocked_in_current_thread).to be false
    end

    it "to sleeping threads is counted and does nothing" do
      sleepers = Array.new(4) { Thread.new { sleep } }
      wait_until { sleepers.all? { |it| it.status == "sleep" } }
      start(worker)
      before = worker.stats[:signal_handler_wrong_thread]
      250.times { sleepers.each { |it| native._native_signal_thread(it) } }
      wait_until { worker.stats[:signal_handler_wrong_thread] > before } # those to one thread may become one
      worker.stop
      250.times { sleepers.each { |it| native._native_signal_thread(it) } }
      GC.start
      expect(sleepers).to all(be_alive)
    ensure
      sleepers&.each(&:kill)&.each(&:join)
    end

    it "to native threads that Ruby does not know is counted and does nothing" do
      start(worker)
      before = worker.stats[:signal_handler_wrong_thread]
      native._native_signal_native_threads(8, 4_000)
      expect(worker.stats[:signal_handler_wrong_thread]).to be > before
      expect(worker.failure_exception).to be_nil
      worker.stop
      GC.start
      native._native_signal_native_threads(8, 4_000)
      start(worker)
      wait_until { worker.stats[:cpu_sampled] > 2 }
    end

    it "in great numbers to the whole process is survived, and samples stay bounded by the pacing" do
      start(worker)
      5_000.times { Process.kill(:PROF, Process.pid) }
      stats = worker.stats
      expect(stats[:cpu_sampled] + stats[:cpu_skipped]).to be <= stats[:signal_handler_enqueued_sample]
      expect(worker.failure_exception).to be_nil
    end
  end

  describe "samples" do
    it "are taken of busy and of sleeping threads" do
      with_sleeping_thread do |sleeper|
        start(worker)
        burn(0.3)
        worker.stop
        got = serialize(recorder)
        expect(got.of_thread(Thread.current).sum(&:count)).to be > 10
        expect(got.of_thread(Thread.current).sum(&:cpu)).to be > 200_000_000
        expect(got.of_thread(sleeper).sum(&:count)).to be > 10
        expect(got.of_thread(sleeper).sum(&:cpu)).to eq(0)
        expect(got.of_thread(sleeper).map { |it| it.labels["state"] }).to include("sleeping")
      end
    end

    it "are taken when all threads sleep, with the help of the idle thread" do
      start(worker)
      sleep(0.5)
      stats = worker.stats
      expect(stats[:cpu_sampled]).to be > 20
      expect(stats[:trigger_simulated_signal_delivery_attempts]).to be > stats[:trigger_sample_attempts] * 0.8
      expect(stats[:simulated_signal_delivery]).to be >= stats[:cpu_sampled] * 0.8
    end

    it "reach the right thread when one is busy" do
      start(worker)
      burn(0.5)
      stats = worker.stats
      # On a machine with other work two signals may become one, as the thread did not run in between.
      expect(stats[:signal_handler_enqueued_sample]).to be >= stats[:trigger_sample_attempts] * 0.6
      expect(stats[:signal_handler_wrong_thread]).to be <= stats[:trigger_sample_attempts] * 0.1
      expect(stats[:cpu_sampled]).to be >= 30
    end

    it "come in the first moments already" do
      start(worker)
      burn(0.2)
      expect(worker.stats[:cpu_sampled]).to be >= 8
    end

    it "hold the profiler's own threads, by their names" do
      start(worker)
      burn(0.1)
      worker.stop
      names = serialize(recorder).samples.map(&:thread_name).uniq
      expect(names).to include(described_class.name, Datadog::Profiling::Collectors::IdleSamplingHelper.name)
    end

    it "carry what they cost, with the worker's stack" do
      start(worker)
      burn(0.3)
      worker.stop
      overhead = serialize(recorder).samples.select(&:overhead?)
      expect(overhead).not_to be_empty
      expect(overhead.flat_map(&:names)).to include("_native_sampling_loop")
      expect(overhead.sum(&:cpu)).to be < 0.05 * 300_000_000
    end

    it "are taken beside Process::Waiter threads" do
      waiter = Process.detach(fork { sleep })
      pid = waiter.pid
      start(worker)
      burn(0.1)
      worker.stop
      expect(worker.failure_exception).to be_nil
      expect(serialize(recorder).of_thread(waiter)).not_to be_empty
    ensure
      Process.kill(:KILL, pid) if pid
      waiter&.join
    end

    it "make no Ruby object" do
      with_sleeping_thread(-> { Support::StackScenarios.recurse(60, -> { sleep }) }) do
        start(worker)
        burn(0.1) # all threads are known now
        GC.disable
        sampled = worker.stats[:cpu_sampled]
        before = GC.stat(:total_allocated_objects)
        finish = cpu_time + 0.4
        nil while cpu_time < finish
        made = GC.stat(:total_allocated_objects) - before
        GC.enable
        expect(worker.stats[:cpu_sampled] - sampled).to be > 20
        expect(made).to be <= 5
      end
    ensure
      GC.enable
    end

    it "keep `$!`, `$~` and `$_` of the program" do
      start(worker)
      begin
        raise ArgumentError, "kept"
      rescue ArgumentError
        "abc" =~ /b/
        burn(0.1)
        expect($!&.message).to eq("kept") # rubocop:disable Style/SpecialGlobalVars
        expect($~[0]).to eq("b")
      end
    end
  end

  describe "system calls of the program" do
    # Without restart these end early, with EINTR.
    def interrupted_sleeps(count)
      poll = Fiddle::Function.new(Fiddle::Handle::DEFAULT["poll"], [Fiddle::TYPE_VOIDP, Fiddle::TYPE_LONG, Fiddle::TYPE_INT],
                                  Fiddle::TYPE_INT, need_gvl: true)
      Array.new(count) { poll.call(nil, 0, 30) }.count { |it| it == -1 }
    end

    it "are never interrupted without signals" do
      other = new_worker(no_signals_workaround_enabled: true)
      start(other)
      expect(interrupted_sleeps(15)).to eq(0)
    ensure
      other&.stop
    end

    it "can be interrupted with signals, which is what the mode without is for" do
      start(worker)
      expect(interrupted_sleeps(15)).to be > 0
    end

    it "of Ruby go on" do
      start(worker)
      before = monotonic
      expect(sleep(0.3)).to be_between(0, 1)
      expect(monotonic - before).to be >= 0.3
      reader, writer = IO.pipe
      writing = Thread.new { sleep(0.1) and writer.write("x" * 300_000) }
      expect(reader.read(300_000).size).to eq(300_000)
      writing.join
      expect(IO.select([reader], nil, nil, 0.1)).to be_nil
      expect(File.read("/proc/self/stat")).not_to be_empty
      expect(`sleep 0.05; echo done`).to eq("done\n")
    end
  end

  describe "the mode without signals" do
    let(:options) { { no_signals_workaround_enabled: true } }

    it "samples as often, leaves SIGPROF alone, and says so in its counters" do
      script = <<~'RUBY'
        require "standalone"
        worker = new_worker(no_signals_workaround_enabled: true)
        start(worker)
        print Datadog::Profiling::Collectors::CpuAndWallTimeWorker::Testing._native_current_sigprof_signal_handler.inspect
        worker.stop
        print Datadog::Profiling::Collectors::CpuAndWallTimeWorker::Testing._native_current_sigprof_signal_handler.inspect
      RUBY
      expect(run_ruby!(script)).to eq("nilnil")

      start(worker)
      sleep(0.3)
      stats = worker.stats
      worker.stop
      expect(stats[:cpu_sampled]).to be > 15
      expect(stats[:simulated_signal_delivery]).to be_within(1).of(stats[:trigger_sample_attempts])
      expect(stats[:signal_handler_enqueued_sample]).to eq(stats[:simulated_signal_delivery])
      expect(stats[:signal_handler_wrong_thread]).to eq(0)
      expect(stats[:trigger_simulated_signal_delivery_attempts]).to eq(0)
    end

    it "samples busy threads, whenever Ruby hands over the GVL" do
      start(worker)
      burn(1)
      worker.stop
      expect(serialize(recorder).of_thread(Thread.current).sum(&:cpu)).to be > 700_000_000
    end
  end

  describe "a failure" do
    it "ends the run, is kept, shown once and told to who asked; the program goes on" do
      start(worker)
      worker.stop
      told = Queue.new
      output = silently do
        start(worker, on_failure_proc: ->(error) { told << error })
        doors._native_delayed_error(worker, "on purpose")
        wait_until { worker.failure_exception }
        expect(told.pop).to be worker.failure_exception
      end
      expect(worker.failure_exception).to be_a(RuntimeError)
      expect(worker.failure_exception.message).to eq("on purpose")
      expect(output.scan("on purpose").size).to eq(1)
      expect(doors._native_is_running?(worker)).to be false
      expect(doors._native_current_sigprof_signal_handler).to eq(:empty)
      expect(doors._native_is_sigprof_blocked_in_current_thread).to be false
      burn(0.02)
    end

    it "is forgotten by stop, and by the next start" do
      silently do
        start(worker)
        doors._native_delayed_error(worker, "on purpose")
        wait_until { worker.failure_exception }
        worker.stop
        expect(worker.failure_exception).to be_nil
        start(worker)
        doors._native_delayed_error(worker, "again")
        wait_until { worker.failure_exception && !thread }
        expect(worker.start).to be true
        expect_running(worker)
        expect(worker.failure_exception).to be_nil
      end
    end

    it "before the start ends that run, or not at all" do
      silently do
        doors._native_delayed_error(worker, "early")
        worker.start
        wait_until { worker.failure_exception || worker.running? }
        worker.stop
        start(worker)
      end
    end

    it "in what was told is the caller's" do
      output = silently do
        start(worker, on_failure_proc: -> { raise IOError, "from the caller" })
        doors._native_delayed_error(worker, "on purpose")
        wait_until { worker.failure_exception && !thread }
      end
      expect(output).to include("on purpose")
      expect(worker.failure_exception.message).to eq("on purpose")
      start(worker)
    end
  end

  describe "stats" do
    let(:keys) do
      %i[
        trigger_sample_attempts trigger_simulated_signal_delivery_attempts simulated_signal_delivery
        signal_handler_enqueued_sample signal_handler_wrong_thread postponed_job_skipped_already_existed
        postponed_job_success postponed_job_full postponed_job_unknown_result cpu_sampled cpu_skipped
        cpu_effective_sample_rate cpu_sampling_time_ns_min cpu_sampling_time_ns_max cpu_sampling_time_ns_total
        cpu_sampling_time_ns_avg
      ]
    end
    let(:empty_when_unknown) do
      %i[cpu_effective_sample_rate cpu_sampling_time_ns_min cpu_sampling_time_ns_max cpu_sampling_time_ns_total cpu_sampling_time_ns_avg]
    end

    it "have all keys, with zero or nil before the first run" do
      stats = worker.stats
      expect(stats.keys).to include(*keys)
      expect(stats.slice(*empty_when_unknown).values).to all(be_nil)
      expect(stats.slice(*(keys - empty_when_unknown)).values).to all(eq(0))
    end

    it "agree with each other" do
      start(worker)
      burn(0.2)
      sleep(0.1)
      worker.stop
      stats = worker.stats
      results = stats.slice(:postponed_job_skipped_already_existed, :postponed_job_success, :postponed_job_full,
                            :postponed_job_unknown_result)
      expect(stats[:cpu_sampled]).to be > 0
      expect(stats[:cpu_sampled] + stats[:cpu_skipped]).to be <= stats[:postponed_job_success]
      expect(results.values.sum).to eq(stats[:signal_handler_enqueued_sample])
      expect(stats[:signal_handler_enqueued_sample]).to be <= stats[:trigger_sample_attempts]
      expect(stats[:simulated_signal_delivery]).to be <= stats[:signal_handler_enqueued_sample]
      expect(stats[:postponed_job_unknown_result]).to eq(0)
      least, most, total, average = stats.values_at(*empty_when_unknown.drop(1))
      expect([1, least, average, most, total, 1_000_000_000]).to eq([1, least, average, most, total, 1_000_000_000].sort)
      expect(average).to be_within(1e-6).of(total.to_f / stats[:cpu_sampled])
      expect(stats[:cpu_effective_sample_rate]).to be_within(1e-9)
        .of(stats[:cpu_sampled].to_f / (stats[:cpu_sampled] + stats[:cpu_skipped]))
    end

    it "can be taken and set to zero" do
      start(worker)
      burn(0.1)
      worker.stop
      taken = worker.stats_and_reset_not_thread_safe
      expect(taken[:cpu_sampled]).to be > 0
      expect(worker.stats[:cpu_sampled]).to eq(0)
      expect(worker.stats[:trigger_sample_attempts]).to eq(0)
      expect(worker.stats[:cpu_sampling_time_ns_min]).to be_nil
    end
  end

  describe "pacing" do
    it "keeps the cost of sampling near its target however many threads there are" do
      threads = Array.new(1_000) { Thread.new { sleep } }
      wait_until { threads.all? { |it| it.status == "sleep" } }
      start(worker)
      before = monotonic
      burn(1.5)
      passed = monotonic - before
      stats = worker.stats
      worker.stop
      overhead = serialize(recorder).samples.select(&:overhead?).sum(&:cpu)
      expect(stats[:cpu_sampled]).to be_between(3, 80 * passed)
      expect(overhead / 1e9).to be < 0.06 * passed # 2 % are aimed at; the first sample comes on top
    ensure
      threads&.each(&:kill)&.each(&:join)
    end

    it "can be switched off" do
      other = new_worker(dynamic_sampling_rate_enabled: false)
      start(other)
      burn(0.3)
      expect(other.stats[:cpu_skipped]).to eq(0)
    ensure
      other&.stop
    end
  end

  describe "in a forked child" do
    it "does not run, and can be started again by the same or another instance" do
      start(worker)
      wait_until { worker.stats[:cpu_sampled] > 2 }
      running, same, other = in_child do
        before = doors._native_is_running?(worker)
        worker.reset_after_fork
        serialize(recorder)
        start(worker)
        burn(0.2)
        first = worker.stats[:cpu_sampled]
        worker.stop
        second = new_worker
        start(second)
        burn(0.2)
        [before, first, second.stats[:cpu_sampled]].tap { second.stop }
      end
      expect(running).to be false
      expect(same).to be >= 8
      expect(other).to be >= 8
      before = worker.stats[:cpu_sampled]
      wait_until { worker.stats[:cpu_sampled] > before + 2 }
    end

    it "can be started by another instance without a reset of the first" do
      start(worker)
      sampled = in_child do
        other = new_worker
        start(other)
        burn(0.2)
        other.stats[:cpu_sampled].tap { other.stop }
      end
      expect(sampled).to be >= 8
    end

    it "starts its counters at zero" do
      start(worker)
      burn(0.2)
      stats = in_child { worker.reset_after_fork && worker.stats.slice(:cpu_sampled, :trigger_sample_attempts) }
      expect(stats).to eq(cpu_sampled: 0, trigger_sample_attempts: 0)
    end

    it "lets a child go that cares nothing for it, even with signals on their way" do
      start(worker)
      10.times do
        expect(in_child { 50.times { Process.kill(:PROF, Process.pid) } && GC.start.nil? }).to be true
      end
    end
  end

  describe "other Ractors" do
    it "run beside it, are not sampled, and cannot start one" do
      script = <<~'RUBY'
        require "standalone"
        worker = new_worker(interval: 0.001)
        start(worker)
        ractors = Array.new(2) { Ractor.new { 300.times { Array.new(1000, &:to_s) }; :done } }
        burn(0.3)
        print ractors.map(&:take).inspect
        print worker.failure_exception.inspect, worker.stats[:cpu_sampled] > 50
        worker.stop
      RUBY
      expect(run_ruby!(script, options: ["-W0"])).to eq("[:done, :done]niltrue")
    end
  end

  describe "arguments" do
    it "must be a percentage above 0 and up to 100" do
      [0, 0.0, -1.0, 100.1, Float::NAN, Float::INFINITY].each do |it|
        expect { new_worker(dynamic_sampling_rate_overhead_target_percentage: it) }.to raise_error(ArgumentError)
      end
      ["2", nil, :two].each do |it|
        expect { new_worker(dynamic_sampling_rate_overhead_target_percentage: it) }.to raise_error(TypeError)
      end
      [3, 100, 0.1, 2.0].each { |it| expect(new_worker(dynamic_sampling_rate_overhead_target_percentage: it)).to be_a(described_class) }
    end

    it "must be true or false where that is asked for" do
      %i[no_signals_workaround_enabled dynamic_sampling_rate_enabled gc_profiling_enabled allocation_profiling_enabled].each do |it|
        [nil, 0, "false"].each { |value| expect { new_worker(it => value) }.to raise_error(TypeError) }
      end
    end

    it "must be a thread context and an idle helper" do
      [nil, 1, Object.new].each do |it|
        expect { new_worker(context: it || "nil") }.to raise_error(TypeError)
        expect { new_worker(idle_sampling_helper: it) }.to raise_error(TypeError)
      end
    end

    it "must be an interval between a millisecond and a second" do
      [0, 0.0009, 1.1, -1].each { |it| expect { new_worker(interval: it) }.to raise_error(ArgumentError, /interval/) }
      [0.001, 1, 0.01].each { |it| expect(new_worker(interval: it)).to be_a(described_class) }
    end
  end

  it "takes more samples with a shorter interval" do
    rates = [0.05, 0.001].map do |interval|
      one = new_worker(interval: interval, dynamic_sampling_rate_enabled: false)
      start(one)
      before = monotonic
      burn(0.4)
      (one.stats[:cpu_sampled] / (monotonic - before)).tap { one.stop }
    end
    expect(rates.last).to be > 2 * rates.first
  end

  it "raises or answers, and does not crash, when it was never initialized" do
    empty = described_class.allocate
    [-> { described_class._native_sampling_loop(empty) }, -> { described_class._native_stop(empty, Thread.current) },
     -> { described_class._native_stats(empty) }, -> { described_class._native_reset_after_fork(empty) },
     -> { described_class._native_stats_reset_not_thread_safe(empty) }, -> { doors._native_is_running?(empty) }].each do |action|
      action.call
    rescue StandardError => e
      expect(e.message).not_to be_empty
    end
    [nil, 1, Object.new].each do |it|
      expect { described_class._native_sampling_loop(it) }.to raise_error(TypeError)
      expect { described_class._native_stats(it) }.to raise_error(TypeError)
    end
    GC.start
  end

  it "can be collected, also while its handler is still in place" do
    20.times do
      temporary = new_worker
      start(temporary)
      temporary.stop
    end
    GC.start
    20.times { Process.kill(:PROF, Process.pid) }
    start(worker)
    wait_until { worker.stats[:cpu_sampled] > 1 }
  end
end
