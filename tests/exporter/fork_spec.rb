# Parent and children report at any time, also while other threads of the parent are in the middle of a
# report.
RSpec.describe "A fork" do
  site = "nf-intake.example"
  host = "intake.profile.#{site}"
  soak = ENV["NF_SOAK"] == "1"

  # How long after its fork each child's report had come whole, in seconds.
  def ages(server)
    server.connections.select(&:complete).filter_map do |connection|
      tags = JSON.parse(connection.request.event_text)["tags_profiler"]
      born = tags[/child:\d+ at ([\d.]+)/, 1]
      connection.complete - born.to_f / 1000 if born
    end
  end

  def expect_all_children(server, count, within: 2, **options)
    result = Driver.run(forks: count, limit: 100 + 2 * count, timeout: 15_000, quiet: true, **options)
    expect(result.exit).to be_success, result.inspect
    expect(result.all("forks")).to eq([[count.to_s, "0"]])
    inherited = result.all("inherited").flatten.tally
    expect(inherited).to eq({})
    expect_untouched(result)
    ages = ages(server)
    expect(ages.size).to eq(count)
    puts "      #{count} children, the last report whole #{(ages.max * 1000).round} ms after its fork"
    late = ages.count { |age| age > within }
    expect(late).to be_zero, "#{late} of #{count} took longer than #{within} s, at most #{ages.max}"
  end

  # Keeps the parent's threads in every phase: some answers come late.
  def slow_server(*arguments, **options)
    serve(*arguments, **options) do |c|
      c.read_head
      sleep(rand * 0.02) unless c.raw.include?("child")
      c.read_request
      sleep(rand * 0.02) unless c.raw.include?("child:")
      c.answer(200)
    end
  end

  it "leaves 500 children of a busy parent able to report within 2 s, over TCP" do
    server = slow_server
    expect_all_children(server, 500, url: server.url, threads: 4)
  end

  count = soak ? 500 : 60

  it "leaves children able to report by name, over localhost" do
    server = slow_server
    expect_all_children(server, count, url: server.url("localhost"), threads: 4, token: true)
  end

  it "leaves children able to report over a unix socket" do
    path = File.join(scratch, "fork.sock")
    server = serve_unix(path) { |c| c.read_request && sleep(rand * 0.01) && c.answer(200) }
    expect_all_children(server, count, url: "unix://#{path}", threads: 4)
  end

  it "leaves children able to look names up while the parent does" do
    namespace!
    server = slow_server
    answer = ->(question) { sleep(0.003) && Namespace.dns_answer(question, address: "127.0.0.1") }
    Namespace.with_name_server(answer) do
      expect_all_children(server, count, url: server.url("agent.example"), threads: 4)
    end
  end

  it "leaves children able to report over TLS while the parent shakes hands" do
    namespace!
    authority = Certificates.new
    server = slow_server(tls: authority.context(host))
    Namespace.with_hosts("127.0.0.1 #{host}") do
      expect_all_children(server, count, agentless: "#{site}:#{server.port}", key: "k", threads: 4,
                                         env: { "SSL_CERT_FILE" => authority.file })
    end
  end

  it "leaves several children at once able to report while the parent uploads much" do
    # Each child waits its turn with the server, which takes in 2 MB from twelve at once.
    server = serve
    body = file_of("x" * 2_000_000)
    expect_all_children(server, soak ? 200 : 30, within: 15, url: server.url, threads: 4, children: 8,
                                                 file: "x.pprof=#{body}")
  end

  it "does not wait for a parent's thread that hangs in a connection, an upload or a handshake" do
    namespace!
    authority = Certificates.new
    # The parent's threads never get an answer, the children at once.
    mixed = proc { |c|
      c.read_head && (c.raw.include?("child") || c.read_request.include?("child:") ? c.answer(200) : c.hang)
    }
    plain = serve(&mixed)
    result = Driver.start(url: plain.url, threads: 4, forks: 20, timeout: 4000, quiet: true).finish(60)
    expect(result.all("forks")).to eq([["20", "0"]])
    expect(ages(plain).size + plain.connections.count { |c| c.raw.include?("child:") }).to be >= 20
    secure = serve(tls: authority.context(host), &mixed)
    Namespace.with_hosts("127.0.0.1 #{host}") do
      result = Driver.run(agentless: "#{site}:#{secure.port}", key: "k", threads: 4, forks: 20,
                          timeout: 4000, quiet: true,
                          env: { "SSL_CERT_FILE" => authority.file }, limit: 60)
      expect(result.all("forks")).to eq([["20", "0"]])
    end
  end

  it "lets the parent's connection end when the parent ends it, whatever the child does" do
    # A child that kept the parent's socket would keep the server from seeing the end for as long as it lives.
    ends = Queue.new
    server = serve do |c|
      c.read_request
      c.answer(200)
      c.read_to_end
    rescue EOFError
      ends << Server.now - c.complete
    end
    result = Driver.run(url: server.url, threads: 2, forks: 10, children: 10, quiet: true, pause: 50,
                        linger: 6000)
    expect(result.exit).to be_success
    sleep 0.2
    expect(ends.size).to eq(server.connections.size)
    late = ends.size.times.count { ends.pop > 3 }
    expect(late).to be_zero
  end

  it "may be followed by more reports with the same exporter, in parent and child" do
    server = serve
    result = Driver.run(url: server.url, reuse: true, forks: 20, quiet: true)
    expect(result.exit).to be_success
    expect(server.requests.size).to eq(40)
  end

  it "leaves each child a token of its own, even while the parent's threads use it" do
    server = serve
    result = Driver.run(url: server.url, shared_token: true, threads: 4, forks: 200, quiet: true, limit: 100)
    expect(result.exit).to be_success, result.inspect
    # The second report of each child, which it had cancelled.
    texts = result.all("send_error").map(&:last).uniq
    expect(texts).to eq(["failed ddog_prof_Exporter_send: operation cancelled by user"])
    expect(result.all("send_error").size).to eq(200)
  end

  it "costs no memory, generation after generation" do
    server = serve
    generations = soak ? 300 : 60
    result = Driver.run(url: server.url, chain: generations, quiet: true, limit: 120)
    expect(result.exit).to be_success, result.inspect
    expect(server.requests.size).to eq(generations + 1)
    grown = result.number("chain_end", 1) - result.number("chain_begin", 1)
    expect(grown).to be < 512
  end
end
