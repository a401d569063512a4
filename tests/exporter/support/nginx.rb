require "fileutils"
require "tmpdir"

require_relative "real_server"

# A real nginx on the loopback device, in front of a server of ours or alone.
class Nginx
  BINARY = RealServer.find("/usr/sbin/nginx")

  attr_reader :port

  # `location` and `server` are lines of nginx's configuration.
  def initialize(certificate: nil, key: nil, server: "", location: "")
    @folder = Dir.mktmpdir("nginx")
    FileUtils.chmod(0o755, @folder)
    @port = TCPServer.open("127.0.0.1", 0) { |free| free.addr[1] }
    tls = ""
    if certificate
      File.write("#{@folder}/cert.pem", certificate.to_pem)
      File.write("#{@folder}/key.pem", key.private_to_pem)
      tls = "ssl_certificate #{@folder}/cert.pem; ssl_certificate_key #{@folder}/key.pem;"
    end
    File.write("#{@folder}/nginx.conf", <<~CONF)
      daemon off; master_process off; user root; pid #{@folder}/pid; error_log #{@folder}/error.log;
      events { worker_connections 64; }
      http {
        access_log #{@folder}/access.log combined;
        client_body_temp_path #{@folder}/body; proxy_temp_path #{@folder}/proxy;
        fastcgi_temp_path #{@folder}/f; uwsgi_temp_path #{@folder}/u; scgi_temp_path #{@folder}/s;
        server {
          listen 127.0.0.1:#{@port}#{" ssl" if certificate}; #{tls} #{server}
          location / { #{location} }
        }
      }
    CONF
    @pid = Process.spawn(BINARY, "-p", @folder, "-c", "#{@folder}/nginx.conf",
                         in: File::NULL, out: File::NULL, err: "#{@folder}/err")
    100.times do
      return if TCPSocket.open("127.0.0.1", @port, &:itself)
    rescue Errno::ECONNREFUSED
      sleep 0.05
    end
    raise "nginx did not start: #{File.read("#{@folder}/err")}"
  end

  def access_log = File.read("#{@folder}/access.log")

  # nginx writes a line when it is done with a connection, which may be after the client is.
  def logged(pattern)
    100.times do
      return access_log if access_log.match?(pattern)

      sleep 0.05
    end
    access_log
  end

  def close
    Process.kill(:TERM, @pid)
    Process.wait(@pid)
    FileUtils.rm_rf(@folder)
  end
end
