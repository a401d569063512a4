require_relative "support/nginx"

# Against servers that were not written for these tests: nginx, and tinyproxy as a proxy.
RSpec.describe "A report to nginx" do
  include_context "with a real server", Nginx

  site = RealServer::SITE
  host = RealServer::HOST
  tinyproxy = RealServer.find("/usr/bin/tinyproxy")

  def pass_on(server) = "proxy_pass http://127.0.0.1:#{server.port}; client_max_body_size 100m;"

  it "arrives whole through it, over TCP" do
    backend = serve { |c| c.read_sized_request && c.answer(202) }
    front = plain_server(location: pass_on(backend))
    result = Driver.run(url: "http://127.0.0.1:#{front.port}/", file: file)
    expect(result.outcome).to eq(202)
    # nginx joins the chunks; what it passes on is what it understood.
    raw = backend.connections.first.raw
    expect(raw).to include(body)
    expect(raw).to end_with("--\r\n")
  end

  %w[TLSv1.2 TLSv1.3].each do |version|
    it "arrives over #{version}" do
      namespace!
      front = secure_server(host, server: "ssl_protocols #{version};",
                                 location: "client_max_body_size 100m; return 204;")
      expect(send_to(front.port).outcome).to eq(204)
      expect(front.logged(/204/)).to match(%r{"POST /api/v2/profile HTTP/1\.1" 204 .*"DDProf/6\.0\.0"})
    end
  end

  it "arrives whole over TLS" do
    namespace!
    backend = serve { |c| c.read_sized_request && c.answer(202) }
    front = secure_server(host, location: pass_on(backend))
    expect(send_to(front.port, file: file, timeout: 20_000).outcome).to eq(202)
    expect(backend.connections.first.raw).to include(body)
  end

  it "is refused when it is too large, with the status 413" do
    namespace!
    front = plain_server(location: "client_max_body_size 10k; proxy_pass http://127.0.0.1:1;")
    outcome = Driver.run(url: "http://127.0.0.1:#{front.port}/", file: file, timeout: 5000).outcome
    expect(outcome).to eq(413).or(match(/error writing a body to connection/))
    expect(front.logged(/413/)).to include(" 413 ")
    front = secure_server(host, location: "client_max_body_size 10k; proxy_pass http://127.0.0.1:1;")
    outcome = send_to(front.port, file: file, timeout: 5000).outcome
    expect(outcome).to eq(413).or(match(/error writing a body to connection/))
  end

  it "gets the status of a gateway without a backend, or one that is slow" do
    front = plain_server(location: "proxy_pass http://127.0.0.1:1;")
    expect(Driver.run(url: "http://127.0.0.1:#{front.port}/").outcome).to eq(502)
    deaf = serve(&:hang)
    front = plain_server(location: "proxy_pass http://127.0.0.1:#{deaf.port}; proxy_read_timeout 1s;")
    expect(Driver.run(url: "http://127.0.0.1:#{front.port}/").outcome).to eq(504)
  end

  day = 86_400
  { "expired" => [[host], { from: -3 * day, to: -day }],
    "for another host" => [["other.example"], {}] }.each do |what, (names, dates)|
    it "is not sent when its certificate is #{what}" do
      namespace!
      front = secure_server(*names, dates: dates, location: "return 200;")
      expect(send_to(front.port, timeout: 5000).outcome).to match(/error trying to connect: /)
      expect(front.access_log).to be_empty
    end
  end

  it "is not sent when nobody known has signed its certificate" do
    namespace!
    front = secure_server(host, location: "return 200;")
    result = send_to(front.port, env: { "SSL_CERT_FILE" => Certificates.new.file })
    expect(result.outcome).to match(/error trying to connect: /)
    expect(front.access_log).to be_empty
  end

  it "is not sent when it only speaks TLS 1.1" do
    namespace!
    front = secure_server(host, server: "ssl_protocols TLSv1.1; ssl_ciphers ALL:@SECLEVEL=0;",
                               location: "return 200;")
    expect(send_to(front.port, timeout: 5000).outcome).to match(/error trying to connect: /)
  end

  it "goes through a real proxy" do
    namespace!
    unless tinyproxy
      puts "skipped: no tinyproxy; tests/exporter/fetch_servers gets it"
      skip "no tinyproxy"
    end
    front = secure_server(host, location: "client_max_body_size 100m; return 204;")
    port = TCPServer.open("127.0.0.1", 0) { |free| free.addr[1] }
    config = file_of(<<~CONF)
      Port #{port}
      Listen 127.0.0.1
      ConnectPort #{front.port}
      LogFile "#{scratch}/proxy.log"
      BasicAuth user word
    CONF
    Namespace.with_hosts("127.0.0.1 #{host}") do
      proxy = Process.spawn(tinyproxy, "-d", "-c", config, out: File::NULL, err: File::NULL)
      sleep 0.5
      env = { "SSL_CERT_FILE" => authority.file, "HTTPS_PROXY" => "http://user:word@127.0.0.1:#{port}" }
      options = { agentless: "#{site}:#{front.port}", key: "k", timeout: 5000 }
      expect(Driver.run(env: env, **options).outcome).to eq(204)
      denied = Driver.run(env: env.merge("HTTPS_PROXY" => "http://127.0.0.1:#{port}"), **options)
      expect(denied.outcome).to match(/error trying to connect: .*(407|401)/)
    ensure
      Process.kill(:TERM, proxy)
      Process.wait(proxy)
    end
  end
end
