# frozen_string_literal: true

require_relative "../clock"

module Datadog
  module Profiling
    module Collectors
      # The thread that decides when to sample (ruby/profiler/worker.c).
      class CpuAndWallTimeWorker
        # What ended the last run, if it was an exception; nil after `stop`.
        attr_reader :failure_exception

        def initialize(
          thread_context_collector:, no_signals_workaround_enabled: false,
          dynamic_sampling_rate_overhead_target_percentage: 2.0, dynamic_sampling_rate_enabled: true,
          gc_profiling_enabled: false, allocation_profiling_enabled: false,
          idle_sampling_helper: IdleSamplingHelper.new, interval: 0.01
        )
          self.class._native_initialize(
            self, thread_context_collector, gc_profiling_enabled, idle_sampling_helper,
            no_signals_workaround_enabled, dynamic_sampling_rate_overhead_target_percentage,
            dynamic_sampling_rate_enabled, allocation_profiling_enabled
          )
          self.class._native_set_interval(self, (interval * 1_000_000_000).round)
          @object_hooks = gc_profiling_enabled || allocation_profiling_enabled
          @thread_context_collector = thread_context_collector
          @idle_sampling_helper = idle_sampling_helper
          @start_stop = Mutex.new
          @thread = nil
          @failure_exception = nil
        end

        # True if it was started, nil if it was running. When the run ends in an exception there is one
        # warning, and `on_failure_proc` is called on the worker's thread, with that exception if it takes an
        # argument.
        def start(on_failure_proc: nil, warn_on_failure: true)
          @start_stop.synchronize do
            return if @thread&.alive?

            @failure_exception = nil
            @on_failure_proc = on_failure_proc
            @warn_on_failure = warn_on_failure
            make_way_for_ractors if @object_hooks
            @idle_sampling_helper.start
            start_thread
          end
          true
        end

        def stop
          @start_stop.synchronize do
            @idle_sampling_helper.stop
            if @thread
              self.class._native_stop(self, @thread)
              OwnThread.join(@thread)
              @thread = nil
            end
            @failure_exception = nil
          end
          true
        end

        # For a while no signal is sent and no sample taken; all samples are kept. True if that needs a
        # `resume`. Takes no lock, so that it can be called from a signal trap too.
        def pause
          thread = @thread
          return false unless running?

          self.class._native_stop(self, thread)
          OwnThread.join(thread)
          true
        end

        def resume
          @start_stop.synchronize do
            return if @thread.nil? || @thread.alive? # stopped or started meanwhile

            start_thread
          end
          true
        rescue ThreadError # in a signal trap: without the lock, which only protects against other threads
          start_thread
          true
        end

        # True once samples can be taken, false if the worker's thread has ended or the time is over. (With
        # many busy threads it takes its turn: a tenth of a second for each.)
        def wait_until_running(timeout_seconds: 60)
          deadline = Clock.monotonic + timeout_seconds
          until running?
            return false unless @thread&.alive?
            return false if Clock.monotonic > deadline

            sleep 0.001
          end
          true
        end

        def running?
          !@thread.nil? && @thread.alive? && self.class._native_running?(self)
        end

        # nil while all of it runs; else why it does not any more.
        def ended_by
          return if running? && @idle_sampling_helper.running?

          OwnThread.join(@thread) if @thread && !running? # it may be about to say
          @failure_exception || @idle_sampling_helper.failure ||
            RuntimeError.new("the program has ended the profiler's thread")
        end

        # nil, or why the current or last run does not have all that was asked for.
        def incomplete_because
          RactorGuard::REASON if self.class._native_reduced?(self)
        end

        # In a forked child: the threads are gone and the samples are the parent's.
        def reset_after_fork
          @start_stop = Mutex.new # may be in the hands of a thread that only the parent has
          @thread = nil
          @failure_exception = nil
          @idle_sampling_helper.reset_after_fork
          self.class._native_reset_after_fork(self)
          @thread_context_collector.reset_after_fork
        end

        def stats
          self.class._native_stats(self)
        end

        def stats_and_reset_not_thread_safe
          result = stats
          self.class._native_stats_reset_not_thread_safe(self)
          result
        end

        private

        def make_way_for_ractors
          RactorGuard.install
          RactorGuard.closed if RactorGuard.closed?
        end

        def start_thread
          @thread = OwnThread.start(self.class.name) { run(@on_failure_proc, @warn_on_failure) }
        end

        def run(on_failure_proc, warn_on_failure)
          self.class._native_sampling_loop(self)
        rescue Exception => e # rubocop:disable Lint/RescueException
          @failure_exception = e
          warn("#{self.class} stopped: #{e.message} (#{e.class})") if warn_on_failure
          if on_failure_proc
            on_failure_proc.arity.zero? ? on_failure_proc.call : on_failure_proc.call(e)
          end
        end
      end
    end
  end
end
