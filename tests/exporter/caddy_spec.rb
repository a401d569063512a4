require_relative "support/caddy"

# Against a second server that was not written for these tests: its TLS and its HTTP are Go's, nginx's are
# OpenSSL's and its own.
RSpec.describe "A report to Caddy" do
  include_context "with a real server", Caddy

  host = RealServer::HOST

  # What Caddy passes on is what it understood; it writes names of headers in its own way.
  def received(server) = HttpMessage.dechunk(server.connections.first.raw.split("\r\n\r\n", 2).last)

  it "arrives whole through it, over TCP" do
    backend = serve { |c| c.read_request && c.answer(202) }
    front = plain_server(site: "reverse_proxy 127.0.0.1:#{backend.port}")
    expect(Driver.run(url: "http://127.0.0.1:#{front.port}/", file: file).outcome).to eq(202)
    expect(received(backend).include?(body)).to be(true)
  end

  it "arrives whole through it, over a unix socket" do
    backend = serve { |c| c.read_request && c.answer(202) }
    front = plain_server(path: File.join(scratch, "caddy.sock"),
                         site: "reverse_proxy 127.0.0.1:#{backend.port}")
    expect(Driver.run(url: "unix://#{front.path}", file: file).outcome).to eq(202)
    expect(received(backend).include?(body)).to be(true)
  end

  { "tls1.2" => 0x0303, "tls1.3" => 0x0304 }.each do |version, number|
    it "arrives whole over #{version}" do
      namespace!
      backend = serve { |c| c.read_request && c.answer(202) }
      front = secure_server(host, tls: "protocols #{version} #{version}",
                                 site: "reverse_proxy 127.0.0.1:#{backend.port}")
      expect(send_to(front.port, file: file).outcome).to eq(202)
      expect(received(backend).include?(body)).to be(true)
      request = front.logged["request"]
      expect(request["tls"]).to include("version" => number, "server_name" => host)
      expect(request["proto"]).to eq("HTTP/1.1")
    end
  end

  it "is refused when it is too large, with the status 413" do
    namespace!
    backend = serve { |c| c.read_request && c.answer(202) }
    lines = "request_body {\n max_size 10KB\n }\n reverse_proxy 127.0.0.1:#{backend.port}"
    refused = eq(413).or(match(/error writing a body to connection/))
    front = plain_server(site: lines)
    expect(Driver.run(url: "http://127.0.0.1:#{front.port}/", file: file, timeout: 20_000).outcome).to refused
    expect(front.logged["status"]).to eq(413)
    expect(send_to(secure_server(host, site: lines).port, file: file).outcome).to refused
    expect(backend.requests).to be_empty
  end

  it "gets the status of a gateway without a backend" do
    namespace!
    front = secure_server(host, site: "reverse_proxy 127.0.0.1:1")
    expect(send_to(front.port).outcome).to eq(502)
  end

  day = 86_400
  { "expired" => [[host], { from: -3 * day, to: -day }],
    "for another host" => [["other.example"], {}] }.each do |what, (names, dates)|
    it "is not sent when its certificate is #{what}" do
      namespace!
      front = secure_server(*names, dates: dates, site: "respond 200")
      expect(send_to(front.port).outcome).to match(/error trying to connect: .*(expired|match|name)/i)
      expect(front.access_log).to be_empty
    end
  end

  it "is not sent when nobody known has signed its certificate" do
    namespace!
    front = secure_server(host, site: "respond 200")
    result = send_to(front.port, env: { "SSL_CERT_FILE" => Certificates.new("Another CA").file })
    expect(result.outcome).to match(/error trying to connect: .*certificate/i)
    expect(front.access_log).to be_empty
  end
end
