# frozen_string_literal: true

require_relative "ext/everywhere"

module Datadog
  module Profiling
    # A signal that is on its way when `exec` replaces the program would end the new one, which has no handler
    # for it. So no signal may be sent from a moment before: what samples is paused, and goes on if the
    # program could not be replaced.
    module ExecGuard
      @installed = false
      @worker = nil
      @before_exec = nil

      class << self
        # Before the first session starts. Later ones need nothing more.
        def install
          return if @installed

          @installed = true
          Ext::Everywhere.prepend_to_all(Exec)
        end

        # Returns only if the block does, which `exec` never does, or raises.
        def without_signals
          worker, before_exec = what_to_do
          paused = worker&.pause
          before_exec&.call
          yield
        ensure
          worker.resume if paused
        end

        # The one worker of this process that is to be paused, and what is to be called then.
        attr_writer :worker, :before_exec

        # It stays so.
        def end_worker
          @worker&.stop
          @worker = @before_exec = nil
        end

        private

        def what_to_do
          [@worker, @before_exec]
        rescue StandardError # other Ractors than the main one may not look
          nil
        end
      end

      module Exec
        def exec(*arguments)
          ExecGuard.without_signals { super }
        rescue Exception => e # rubocop:disable Lint/RescueException
          raise ExecGuard.without_us(e)
        end
      end

      # The caller shall see the backtrace that it would see without us.
      def self.without_us(error)
        ours, others = error.backtrace.to_a.partition { |line| line.start_with?(__FILE__) }
        where = others.first.to_s[/\A.*:\d+(?=:in )/]
        # As this Ruby names it: `exec', or from 3.4 on 'Kernel#exec', 'Process.exec'.
        name = ours.map { |line| line[/:in [`'](\S+[#.])?exec'\z/] }.compact.first
        if where && name
          # What calls us is shown by the native method's frame, at the caller's line, and by the caller's
          # own.
          error.set_backtrace([where + name, *others])
        end
        error
      end
    end
  end
end
