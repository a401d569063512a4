# frozen_string_literal: true

require_relative "clock"
require_relative "flush"
require_relative "json"
require_relative "log"
require_relative "tag_builder"

module Datadog
  module Profiling
    # Gathers all that belongs to one report.
    class Exporter
      PPROF_FILE_NAME = "rubyprofile.pprof"
      CODE_PROVENANCE_FILE_NAME = "code-provenance.json"
      MINIMUM_DURATION_SECONDS = 1
      MINIMUM_DURATION_OF_CHILD_SECONDS = 0.1
      MOST_FAILURES = 20

      # `minimum_duration_seconds`: a shorter profile is not worth a report, unless there is a failure to
      # tell.
      def initialize(
        settings:, pprof_recorder:, worker:, info_collector:, code_provenance_collector:, internal_metadata:,
        codec: :lz4, minimum_duration_seconds: MINIMUM_DURATION_SECONDS, clock: Clock
      )
        @settings = settings
        @pprof_recorder = pprof_recorder
        @worker = worker
        @info_json = JSONText.generate(info_collector.info)
        @code_provenance_collector = code_provenance_collector
        @internal_metadata = internal_metadata
        @codec = codec
        @minimum_duration_seconds = minimum_duration_seconds
        @clock = clock
        start_over
      end

      # A collector has failed: for the next report.
      def note_failure(component, reason)
        return if @failures.size >= MOST_FAILURES

        @failures << { component: component.to_s, reason: reason.to_s[0, 1000] }
      end

      # A Flush, or nil: too short, or it could not be encoded.
      def flush
        duration = seconds_of_profile
        worker_stats = @worker.stats_and_reset_not_thread_safe
        @begun_at = @clock.monotonic
        start, finish, bytes = @pprof_recorder.serialize(codec: @codec)
        recorder_stats = @pprof_recorder.stats
        unless bytes
          Log.error("No profile: it cannot be encoded: #{@pprof_recorder.last_error}")
          return
        end
        if too_short?(duration)
          Log.debug("No report: only #{duration.round(3)} s of profile since the last one")
          return
        end

        build(start, finish, bytes, worker_stats, recorder_stats)
      end

      def can_flush?(minimum_duration_seconds = @minimum_duration_seconds)
        !too_short?(seconds_of_profile, minimum_duration_seconds)
      end

      # In a forked child: what it has to report begins now. There may be a great many that end at once.
      def reset_after_fork
        @minimum_duration_seconds = [@minimum_duration_seconds, MINIMUM_DURATION_OF_CHILD_SECONDS].max
        start_over
        nil
      end

      private

      def start_over
        @begun_at = @clock.monotonic
        @sequence = 0
        @failures = []
        @said_refusal = false
      end

      # Not by the time of day, which may be set back.
      def seconds_of_profile
        @clock.monotonic - @begun_at
      end

      def too_short?(seconds, minimum = @minimum_duration_seconds)
        seconds < minimum && @failures.empty?
      end

      def build(start, finish, bytes, worker_stats, recorder_stats)
        tags = TagBuilder.call(settings: @settings, profile_seq: @sequence).to_a
        @sequence += 1
        Flush.new(
          start: start, finish: finish,
          pprof_file_name: PPROF_FILE_NAME, pprof_data: bytes, pprof_codec: @codec,
          code_provenance_file_name: CODE_PROVENANCE_FILE_NAME, code_provenance_data: code_provenance,
          tags_as_array: tags,
          internal_metadata_json: JSONText.generate(metadata(worker_stats, recorder_stats)),
          info_json: @info_json
        )
      end

      # A report without it is better than none.
      def code_provenance
        @code_provenance_collector&.refresh&.generate_json
      rescue StandardError => e
        Log.warn("The report does not say which libraries were used: #{e.message} (#{e.class})")
        @code_provenance_collector = nil
      end

      def metadata(worker_stats, recorder_stats)
        note_refusal(recorder_stats)
        all = @internal_metadata.merge(
          worker_stats: worker_stats, recorder_stats: recorder_stats, gc: GC.stat
        )
        all[:failures] = @failures unless @failures.empty?
        @failures = []
        all
      end

      def note_refusal(recorder_stats)
        return if @said_refusal || recorder_stats.fetch(:refused_samples, 0) == 0

        @said_refusal = true
        Log.warn("Some samples are missing in the profiles: #{recorder_stats[:first_refusal]}")
        note_failure(:recorder, recorder_stats[:first_refusal])
      end
    end
  end
end
