# frozen_string_literal: true

require_relative "component"
require_relative "ext/hard_exit"
require_relative "log"
require_relative "settings"

module Datadog
  module Profiling
    # The settings of this process, and the profiler that was made of them.
    module Configuration
      # How long a signal handler waits.
      PATIENCE_SECONDS = Profiler::LONGEST_END_SECONDS

      # What is never the program's; signals and exits are.
      TROUBLE = [StandardError, ScriptError, NoMemoryError, SystemStackError].freeze
      private_constant :TROUBLE

      @settings = Settings.new
      @profiler = nil
      @built = false
      @lock = nil
      @lock_of = nil
      @ends_with_process = false

      class << self
        attr_reader :settings

        # What cannot be set is an ArgumentError, from the line that sets it. All that goes wrong afterwards
        # is our own trouble: a warning, and the program goes on without a profile.
        def configure
          yield settings if block_given?
          exclusively { rebuild(start: true) }
          settings
        end

        # The profiler, made if need be; nil if there is none.
        def profiler
          exclusively { rebuild(start: false) unless @built }
          @profiler
        end

        # Whether it runs now. Also in a forked child, where it begins anew.
        def start_if_enabled
          profiler = self.profiler
          return false unless profiler

          wherever_we_are { profiler.start }
        rescue *TROUBLE => e
          Log.warn("The profiler does not start: #{described(e)}")
          false
        end

        def running?
          !@profiler.nil? && @profiler.running?
        end

        def shutdown!
          wherever_we_are { @profiler&.shutdown! }
        rescue *TROUBLE => e
          Log.warn("The profiler did not end well: #{described(e)}")
        end

        # For good: whatever is asked for later, there is no profiler any more.
        def retire!
          exclusively do
            shutdown!
            @profiler = nil
            @built = true
          end
        end

        # This process ends, its child goes on.
        def stop_for_daemon
          @profiler&.report_and_stop
        end

        # For tests, and for programs that start from scratch.
        def reset!
          exclusively do
            shutdown!
            @profiler = nil
            @built = false
            settings.reset!
          end
        end

        private

        # A lock that a thread of the parent has is worth nothing in a child.
        def exclusively
          @lock = nil unless @lock_of == ::Process.pid
          @lock_of = ::Process.pid
          @lock ||= Mutex.new
          return yield if @lock.owned?

          wherever_we_are { @lock.synchronize { yield } }
        end

        # A signal handler may take no lock; a thread may. But what the handler has interrupted may hold that lock.
        def wherever_we_are
          yield
        rescue ThreadError
          thread = OwnThread.start(name) { yield }
          return OwnThread.value(thread) if OwnThread.join(thread, PATIENCE_SECONDS)

          Log.warn("Profiling was not changed in this signal handler, as it has interrupted such a change")
          OwnThread.join(thread.kill)
          nil
        end

        def rebuild(start:)
          Log.logger = settings.logger.instance
          Log.debug_enabled = settings.diagnostics.debug
          before = @profiler
          @built = true
          @profiler = build
          before&.shutdown!
          @profiler.start if start && @profiler
        rescue *TROUBLE => e
          Log.warn("Profiling is off: #{described(e)}")
          give_up([before, @profiler].compact.uniq)
        end

        def give_up(profilers)
          @profiler = nil
          profilers.each do |profiler|
            profiler.shutdown!
          rescue *TROUBLE => e
            Log.warn("A profiler did not end well: #{described(e)}")
          end
        end

        def build
          profiler, = Component.build_profiler_component(settings: settings, optional_tracer: :loaded)
          end_with_process if profiler
          profiler
        end

        def end_with_process
          return if @ends_with_process

          @ends_with_process = true
          at_exit { shutdown! }
          Ext::HardExit.before(seconds: Profiler::LONGEST_END_SECONDS) { shutdown! }
        end

        def described(error)
          where = error.backtrace.to_a.first
          "#{error.message.to_s.lines.first.to_s.strip} (#{error.class}#{" at #{where}" if where})"
        end
      end
    end
  end

  # As the `datadog` gem has them. If that is loaded as well, before or after us, its own are the ones that
  # count.
  module ProfilingSettings
    def configure(&block)
      Profiling::Configuration.configure(&block)
    end

    def configuration
      Profiling::Configuration.settings
    end

    def shutdown!
      Profiling::Configuration.shutdown!
    end
  end
  extend ProfilingSettings unless respond_to?(:configure)
end
