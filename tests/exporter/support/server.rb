require "openssl"
require "socket"

# A server that does to each connection what its block says, and keeps every byte that came.
#
#   server = Server.tcp { |c| c.read_request; c.answer(200) }
class Server
  # One connection. Faults are methods; what the client does meanwhile is never an exception of the test.
  class Connection
    attr_reader :io, :raw, :accepted_at
    attr_accessor :complete

    def initialize(io)
      @io = io
      @raw = +"".b
      @accepted_at = Server.now
    end

    def socket = @io.respond_to?(:to_io) ? @io.to_io : @io

    def read_head
      read_more until @raw.include?("\r\n\r\n")
      @raw
    end

    def read_request
      read_head
      read_more until @raw.end_with?("\r\n0\r\n\r\n")
      @complete = Server.now
      @raw
    end

    # A request with a length, as proxies send it on.
    def read_sized_request
      head = read_head.index("\r\n\r\n") + 4
      read_bytes(head + @raw[/^content-length: (\d+)/i, 1].to_i)
      @complete = Server.now
    end

    # At least so many bytes of the request, head included.
    def read_bytes(count) = (read_more until @raw.bytesize >= count)
    def read_more(most = 65_536) = @raw << @io.readpartial(most)

    # All that comes until the other side closes.
    def read_to_end = loop { read_more }

    # Says that no more will come, but still takes all.
    def finish_and_read
      socket.close_write
      read_to_end
    end

    def write(bytes) = @io.write(bytes)

    def answer(status = 200, headers: { "content-length" => "0" }, body: "")
      write("HTTP/1.1 #{status} Text\r\n#{headers.map do |name, value|
                                            "#{name}: #{value}\r\n"
                                          end.join}\r\n#{body}")
    end

    # A few bytes at a time, for ever.
    def drip(bytes, every: 0.05)
      bytes.each_char { |byte| write(byte) && sleep(every) }
    end

    # The next close sends RST.
    def reset
      socket.setsockopt(Socket::SOL_SOCKET, Socket::SO_LINGER, [1, 0].pack("ii"))
      socket.close
    end

    def hang = sleep(60)
    def close = (@io.close rescue nil)
    def request = HttpMessage.new(@raw)
  end

  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def self.tcp(host = "127.0.0.1", port = 0, tls: nil, backlog: 512, &script)
    listener = TCPServer.new(host, port)
    listener.listen(backlog)
    new(listener, tls, &script)
  end

  def self.unix(path, &script)
    File.unlink(path) if File.socket?(path)
    listener = UNIXServer.new(path)
    listener.listen(512)
    new(listener, nil, &script)
  end

  attr_reader :connections

  def initialize(listener, tls, &script)
    @listener = listener
    @tls = tls
    @script = script || proc { |c| c.read_request && c.answer(200) }
    @connections = []
    @threads = []
    @acceptor = Thread.new { accept_all }
    @acceptor.report_on_exception = false
  end

  def port = @listener.addr[1]
  def url(host = "127.0.0.1") = "http://#{host}:#{port}/"

  # Complete requests, in the order in which they ended.
  def requests = @connections.select(&:complete).sort_by(&:complete).map(&:request)

  def forget = @connections.clear

  # Until so many requests have come whole, or the time is over.
  def wait_for(count, seconds: 5)
    deadline = Server.now + seconds
    sleep 0.01 until @connections.count(&:complete) >= count || Server.now > deadline
    requests
  end

  def close
    @acceptor.kill
    @threads.each(&:kill)
    @connections.each(&:close)
    @listener.close
  end

  private

  def accept_all
    loop do
      socket = @listener.accept
      thread = Thread.new(socket) { |accepted| serve(accepted) }
      thread.report_on_exception = false
      @threads.reject! { |old| !old.alive? } if @threads.size > 64
      @threads << thread
    end
  end

  def serve(socket)
    io = @tls ? OpenSSL::SSL::SSLSocket.new(socket, @tls).tap { |ssl| ssl.sync_close = true }.accept : socket
    connection = Connection.new(io)
    @connections << connection
    @script.call(connection)
  rescue SystemCallError, IOError, OpenSSL::SSL::SSLError
    nil # the client went away, or the script cut it off
  ensure
    connection ? connection.close : socket.close
  end
end
