# A token that another thread sets ends a report at once, whatever it is waiting for.
RSpec.describe "Cancelling a report" do
  cancelled = "failed ddog_prof_Exporter_send: operation cancelled by user"
  site = "nf-intake.example"
  host = "intake.profile.#{site}"

  # The report waits for something that never comes; its own time limit is none.
  def expect_quick_cancel(**options)
    within_some_try do
      result = Driver.run(timeout: 0, cancel_after: 200, limit: 20, **options)
      expect_untouched(result)
      expect(result.outcome).to eq("failed ddog_prof_Exporter_send: operation cancelled by user"),
                                result.inspect
      expect(result.woken_ms).to be < 50
      puts "      awake after #{result.woken_ms} ms"
    end
  end

  def large = "x.pprof=#{file_of("x" * 16_000_000)}"

  it "wakes it while it connects" do
    expect_quick_cancel(url: black_hole)
  end

  it "wakes it while a unix socket's queue is full" do
    path = File.join(scratch, "full.sock")
    listener = keep(Socket.new(:UNIX, :STREAM))
    listener.bind(Addrinfo.unix(path))
    listener.listen(0)
    keep(UNIXSocket.new(path))
    expect_quick_cancel(url: "unix://#{path}")
  end

  it "wakes it while it uploads" do
    server = serve(&:hang)
    expect_quick_cancel(url: server.url, file: large)
    path = File.join(scratch, "deaf.sock")
    serve_unix(path, &:hang)
    expect_quick_cancel(url: "unix://#{path}", file: large)
  end

  it "wakes it while the reader is slow" do
    server = serve { |c| loop { c.read_more(2000) && sleep(0.01) } }
    expect_quick_cancel(url: server.url, file: large)
  end

  it "wakes it while it waits for an answer" do
    server = serve { |c| c.read_request && c.hang }
    expect_quick_cancel(url: server.url)
  end

  it "wakes it within the answer's headers, and after informational ones" do
    drips = serve { |c| c.read_request && c.drip("HTTP/1.1 200 OK\r\nx: #{"y" * 9000}", every: 0.005) }
    expect_quick_cancel(url: drips.url)
    informs = serve { |c| c.read_request && c.write("HTTP/1.1 103 Early Hints\r\n\r\n") && c.hang }
    expect_quick_cancel(url: informs.url)
  end

  it "wakes it under SIGPROF at 1 kHz" do
    server = serve(&:hang)
    expect_quick_cancel(url: server.url, file: large, sigprof: 1000)
  end

  it "wakes it while a name is looked up" do
    namespace!
    Namespace.with_name_server(->(_) {}) { expect_quick_cancel(url: "http://slow.example/") }
  end

  it "wakes it within a TLS handshake, at the start and in the middle" do
    namespace!
    authority = Certificates.new
    server = serve(tls: authority.context(host))
    Namespace.with_hosts("127.0.0.1 #{host}") do
      tls = { key: "k", env: { "SSL_CERT_FILE" => authority.file } }
      expect_quick_cancel(agentless: "#{site}:#{serve(&:hang).port}", **tls)
      [5, 700].each do |bytes|
        expect_quick_cancel(agentless: "#{site}:#{relay(server.port, after: bytes, how: :hang).port}", **tls)
      end
    end
  end

  it "wakes it while it uploads, or waits for an answer, over TLS" do
    namespace!
    authority = Certificates.new
    Namespace.with_hosts("127.0.0.1 #{host}") do
      tls = { key: "k", env: { "SSL_CERT_FILE" => authority.file } }
      deaf = serve(tls: authority.context(host)) { |c| c.read_head && c.hang }
      expect_quick_cancel(agentless: "#{site}:#{deaf.port}", file: large, **tls)
      silent = serve(tls: authority.context(host)) { |c| c.read_request && c.hang }
      expect_quick_cancel(agentless: "#{site}:#{silent.port}", **tls)
    end
  end

  it "wakes it while a name is looked up, or a proxy keeps silent, on the way to the intake" do
    namespace!
    Namespace.with_name_server(->(_) {}) { expect_quick_cancel(agentless: "slow.example", key: "k") }
    Namespace.with_hosts("127.0.0.1 #{host}") do
      proxy = serve(&:hang)
      expect_quick_cancel(agentless: site, key: "k", env: { "HTTPS_PROXY" => proxy.url })
    end
  end

  it "beforehand sends nothing" do
    server = serve
    path = File.join(scratch, "unsent.sock")
    local = serve_unix(path)
    [server.url, "unix://#{path}", black_hole, "http://no-such-name.invalid/"].each do |url|
      result = Driver.run(url: url, cancel_first: true, timeout: 0, limit: 20)
      expect_untouched(result)
      expect(result.outcome).to eq(cancelled)
      expect(result.send_ms).to be < 1000
    end
    sleep 0.1
    expect((server.connections + local.connections).map(&:raw)).to all(be_empty)
  end

  it "afterwards changes nothing" do
    server = serve
    result = Driver.run(url: server.url, cancel_after: 300)
    expect(result.outcome).to eq(200)
  end

  it "leaves nothing behind, however often, and at any moment" do
    server = serve { |c| c.read_head && sleep(0.01) && c.read_request && c.answer(200) }
    medium = "x.pprof=#{file_of("x" * 2_000_000)}"
    9.times do |ms|
      result = Driver.run(url: server.url("localhost"), cancel_after: ms, repeat: 15, file: medium)
      expect_untouched(result)
      expect(result.outcomes.uniq - [200, cancelled]).to eq([])
    end
  end
end
