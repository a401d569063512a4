# frozen_string_literal: true

require_relative "../log"
require_relative "../own_thread"
require_relative "everywhere"

module Datadog
  module Profiling
    module Ext
      # Calls back before `exit!` ends the process, which no at_exit block hears of. Children that serve one
      # job often end that way.
      module HardExit
        @applied = false
        @callback = nil

        class << self
          # One callback at most. Its trouble, and its time beyond `seconds`, are not the program's.
          def before(seconds:, &callback)
            @seconds = seconds
            @callback = callback
            return if @applied

            @applied = true
            Everywhere.prepend_to_all(Exit)
          end

          # On a thread of its own: in a signal handler no lock can be taken.
          def run
            return unless @callback

            OwnThread.join(OwnThread.start(name, &@callback), @seconds)
          rescue Exception # rubocop:disable Lint/RescueException
            nil # a Ractor other than the main one cannot even look
          end
        end

        module Exit
          def exit!(*arguments)
            HardExit.run
            super
          end
        end
      end
    end
  end
end
