require "json"
require "socket"

module Support
  # An agent, as far as reports are concerned: reads whole HTTP requests and answers with the statuses given, in turn, the
  # last one again and again. `:hang` reads and never answers.
  class AgentStub
    # One report as it came.
    Report = Struct.new(:method, :path, :headers, :parts) do
      def event
        JSON.parse(parts.fetch("event.json"))
      end

      # {"process_id" => "77", …}
      def tags
        event.fetch("tags_profiler").split(",").to_h { |tag| tag.split(":", 2) }
      end
    end

    attr_reader :url, :connections

    def initialize(statuses = [200], listener: TCPServer.new("127.0.0.1", 0))
      @statuses = statuses
      @listener = listener
      @reports = Queue.new
      @seen = []
      @connections = 0
      address = listener.local_address
      @url = address.ip? ? "http://127.0.0.1:#{address.ip_port}/" : "unix://#{address.unix_path}"
      @thread = Thread.new { loop { serve(@listener.accept) } }
      @thread.report_on_exception = false
    end

    # Waits for the next one.
    def report(seconds: 30)
      Timeout.timeout(seconds, nil, "no report came in #{seconds} s") { @reports.pop }
    end

    # All up to now.
    def reports
      @seen << @reports.pop until @reports.empty?
      @seen
    end

    def close
      @thread.kill
      @thread.join
      @listener.close
    end

    private

    def serve(client)
      @connections += 1
      client.binmode
      Thread.new do
        report = read(client)
        status = @statuses.size > 1 ? @statuses.shift : @statuses.first
        if status == :hang
          client.read # until the client gives up
        else
          @reports << report
          client.write("HTTP/1.1 #{status} Status\r\ncontent-length: 0\r\n\r\n")
        end
      rescue SystemCallError, IOError
        nil # the client was killed
      ensure
        client.close
      end
    end

    def read(client)
      method, path, = (client.gets or raise IOError, "no request").split(" ")
      headers = {}
      while (line = client.gets.chomp) != ""
        name, value = line.split(": ", 2)
        headers[name.downcase] = value
      end
      Report.new(method, path, headers, parts(body(client, headers), headers.fetch("content-type")))
    end

    def body(client, headers)
      return client.read(headers.fetch("content-length").to_i) unless headers["transfer-encoding"] == "chunked"
      body = +"".b
      while (size = client.gets.to_i(16)) > 0
        body << client.read(size)
        client.gets
      end
      client.gets
      body
    end

    # {file name => bytes}, in the order in which they came
    def parts(body, content_type)
      boundary = content_type[/boundary=(\S+)/, 1]
      body.split("--#{boundary}".b).map { |it| it.delete_prefix("\r\n") }.reject { |it| it.empty? || it.start_with?("--") }.to_h do |part|
        head, bytes = part.split("\r\n\r\n".b, 2)
        [head[/filename="([^"]*)"/, 1], bytes.delete_suffix("\r\n")]
      end
    end
  end
end
