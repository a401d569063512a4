require "json"
require "socket"
require "tmpdir"

require_relative "certificates"
require_relative "driver"
require_relative "http_message"
require_relative "lz4_frame"
require_relative "namespace"
require_relative "relay"
require_relative "server"

# What all process-level specs share.
module ExporterHelper
  # Closed when the example ends.
  def serve(*arguments, **options, &script)
    keep(Server.tcp(*arguments, **options, &script))
  end

  def serve_unix(path, &script) = keep(Server.unix(path, &script))
  def relay(*arguments, **options) = keep(Relay.new(*arguments, **options))

  def keep(closable)
    (@closables ||= []) << closable
    closable
  end

  def close_all = @closables&.each(&:close)

  # Short, as the paths of unix sockets must be.
  def scratch = @scratch ||= Dir.mktmpdir("nf", "/tmp")

  def file_of(bytes, name = "data")
    File.join(scratch, "#{name}-#{rand(1 << 40)}").tap { |path| File.binwrite(path, bytes) }
  end

  # A URL on which nobody listens.
  def refused_url
    server = TCPServer.new("127.0.0.1", 0)
    "http://127.0.0.1:#{server.addr[1]}/"
  ensure
    server.close
  end

  # A port that never completes a connection: its queue is full, and the kernel drops what comes after.
  def black_hole
    listener = Socket.new(:INET, :STREAM)
    listener.bind(Addrinfo.tcp("127.0.0.1", 0))
    listener.listen(0)
    port = listener.local_address.ip_port
    waiting = Array.new(4) do
      Socket.new(:INET, :STREAM).tap do |s|
        s.connect_nonblock(Addrinfo.tcp("127.0.0.1", port), exception: false)
      end
    end
    [listener, *waiting].each { |socket| keep(socket) }
    sleep 0.05
    "http://127.0.0.1:#{port}/"
  end

  def oracle!
    return if Driver.oracle?

    puts "skipped: no prebuilt library at #{Driver::ORACLE}"
    skip "no prebuilt library to compare with"
  end

  def namespace!
    return if Namespace.inside?

    puts "skipped: #{Namespace.missing}"
    skip Namespace.missing
  end

  def soak!
    return if ENV["NF_SOAK"] == "1"

    puts "skipped: takes minutes; NF_SOAK=1 runs it"
    skip "takes minutes; NF_SOAK=1 runs it"
  end

  # Durations on a shared machine: one try within the bounds shows that the bound is kept; a busy machine
  # may need more.
  def within_some_try(tries = 4)
    failure = nil
    tries.times do
      return yield
    rescue RSpec::Expectations::ExpectationNotMetError => e
      failure = e
    end
    raise failure
  end

  # The process is as it was before: nothing left open, no signal, mask or thread changed, no error waiting.
  def expect_untouched(result)
    return if result.all("descriptors").empty? && result.exit.success? # --reuse keeps its exporter
    expect(result.exit).to be_exited, "died: #{result.inspect}"
    %w[dispositions mask descriptors threads openssl_errors].each do |what|
      expect([what, result.field(what)]).to eq([what, "0"])
    end
  end
end

RSpec.configure do |config|
  config.include ExporterHelper
  config.after do
    close_all
    FileUtils.rm_rf(@scratch) if @scratch
  end
  config.order = :defined
end
