# frozen_string_literal: true

module Datadog
  module Profiling
    # Where the agent is: by code, by environment variable, or where agents usually are. `url` is a text for
    # the exporter, `given?` whether there is any reason to believe in an agent at all.
    class AgentSettings
      USUAL_SOCKET = "/var/run/datadog/apm.socket"
      USUAL_HOST = "127.0.0.1"
      USUAL_PORT = 8126

      attr_reader :url

      # Raises ArgumentError.
      def initialize(agent, usual_socket: USUAL_SOCKET)
        @agent = agent
        @usual_socket = usual_socket
        @given = true
        @url = by(:code) || by(:env) || usual
      end

      def given?
        @given
      end

      private

      # A URL goes before its parts, parts of the environment fill up those of the code.
      def by(source)
        return @agent.url if from?(source, :url) && !@agent.url.to_s.empty?
        return "unix://#{@agent.uds_path}" if from?(source, :uds_path) && !@agent.uds_path.to_s.empty?

        from_parts if from?(source, :host) || from?(source, :port)
      end

      def from?(source, name)
        @agent.source_of(name) == source && !@agent.public_send(name).nil?
      end

      def from_parts
        host = @agent.host || USUAL_HOST
        port = @agent.port || USUAL_PORT
        raise ArgumentError, "the agent's port must be 1 to 65535, not #{port}" unless (1..65_535).cover?(port)
        return "unix://#{host.delete_prefix("unix://")}" if host.start_with?("unix:")

        host = "[#{host}]" if host.include?(":") && !host.start_with?("[")
        "#{@agent.use_ssl ? "https" : "http"}://#{host}:#{port}/"
      end

      def usual
        @given = File.socket?(@usual_socket)
        @given ? "unix://#{@usual_socket}" : "http://#{USUAL_HOST}:#{USUAL_PORT}/"
      end
    end
  end
end
