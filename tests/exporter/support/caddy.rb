require "fileutils"
require "tmpdir"

require_relative "real_server"

# A real Caddy, on the loopback device or a unix socket.
class Caddy
  BINARY = RealServer.find("/usr/bin/caddy")

  attr_reader :port, :path

  # `site` and `tls` are lines of a Caddyfile; with `path`, a unix socket there instead of a port.
  def initialize(site:, certificate: nil, key: nil, tls: "", path: nil)
    @folder = Dir.mktmpdir("caddy")
    @path = path
    @port = TCPServer.open("127.0.0.1", 0) { |free| free.addr[1] }
    File.write("#{@folder}/Caddyfile", <<~CONF)
      {
        admin off
        auto_https off
        storage file_system #{@folder}
        #{"default_sni #{certificate.subject.to_a.assoc("CN")[1]}" if certificate}
      }
      #{certificate ? "https" : "http"}://:#{@port} {
        bind #{path ? "unix/#{path}" : "127.0.0.1"}
        #{"tls #{pem("cert", certificate.to_pem)} #{pem("key", key.private_to_pem)} {\n#{tls}\n}" if certificate}
        log {
          output file #{@folder}/access.log
          format json
        }
        #{site}
      }
    CONF
    start
  end

  # One line of JSON for each request that came through.
  def access_log = File.exist?("#{@folder}/access.log") ? File.readlines("#{@folder}/access.log") : []

  # It writes a line when it is done with a request, which may be after the client is.
  def logged
    100.times do
      return JSON.parse(access_log.last) unless access_log.empty?

      sleep 0.05
    end
    raise "Caddy has logged nothing: #{File.read("#{@folder}/err")[0, 2000]}"
  end

  def close
    Process.kill(:KILL, @pid)
    Process.wait(@pid)
  rescue Errno::ESRCH, Errno::ECHILD
    nil # it has ended already
  ensure
    FileUtils.rm_rf(@folder)
  end

  private

  def pem(name, text) = "#{@folder}/#{name}.pem".tap { |file| File.write(file, text) }

  def start
    @pid = Process.spawn({ "HOME" => @folder, "XDG_CONFIG_HOME" => @folder, "XDG_DATA_HOME" => @folder },
                         BINARY, "run", "--config", "#{@folder}/Caddyfile", "--adapter", "caddyfile",
                         in: File::NULL, out: File::NULL, err: "#{@folder}/err")
    400.times do
      return (@path ? UNIXSocket.open(@path, &:itself) : TCPSocket.open("127.0.0.1", @port, &:itself))
    rescue Errno::ECONNREFUSED, Errno::ENOENT
      break if Process.wait(@pid, Process::WNOHANG)

      sleep 0.05
    end
    why = File.read("#{@folder}/err")[0, 2000]
    close
    raise "Caddy did not start: #{why}"
  end
end
