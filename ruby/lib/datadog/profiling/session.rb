# frozen_string_literal: true

module Datadog
  module Profiling
    # What a session ends in. `bytes` is a pprof file, ready to be written. `failure` is nil, or why the
    # profile is not complete: what ended the sampling too early, that samples found no room, or what this Ruby does
    # not bear.
    Profile = Struct.new(
      :start, :finish, :bytes, :sample_count, :thread_count, :failure, keyword_init: true
    ) do
      def duration
        finish - start
      end
    end

    # One run of the profiler, from start to stop, in this process.
    #
    #   session = Datadog::Profiling::Session.new
    #   session.start
    #   work
    #   File.binwrite("work.pprof", session.stop.bytes)
    class Session
      # `max_frames`: deeper stacks are cut, and say by how much. `interval`: seconds between samples, 0.001
      # to 1. `no_signals`: for programs with libraries that cannot bear interrupted system calls. `codec`:
      # one of StackRecorder::CODECS. `overhead_target_percentage`: samples are spaced out so that they cost
      # no more of the time than this. `gc`: garbage collection is shown by itself and not as CPU time of the
      # threads that had to do it. `timeline`: samples are kept one by one, with their time. `allocations`: which
      # objects are made, and where. `heap`: which of them live at the end, and their size; allocations too. What this
      # Ruby does not bear (`Profiling.capabilities`) is left out, and is the profile's `failure`.
      def initialize(
        max_frames: 400, interval: 0.01, no_signals: false, overhead_target_percentage: 2.0, codec: :gzip,
        gc: false, timeline: false, allocations: false, heap: false
      )
        Profiling.load_profiling
        unless StackRecorder::CODECS.include?(codec)
          raise ArgumentError, "unknown codec #{codec.inspect}, known are #{StackRecorder::CODECS.inspect}"
        end

        allocations ||= heap
        @refused = (RubyRules.allocation_refused if allocations) || (RubyRules.heap_refused if heap)
        allocations &&= !RubyRules.allocation_refused
        heap &&= allocations && !RubyRules.heap_refused
        @codec = codec
        @recorder = StackRecorder.new(
          cpu_time_enabled: NativeExtension._native_cpu_time?, alloc_samples_enabled: allocations,
          heap_samples_enabled: heap, heap_size_enabled: heap, heap_sample_every: 1, timeline_enabled: timeline
        )
        @thread_context = Collectors::ThreadContext.new(
          recorder: @recorder, max_frames: max_frames, tracer: nil, endpoint_collection_enabled: false,
          timeline_enabled: timeline
        )
        @worker = Collectors::CpuAndWallTimeWorker.new(
          thread_context_collector: @thread_context, interval: interval,
          no_signals_workaround_enabled: no_signals, gc_profiling_enabled: gc,
          allocation_profiling_enabled: allocations,
          dynamic_sampling_rate_overhead_target_percentage: overhead_target_percentage.to_f
        )
        @started_in = nil
      end

      # True, also when it was started already. Raises what keeps the sampling from starting, such as a
      # SIGPROF handler of somebody else.
      def start
        return true if started?

        ExecGuard.install
        @worker.start(warn_on_failure: false) # said in the profile, or raised below
        unless @worker.wait_until_running
          failure = @worker.failure_exception || RuntimeError.new("the profiler's thread did not start")
          @worker.stop
          raise Unsupported, failure.message
        end
        @worker.stats_and_reset_not_thread_safe # all figures are of this run
        @thread_context.begin_profile
        ExecGuard.worker = @worker
        @started_in = Process.pid
        true
      end

      def started?
        @started_in == Process.pid
      end

      # The Profile, or nil when there is nothing to stop (any more). In a forked child there is not, see
      # `reset_after_fork`.
      def stop
        return unless started?

        @started_in = nil
        ExecGuard.worker = nil
        failure = @worker.ended_by
        @thread_context.finish_profile
        # Before the worker ends, which may take its time.
        start, finish, bytes = @recorder.serialize(codec: @codec)
        recorded = @recorder.stats
        failure ||= refusal(recorded) || reduction || (Unsupported.new(@refused) if @refused)
        threads = @thread_context.stats.fetch(:threads_seen)
        begin
          @worker.stop
        rescue StandardError => e # what was seen is worth more
          failure ||= e
        end
        @recorder.forget_objects
        raise "the profile cannot be encoded: #{@recorder.last_error}" unless bytes

        Profile.new(
          start: start, finish: finish, bytes: bytes, thread_count: threads, failure: failure,
          sample_count: recorded.fetch(:samples_in_last_profile)
        )
      end

      # In a forked child: drops the parent's samples and starts again, if the parent's session was running.
      def reset_after_fork
        return false if @started_in.nil? || started?

        @started_in = nil
        @worker.reset_after_fork
        start
      end

      # What the profiler has done so far, for those who wonder.
      def stats
        @worker.stats.merge(@thread_context.stats, @recorder.stats)
      end

      private

      def reduction
        reason = @worker.incomplete_because
        RuntimeError.new(reason) if reason
      end

      def refusal(recorded)
        lost = recorded.fetch(:refused_samples)
        RuntimeError.new("#{lost} samples are missing: #{recorded.fetch(:first_refusal)}") if lost > 0
      end
    end
  end
end
