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
          profiler_comes? ? make_room : Profiling.extend(LateProfiler)
        end

        # Their tracer was there before, so that nobody told us that their profiler comes, and now its file fills
        # our module, which it takes for its own. With room made it gets one; what comes of this first time
        # goes into ours, which nobody can find any more.
        def make_room_late(file)
          return if @late

          @late = true
          make_room
          folder = "#{file.delete_suffix(".rb")}/"
          before = $LOADED_FEATURES.select { |it| it.start_with?(folder) } # their tracer's, but in our module
          before.each { |it| $LOADED_FEATURES.delete(it) }
          load(file)
          before.each { |it| require(it) }
        end

        private

        def make_room
          end_all
          give_back_names
          Log.warn("The datadog gem joins this program, and does the profiling from here on: nonferrous has " \
                   "ended")
        rescue StandardError => e
          Log.warn("The datadog gem joins this program, but nonferrous could not end: " \
                   "#{e.message.lines.first.to_s.strip} (#{e.class})")
        end

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

    # Sees the first method that another file gives our module.
    module LateProfiler
      def singleton_method_added(name)
        super
        file = caller_locations(1, 1).first&.absolute_path
        return if file.nil? || file == File.join(File.dirname(__dir__), "profiling.rb")

        theirs = file.end_with?("/datadog/profiling.rb") && File.exist?(File.join(File.dirname(file), "core.rb"))
        StandAside.make_room_late(file) if theirs
      end
    end
    StandAside.call
  end

  # What they go on with.
  module Core; end
end
