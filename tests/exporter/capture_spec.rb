# The same report from the prebuilt library and from ours, byte by byte as a server gets it. What may
# differ: the boundary,
# how the body is cut into chunks, and compressed bytes (which must decode to the same).
RSpec.describe "A captured report" do
  text = "line of a profile\n" * 5000
  noise = Random.new(7).bytes(200_000)

  cases = {
    "with nothing optional" => {},
    "without any tags" => { null_tags: true, null_request_tags: true },
    "with exporter tags" => { tag: ["service=web", "env=staging:east", "runtime-id=9f1c"] },
    "with request tags" => { request_tag: ["process_id=17", "language=ruby"] },
    "with both kinds of tags" => { tag: ["b=2", "a=1"], request_tag: ["a=1", "c=3,with comma"] },
    "with tags that are refused" => { tag: ["=no key", "no value=", "=", "good=yes"],
                                      request_tag: [":x=", "fine=1"] },
    "with tags of 300 bytes, spaces and bad UTF-8" => { tag: ["k=#{"v" * 300}", " spaced = out ",
"bad=\xff\xc3x", "ü=ß"] },
    "with one file to compress" => { compress: { "code-provenance.json" => text } },
    "with an incompressible file" => { compress: { "noise.bin" => noise } },
    "with one file as it is" => { file: { "rubyprofile.pprof" => noise } },
    "with an empty file as it is" => { file: { "empty.pprof" => "" } },
    "with several files of both kinds" => {
      compress: { "a.json" => "{}", "b.txt" => text }, file: { "c.pprof" => noise, "a.json" => "again" },
    },
    "with file names in UTF-8" => { file: { "profil-é-日本.pprof" => "x" } },
    "with a file name that is not UTF-8" => { file: { "\xff\xfe.pprof" => "x" } },
    "with empty endpoint counts" => { stats_empty: true },
    "with endpoint counts" => { stats: ["Users#show=7", "Users#index=-3", "=1",
"a \"b\"=9223372036854775807"] },
    "with internal and info" => { internal: '{"no_signals_workaround_enabled": false}',
                                  info: '{"platform":{"a":1}}' },
    "with internal that is no object" => { internal: '"text"', info: "[1,2,3]" },
    "with numbers of all kinds" => {
      internal: "[0, -0, -1, 1e2, 1.50, 18446744073709551615, -9223372036854775808, 18446744073709551616,
                 12345678901234567890123, 1e-7, 1E+21, 0.1, 5e-324, 1.7976931348623157e308, 123456.789e3]",
    },
    "with doubled and unsorted keys" => { info: '{"b":1,"a":{"z":1,"y":2,"z":3},"b":2,"":0,"B":4}' },
    "with strings of all kinds" => {
      internal: '{"s":"\\u0000\\u001f\\b\\f\\n\\r\\t\\"\\\\\\/ \\u00e9 \\ud83d\\ude00 \\u007f é 😀"}',
    },
    "with JSON nested as deep as is allowed" => { internal: "#{"[" * 127}#{"]" * 127}" },
    "with times before 1970" => { start: "-1.999999999", end: "0.0" },
    "with times of far years" => { start: "253402300800.1", end: "4102444800.123456789" },
    "with empty names" => { name: "", version: "", family: "" },
    "with names beyond ASCII" => { name: "dd-trace-é", version: "1.0 β", family: "rüby\xff" },
    "with a long name" => { name: "n" * 3000, version: "v" * 3000 },
    "with a TAB in a name" => { name: "a\tb" },
  }

  def send_report(library, options, **where)
    options = options.dup
    %i[compress file].each do |kind|
      options[kind] &&= options[kind].map do |name, bytes|
        name = "hex:#{name.unpack1("H*")}" unless name.ascii_only?
        "#{name}=#{bytes.empty? ? "" : file_of(bytes)}"
      end
    end
    Driver.run(library, timeout: 20_000, **options, **where.slice(:url, :agentless, :key),
                        env: where.fetch(:env, {}), cgroup: where[:cgroup], spawn: where.fetch(:spawn, {}))
  end

  def expect_same_message(theirs, ours)
    expect(ours.head).to eq(theirs.head)
    expect(ours.parts.map(&:headers)).to eq(theirs.parts.map(&:headers))
    expect(ours.event_text).to eq(theirs.event_text)
    theirs.parts.zip(ours.parts).each do |expected, got|
      if expected.data.start_with?("\x04\x22\x4d\x18".b)
        expect(Lz4Frame.decode(got.data)).to eq(Lz4Frame.decode(expected.data))
      else
        expect(got.data).to eq(expected.data)
      end
    end
  end

  # Both libraries' requests and what their callers saw.
  def capture(server, options, **where)
    results = [Driver::ORACLE, Driver::OURS].map { |library| send_report(library, options, **where) }
    requests = server.wait_for(2)
    expect(requests.size).to eq(2), results.inspect
    expect(results.map(&:outcomes)).to eq([[200], [200]])
    expect(results.last.all("tag_error")).to eq(results.first.all("tag_error"))
    expect_untouched(results.last)
    requests
  end

  before { oracle! }

  cases.each do |name, options|
    it "is the same #{name}, over TCP" do
      server = serve
      expect_same_message(*capture(server, options, url: server.url))
    end
  end

  it "has a boundary of at least 16 letters and digits, each time another" do
    server = serve
    3.times { Driver.run(url: server.url) }
    boundaries = server.wait_for(3).map(&:boundary)
    expect(boundaries).to all(match(/\A[A-Za-z0-9]{16,70}\z/))
    expect(boundaries.uniq.size).to eq(3)
  end

  describe "over a unix socket" do
    { "an absolute path" => "plain.sock", "a space, a percent sign and UTF-8" => "a b/%20/é.sock",
      "a trailing dot" => "dotted." }.each do |what, name|
      it "is the same with #{what}" do
        path = File.join(scratch, name)
        FileUtils.mkdir_p(File.dirname(path))
        server = serve_unix(path)
        options = { tag: ["a=b"], file: { "x.pprof" => "x" * 70_000 } }
        expect_same_message(*capture(server, options, url: "unix://#{path}"))
      end
    end

    # The prebuilt library refuses such a path.
    it "arrives with a path that is not UTF-8" do
      path = File.join(scratch, "\xff\xfe.sock".b)
      server = serve_unix(path)
      expect(send_report(Driver::OURS, {}, url: "unix://#{path}".b).outcome).to eq(200)
      expect(server.requests.first["host"]).to eq(path.unpack1("H*"))
    end

    it "is the same with a relative path" do
      server = serve_unix(File.join(scratch, "relative.sock"))
      expect_same_message(*capture(server, {}, url: "unix://relative.sock", spawn: { chdir: scratch }))
    end
  end

  describe "without an agent" do
    site = "nf-intake.example"
    host = "intake.profile.#{site}"

    before { namespace! }

    { "TLS 1.3" => [:TLS1_3, nil], "TLS 1.2" => [nil, :TLS1_2] }.each do |version, (min, max)|
      ["with nothing optional", "with several files of both kinds", "with both kinds of tags"].each do |name|
        it "is the same over #{version} #{name}" do
          authority = Certificates.new
          server = serve(tls: authority.context(host, min: min, max: max))
          Namespace.with_hosts("127.0.0.1 #{host}") do
            where = { agentless: "#{site}:#{server.port}", key: "0123456789abcdef" * 2,
                      env: { "SSL_CERT_FILE" => authority.file } }
            requests = capture(server, cases.fetch(name), **where)
            expect_same_message(*requests)
            expect(requests.last["dd-api-key"]).to eq("0123456789abcdef" * 2)
            expect(requests.last.request_line).to eq("POST /api/v2/profile HTTP/1.1")
          end
        end
      end
    end

    it "is the same on the standard port" do
      authority = Certificates.new
      server = serve("127.0.0.1", 443, tls: authority.context(host))
      Namespace.with_hosts("127.0.0.1 #{host}") do
        where = { agentless: site, key: "k", env: { "SSL_CERT_FILE" => authority.file } }
        requests = capture(server, {}, **where)
        expect_same_message(*requests)
        expect(requests.last["host"]).to eq(host)
      end
    end
  end

  describe "with a URL" do
    { "without a path" => "", "with a slash" => "/", "with a path" => "/proxy/agent",
      "with a path and slash" => "/a/",
      "with two slashes" => "/a//", "with a query" => "/a?b=c", "with only a query" => "?q",
      "with a fragment" => "/a#f",
      "with escapes" => "/a%20b/%C3%A9" }.each do |what, rest|
      it "#{what} is the same" do
        server = serve
        expect_same_message(*capture(server, {}, url: "http://127.0.0.1:#{server.port}#{rest}"))
      end
    end

    { "a user" => "http://user:pw@127.0.0.1:%d/",
      "upper case" => "HTTP://LOCALHOST:%d/x" }.each do |what, pattern|
      it "with #{what} is the same" do
        server = serve
        expect_same_message(*capture(server, {}, url: format(pattern, server.port)))
      end
    end

    it "with an IPv6 address is the same" do
      server = serve("::1")
      expect_same_message(*capture(server, {}, url: "http://[::1]:#{server.port}/"))
    end

    it "without a port is the same" do
      namespace!
      server = serve("127.0.0.1", 80)
      requests = capture(server, {}, url: "http://127.0.0.1")
      expect_same_message(*requests)
      expect(requests.last["host"]).to eq("127.0.0.1")
    end
  end

  describe "from a container" do
    id64 = "3726184226f5d3147c25fdeab5b60097e378e8a720503a5e19ecfdf29f869860"
    uuid = "34dc0b5e-626f-2c5c-4c51-70e34b10e765"
    { "docker" => "13:name=systemd:/docker/#{id64}\n12:pids:/docker/#{id64}\n",
      "kubernetes" => "11:perf_event:/kubepods/test/pod3d274242-8ee0-11e9-a8a6-1e68d864ef1a/#{id64}\n",
      "a systemd scope" => "1:name=systemd:/system.slice/docker-#{id64}.scope\n",
      "a UUID" => "1:name=systemd:/ecs/#{uuid}\n", "a UUID with underscores" => "1:x:/#{uuid.tr("-", "_")}\n",
      "ECS" => "9:perf_event:/ecs/task/432624d2150b349fe35ba397284dea78-4294967295\n",
      "66 digits" => "1:x:/aa#{id64}\n", "upper case" => "1:x:/#{id64.upcase}\n",
      "more behind it" => "1:x:/#{id64}/init\n", "no number in front" => "a:x:/#{id64}\n",
      "version 2" => "0::/\n", "version 2 with the id" => "0::/docker/#{id64}\n",
      "blanks behind" => "1:x:/#{id64}  \n", "no newline" => "1:x:/#{id64}", "nothing" => "",
      "a slice" => "1:x:/#{id64}.slice\n", "63 digits" => "1:x:/#{id64[1..]}\n",
      "the second line" => "2:a:/user.slice\n1:b:/lxc/#{id64}\n0::/#{uuid}\n",
      "CR at the end" => "1:x:/#{id64}\r\n" }.each do |what, content|
      it "has the same container header for #{what}" do
        namespace!
        server = serve
        theirs, ours = capture(server, {}, url: server.url, cgroup: file_of(content, "cgroup"))
        expect_same_message(theirs, ours)
      end
    end
  end

  describe "on Azure App Services" do
    full = { "DD_AZURE_APP_SERVICES" => "1", "WEBSITE_OWNER_NAME" => "Sub-1+Group-EastUS",
             "WEBSITE_RESOURCE_GROUP" => "Grp",
             "WEBSITE_SITE_NAME" => "Site", "WEBSITE_INSTANCE_ID" => "inst", "COMPUTERNAME" => "box",
             "WEBSITE_OS" => "linux",
             "DD_AAS_DOTNET_EXTENSION_VERSION" => "1.2" }
    { "everything" => full, "nothing but the switch" => { "DD_AZURE_APP_SERVICES" => " TRUE " },
      "the switch off" => full.merge("DD_AZURE_APP_SERVICES" => "false"),
      "yes" => full.merge("DD_AZURE_APP_SERVICES" => "Yes"),
      "a function" => full.merge("FUNCTIONS_WORKER_RUNTIME" => "ruby"),
      "an extension" => full.merge("FUNCTIONS_EXTENSION_VERSION" => "~4"),
      "blank values" => full.merge("WEBSITE_SITE_NAME" => " ", "COMPUTERNAME" => "", "WEBSITE_OS" => "  os "),
      "an owner without plus" => full.merge("WEBSITE_OWNER_NAME" => "just-sub"),
      "an owner that starts with plus" => full.merge("WEBSITE_OWNER_NAME" => "+x"),
      "a value that ends with a colon" => full.merge("WEBSITE_OS" => "x:") }.each do |what, env|
      it "has the same tags for #{what}" do
        server = serve
        expect_same_message(*capture(server, { tag: ["t=1"], request_tag: ["r=2"] }, url: server.url,
                                                                                     env: env))
      end
    end
  end

  describe "that cannot be built or sent" do
    { "an impossible host" => { url: "http://this:is:not:a:valid:hostname!!!!:12345/" },
      "an empty URL" => { url: "" },
      "unix without a path" => { url: "unix://" }, "a scheme alone" => { url: "http://" },
      "one slash after unix" => { url: "unix:/x" }, "a blank in the URL" => { url: "http://a b/" },
      "a backslash" => { url: "http://a\\b/" }, "no UTF-8 in the URL" => { url: "http://\xff/" },
      "no UTF-8 in the site" => { agentless: "a\xc3", key: "k" },
      "no UTF-8 in the key" => { agentless: "a", key: "\xe2\x82" },
      "a blank in the site" => { agentless: "a b", key: "k" }, "an empty site" => { agentless: "", key: "k" },
      "no scheme" => { url: "localhost:8126" }, "a path alone" => { url: "/" },
      "ftp" => { url: "ftp://127.0.0.1/" },
      "a named pipe" => { url: "windows://./pipe/x" }, "an unknown scheme" => { url: "ws://127.0.0.1/" },
      "a missing socket" => { url: "unix:///nonexistent/x.sock" },
      "a folder for a socket" => { url: "unix:///tmp" },
      "a line break in the name" => { url: "http://127.0.0.1:1/", name: "a\r\nb: c" },
      "DEL in the version" => { url: "http://127.0.0.1:1/", version: "1\x7f" },
      "NUL in the name" => { url: "http://127.0.0.1:1/", name: "a\0b" },
      "no UTF-8 in internal" => { url: "http://127.0.0.1:1/", internal: "\"\xff\"" },
      "no UTF-8 in info" => { url: "http://127.0.0.1:1/", info: "\"\xf0\x9f\x92\"" },
      "empty internal" => { url: "http://127.0.0.1:1/", internal: "" },
      "bad info" => { url: "http://127.0.0.1:1/", info: "{\"a\": nope}" },
      "trailing text after internal" => { url: "http://127.0.0.1:1/", internal: "{} x" },
      "JSON nested too deep" => { url: "http://127.0.0.1:1/", internal: "[" * 128 + "]" * 128 },
      "an open string" => { url: "http://127.0.0.1:1/", info: "\"abc" },
      "a refused connection" => { url: "http://127.0.0.1:1/" } }.each do |what, options|
      it "says the same for #{what}" do
        theirs, ours = [Driver::ORACLE, Driver::OURS].map do |library|
          Driver.run(library, timeout: 3000, **options)
        end
        expect(ours.outcome).to eq(theirs.outcome)
        expect(ours.outcome).to be_a(String)
        expect_untouched(ours)
      end
    end
  end
end
