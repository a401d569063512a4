# frozen_string_literal: true

require_relative "everywhere"

module Datadog
  module Profiling
    module Ext
      # Calls back in each forked child, before the program goes on there.
      #
      #   Forking.apply!
      #   Forking.at_fork(:child) { … }
      module Forking
        # Process._fork is what every fork goes through since Ruby 3.1: fork, Process.fork, IO.popen("-"), and
        # also those of objects that include Kernel by themselves.
        module LowLevel
          def _fork
            pid = super
            Forking.run_in_child if pid == 0
            pid
          end
        end

        # Before that there is only each of its callers.
        module Each
          def fork(&block)
            return super(&nil) || Forking.run_in_child unless block

            super() do
              Forking.run_in_child
              block.call
            end
          end
        end

        module Popen
          def popen(*arguments, &block)
            command = arguments.first.is_a?(Hash) ? arguments[1] : arguments.first
            return super unless command == "-"
            return super || Forking.run_in_child unless block

            super(*arguments) do |io|
              Forking.run_in_child unless io
              block.call(io)
            end
          end
          ruby2_keywords(:popen) if respond_to?(:ruby2_keywords, true)
        end

        # The parent ends within the call; it is a child that goes on.
        module Daemon
          def daemon(*arguments)
            Forking.run_before_daemon
            super
          ensure
            Forking.run_in_child # or in the same process, if it has failed
          end
        end

        @applied = false
        @in_child = []
        @before_daemon = []

        class << self
          def supported?
            ::Process.respond_to?(:fork)
          end

          def apply!
            return false unless supported?
            return true if @applied

            @applied = true
            if ::Process.respond_to?(:_fork)
              ::Process.singleton_class.send(:prepend, LowLevel)
            else
              Everywhere.prepend_to_all(Each)
              ::IO.singleton_class.send(:prepend, Popen)
            end
            ::Process.singleton_class.send(:prepend, Daemon)
            true
          end

          def at_fork(stage, &callback)
            raise ArgumentError, "a block is needed" unless callback
            raise ArgumentError, "there is no stage #{stage.inspect}, only :child" unless stage == :child

            @in_child << callback
          end

          # In the process that ends with a call of Process.daemon.
          def before_daemon(&callback)
            @before_daemon << callback
          end

          # nil, as `fork` returns in a child.
          def run_in_child
            run(@in_child)
          rescue StandardError # other Ractors than the main one may not look
            nil
          end

          def run_before_daemon
            run(@before_daemon)
          rescue StandardError
            nil
          end

          private

          # A callback is never the program's trouble.
          def run(callbacks)
            callbacks.each do |callback|
              callback.call
            rescue StandardError
              nil
            end
            nil
          end
        end
      end
    end
  end
end
