# frozen_string_literal: true

require_relative "log"

module Datadog
  module Profiling
    # Sends reports to an agent, to the intake of a site, or into a folder for later
    # (ruby/profiler/http_transport.c).
    class HttpTransport
      # `configuration`: [:agent, url], with a URL of http, https, unix or file; or [:agentless, site,
      # api_key]. Raises ArgumentError for one that cannot work.
      def initialize(configuration:, upload_timeout_seconds: 30.0)
        @configuration = configuration
        @timeout_ms = (upload_timeout_seconds * 1000).to_i
        status, why = self.class._native_validate_exporter(configuration)
        status, why = :error, "an agent's URL begins with http://, https://, unix:// or file://" if unknown_scheme?
        raise ArgumentError, "reports cannot be sent to #{shown}: #{why}" if status == :error
      end

      # True if it was accepted. Otherwise the reason is in the log.
      def export(flush)
        outcome, detail, refused_tags = send_report(flush)
        refused_tags.each { |why| Log.warn("A tag is left out of the report: #{why}") }
        return true if outcome == :ok && (200..299).cover?(detail)

        why = outcome == :ok ? "the server answers with status #{detail}" : detail
        Log.error("The report was not accepted by #{shown}: #{why}")
        false
      end

      # Without the API key.
      def shown
        mode, address = @configuration
        mode == :agentless ? "the intake of #{address}" : address.to_s.sub(%r{//[^/@]*@}, "//")
      end

      # Whether it only takes a moment, and no network.
      def local?
        @configuration.first == :agent && @configuration[1].start_with?("file:")
      end

      def inspect
        "#<#{self.class} to #{shown}>"
      end

      private

      def unknown_scheme?
        mode, url = @configuration
        mode == :agent && !url.match?(%r{\A(?:https?|unix|file)://}i)
      end

      def send_report(flush)
        self.class._native_do_export(
          @configuration, @timeout_ms, flush.start.to_i, flush.start.nsec, flush.finish.to_i, flush.finish.nsec,
          flush.pprof_file_name, flush.pprof_data, flush.pprof_codec == :none,
          flush.code_provenance_file_name, flush.code_provenance_data,
          flush.tags_as_array.map { |key, value| [key.to_s, value.to_s] },
          flush.internal_metadata_json, flush.info_json
        )
      end
    end
  end
end
