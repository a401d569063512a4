# Memory runs out: the n-th allocation within the calls of one report fails, for every n, alone or with all
# that follow. Each time there must be an error (or a report that is whole all the same), no crash, no leak.
RSpec.describe "A report without memory" do
  site = "nf-intake.example"
  host = "intake.profile.#{site}"

  def torture(server, **options)
    files = { compress: "a.json=#{file_of("text " * 20_000)}", file: "b.pprof=#{file_of("x" * 5000)}" }
    common = { tag: ["one", "two"], internal: '{"a":[1,2.5,"x"]}', info: '{"b":{"c":null}}', timeout: 10_000,
               token: true }
    never = { preload: true, torture_from: 1 << 30, torture_to: 1 << 30 }
    Driver.run(**files, **common, **options, **never) # what a whole report looks like
    whole = server.requests.last
    server.forget
    result = Driver.run(preload: true, torture_from: 1, torture_to: 50_000, limit: 1500,
                        env: { "NF_PRELOAD_CALLERS" => "1" }.merge(options.fetch(:env, {})), **files,
                        **common, **options.except(:env))
    [result, whole]
  end

  def expect_survival(server, **options)
    result, whole = torture(server, **options)
    lines = result.all("torture")
    expect(result.exit).to be_exited, "killed by #{result.exit.termsig.inspect} after #{lines.last.inspect}"
    expect(result.number("torture_end")).to be > 20, result.inspect
    # OpenSSL keeps the texts of a thread's last errors, and 3.0 itself loses some bytes on some ways out.
    # What we forgot to release would be handles of libcurl too.
    leaks = result.all("leak").reject { |_, callers| callers.match?(/\A lib(crypto|ssl)\b/) }
    expect(leaks).to be_empty, "#{leaks.size} leaks, e.g. #{leaks.first(3)}"
    # Failing allocations that no one noticed: then the report was whole.
    unnoticed = lines.count { |_, _, outcome, _| outcome == "o" }
    expect(unnoticed).to be < lines.size / 2
    sleep 0.2
    got = server.requests.map { |request| request.parts.map(&:data) }.uniq
    expect(got == [whole.parts.map(&:data)]).to be(true),
                                                "#{got.size} kinds of reports arrived: #{got.map(&:first)}"
    expect(result.field("descriptors")).to eq("0")
    puts "      #{lines.size} failing allocations, #{unnoticed} without consequence"
  end

  it "over TCP" do
    server = serve
    expect_survival(server, url: server.url)
  end

  it "over a unix socket" do
    path = File.join(scratch, "torture.sock")
    server = serve_unix(path)
    expect_survival(server, url: "unix://#{path}")
  end

  it "with a name of the hosts file" do
    namespace!
    server = serve
    Namespace.with_hosts("127.0.0.1 agent") { expect_survival(server, url: server.url("agent")) }
  end

  it "with a name server" do
    namespace!
    server = serve
    Namespace.with_name_server(->(question) { Namespace.dns_answer(question, address: "127.0.0.1") }) do
      expect_survival(server, url: server.url("agent.example"), timeout: 300)
    end
  end

  it "over TLS" do
    namespace!
    authority = Certificates.new
    server = serve(tls: authority.context(host))
    Namespace.with_hosts("127.0.0.1 #{host}") do
      # Thousands, most of them libcrypto's: every one with NF_SOAK=1.
      step = ENV["NF_SOAK"] == "1" ? 1 : 151
      expect_survival(server, agentless: "#{site}:#{server.port}", key: "k", torture_step: step,
                              env: { "SSL_CERT_FILE" => authority.file })
    end
  end

  it "to nobody" do
    result = Driver.run(preload: true, torture_from: 1, torture_to: 50_000, url: refused_url,
                        env: { "NF_PRELOAD_CALLERS" => "1" })
    expect(result.exit).to be_exited
    expect(result.number("torture_end")).to be > 5
    expect(result.all("leak")).to eq([])
    expect(result.all("torture").map { |_, _, outcome, _| outcome }.uniq - %w[t n b s]).to eq([])
  end
end
