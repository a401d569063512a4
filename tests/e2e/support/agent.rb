# frozen_string_literal: true

require "tests/exporter/support/http_message"
require "tests/exporter/support/server"

# What stands in for a Datadog agent: takes each request whole, keeps every byte, and answers as the example says.
# Reports of profiles are told from what else a tracer sends.
class Agent
  PROFILES = "POST /profiling/v1/input "

  # A request as it came: `number` of the connection, the time at which it was whole.
  Arrival = Struct.new(:raw, :at) do
    def profile?
      raw.start_with?(PROFILES)
    end

    def request_line
      raw[/\A[^\r\n]*/]
    end
  end

  attr_reader :address, :host

  # answer: called with the connection once the request is whole; nil: 200 at once.
  def initialize(unix: nil, &answer)
    @arrivals = Queue.new
    @kept = []
    @answer = answer
    @server = unix ? Server.unix(unix) { |it| take(it) } : Server.tcp { |it| take(it) }
    @address = unix ? "unix://#{unix}" : @server.url.chomp("/")
    # What the client has to write as `host`.
    @host = unix ? unix.unpack1("H*") : "127.0.0.1:#{@server.port}"
  end

  def arrivals
    @kept << @arrivals.pop until @arrivals.empty?
    @kept
  end

  def reports
    arrivals.select(&:profile?)
  end

  # Connections on which something came that was no whole request.
  def broken
    @server.connections.count { |it| !it.complete && !it.raw.empty? }
  end

  def close
    @server.close
  end

  private

  def take(connection)
    connection.read_head
    connection.raw.match?(/^transfer-encoding: chunked/i) ? connection.read_request : connection.read_sized_request
    @arrivals << Arrival.new(connection.raw, Time.now)
    @answer ? @answer.call(connection) : connection.answer(200, headers: { "content-length" => "0", "connection" => "close" })
  end
end
