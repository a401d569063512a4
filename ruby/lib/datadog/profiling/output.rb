# frozen_string_literal: true

require_relative "agent_settings"
require_relative "http_transport"
require_relative "output/fan_out"
require_relative "output/files"

module Datadog
  module Profiling
    # Where reports go. `profiling.output` (DD_PROFILING_OUTPUT) names one or more of these, with commas in
    # between:
    #
    #   files            pprof files in the folder profiling.files.folder
    #   agent            the agent of the agent settings
    #   agentless        the intake of the site, with the API key
    #   file:///folder   whole reports in a folder, for `ddprofrb upload`
    #
    # If it names none: the intake if profiling.agentless is on and site and key are there; else the agent if
    # one is configured or its usual socket exists; else files.
    module Output
      # What a report is handed to (`transport`), how its profile is to be compressed, and whether all of it
      # is done on this machine, within a moment.
      Plan = Struct.new(:transport, :codec, :local, :names)

      class << self
        # Raises ArgumentError.
        def plan(settings)
          custom = settings.profiling.exporter.transport
          return Plan.new(custom, :lz4, false, ["custom"]) if custom

          names = names_in(settings)
          transports = names.map { |name| transport(name, settings) }
          files, reports = transports.partition { |it| it.is_a?(Files) }
          codec = reports.empty? ? :gzip : :lz4
          codec = :none if files.any? && reports.any? # each makes its own of it
          all = transports.size == 1 ? transports.first : FanOut.new(transports)
          Plan.new(all, codec, transports.all?(&:local?), names)
        end

        private

        def names_in(settings)
          given = settings.profiling.output
          names = given.is_a?(Array) ? given : given.to_s.split(",")
          names = names.map { |name| name.to_s.strip }.reject(&:empty?).uniq
          names.empty? ? [default(settings)] : names
        end

        def default(settings)
          return "agentless" if settings.profiling.agentless && settings.site && settings.api_key

          AgentSettings.new(settings.agent).given? ? "agent" : "files"
        end

        def transport(name, settings)
          case name
          when "files"
            files = settings.profiling.files
            Files.new(folder: files.folder, keep: files.keep)
          when "agent" then http([:agent, AgentSettings.new(settings.agent).url], settings)
          when "agentless" then http(agentless(settings), settings)
          when %r{\Afile://} then http([:agent, name], settings)
          else
            raise ArgumentError,
                  "unknown output #{name.inspect}, known are files, agent, agentless and file:///folder"
          end
        end

        def agentless(settings)
          unless settings.site && settings.api_key
            raise ArgumentError, "the output agentless needs a site (DD_SITE) and an API key (DD_API_KEY)"
          end

          [:agentless, settings.site, settings.api_key]
        end

        def http(configuration, settings)
          timeout = settings.profiling.upload.timeout_seconds
          HttpTransport.new(configuration: configuration, upload_timeout_seconds: timeout)
        end
      end
    end
  end
end
