# frozen_string_literal: true

require_relative "exec_guard"
require_relative "log"
require_relative "ractor_guard"

module Datadog
  module Profiling
    # The running profiler of a process: what samples (the worker) and what reports (the scheduler). Neither
    # goes on without the other.
    class Profiler
      # How long the last report may take: one over the network shall not keep the program from ending.
      REMOTE_SECONDS = 1
      LOCAL_SECONDS = 10
      # The worker's thread and the report's are waited for.
      LONGEST_END_SECONDS = LOCAL_SECONDS + 5
      # How long a start may take. Without waiting a busy program would have the GVL to itself for its first tenth of
      # a second, and a short one would not be seen at all. Where other threads are busy already, nobody waits long.
      START_SECONDS = 0.1

      attr_reader :worker, :scheduler, :exporter

      # `local_output`: reports never leave this machine. `on_start`: called before each start.
      def initialize(worker:, scheduler:, exporter: nil, local_output: false, on_start: nil)
        @worker = worker
        @scheduler = scheduler
        @exporter = exporter
        @local_output = local_output
        @on_start = on_start
        @pid = Process.pid
        @failed = false
        @stopping = false
        @said_end_of_collectors = false
      end

      # Also in a forked child, where all begins anew. True, unless it has failed before in this process.
      def start
        reset_after_fork if @pid != Process.pid
        return false if @failed || @stopping

        @on_start&.call
        ExecGuard.install
        ExecGuard.worker = @worker
        ExecGuard.before_exec = @local_output ? -> { report_before_exec } : nil
        RactorGuard.on_close = ->(reason) { collectors_ended(reason) }
        @worker.start(on_failure_proc: ->(error) { component_failed(:worker, error) }, warn_on_failure: false)
        @scheduler.start(on_failure_proc: ->(error) { component_failed(:scheduler, error) })
        @worker.wait_until_running(timeout_seconds: START_SECONDS)
        true
      end

      # `report_last_profile`: what was not reported yet is, if it does not take long.
      def shutdown!(report_last_profile: true)
        return if @pid != Process.pid # the parent's; nothing of it runs here

        @stopping = true
        ExecGuard.worker = ExecGuard.before_exec = nil
        @worker.stop
        @scheduler.stop(force: true, timeout: patience(report_last_profile))
        nil
      ensure
        @stopping = false
      end

      # Before this process ends without further ado.
      def report_and_stop
        shutdown!(report_last_profile: @local_output)
      end

      def running?
        @pid == Process.pid && @scheduler.running?
      end

      # One of the two is at its end: said once, with the reason, and never the program's trouble.
      def component_failed(name, error = nil)
        raise ArgumentError, "there is no component #{name.inspect}" unless %i[worker scheduler].include?(name)
        return if @failed || @stopping

        @failed = true
        reason = error ? "#{error.message} (#{error.class})" : "unknown reason"
        Log.warn("Profiling has stopped: the #{name} failed: #{reason}")
        @exporter&.note_failure(name, reason)
        # What was seen up to here is still reported, with the reason.
        name == :worker ? @scheduler.stop(timeout: 0) : @worker.stop
      end

      private

      # Said once in a family of processes; each reports it.
      def collectors_ended(reason)
        Log.warn("Some of profiling has ended: #{reason}") unless @said_end_of_collectors
        @said_end_of_collectors = true
        @exporter&.note_failure(:worker, reason)
      end

      def reset_after_fork
        @pid = Process.pid
        @failed = false
        @stopping = false
        @worker.reset_after_fork
        @scheduler.reset_after_fork
      end

      # Not for every `fork { exec … }`.
      def report_before_exec
        @scheduler.perform if @exporter&.can_flush?(Exporter::MINIMUM_DURATION_SECONDS)
      rescue StandardError => e
        Log.warn("The last profile before an exec is lost: #{e.message} (#{e.class})")
      end

      def patience(report_last_profile)
        return 0 unless report_last_profile

        @local_output ? LOCAL_SECONDS : REMOTE_SECONDS
      end
    end
  end
end
