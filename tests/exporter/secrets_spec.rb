# The API key goes to the intake and nowhere else; and no text that a caller passes becomes a header of its
# own.
RSpec.describe "What a report must not give away" do
  site = "nf-intake.example"
  host = "intake.profile.#{site}"

  def secret = "nf5ecret#{Random.new.bytes(12).unpack1("H*")}"

  # What is in memory is what the library left there: the driver wipes its own copy after it has found it.
  def run_hidden(key, **options)
    Driver.run(secrets: true, preload: true, key: key, **options).tap do |result|
      expect(result.field("secrets_freed")).to eq("0"), "#{options} #{result.output}"
      expect(result.number("secrets_control")).to be >= 1, result.inspect
    end
  end

  describe "the API key" do
    before { namespace! }

    it "is in no memory of the process once the report is over" do
      authority = Certificates.new
      server = serve(tls: authority.context(host))
      key = secret
      body = file_of("x" * 300_000)
      Namespace.with_hosts("127.0.0.1 #{host}") do
        result = run_hidden(key, agentless: "#{site}:#{server.port}",
                                 env: { "SSL_CERT_FILE" => authority.file },
                                 file: "x.pprof=#{body}", repeat: 3)
        expect(result.outcomes).to eq([200] * 3), result.inspect
        expect(server.requests.last["dd-api-key"]).to eq(key)
        expect(result.field("secrets")).to eq("0"), result.output
      end
    end

    it "is in no memory after failures either, nor in their texts" do
      authority = Certificates.new
      key = secret
      cut = serve(tls: authority.context(host)) { |c| c.read_head && c.reset }
      deaf = serve(&:hang)
      env = { "SSL_CERT_FILE" => authority.file }
      Namespace.with_hosts("127.0.0.1 #{host}") do
        [{ agentless: "#{site}:#{cut.port}", env: env, file: "x.pprof=#{file_of("x" * 3_000_000)}" },
         { agentless: "#{site}:1", env: env }, { agentless: "#{site}:#{deaf.port}", env: env, timeout: 300 },
         { agentless: "#{site}:#{deaf.port}", env: env, cancel_after: 100 },
         { agentless: "#{site}:#{cut.port}", env: { "SSL_CERT_FILE" => "/nonexistent" } },
         { agentless: "no such site" }, { agentless: site, internal: "{" }, { agentless: site, name: "a\nb" },
         { agentless: site, cancel_first: true }].each do |options|
          result = run_hidden(key, **options)
          expect(result.outcome).to be_a(String), result.inspect
          expect(result.output).not_to include(key)
          expect(result.field("secrets")).to eq("0"), "#{options} #{result.output}"
        end
      end
    end

    it "is not in the error about itself" do
      ["bad\r\nkey", "bad\0key", "bad\x7fkey", "bad\xffkey"].each do |key|
        result = Driver.run(agentless: site, key: key)
        expect_untouched(result)
        expect(result.outcome).to match(/failed to parse header value|utf-8/)
        expect(result.output).not_to include("bad")
      end
    end
  end

  describe "a line break" do
    injected = "x\r\ninjected: yes"
    known = %w[user-agent connection dd-evp-origin dd-evp-origin-version content-type host transfer-encoding]

    inputs = { "the library's name" => { name: injected }, "its version" => { version: injected },
               "a version with a bare LF" => { version: "1\n2" }, "a name with a bare CR" => { name: "1\r2" },
               "the family" => { family: injected }, "a tag" => { tag: ["a=#{injected}"],
                                                                  request_tag: ["#{injected}=b"] },
               "a file's name" => { file: "a\"\r\ninjected: yes\r\n\r\nb=" },
               "a compressed file's name" => { compress: "a\r\ninjected: yes=" },
               "an endpoint's name" => { internal: "\"x\\r\\ninjected: yes\"" } }
    inputs.each do |what, options|
      it "in #{what} makes no header" do
        server = serve
        %i[file compress].each do |kind|
          options = options.merge(kind => hidden_name(options[kind])) if options[kind]
        end
        result = Driver.run(url: server.url, **options)
        expect_untouched(result)
        if result.outcome == 200
          request = server.requests.first
          expect(request.headers.map(&:first)).to eq(known)
          request.parts.each do |part|
            expect(part.headers.map(&:first)).to eq(%w[content-type content-disposition])
          end
          expect(request.raw).not_to match(/^injected: yes/)
        else
          expect(result.outcome).to match(/\A(new|build): failed to parse header value\z/)
          expect(server.connections.map(&:raw).join).to be_empty
        end
      end
    end

    def hidden_name(argument) = "hex:#{argument.delete_suffix("=").unpack1("H*")}="

    ["http://127.0.0.1:%d/a\r\ninjected: yes\r\n", "http://127.0.0.1:%d/a\nb", "http://127.0.0.1:%d\r\n/",
      "http://127.0.0.1:%d/\r",
     "http://127.0.0.1:%d/a b", "http://127.0.0.1:%d/?a\r\nb"].each do |pattern|
      it "in a URL such as #{pattern.inspect} makes no request" do
        server = serve
        result = Driver.run(url: format(pattern, server.port))
        expect_untouched(result)
        expect(result.outcome).to match(/\Anew: invalid/)
        expect(server.connections).to be_empty
      end
    end

    it "in a unix socket's path makes no header" do
      path = File.join(scratch, "a\r\ninjected: yes.sock")
      server = serve_unix(path)
      result = Driver.run(url: "unix://#{path}")
      expect_untouched(result)
      expect(server.requests.flat_map { |request| request.headers.map(&:first) } - known).to eq([])
    end

    it "in a site makes no request" do
      result = Driver.run(agentless: "a.example\r\ninjected: yes", key: "k")
      expect(result.outcome).to match(/\Anew: invalid/)
    end

    it "in a container's id file makes no header" do
      namespace!
      server = serve
      result = Driver.run(url: server.url,
                          cgroup: file_of(
                            "1:x:/#{"a" * 64}\r\ninjected: yes\n0::/\r\n", "cgroup"))
      expect(result.outcome).to eq(200)
      expect(server.requests.first.headers.map(&:first) - known - ["datadog-container-id"]).to eq([])
    end
  end

  it "escapes a file's name so that every parser reads one part" do
    server = serve
    Driver.run(url: server.url, file: "hex:#{"a\"; filename=\"b\r\nc".unpack1("H*")}=")
    part = server.requests.first.parts.last
    expect(part.headers.assoc("content-disposition").last)
      .to eq('form-data; name="a%22; filename=%22b%0D%0Ac"; filename="a%22; filename=%22b%0D%0Ac"')
  end
end
