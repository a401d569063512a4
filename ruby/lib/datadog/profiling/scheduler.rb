# frozen_string_literal: true

require_relative "clock"
require_relative "log"
require_relative "periodic"

module Datadog
  module Profiling
    # Sends a report each minute.
    class Scheduler < Periodic
      INTERVAL_SECONDS = 60
      JITTER_SECONDS = 3

      def initialize(exporter:, transport:, interval: INTERVAL_SECONDS, enabled: true)
        super(interval: interval)
        @exporter = exporter
        @transport = transport
        @random = Random.new # not the program's
        @last_duration = 0
        self.enabled = enabled
      end

      # The failure is given to the procedure, if it takes an argument.
      def start(on_failure_proc: nil)
        @on_failure_proc = on_failure_proc
        super()
      end

      def reset_after_fork
        super
        @last_duration = 0
        @exporter.reset_after_fork
      end

      # The time of a report is part of its minute.
      def wait_time
        [interval - @last_duration, 0].max
      end

      def work_pending?
        @exporter.can_flush?
      end

      # Also called from outside, by whoever cannot wait.
      def perform
        over = false
        started = Clock.monotonic
        flush_and_wait
        over = true
      rescue Exception => e # rubocop:disable Lint/RescueException
        over = true
        Log.warn("Reports have ended: #{e.message} (#{e.class} at #{e.backtrace&.first})")
        tell(e)
        raise
      ensure
        @last_duration = Clock.monotonic - started if started
        Log.warn("A report was interrupted: the last profile is lost") unless over
      end

      private

      def flush_and_wait
        flush = @exporter.flush
        return unless flush

        # Many processes that were started at once shall not all report at once.
        sleep(@random.rand * JITTER_SECONDS) if jitter?
        @transport.export(flush)
      rescue StandardError => e
        Log.error("The report was not sent: #{e.message} (#{e.class} at #{e.backtrace&.first})")
      end

      # Only in the turns of our own thread.
      def jitter?
        !stopping? && @thread == Thread.current && interval >= INTERVAL_SECONDS
      end

      def ended_by_program
        tell(RuntimeError.new("the program has ended the profiler's thread"))
      end

      def tell(error)
        return unless @on_failure_proc

        @on_failure_proc.arity.zero? ? @on_failure_proc.call : @on_failure_proc.call(error)
      end
    end
  end
end
