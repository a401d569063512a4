module Support
  module Threads
    # In a forked child Ruby 3.1 itself still has the parent's id for the main thread; before 3.1 it knows none.
    def self.kernel_id(thread)
      return Process.pid if thread == Thread.main
      thread.respond_to?(:native_thread_id) ? thread.native_thread_id : thread.thread_variable_get(:kernel_id)
    end

    unless Thread.method_defined?(:native_thread_id)
      GETTID = RUBY_PLATFORM.start_with?("x86_64") ? 186 : 178
      # Not by /proc/thread-self: a thread that looks there seems to sleep.
      TracePoint.new(:thread_begin) do
        Thread.current.thread_variable_set(:kernel_id, syscall(GETTID))
      end.enable
    end

    def kernel_id(thread)
      Threads.kernel_id(thread)
    end

    # Polls, and fails with what it waited for.
    def wait_until(seconds: 5, message: "a condition")
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
      until (result = yield)
        raise "waited #{seconds} s for #{message}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
        sleep 0.001
      end
      result
    end

    def monotonic
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def cpu_time
      Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
    end

    # Uses this thread's CPU for so many seconds of CPU time (not of wall time).
    def burn(seconds)
      finish = cpu_time + seconds
      nil while cpu_time < finish
    end

    # Starts a thread, waits until it sleeps (in the block, or after it), yields it, and ends it.
    def with_sleeping_thread(work = -> { sleep })
      thread = Thread.new { work.call }
      wait_until(message: "the thread to sleep") { thread.status == "sleep" }
      yield thread
    ensure
      thread&.kill
      thread&.join
    end

    # Threads of the profiler carry the name of their class.
    def ours?(thread)
      thread.name.to_s.start_with?("Datadog::Profiling")
    end
  end
end
