# frozen_string_literal: true

require_relative "../ext/everywhere"

module Datadog
  module Profiling
    module Recording
      # The ways in which a process ends, or becomes two, of which at_exit does not know.
      module Hooks
        # Process._fork is what every fork goes through since Ruby 3.1: fork, Process.fork, IO.popen("-").
        module LowLevelFork
          def _fork
            pid = super
            Recording.after_fork if pid == 0
            pid
          end
        end

        # Before that there is only each of its callers.
        module Fork
          def fork(*)
            if block_given?
              super() do
                Recording.after_fork
                yield
              end
            else
              pid = super
              Recording.after_fork unless pid
              pid
            end
          end
        end

        # The parent ends within the call; the child goes on.
        module Daemon
          def daemon(*arguments)
            before = ::Process.pid
            Recording.leave(:daemon)
            begin
              super
            ensure
              ::Process.pid == before ? Recording.stay : Recording.after_fork
            end
          end
        end

        module HardExit
          def exit!(*arguments)
            Recording.end_process
            super
          end
        end

        module Exec
          def exec(*arguments)
            Recording.leave
            begin
              super
            rescue Exception => e # rubocop:disable Lint/RescueException
              Recording.stay
              e.set_backtrace(Hooks.without_us(e.backtrace)) if e.backtrace
              raise e
            end
          end
        end

        # The child of IO.popen("-") ends with its block, if it has one, and then runs no at_exit.
        module Popen
          def popen(*arguments, &block)
            command = arguments.first.is_a?(Hash) ? arguments[1] : arguments.first
            return super unless command == "-"

            unless block
              io = super
              Recording.after_fork unless io
              return io
            end
            super(*arguments) do |io|
              begin
                Recording.after_fork unless io
                block.call(io)
              ensure
                Recording.end_process unless io
              end
            end
          end
          ruby2_keywords(:popen) if respond_to?(:ruby2_keywords, true)
        end

        # "hooks.rb:1:in `exec'", "hooks.rb:2:in `exec'", "program.rb:3:in `x'" -> "program.rb:3:in `exec'",
        # "program.rb:3:in `x'"
        def self.without_us(backtrace)
          ours, others = backtrace.partition { |line| line.start_with?(__FILE__) }
          position = others.first.to_s[/\A.*:\d+(?=:in )/]
          method = ours.first.to_s[/:in .*\z/]
          position && method ? [position + method, *others] : others
        end

        def self.install
          if ::Process.respond_to?(:_fork)
            ::Process.singleton_class.send(:prepend, LowLevelFork)
          else
            Ext::Everywhere.prepend_to_all(Fork)
          end
          ::Process.singleton_class.send(:prepend, Daemon)
          ::IO.singleton_class.send(:prepend, Popen)
          [HardExit, Exec].each { |hook| Ext::Everywhere.prepend_to_all(hook) }
        end
      end
    end
  end
end
