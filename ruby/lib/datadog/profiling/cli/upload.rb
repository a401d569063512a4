# frozen_string_literal: true

require_relative "../folder_uploader"

module Datadog
  module Profiling
    module CLI
      class Upload
        HELP = <<~TEXT
          usage: ddprofrb upload [options] FOLDER

          Sends the reports in FOLDER, the oldest first, and removes each that was accepted. They come from processes
          whose agent URL was file:///FOLDER. Whatever interrupts this, no report is lost; at worst one is sent twice.

              --agent URL        where to, e.g. http://localhost:8126 or unix:///path/of/socket (default: DD_TRACE_AGENT_URL)
              --site SITE        instead of an agent: the intake of this site; the API key is taken from DD_API_KEY
              --timeout SECONDS  for each report (default: 30; 0: no limit)
          -h, --help             show this

          Exit status: 0 if every report was accepted, 1 if not, 2 for wrong usage.
        TEXT
        OPTIONS = { "--agent" => :value, "--site" => :value, "--timeout" => :value, "-h" => :flag, "--help" => :flag }.freeze

        def initialize(lib:)
          @lib = lib
        end

        def run(arguments)
          options, folders = Options.parse_anywhere(arguments, OPTIONS)
          return CLI.print_line(HELP) if options["-h"] || options["--help"]
          raise UsageError, "upload needs a folder" if folders.empty?
          raise UsageError, "upload takes one folder" if folders.size > 1

          result = FolderUploader.upload(File.expand_path(folders.first), timeout: timeout(options), **target(options))
          CLI.print_line(summary(result))
          raise Failure, "#{result.error}#{"; reports left: #{result.left}" if result.left > 0}" if result.error

          result.rejected + result.damaged > 0 ? 1 : 0
        rescue FolderUploader::Error => e
          raise Failure, e.message
        end

        private

        def target(options)
          agent, site = options["--agent"], options["--site"]
          raise UsageError, "either --agent or --site" if agent && site
          return { site: site, api_key: api_key } if site

          agent ||= ENV["DD_TRACE_AGENT_URL"].to_s
          raise UsageError, "upload needs --agent or --site" if agent.empty?
          raise UsageError, "an agent is needed, not a folder: #{agent}" if agent.start_with?("file:")

          { agent: agent }
        end

        def api_key
          key = ENV["DD_API_KEY"].to_s.strip
          raise UsageError, "--site needs the API key in DD_API_KEY" if key.empty?

          key
        end

        def timeout(options)
          text = options["--timeout"] || "30"
          seconds = Float(text, exception: false)
          return seconds if seconds && seconds >= 0 && seconds < 1e9

          raise UsageError, "--timeout takes a number of seconds, not #{text.inspect}"
        end

        def summary(result)
          parts = ["#{result.accepted} sent"]
          parts << "#{result.rejected} refused by the server (status #{result.last_rejection})" if result.rejected > 0
          parts << "#{result.damaged} damaged" if result.damaged > 0
          parts.join(", ")
        end
      end
    end
  end
end
