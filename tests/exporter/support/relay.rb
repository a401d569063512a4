require "socket"

# Stands between a client and a server and passes bytes on, until so many have gone one way; then it cuts
# the connection.
# So a transfer, a TLS handshake too, can be broken at any byte without knowing what the bytes mean.
class Relay
  # how: :close, :reset or :hang; after: bytes, of what the client (:up) or the server (:down) sends
  def initialize(target_port, after:, way: :down, how: :close)
    @listener = TCPServer.new("127.0.0.1", 0)
    @target_port = target_port
    @after = after
    @way = way
    @how = how
    @thread = Thread.new { loop { serve(@listener.accept) } }
    @thread.report_on_exception = false
  end

  def port = @listener.addr[1]

  def close
    @thread.kill
    @listener.close
  end

  private

  def serve(client)
    server = TCPSocket.new("127.0.0.1", @target_port)
    left = { client => (@way == :up ? @after : nil), server => (@way == :down ? @after : nil) }
    loop do
      IO.select([client, server]).first.each do |from|
        to = from == client ? server : client
        bytes = from.readpartial([left[from] || 65_536, 65_536].min)
        to.write(bytes)
        next unless left[from]

        left[from] -= bytes.bytesize
        return cut(client) if left[from].zero?
      end
    end
  rescue SystemCallError, IOError
    nil
  ensure
    client.close
    server&.close
  end

  def cut(client)
    case @how
    when :reset then client.setsockopt(Socket::SOL_SOCKET, Socket::SO_LINGER, [1, 0].pack("ii"))
    when :hang then sleep
    end
  end
end
