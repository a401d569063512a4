# frozen_string_literal: true

require_relative "log"
require_relative "settings/options"

module Datadog
  module Profiling
    # All that `Datadog.configure { |c| … }` can set. Names, variables and defaults are those that users of
    # the `datadog` gem know; `profiling.output`, `profiling.files` and the sampling interval are ours.
    class Settings < Options
      option :env, :string, -> { tags["env"] }, env: "DD_ENV"
      option :service, :string, -> { tags["service"] || Settings.program_name }, env: "DD_SERVICE"
      option :version, :string, -> { tags["version"] }, env: "DD_VERSION"
      option :tags, :hash, {}, env: "DD_TAGS"
      option :site, :string, nil, env: "DD_SITE"
      option :api_key, :string, nil, env: "DD_API_KEY"

      settings :agent do
        option :host, :string, nil, env: "DD_AGENT_HOST"
        option :port, :int, nil, env: "DD_TRACE_AGENT_PORT"
        option :url, :string, nil, env: "DD_TRACE_AGENT_URL"
        option :use_ssl, :bool, false
        option :uds_path, :string, nil
      end

      settings :logger do
        option :instance, :any, nil
      end

      settings :diagnostics do
        option :debug, :bool, false, env: "DD_TRACE_DEBUG"
      end

      settings :profiling do
        option :enabled, :bool, false, env: "DD_PROFILING_ENABLED"
        option :allocation_enabled, :bool, false, env: "DD_PROFILING_ALLOCATION_ENABLED"
        option :agentless, :bool, false, env: "DD_PROFILING_AGENTLESS"

        # Where reports go, see Output.
        option :output, :any, nil, env: "DD_PROFILING_OUTPUT"

        settings :files do
          option :folder, :string, "profiles", env: "DD_PROFILING_FILES_FOLDER"
          option :keep, :int, 200, env: "DD_PROFILING_FILES_KEEP" do |value|
            raise ArgumentError, "at least 1 file must be kept, not #{value}" if value < 1

            value
          end
        end

        settings :exporter do
          option :transport, :any, nil
        end

        settings :upload do
          option :timeout_seconds, :float, 30.0, env: "DD_PROFILING_UPLOAD_TIMEOUT" do |value|
            raise ArgumentError, "a timeout must be above 0, not #{value}" unless value > 0 && value < 1e9

            value
          end
        end

        settings :advanced do
          option :max_frames, :int, 400, env: "DD_PROFILING_MAX_FRAMES" do |value|
            raise ArgumentError, "a stack has 5 to 10000 frames, not #{value}" unless (5..10_000).cover?(value)

            value
          end
          option :code_provenance_enabled, :any, true
          option :gc_enabled, :bool, -> { RubyRules.ractors_survive_tracepoints? }, env: "DD_PROFILING_GC_ENABLED"
          option :force_enable_gc_profiling, :bool, false, env: "DD_PROFILING_FORCE_ENABLE_GC"
          option :experimental_heap_enabled, :bool, false, env: "DD_PROFILING_EXPERIMENTAL_HEAP_ENABLED"
          option :experimental_heap_size_enabled, :bool, true, env: "DD_PROFILING_EXPERIMENTAL_HEAP_SIZE_ENABLED"
          option :experimental_heap_sample_rate, :int, 10, env: "DD_PROFILING_EXPERIMENTAL_HEAP_SAMPLE_RATE" do |value|
            raise ArgumentError, "every so many samples must be 1 or more, not #{value}" if value <= 0

            value
          end
          option :skip_mysql2_check, :bool, false, env: "DD_PROFILING_SKIP_MYSQL2_CHECK"
          option :timeline_enabled, :bool, true, env: "DD_PROFILING_TIMELINE_ENABLED"
          option :no_signals_workaround_enabled, :switch, :auto, env: "DD_PROFILING_NO_SIGNALS_WORKAROUND_ENABLED"
          option :dir_interruption_workaround_enabled, :bool, true,
                 env: "DD_PROFILING_DIR_INTERRUPTION_WORKAROUND_ENABLED"
          option :native_filenames_enabled, :bool, true, env: "DD_PROFILING_NATIVE_FILENAMES_ENABLED"
          option :gvl_enabled, :bool, true, env: "DD_PROFILING_GVL_ENABLED"
          option :preview_otel_context_enabled, :any, false,
                 env: "DD_PROFILING_PREVIEW_OTEL_CONTEXT_ENABLED" do |value|
            { "only" => :only, "both" => :both, "true" => :both }.fetch(value.to_s.strip.downcase, false)
          end
          option :cpu_sampling_interval_ms, :int, 10, env: "DD_PROFILING_CPU_SAMPLING_INTERVAL_MS" do |value|
            raise ArgumentError, "samples are 1 to 1000 ms apart, not #{value}" unless (1..1000).cover?(value)

            value
          end

          # Beyond these limits the pacing makes no sense: the default is better than none.
          option :overhead_target_percentage, :float, 2.0,
                 env: "DD_PROFILING_OVERHEAD_TARGET_PERCENTAGE" do |value|
            next value if value > 0 && value <= 20

            Log.error("overhead_target_percentage must be above 0 and at most 20, not #{value}: 2.0 is used")
            2.0
          end

          # Agents and intakes want no more than one report a minute.
          option :upload_period_seconds, :int, 60, env: "DD_PROFILING_UPLOAD_PERIOD" do |value|
            [value, 60].max
          end

          settings :endpoint do
            settings :collection do
              option :enabled, :bool, true, env: "DD_PROFILING_ENDPOINT_COLLECTION_ENABLED"
            end
          end

          retired :allocation_counting_enabled, "use c.profiling.allocation_enabled"
          retired :experimental_allocation_enabled, "use c.profiling.allocation_enabled"
          retired :experimental_allocation_sample_rate, "the rate is found by itself"
          retired :experimental_timeline_enabled, "use c.profiling.advanced.timeline_enabled"
        end
      end

      # What a service is called that nobody has named: by the first name of the program. Servers change it to
      # what they are doing.
      def self.program_name
        @program_name ||= begin
          name = File.basename($PROGRAM_NAME.to_s, ".*")
          name.empty? ? "ruby" : name
        end
      end
    end
  end
end
