# What servers and networks do wrong, over plain TCP and unix sockets. Each report must end with the right
# status or error,
# in time, and leave the process as it was.
RSpec.describe "A report that meets a fault" do
  small = { file: { "x.pprof" => "x" * 1000 } }
  large = { file: { "x.pprof" => "x" * 16_000_000 } }
  timeout_ms = 1000

  def send_report(url, options = {}, library: Driver::OURS, **more)
    options = options.dup
    options[:file] &&= options[:file].map { |name, bytes| "#{name}=#{bytes.empty? ? "" : file_of(bytes)}" }
    result = Driver.run(library, url: url, **options, **more)
    expect_untouched(result)
    result
  end

  # The error that says so, after the time limit and not much later.
  def expect_timeout(limit_ms)
    within_some_try do
      result = yield
      expect(result.outcome).to eq("failed ddog_prof_Exporter_send: operation timed out")
      expect(result.send_ms).to be_between(limit_ms * 0.9, limit_ms * 1.1)
    end
  end

  def expect_error(result, pattern, below_ms: 900)
    expect(result.outcome).to be_a(String), result.inspect
    expect(result.outcome).to match(pattern)
    expect(result.outcome).to start_with("failed ddog_prof_Exporter_send: ")
    expect(result.send_ms).to be < below_ms
  end

  describe "that no one takes" do
    it "says that the connection was refused" do
      expect_error(send_report(refused_url),
                   /error trying to connect: tcp connect error: Connection refused \(os error 111\)/)
    end

    it "gives up on a black hole in time" do
      url = black_hole
      expect_timeout(timeout_ms) { send_report(url, timeout: timeout_ms) }
    end

    it "gives up in time when accepted and then ignored" do
      server = serve(&:hang)
      expect_timeout(timeout_ms) { send_report(server.url, small, timeout: timeout_ms) }
    end

    it "gives up in time when a large body is not read" do
      server = serve(&:hang)
      expect_timeout(timeout_ms) { send_report(server.url, large, timeout: timeout_ms) }
    end

    it "gives up in time when the answer does not come" do
      server = serve { |c| c.read_request && c.hang }
      expect_timeout(timeout_ms) { send_report(server.url, small, timeout: timeout_ms) }
    end

    it "keeps short and odd time limits" do
      server = serve(&:hang)
      [1, 10, 333].each do |limit|
        result = send_report(server.url, small, timeout: limit)
        expect(result.outcome).to match(/operation timed out/)
        expect(result.send_ms).to be_between(limit * 0.9, limit + 200)
      end
    end

    it "takes 0 and the largest number as no limit" do
      server = serve { |c| c.read_request && sleep(0.3) && c.answer(200) }
      [0, 2**64 - 1, 2**63].each do |limit|
        expect(send_report(server.url, timeout: limit).outcome).to eq(200)
      end
    end

    ["0", "65536", "99999", "4294967297"].each do |port|
      it "fails on port #{port}" do
        result = Driver.run(url: "http://127.0.0.1:#{port}/", timeout: timeout_ms)
        expect_untouched(result)
        expect(result.outcome).to be_a(String)
        expect(result.elapsed_ms).to be < 5000
      end
    end
  end

  describe "that is slow" do
    it "gives up in time on an answer in drips" do
      server = serve { |c| c.read_request && c.drip("HTTP/1.1 200 OK\r\nx: #{"y" * 5000}", every: 0.02) }
      expect_timeout(timeout_ms) { send_report(server.url, small, timeout: timeout_ms) }
    end

    it "gives up in time when the body is read in drips" do
      server = serve { |c| loop { c.read_more(1000) && sleep(0.02) } }
      expect_timeout(timeout_ms) { send_report(server.url, large, timeout: timeout_ms) }
    end

    it "waits for an answer that comes in drips but in time" do
      server = serve do |c|
        c.read_request && c.drip("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n", every: 0.01)
      end
      expect(send_report(server.url, small, timeout: 5000).outcome).to eq(202)
    end

    it "waits for a reader that is slow but in time" do
      server = serve { |c| c.read_more(5000) && sleep(0.3) && c.read_request && c.answer(200) }
      expect(send_report(server.url, large, timeout: 10_000).outcome).to eq(200)
      expect(server.requests.first.part("x.pprof").data.bytesize).to eq(16_000_000)
    end
  end

  describe "that is cut off" do
    cuts = {
      "at once" => proc {},
      "after the first byte" => proc { |c| c.read_more(1) },
      "within the headers" => proc { |c| c.read_bytes(20) },
      "after the headers" => proc { |c| c.read_head },
      "within the body" => proc { |c| c.read_bytes(1_000_000) },
      "after the request" => proc { |c| c.read_request },
      "within the status line" => proc { |c| c.read_request && c.write("HTTP/1.1 20") },
      "after the status line" => proc { |c| c.read_request && c.write("HTTP/1.1 200 OK\r\n") },
      "within its headers" => proc { |c| c.read_request && c.write("HTTP/1.1 200 OK\r\nx: y\r\nz:") },
      "after a 100" => proc { |c| c.read_request && c.write("HTTP/1.1 100 Continue\r\n\r\n") },
    }
    errors = /connection closed|error (writing|reading|trying)|reset|broken pipe|os error (32|104)/i

    { "closed" => :close, "reset" => :reset }.each do |verb, how|
      cuts.each do |where, script|
        it "reports an error when #{verb} #{where}, over TCP" do
          server = serve { |c| instance_exec(c, &script) && nil || c.public_send(how) }
          expect_error(send_report(server.url, large, timeout: 5000), errors, below_ms: 4000)
        end
      end
    end

    cuts.each do |where, script|
      it "reports an error when closed #{where}, over a unix socket" do
        path = File.join(scratch, "cut.sock")
        serve_unix(path) { |c| instance_exec(c, &script) && nil || c.close }
        expect_error(send_report("unix://#{path}", large, timeout: 5000), errors, below_ms: 4000)
      end
    end
  end

  describe "that gets an odd answer" do
    ok = "HTTP/1.1 200 OK\r\n"
    answers = {
      "noise" => Random.new(1).bytes(300), "zeros" => "\0" * 100, "SSH" => "SSH-2.0-OpenSSH_9.2\r\n",
      "HTTP/0.9" => "<html>hello</html>\r\n", "HTTP/9.9" => "HTTP/9.9 200 OK\r\n\r\n",
      "HTTP/1.2" => "HTTP/1.2 200 OK\r\n\r\n", "HTTP/2 in words" => "HTTP/2 200 OK\r\n\r\n",
      "HTTP/2" => "\x00\x00\x12\x04\x00\x00\x00\x00\x00".b, "TLS" => "\x15\x03\x01\x00\x02\x02\x46".b,
      "ICY" => "ICY 200 OK\r\n\r\n", "lower case" => "http/1.1 200 OK\r\n\r\n",
      "no status" => "HTTP/1.1 OK\r\n\r\n", "two digits" => "HTTP/1.1 20 OK\r\n\r\n",
      "four digits" => "HTTP/1.1 2000 OK\r\n\r\n", "a negative status" => "HTTP/1.1 -20 OK\r\n\r\n",
      "status 000" => "HTTP/1.1 000 OK\r\n\r\n", "status 099" => "HTTP/1.1 099 OK\r\n\r\n",
      "status 600" => "HTTP/1.1 600 OK\r\n\r\n", "status 101" => "HTTP/1.1 101 Switching\r\n\r\n",
      "no blank" => "HTTP/1.1 200OK\r\n\r\n", "two blanks" => "HTTP/1.1  200 OK\r\n\r\n",
      "a TAB" => "HTTP/1.1\t200 OK\r\n\r\n", "a TAB behind" => "HTTP/1.1 200\tOK\r\n\r\n",
      "an empty line first" => "\r\n#{ok}\r\n", "only empty lines" => "\r\n\r\n",
      "nothing" => "", "HTT" => "HTT",
      "a long reason" => "HTTP/1.1 200 #{"x" * 50_000}\r\n\r\n", "é as reason" => "HTTP/1.1 200 é\r\n\r\n",
      "a header without colon" => "#{ok}nonsense\r\n\r\n", "a folded header" => "#{ok}a: b\r\n  c\r\n\r\n",
      "NUL in a header" => "#{ok}a: b\0c\r\n\r\n", "CR in a header" => "#{ok}a: b\rc\r\n\r\n",
      "a blank in a header's name" => "#{ok}a b: c\r\n\r\n",
      "an unknown coding" => "#{ok}transfer-encoding: x\r\n\r\n", "100 alone" => "HTTP/1.1 100 Go on\r\n\r\n",
    }
    answers.each do |what, bytes|
      it "ends as with the other implementation for #{what}" do
        oracle!
        server = serve { |c| c.read_request && c.write(bytes) && c.finish_and_read }
        theirs = send_report(server.url, small, timeout: 3000, library: Driver::ORACLE)
        ours = send_report(server.url, small, timeout: 3000)
        expect(ours.outcome).to eq(theirs.outcome)
        expect(ours.send_ms).to be < 2500
      end
    end

    # Where ours is more lenient: what the body is like does not matter to it.
    { "a bad length" => "content-length: x", "two lengths" => "content-length: 1\r\ncontent-length: 2",
      "500 headers" => Array.new(500) { "a: b" }.join("\r\n") }.each do |what, headers|
      it "ends with the status or an error for #{what}" do
        server = serve { |c| c.read_request && c.write("#{ok}#{headers}\r\n\r\n") && c.finish_and_read }
        expect(send_report(server.url, small, timeout: 3000).outcome).to eq(200).or(be_a(String))
      end
    end

    it "says that noise is no HTTP" do
      server = serve { |c| c.read_request && c.write("nonsense\r\n\r\n") && c.read_to_end }
      expect_error(send_report(server.url, small, timeout: 3000), /invalid HTTP version parsed/)
    end

    [200, 202, 204, 206, 226, 300, 301, 302, 304, 307, 400, 401, 403, 404, 408, 413, 418, 429, 500, 502, 503,
     599, 999].each do |code|
      it "returns the status #{code} and follows nothing" do
        elsewhere = serve
        server = serve do |c|
          c.read_request && c.answer(code, headers: { "location" => elsewhere.url, "retry-after" => "0" })
        end
        expect(send_report(server.url, small, timeout: 3000).outcome).to eq(code)
        expect([server.connections.size, elsewhere.connections.size]).to eq([1, 0])
      end
    end

    { "lines that end with LF only" => "HTTP/1.1 200 OK\nx: y\n\n", "no reason" => "HTTP/1.1 201\r\n\r\n",
      "an empty reason" => "HTTP/1.1 201 \r\n\r\n", "HTTP/1.0" => "HTTP/1.0 200 OK\r\n\r\n",
      "a 100 first" => "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 OK\r\n\r\n",
      "40 informational ones first" => "#{"HTTP/1.1 103 Early\r\nx: y\r\n\r\n" * 40}HTTP/1.1 202 OK\r\n\r\n",
      "no length" => "HTTP/1.1 200 OK\r\n\r\nsome body",
      "100 kB of headers" => "HTTP/1.1 200 OK\r\n#{"h: #{"v" * 995}\r\n" * 100}\r\n" }.each do |what, bytes|
      it "takes an answer with #{what}" do
        server = serve { |c| c.read_request && c.write(bytes) && c.read_to_end }
        expect(send_report(server.url, small,
                           timeout: 3000).outcome).to eq(bytes[/(20[0-9])(?!.*HTTP)/m, 1].to_i)
      end
    end

    it "returns an early 413 while it still uploads" do
      server = serve { |c| c.read_head && c.answer(413) && c.hang }
      result = send_report(server.url, large, timeout: 3000)
      expect(result.outcome).to eq(413)
      expect(result.send_ms).to be < 1500
    end

    it "returns an early 413 whose connection is then closed in an orderly way" do
      server = serve { |c| c.read_head && c.answer(413) && c.finish_and_read }
      expect(send_report(server.url, large, timeout: 3000).outcome).to eq(413)
    end

    it "returns an early 413 or the error when the connection is then reset" do
      server = serve { |c| c.read_head && c.answer(413) && c.reset }
      expect(send_report(server.url, large,
                         timeout: 3000).outcome).to eq(413).or(match(/error writing a body|reset/i))
    end

    { "headers" => "h: #{"v" * 100}\r\n", "a header line" => "v" * 100,
      "informational answers" => "" }.each do |what, piece|
      it "does not read endless #{what} for ever, nor keep them" do
        server = serve do |c|
          c.read_request
          c.write("HTTP/1.1 200 OK\r\n#{"h: " if what == "a header line"}") unless piece.empty?
          piece = "HTTP/1.1 103 Early Hints\r\n\r\n" if piece.empty?
          loop { c.write(piece * 1000) }
        end
        plain = send_report(serve.url, small)
        result = send_report(server.url, small, timeout: 2000)
        expect(result.outcome).to be_a(String)
        expect(result.send_ms).to be < 2200
        expect(result.number("peak_kb") - plain.number("peak_kb")).to be < 8192
      end
    end

    it "returns before a body of 1 GB, and keeps none of it" do
      sent = 0
      server = serve do |c|
        c.read_request
        c.answer(200, headers: { "content-length" => "1000000000" })
        1000.times { c.write("x" * 1_000_000) && sent += 1_000_000 }
      end
      plain = send_report(serve.url, small)
      result = send_report(server.url, small, timeout: 5000)
      expect(result.outcome).to eq(200)
      expect(result.send_ms).to be < 1000
      expect(sent).to be < 100_000_000
      expect(result.number("peak_kb") - plain.number("peak_kb")).to be < 8192
    end

    it "does not wait for a body that never comes" do
      server = serve { |c| c.read_request && c.answer(200, headers: { "content-length" => "10" }) && c.hang }
      expect(send_report(server.url, small, timeout: 5000).send_ms).to be < 1000
    end
  end

  describe "on IPv6 or IPv4 only" do
    it "reaches localhost where only ::1 listens" do
      namespace!
      server = serve("::1")
      Namespace.with_hosts { expect(send_report(server.url("localhost"), timeout: 3000).outcome).to eq(200) }
    end

    it "reaches localhost where only 127.0.0.1 listens" do
      server = serve("127.0.0.1")
      expect(send_report(server.url("localhost"), timeout: 3000).outcome).to eq(200)
    end
  end

  describe "on a unix socket" do
    it "says what is missing" do
      expect_error(send_report("unix:///nonexistent/a.sock"),
                   /error trying to connect: No such file or directory \(os error 2\)/)
    end

    it "says that nobody listens any more" do
      path = File.join(scratch, "dead.sock")
      Server.unix(path).close
      expect_error(send_report("unix://#{path}"),
                   /error trying to connect: Connection refused \(os error 111\)/)
    end

    it "fails on a plain file, a folder, and a socket of another kind" do
      file = file_of("x")
      datagram = File.join(scratch, "datagram.sock")
      socket = keep(Socket.new(:UNIX, :DGRAM))
      socket.bind(Addrinfo.unix(datagram))
      [file, scratch, datagram].each do |path|
        expect_error(send_report("unix://#{path}"), /error trying to connect: /)
      end
    end

    it "is not misled by a NUL in the path" do
      path = File.join(scratch, "cut.sock")
      server = serve_unix(path)
      result = send_report("unix://#{path}\0.sock", timeout: 3000)
      expect(result.outcome).to be_a(String)
      expect(server.connections).to be_empty
    end

    it "works with spaces, percent signs and UTF-8" do
      ["a b.sock", "%20.sock", "é日本.sock", "a#b?c.sock", "'\".sock"].each do |name|
        path = File.join(scratch, name)
        server = serve_unix(path)
        expect(send_report("unix://#{path}").outcome).to eq(200)
        expect(server.requests.size).to eq(1)
      end
    end

    it "works with a path that is relative to the process's folder" do
      server = serve_unix(File.join(scratch, "near by.sock"))
      result = Driver.run(url: "unix://near by.sock", spawn: { chdir: scratch })
      expect_untouched(result)
      expect(result.outcome).to eq(200)
      expect(server.requests.size).to eq(1)
    end

    { 107 => "works", 108 => "works or says why not" }.each do |length, what|
      it "#{what} with a path of #{length} bytes" do
        path = File.join(scratch, "s" * (length - scratch.bytesize - 1))
        serve_unix(path)
        result = send_report("unix://#{path}", timeout: 3000)
        expect(result.outcome).to length == 107 ? eq(200) : eq(200).or(match(/path/))
      end
    end

    [109, 5000].each do |length|
      it "says that a path of #{length} bytes is too long" do
        result = Driver.run(url: "unix:///#{"s" * (length - 1)}")
        expect_untouched(result)
        expect(result.outcome).to match(/path .*(107|SUN_LEN)/)
      end
    end

    it "gives up in time on a full queue" do
      path = File.join(scratch, "full.sock")
      listener = keep(Socket.new(:UNIX, :STREAM))
      listener.bind(Addrinfo.unix(path))
      listener.listen(0)
      keep(UNIXSocket.new(path))
      result = send_report("unix://#{path}", small, timeout: timeout_ms)
      expect(result.outcome).to match(/timed out|temporarily unavailable/)
      expect(result.send_ms).to be < timeout_ms * 1.1 + 50
    end

    it "gives up in time when accepted and then ignored" do
      path = File.join(scratch, "deaf.sock")
      serve_unix(path, &:hang)
      expect_timeout(timeout_ms) { send_report("unix://#{path}", large, timeout: timeout_ms) }
    end
  end

  describe "in a difficult process" do
    it "fails with a reason, or works, however few descriptors are left" do
      server = serve
      path = File.join(scratch, "few.sock")
      serve_unix(path)
      outcomes = [server.url, server.url("localhost"), "unix://#{path}"].flat_map do |url|
        (3..10).map do |limit|
          result = send_report(url, small, descriptors: limit, timeout: 3000, token: limit.odd?)
          expect(result.outcome).to eq(200).or(match(/Too many open files \(os error 24\)/)),
                                    "#{url} #{limit} #{result.inspect}"
          result.outcome
        end
      end
      expect(outcomes).to include(200).and(include(a_kind_of(String)))
    end

    it "works with descriptors beyond 1024" do
      server = serve
      expect(send_report(server.url("localhost"), small, open: 1500, token: true).outcome).to eq(200)
    end

    it "leaves nothing that a program started meanwhile would inherit" do
      server = serve(&:hang)
      result = send_report(server.url, large, timeout: 4000, probe_after: 1000, token: true)
      inherited, opened = result.all("inheritable").first.map(&:to_i)
      expect(opened).to be > 0
      expect(inherited).to eq(0)
    end

    it "survives a storm of setenv in another thread" do
      server = serve
      result = send_report(server.url("localhost"), small, setenv_storm: true, repeat: 300, quiet: true)
      expect(result.exit).to be_success, result.inspect
      expect(server.requests.size).to eq(300)
    end

    it "survives a storm of setenv while names are looked up" do
      namespace!
      server = serve
      Namespace.with_name_server(->(q) { Namespace.dns_answer(q, address: "127.0.0.1") }) do
        result = send_report(server.url("agent.example"), small, setenv_storm: true, repeat: 200, quiet: true)
        expect(result.exit).to be_success, result.inspect
      end
    end

    it "sends whole reports, in time, under SIGPROF at 1 kHz" do
      server = serve do |c|
        20.times do
          c.read_more(100_000) && sleep(0.02)
        end && c.read_request && c.answer(200)
      end
      result = send_report(server.url, large, sigprof: 1000, timeout: 10_000)
      expect(result.outcome).to eq(200)
      expect(server.requests.first.part("x.pprof").data.bytesize).to eq(16_000_000)
      deaf = serve(&:hang)
      expect_timeout(timeout_ms) { send_report(deaf.url, large, sigprof: 1000, timeout: timeout_ms) }
      expect_timeout(timeout_ms) { send_report(black_hole, sigprof: 1000, timeout: timeout_ms) }
    end

    it "changes no signal disposition, timer or mask, and starts no thread" do
      server = serve
      path = File.join(scratch, "quiet.sock")
      serve_unix(path)
      [server.url, server.url("localhost"), "unix://#{path}", refused_url].each do |url|
        result = send_report(url, small, preload: true, repeat: 2, token: true)
        expect(result.calls).to eq([])
      end
    end

    it "works without standard input, output's neighbours being sockets then" do
      server = serve
      expect(send_report(server.url, small, token: true, spawn: { in: :close }).outcome).to eq(200)
    end

    it "works without any environment" do
      server = serve
      expect(send_report(server.url("localhost"), small, spawn: { unsetenv_others: true }).outcome).to eq(200)
    end

    it "works without /proc" do
      namespace!
      server = serve
      _, status = nil
      Dir.mktmpdir do |folder|
        output = "#{folder}/out"
        command = [Driver::BINARY, Driver::OURS, "--url", server.url]
        shell = 'mount -t tmpfs none /proc && exec "$0" "$@"'
        _, status = Process.wait2(Process.spawn("unshare", "--mount", "sh", "-c", shell, *command,
                                                out: output))
        expect(File.read(output)).to match(/^status\t[\d.]+\t200$/)
      end
      expect(status).to be_success
      expect(server.requests.size).to eq(1)
    end

    it "works in a thread with 128 kB of stack" do
      server = serve
      [server.url, server.url("localhost")].each do |url|
        expect(send_report(url, large, stack: 128, internal: "[" * 127 + "]" * 127).outcome).to eq(200)
      end
    end

    it "leaves no trace when the library is unloaded" do
      server = serve
      result = send_report(server.url("localhost"), small, reload: 30, token: true)
      expect(result.outcomes).to eq([200] * 30)
    end

    it "leaves out no error for null arguments" do
      result = Driver.run(url: refused_url, nulls: true)
      expect_untouched(result)
      expect(result.events.first(8)).to eq(
        [["cancel_null", "0"], ["clone_null", "1"],
         ["send_null_null", "failed ddog_prof_Exporter_send: request was null"], ["build_null",
           "exporter was null"],
         ["send_null", "failed ddog_prof_Exporter_send: request was null"],
         ["send_inner_null", "failed ddog_prof_Exporter_send: request was null"],
         ["send_exporter_null", "failed ddog_prof_Exporter_send: exporter was null"], ["request_taken", "1"]],
      )
    end

    it "ignores proxies of the environment on the way to an agent" do
      proxy = serve
      server = serve
      env = %w[http_proxy HTTP_PROXY https_proxy HTTPS_PROXY all_proxy ALL_PROXY].to_h do |name|
        [name, proxy.url]
      end
      expect(send_report(server.url, small, env: env).outcome).to eq(200)
      expect([proxy.connections.size, server.connections.size]).to eq([0, 1])
    end

    it "is one connection, closed afterwards" do
      closed = Queue.new
      server = serve { |c| c.read_request && c.answer(200) && (c.read_to_end rescue closed << :yes) }
      expect(send_report(server.url, small, repeat: 3, reuse: true).outcomes).to eq([200] * 3)
      expect(server.connections.size).to eq(3)
      sleep 0.1
      expect(closed.size).to eq(3)
    end
  end
end
