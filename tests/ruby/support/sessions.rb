require "stringio"

module Support
  # Running profilers.
  module Sessions
    def new_thread_context(recorder, **options)
      Datadog::Profiling::Collectors::ThreadContext.new(
        recorder: recorder, max_frames: 400, tracer: nil, endpoint_collection_enabled: false, timeline_enabled: false,
        **options
      )
    end

    # A worker with all that it needs: recorder, thread context, idle helper.
    def new_worker(recorder: new_recorder, context: nil, **options)
      context ||= new_thread_context(recorder)
      Datadog::Profiling::Collectors::CpuAndWallTimeWorker.new(
        gc_profiling_enabled: false, allocation_profiling_enabled: false, no_signals_workaround_enabled: false,
        thread_context_collector: context, dynamic_sampling_rate_overhead_target_percentage: 2.0, **options
      )
    end

    # Starts it, and waits until it samples.
    def start(worker, **options)
      worker.start(**options)
      expect_running(worker)
    end

    def expect_running(worker)
      raise "the worker did not start: #{worker.failure_exception.inspect}" unless worker.wait_until_running
    end

    # What the block says on standard error, which nobody else gets to see.
    def silently
      before = $stderr
      $stderr = StringIO.new
      yield
      $stderr.string
    ensure
      $stderr = before
    end

    # The decoded profile of what the block did, and its result.
    def profile_of(**options)
      session = Datadog::Profiling::Session.new(**options)
      session.start
      result = yield
      raw = session.stop
      raise raw.failure if raw.failure
      [decode(raw.bytes), result, raw]
    ensure
      session&.stop
    end
  end
end
