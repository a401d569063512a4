# frozen_string_literal: true

module Datadog
  module Profiling
    # The threads of the profiler itself.
    module OwnThread
      # Named when this returns, and from the inside, whichever comes first.
      def self.start(name)
        thread = Thread.new do
          Thread.current.report_on_exception = false
          Thread.current.name = name
          yield
        rescue Exception => e # rubocop:disable Lint/RescueException
          # Not raised any further: Thread.abort_on_exception would raise it in the program.
          Thread.current.thread_variable_set(:nf_failure, e)
        end
        thread.name = name
        thread.thread_variable_set(:fork_safe, true)
        thread
      end

      # What it ended by, if that was an exception.
      def self.failure(thread)
        thread.thread_variable_get(:nf_failure)
      end

      # Waits for its end. What its block has returned; what it ended by is raised here.
      def self.value(thread)
        value = thread.value
        failure = failure(thread)
        raise failure if failure

        value
      end

      # Waits for its end (nil if `seconds` were not enough), and does not raise what it ended by.
      def self.join(thread, seconds = nil)
        thread.join(seconds)
      rescue Exception # rubocop:disable Lint/RescueException
        raise unless thread.status.nil? # it is we who were interrupted

        thread
      end
    end
  end
end
