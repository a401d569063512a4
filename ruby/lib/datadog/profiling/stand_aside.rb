# frozen_string_literal: true

# The `datadog` gem is being loaded after us (see the autoload in profiling.rb). Of its tracer we are glad,
# but all of it brings a profiler with classes of the same names. There can be only one, so ours ends then, and
# gives back its names, its place on the load path and its signal.
module Datadog
  module Profiling
    # What has references to our modules keeps working with them: hooks, and the last report.
    module StandAside
      class << self
        def call
          return unless profiler_comes?

          end_all
          give_back_names
          Log.warn("The datadog gem joins this program, and does the profiling from here on: nonferrous has " \
                   "ended")
        rescue StandardError => e
          Log.warn("The datadog gem joins this program, but nonferrous could not end: " \
                   "#{e.message.lines.first.to_s.strip} (#{e.class})")
        end

        private

        # Is what is being loaded the whole gem, or its profiler? (A program may have files of such names, too.)
        def profiler_comes?
          files = caller_locations.map { |it| it.absolute_path.to_s }
          whole = files.grep(%r{/(datadog|ddtrace)\.rb\z}).map { |it| "#{File.dirname(it)}/datadog" }
          profiler = files.grep(%r{/datadog/profiling\.rb\z}).map { |it| File.dirname(it) }
          (whole + profiler).any? { |folder| File.exist?("#{folder}/core.rb") }
        end

        def end_all
          Recording.end_process if Recording.respond_to?(:end_process)
          Configuration.retire!
          ExecGuard.end_worker # of a session
          worker = Collectors::CpuAndWallTimeWorker
          worker._native_give_back_signal if worker.respond_to?(:_native_give_back_signal)
        end

        # Their files ask for extensions by names that ours have, too.
        def give_back_names
          $LOAD_PATH.reject! { |folder| ours?(File.expand_path(folder)) }
          ::Datadog.send(:remove_const, :Profiling)
        end

        def ours?(folder)
          folder == Extensions::FOLDER ||
            File.exist?(File.join(folder, File.basename(Extensions.path_of("datadog_signal_relay"))))
        end
      end
    end
    StandAside.call
  end

  # What they go on with.
  module Core; end
end
