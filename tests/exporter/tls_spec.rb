# Names and TLS on the way to the intake: what is wrong with either, and proxies.
RSpec.describe "A report without an agent" do
  site = "nf-intake.example"
  host = "intake.profile.#{site}"
  key = "00112233445566778899aabbccddeeff"
  timeout_ms = 1200

  before { namespace! }

  let(:authority) { Certificates.new }
  let(:context) { authority.context(host) }

  def send_report(port, to:, library: Driver::OURS, env: {}, **options)
    env = { "SSL_CERT_FILE" => authority.file }.merge(env)
    result = nil
    Namespace.with_hosts("127.0.0.1 intake.profile.#{to}") do
      result = Driver.run(library, agentless: "#{to}:#{port}", env: env, **options)
    end
    expect_untouched(result)
    expect(result.output).not_to include(options[:key])
    result
  end

  define_method(:send_to) { |port, **options| send_report(port, to: site, key: key, **options) }

  def expect_error(result, pattern, below_ms: 1000)
    expect(result.outcome).to be_a(String), result.inspect
    expect(result.outcome).to start_with("failed ddog_prof_Exporter_send: ")
    expect(result.outcome).to match(pattern)
    expect(result.send_ms).to be < below_ms
  end

  def expect_timeout(limit_ms)
    within_some_try do
      result = yield
      expect(result.outcome).to eq("failed ddog_prof_Exporter_send: operation timed out")
      expect(result.send_ms).to be_between(limit_ms * 0.9, limit_ms * 1.1)
    end
  end

  describe "checks the certificate" do
    it "and takes a good one, also with a wildcard" do
      [host, "*.#{"profile"}.#{site}", "*.profile.#{site}"].uniq.each do |name|
        server = serve(tls: authority.context(name))
        expect(send_to(server.port).outcome).to eq(200)
      end
    end

    day = 86_400
    { "an expired one" => [[host], { from: -3 * day, to: -day }, /expired/i],
      "one that is not valid yet" => [[host], { from: day, to: 3 * day }, /not yet|NotValidYet/i],
      "one for another host" => [["other.example"], {}, /name|host|NotValidForName/i],
      "one whose wildcard is too wide" => [["*.#{site}"], {}, /name|host|NotValidForName/i],
      "one for an address" => [["127.0.0.1"], {},
/name|host|NotValidForName/i] }.each do |what, (names, dates, text)|
      it "and refuses #{what}" do
        server = serve(tls: authority.context(*names, **dates))
        expect_error(send_to(server.port, timeout: 5000), /error trying to connect: .*#{text.source}/i)
        expect(server.requests).to be_empty
      end
    end

    it "and refuses one of an unknown authority" do
      server = serve(tls: Certificates.new("Another CA").context(host))
      expect_error(send_to(server.port, timeout: 5000), /error trying to connect: .*(issuer|certificate)/i)
      expect(server.requests).to be_empty
    end

    it "and says which store of authorities is missing; plain HTTP needs none" do
      server = serve(tls: context)
      result = send_to(server.port, env: { "SSL_CERT_FILE" => "/nonexistent/ca.pem" })
      expect_error(result, %r{/nonexistent/ca\.pem})
      plain = serve
      expect(Driver.run(url: plain.url, env: { "SSL_CERT_FILE" => "/nonexistent/ca.pem" }).outcome).to eq(200)
    end

    it "and says so where no store is found at all; plain HTTP and unix sockets need none" do
      places = %w[/etc/ssl /etc/pki /usr/share/ssl].select { |place| File.directory?(place) }
      empty = Dir.mktmpdir("empty", scratch)
      places.each { |place| system("mount", "--bind", empty, place, exception: true) }
      socket = serve_unix(File.join(scratch, "plain.sock"))
      result = send_to(serve(tls: context).port, env: { "SSL_CERT_FILE" => nil })
      expect_error(result, /no file of CA certificates was found .*SSL_CERT_FILE/)
      env = { "SSL_CERT_FILE" => nil }
      expect(Driver.run(url: serve.url, env: env).outcome).to eq(200)
      expect(Driver.run(url: "unix://#{scratch}/plain.sock", env: env).outcome).to eq(200)
      expect(socket.requests.size).to eq(1)
    ensure
      places&.each { |place| system("umount", "-l", place) }
    end

    it "and reads authorities for this alone, one file of them, and not on the way to an agent" do
      opened = send_to(serve(tls: context).port, preload: true).all("opened").flatten
      expect(opened.count(authority.file)).to eq(1)
      certificates = /cert|\.pem\z|\.crt\z/i
      expect(opened.grep(certificates) - [authority.file]).to eq([])
      path = File.join(scratch, "plain.sock")
      serve_unix(path)
      env = { "SSL_CERT_FILE" => authority.file }
      [serve.url, "unix://#{path}"].each do |url|
        plain = Driver.run(url: url, env: env, preload: true)
        expect(plain.outcome).to eq(200)
        opened = plain.all("opened").flatten
        expect(opened).to include("/proc/self/cgroup")
        expect(opened.grep(Regexp.union(certificates, /ssl/))).to eq([])
      end
    end

    it "and refuses to go on with a store that holds none" do
      ["", "nonsense\n", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"].each do |content|
        server = serve(tls: context)
        result = send_to(server.port, env: { "SSL_CERT_FILE" => file_of(content, "ca.pem") })
        expect_error(result, /certificate|store|CA|TLS/)
        expect(server.requests).to be_empty
      end
    end

    it "and shows the server the host's name" do
      names = Queue.new
      context.servername_cb = proc { |_, name| names << name && nil }
      server = serve(tls: context)
      send_to(server.port)
      expect(names.pop(true)).to eq(host)
    end
  end

  describe "needs TLS 1.2 or newer" do
    it "and fails with a server that only has 1.1" do
      old = authority.context(host, max: :TLS1_1)
      old.ciphers = "ALL:@SECLEVEL=0"
      server = serve(tls: old)
      expect_error(send_to(server.port, timeout: 5000), /error trying to connect: /)
      expect(server.requests).to be_empty
    end

    it "and fails with a server that speaks plain HTTP, or anything else" do
      ["HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", Random.new(2).bytes(400),
""].each do |bytes|
        server = serve { |c| c.read_more && c.write(bytes) && c.close }
        expect_error(send_to(server.port, timeout: 5000), /error trying to connect: /)
      end
    end
  end

  describe "over a connection that breaks" do
    # Up to about 1100 bytes the server has not finished its side of the handshake.
    [1, 5, 90, 130, 300, 700].each do |bytes|
      { close: /error trying to connect: /, reset: /error trying to connect: / }.each do |how, text|
        it "fails when the server's #{bytes} first bytes are followed by a #{how}" do
          server = serve(tls: context)
          expect_error(send_to(relay(server.port, after: bytes, how: how).port, timeout: 5000), text)
        end
      end
    end

    it "gives up in time when the handshake stops at any of its phases" do
      server = serve(tls: context)
      [1, 130, 700].each do |bytes|
        expect_timeout(timeout_ms) do
          send_to(relay(server.port, after: bytes, how: :hang).port, timeout: timeout_ms)
        end
      end
      deaf = serve(&:hang)
      expect_timeout(timeout_ms) { send_to(deaf.port, timeout: timeout_ms) }
    end

    %i[close reset].each do |how|
      it "fails without a signal when the upload ends in a #{how}" do
        server = serve(tls: context)
        cut = relay(server.port, after: 100_000, way: :up, how: how)
        body = file_of("x" * 16_000_000)
        expect_error(send_to(cut.port, timeout: 10_000, file: "x.pprof=#{body}"), /error|closed|reset/i,
                     below_ms: 5000)
      end
    end

    it "gives up in time when the upload stalls, or the answer does" do
      body = file_of("x" * 16_000_000)
      stalled = serve(tls: context) { |c| c.read_head && c.hang }
      expect_timeout(timeout_ms) { send_to(stalled.port, timeout: timeout_ms, file: "x.pprof=#{body}") }
      silent = serve(tls: context) { |c| c.read_request && c.hang }
      expect_timeout(timeout_ms) { send_to(silent.port, timeout: timeout_ms) }
    end

    it "returns the status of an early 413" do
      server = serve(tls: context) { |c| c.read_head && c.answer(413) && c.hang }
      body = file_of("x" * 16_000_000)
      expect(send_to(server.port, timeout: 10_000, file: "x.pprof=#{body}").outcome).to eq(413)
    end

    it "delivers a large body whole, also under SIGPROF at 1 kHz" do
      server = serve(tls: context)
      bytes = Random.new(3).bytes(8_000_000)
      [0, 1000].each do |hz|
        expect(send_to(server.port, timeout: 20_000, file: "x.pprof=#{file_of(bytes)}",
                                    sigprof: hz).outcome).to eq(200)
      end
      expect(server.requests.map { |request| request.part("x.pprof").data == bytes }).to eq([true, true])
    end

    it "needs no farewell from the server" do
      server = serve(tls: context) { |c| c.read_request && c.answer(202) && c.socket.close }
      expect(send_to(server.port).outcome).to eq(202)
    end

    it "changes no signal disposition, timer or mask, and starts no thread" do
      server = serve(tls: context)
      expect(send_to(server.port, preload: true, repeat: 2, token: true).calls).to eq([])
    end

    it "leaves nothing that a program started meanwhile would inherit" do
      server = serve(tls: context) { |c| c.read_request && c.hang }
      within_some_try do # a busy machine may not have got so far yet
        result = send_to(server.port, timeout: 800, probe_after: 400, token: true)
        expect(result.number("inheritable", 1)).to be > 0
        expect(result.all("inheritable_descriptor")).to eq([])
      end
    end

    it "leaves nothing to programs that another thread starts, by fork and by posix_spawn" do
      server = serve(tls: context)
      body = file_of("x" * 1_000_000)
      result = send_to(server.port, timeout: 20_000, spawn_storm: true, repeat: 40, token: true,
                                    file: "x.pprof=#{body}")
      forked, spawned = result.all("started").first.map(&:to_i)
      expect([forked, spawned]).to all(be > 5)
      left = result.all("started_with")
      expect(left.select { |way,| way == "fork" }).to eq([])
      expect(left.reject { |_, what| what.start_with?("socket:") }).to eq([])
      # posix_spawn waits for nobody: it may come just when libcurl has made the pair by which it wakes itself.
      expect(left.size).to be < spawned / 10.0
      expect(result.outcomes).to eq([200] * 40)
    end

    it "fails with a reason, or works, however few descriptors are left" do
      server = serve(tls: context)
      outcomes = (3..10).map { |limit| send_to(server.port, descriptors: limit, timeout: 5000).outcome }
      expect(outcomes).to all(eq(200).or(be_a(String)))
      expect(outcomes.last).to eq(200)
    end

    # What is loaded with libcurl (p11-kit, libcurl itself) reads it by getenv, once.
    it "reads the environment when the exporter is made, not when a report is sent" do
      server = serve(tls: context)
      result = send_to(server.port, preload: true, repeat: 2, token: true)
      first, second = result.events.slice_after { |name,| name == "status" }.to_a
      made, sent = first.slice_before { |name,| name == "sending" }.to_a
      expect(made.map(&:first)).to include("getenv")
      expect((sent + second).select { |name,| name == "getenv" }).to eq([])
    end

    # Before glibc 2.41 nothing can protect getenv from setenv: here the storm comes after the first exporter.
    it "survives a storm of setenv in another thread, once libcurl is loaded" do
      server = serve(tls: context)
      result = send_to(server.port, warm: true, setenv_storm: true, repeat: 40, quiet: true, timeout: 20_000)
      expect(result.exit).to be_success, result.inspect
    end
  end

  describe "with a proxy" do
    # Passes bytes on to where CONNECT says.
    def proxy(answer: "HTTP/1.1 200 Connection established\r\n\r\n")
      serve do |c|
        c.read_head
        c.write(answer)
        next unless answer.include?(" 200 ")

        target = TCPSocket.new("127.0.0.1", c.raw[/\ACONNECT [^:]+:(\d+)/, 1].to_i)
        there = Thread.new { IO.copy_stream(c.socket, target) rescue nil }
        IO.copy_stream(target, c.socket)
        there.kill
      end
    end

    it "goes through HTTPS_PROXY, or https_proxy" do
      server = serve(tls: context)
      %w[HTTPS_PROXY https_proxy].each do |name|
        proxy = self.proxy
        expect(send_to(server.port, env: { name => proxy.url }).outcome).to eq(200)
        expect(proxy.connections.size).to eq(1)
        expect(proxy.connections.first.raw).to start_with("CONNECT #{host}:#{server.port} HTTP/1.1\r\n")
        expect(proxy.connections.first.raw).not_to include(key)
      end
    end

    it "goes past it where NO_PROXY says so" do
      server = serve(tls: context)
      [host, ".#{site}", "*", "a.example,#{site}", " a.example , #{host.upcase}"].each do |list|
        %w[NO_PROXY no_proxy].each do |name|
          proxy = self.proxy
          expect(send_to(server.port, env: { "HTTPS_PROXY" => proxy.url, name => list }).outcome).to eq(200)
          expect([name, list, proxy.connections.size]).to eq([name, list, 0])
        end
      end
    end

    it "goes through it where NO_PROXY names others" do
      server = serve(tls: context)
      ["", "example", "intake.example", "x#{host}", "#{host}.x", "10.0.0.0/8"].each do |list|
        proxy = self.proxy
        expect(send_to(server.port,
                       env: { "HTTPS_PROXY" => proxy.url, "NO_PROXY" => list }).outcome).to eq(200)
        expect([list, proxy.connections.size]).to eq([list, list == "example" ? 0 : 1])
      end
    end

    it "does not take HTTP_PROXY" do
      server = serve(tls: context)
      proxy = self.proxy
      env = { "HTTP_PROXY" => proxy.url, "http_proxy" => proxy.url }
      expect(send_to(server.port, env: env).outcome).to eq(200)
      expect(proxy.connections).to be_empty
    end

    it "says what the proxy says, and never its password" do
      server = serve(tls: context)
      refusing = proxy(answer: "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
      env = { "HTTPS_PROXY" => "http://user:pa55word@127.0.0.1:#{refusing.port}" }
      result = send_to(server.port, env: env, timeout: 5000)
      expect_error(result, /407/)
      expect(result.output).not_to include("pa55word")
      expect(server.connections).to be_empty
    end

    it "gives up in time when the proxy does not answer" do
      deaf = serve(&:hang)
      expect_timeout(timeout_ms) { send_to(1, env: { "HTTPS_PROXY" => deaf.url }, timeout: timeout_ms) }
    end
  end

  describe "that asks a name server" do
    def send_by_name(name, port, library: Driver::OURS, **options)
      Driver.run(library, url: "http://#{name}:#{port}/", **options).tap { |result| expect_untouched(result) }
    end

    def with_dns(**answer, &block)
      Namespace.with_name_server(->(question) { Namespace.dns_answer(question, **answer) }, &block)
    end

    it "goes where it says" do
      server = serve
      ["agent.example", "agent.example.", "agent"].each do |name|
        with_dns(address: "127.0.0.1") { expect(send_by_name(name, server.port).outcome).to eq(200) }
        expect(server.requests.last["host"]).to eq("#{name}:#{server.port}")
      end
    end

    it "says that there is no such name" do
      with_dns(code: 3) do
        expect_error(send_by_name("nobody.example", 1),
                     /error trying to connect: dns error: .*Name or service not known/)
      end
    end

    it "says that it failed, in time" do
      with_dns(code: 2) do
        expect_error(send_by_name("x.example", 1, timeout: 20_000), /dns error/, below_ms: 15_000)
      end
    end

    it "gives up in time when no answer comes" do
      Namespace.with_name_server(->(_) {}) do
        expect_timeout(timeout_ms) { send_by_name("slow.example", 1, timeout: timeout_ms) }
      end
    end

    it "gives up in time, or fails, on answers that are noise or for another question" do
      answers = [->(_) { Random.new(4).bytes(60) }, ->(question) { question[0, 5] },
                 ->(question) { Namespace.dns_answer("\xff\xff".b + question[2..], address: "127.0.0.1") }]
      answers.each do |answer|
        Namespace.with_name_server(answer) do
          result = send_by_name("odd.example", 1, timeout: timeout_ms)
          expect(result.outcome).to match(/operation timed out|dns error/)
          expect(result.send_ms).to be < timeout_ms * 1.1 + 100
        end
      end
    end

    it "waits for a slow answer" do
      server = serve
      slow = ->(question) { sleep(0.3) && Namespace.dns_answer(question, address: "127.0.0.1") }
      Namespace.with_name_server(slow) do
        expect(send_by_name("slow.example", server.port).outcome).to eq(200)
      end
    end

    it "counts the lookup and the server's silence together" do
      deaf = serve(&:hang)
      slow = ->(question) { sleep(0.4) && Namespace.dns_answer(question, address: "127.0.0.1") }
      Namespace.with_name_server(slow) do
        expect_timeout(timeout_ms) { send_by_name("slow.example", deaf.port, timeout: timeout_ms) }
      end
    end

    { "a single label" => "agent", "upper case" => "AGENT.Example" }.each do |what, name|
      it "or the hosts file, for #{what}" do
        server = serve
        Namespace.with_hosts("127.0.0.1 agent.example agent") do
          Namespace.with_name_server(->(q) { Namespace.dns_answer(q, code: 3) }) do
            expect(send_by_name(name, server.port, timeout: 3000).outcome).to eq(200)
          end
        end
      end
    end

    it "or nobody, when no server is there: the hosts file still works" do
      server = serve
      Namespace.with_hosts("127.0.0.1 agent") do
        Namespace.with_file("/etc/resolv.conf", "") do
          expect(send_by_name("agent", server.port, timeout: 3000).outcome).to eq(200)
        end
      end
    end

    it "tries one address after the other" do
      server = serve
      Namespace.with_hosts("127.0.0.9 agent", "::1 agent", "127.0.0.1 agent") do
        expect(send_by_name("agent", server.port, timeout: 3000).outcome).to eq(200)
      end
    end

    it "reaches a name that only has an IPv6 address" do
      server = serve("::1")
      Namespace.with_hosts("::1 six") do
        expect(send_by_name("six", server.port, timeout: 3000).outcome).to eq(200)
      end
    end
  end
end
