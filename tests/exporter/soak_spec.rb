# Many reports in a row: nothing may pile up.
RSpec.describe "Many reports" do
  soak = ENV["NF_SOAK"] == "1"
  site = "nf-intake.example"
  host = "intake.profile.#{site}"

  # kB that the process grew by from the first fifth of the reports on.
  def growth(count, **options)
    files = { compress: "a.json=#{file_of("text " * 4000)}", file: "b.pprof=#{file_of("x" * 20_000)}" }
    result = Driver.run(repeat: count, quiet: true, timeout: 20_000, limit: 500, tag: ["a=b"], token: true,
                        **files, **options)
    expect_untouched(result)
    result.number("growth_kb").tap { |kb| puts "      #{count} reports, grown by #{kb.to_i} kB" }
  end

  # A leak of one byte in each would show from about 10 000 on; of 100 bytes already now.
  def expect_no_growth(count, **options)
    expect(growth(count, **options)).to be <= [count * 0.05, 256].max
  end

  # Keeps nothing of what it reads.
  def sink(*arguments, **options, &made)
    script = proc do |c|
      c.read_request
      c.answer(200)
      c.raw.clear
    end
    made ? made.call(script) : serve(*arguments, **options, &script)
  end

  count = 10_000

  it "leave nothing behind over TCP" do
    expect_no_growth(count, url: sink.url)
  end

  it "leave nothing behind over a unix socket" do
    path = File.join(scratch, "soak.sock")
    sink { |script| serve_unix(path, &script) }
    expect_no_growth(count, url: "unix://#{path}")
  end

  it "leave nothing behind with names" do
    namespace!
    server = sink
    reports = soak ? count : 3000
    Namespace.with_hosts("127.0.0.1 agent") { expect_no_growth(reports, url: server.url("agent")) }
  end

  it "leave nothing behind over TLS" do
    namespace!
    authority = Certificates.new
    server = sink(tls: authority.context(host))
    Namespace.with_hosts("127.0.0.1 #{host}") do
      expect_no_growth(soak ? 10_000 : 400, agentless: "#{site}:#{server.port}", key: "k",
                                            env: { "SSL_CERT_FILE" => authority.file })
    end
  end

  it "leave nothing behind when each fails" do
    expect_no_growth(count, url: refused_url)
    cut = serve { |c| c.read_bytes(3000) && c.reset }
    expect_no_growth(count / 10, url: cut.url)
    noise = serve { |c| c.read_request && c.write("nonsense\r\n\r\n") && c.raw.clear }
    expect_no_growth(count / 10, url: noise.url)
  end

  it "leave nothing behind when each runs out of time" do
    deaf = serve(&:hang)
    expect_no_growth(soak ? 1000 : 150, url: deaf.url, timeout: 5)
  end

  it "leave nothing behind when each is cancelled" do
    deaf = serve(&:hang)
    expect_no_growth(soak ? 1000 : 150, url: deaf.url, timeout: 0, cancel_after: 3)
  end

  it "at once from eight threads all arrive" do
    server = serve { |c| c.read_request && c.answer(200) }
    result = Driver.run(url: server.url, threads: 8, repeat: soak ? 2000 : 200, quiet: true, limit: 300)
    expect(result.exit).to be_success, result.inspect
    expect_untouched(result)
    expect(server.requests.size).to be >= (soak ? 2000 : 200)
  end

  it "of 100 MB arrive whole, in little more memory than they are" do
    soak!
    server = serve
    bytes = Random.new(9).bytes(100_000_000)
    path = file_of(bytes)
    plain = Driver.run(url: refused_url)
    result = Driver.run(url: server.url, file: "big.pprof=#{path}", timeout: 60_000)
    expect(result.outcome).to eq(200)
    expect(server.requests.first.part("big.pprof").data == bytes).to be(true)
    # The caller's copy and the request's own.
    expect(result.number("peak_kb") - plain.number("peak_kb")).to be < 2.3 * 100_000_000 / 1024
  end
end
