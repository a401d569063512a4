# frozen_string_literal: true

require_relative "../ext/forking"
require_relative "../log"

module Datadog
  module Profiling
    module Tasks
      # What has to be done once in a process before the profiler can run in it.
      module Setup
        @done = false

        class << self
          def run
            return if @done

            @done = true
            follow_forks
          rescue StandardError => e
            Log.warn("Profiling will not go on in forked children: #{e.message} (#{e.class})")
          end

          private

          def follow_forks
            unless Ext::Forking.apply!
              Log.debug("This system knows no fork: profiling need not follow any")
              return
            end
            Ext::Forking.at_fork(:child) { restart }
            Ext::Forking.before_daemon { Configuration.stop_for_daemon }
          end

          def restart
            Configuration.start_if_enabled
          rescue StandardError => e
            Log.warn("Profiling does not go on in the forked process #{Process.pid}: #{e.message} (#{e.class})")
          end
        end
      end
    end
  end
end
