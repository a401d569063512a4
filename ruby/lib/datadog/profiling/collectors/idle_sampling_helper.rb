# frozen_string_literal: true

module Datadog
  module Profiling
    module Collectors
      # Takes the GVL for the worker when nobody holds it (ruby/profiler/idle_sampling_helper.c).
      class IdleSamplingHelper
        def initialize
          @start_stop = Mutex.new
          @thread = nil
        end

        # True if it was started, nil if it was running.
        def start
          @start_stop.synchronize do
            return if @thread&.alive?

            self.class._native_reset(self)
            @thread = OwnThread.start(self.class.name) { self.class._native_idle_sampling_loop(self) }
          end
          true
        end

        def stop
          @start_stop.synchronize do
            return unless @thread

            self.class._native_stop(self)
            OwnThread.join(@thread)
            @thread = nil
          end
          true
        end

        # In a forked child.
        def reset_after_fork
          @start_stop = Mutex.new
          @thread = nil
          self.class._native_reset(self)
        end

        # What it ended by, if that was an exception.
        def failure
          @thread && OwnThread.failure(@thread)
        end

        def running?
          @thread&.alive? ? true : false
        end
      end
    end
  end
end
