require "spec_helper"
require "fiddle"
require "tmpdir"

# The signals of the sampling worker; the rest of it is in worker_spec.rb.
RSpec.describe Datadog::Profiling::Collectors::CpuAndWallTimeWorker, "and signals" do
  let(:recorder) { new_recorder }
  let(:options) { {} }
  let(:doors) { described_class::Testing }
  let(:native) { Datadog::Profiling::NativeExtension::Testing }
  subject(:worker) { new_worker(recorder: recorder, **options) }

  after { worker.stop }

  def thread
    Thread.list.find { |it| it.name == described_class.name }
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
          wait_until { worker.failure_exception && !thread }
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
        output = silently { wait_until { worker.failure_exception && !thread } }
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
    # or a lock is taken meanwhile. Signals from elsewhere come to threads that have just begun, while these ask for memory.
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
        static __thread int requests __attribute__((tls_model("initial-exec")));
        static volatile int runs, break_rule, ready;
        static void (*theirs)(int, siginfo_t *, void *);

        static void check(const char *what) {
          if (!in_handler) return;
          in_handler = 0;
          if (write(2, what, strlen(what)) < 0) _exit(98);
          _exit(99);
        }
        void *malloc(size_t n) {
          check("malloc in the handler");
          if (ready && requests++ < 10) raise(SIGPROF);
          return __libc_malloc(n);
        }
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
          int theirs_comes = signal == SIGPROF && action && action->sa_flags & SA_SIGINFO;
          if (signal == SIGPROF && action) ready = 0;
          if (theirs_comes) {
            theirs = action->sa_sigaction;
            wrapped = *action;
            wrapped.sa_sigaction = around;
            action = &wrapped;
          }
          int result = real(signal, action, &before);
          if (theirs_comes) ready = 1;
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

    it "to sleeping threads is counted, and they sleep on", needs: :gvl_owner do
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

  describe "the thread that samples idle programs" do
    let(:options) { { interval: 1.0 } } # so that all signals are its own

    it "samples for a signal that has met a thread without the GVL, once for each tick", needs: :gvl_owner do
      sleeper = Thread.new { sleep }
      wait_until { sleeper.status == "sleep" }
      start(worker)
      before = worker.stats
      gain = ->(what) { worker.stats[what] - before[what] }
      again = -> { gain.call(:simulated_signal_delivery) - gain.call(:trigger_simulated_signal_delivery_attempts) }
      # The chance of the first tick may be gone. On a busy machine somebody may have the GVL when the helper looks, later.
      until gain.call(:trigger_sample_attempts) >= 2 && again.call >= 1
        native._native_signal_thread(sleeper)
        sleep(0.02) # nobody has the GVL when the helper looks
      end
      sleep(0.05)
      expect(again.call).to be <= gain.call(:trigger_sample_attempts) + 1
    ensure
      sleeper&.kill&.join
    end

    it "signals whoever has the GVL by the time that it is awake, and does not wait for the GVL", needs: :gvl_owner do
      start(worker)
      before = worker.stats
      thread = Thread.new { 6.times { doors._native_sample_idle_program(0.02) } }
      nil while thread.alive?
      after = worker.stats
      expect(after[:simulated_signal_delivery] - before[:simulated_signal_delivery]).to be < 3
      expect(after[:signal_handler_enqueued_sample] - before[:signal_handler_enqueued_sample]).to be >= 5
    end

    it "takes the GVL when nobody has it" do
      start(worker)
      before = worker.stats
      6.times { doors._native_sample_idle_program(0.001) }
      expect(worker.stats[:simulated_signal_delivery] - before[:simulated_signal_delivery]).to be >= 6
    end
  end

  describe "system calls of the program" do
    def poll
      Fiddle::Function.new(Fiddle::Handle::DEFAULT["poll"], [Fiddle::TYPE_VOIDP, Fiddle::TYPE_LONG, Fiddle::TYPE_INT],
                           Fiddle::TYPE_INT, need_gvl: true)
    rescue ArgumentError
      skip "the fiddle of this Ruby cannot call C with the GVL"
    end

    # Without restart these end early, with EINTR.
    def interrupted_sleeps(count)
      poll = self.poll
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
end
