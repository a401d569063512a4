# frozen_string_literal: true

require_relative "clock"
require_relative "log"
require_relative "own_thread"

module Datadog
  module Profiling
    # Calls `perform` again and again on a thread of its own: after each interval, and once more when it is
    # stopped if there is something left to do (`work_pending?`), even if the program has ended that thread.
    class Periodic
      def initialize(interval:)
        @interval = interval
        @enabled = true
        forget
      end

      attr_reader :interval
      attr_accessor :enabled

      # True if the thread was started, nil if not (it runs, or is turned off).
      def start
        @mutex.synchronize do
          return if !@enabled || running?

          @stopping = @over = @failed = false
          @thread = OwnThread.start(self.class.name) { run }
        end
        true
      end

      # `force`: if it has not ended by itself after `timeout` seconds, its thread is killed. True once it is
      # over.
      def stop(force: false, timeout: 1)
        thread = @mutex.synchronize do
          @stopping = true
          @wake_up.broadcast
          @thread
        end
        return true if thread.nil?
        return end_by_force(thread, force) unless OwnThread.join(thread, timeout)
        return true if @over || @failed

        # The program has ended our thread; what it left undone is still to be done.
        @over = true
        last_turn = OwnThread.start(self.class.name) { perform if work_pending? }
        OwnThread.join(last_turn, timeout) ? true : end_by_force(last_turn, force)
      end

      def running?
        !@thread.nil? && @thread.alive?
      end

      # In a forked child, which has none of the parent's threads.
      def reset_after_fork
        forget
      end

      # Seconds until the next turn.
      def wait_time
        @interval
      end

      def work_pending?
        false
      end

      # Told by `perform` when it is the last turn.
      def stopping?
        @stopping
      end

      private

      def end_by_force(thread, force)
        return false unless force

        @over = true
        thread.kill
        OwnThread.join(thread)
        true
      end

      # On the thread that the program has ended, at the last moment.
      def ended_by_program; end

      def forget
        @mutex = Mutex.new # may be in the hands of a thread that only the parent has
        @wake_up = ConditionVariable.new
        @stopping = @over = @failed = false
        @thread = nil
      end

      def run
        until wait(wait_time)
          turn
        end
        turn
        @over = true
      ensure
        ended_by_program unless @over || @stopping || @failed
      end

      def turn
        perform if work_pending?
      rescue Exception # rubocop:disable Lint/RescueException
        @failed = true
        raise
      end

      # True if it is time to stop.
      def wait(seconds)
        deadline = Clock.monotonic + seconds
        @mutex.synchronize do
          until @stopping
            left = deadline - Clock.monotonic
            break if left <= 0

            @wake_up.wait(@mutex, left)
          end
          @stopping
        end
      end
    end
  end
end
