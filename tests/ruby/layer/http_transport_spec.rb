require "layer_helper"

RSpec.describe Datadog::Profiling::HttpTransport do
  after { @stub&.close }

  def stub(*arguments, **options)
    @stub = Support::AgentStub.new(*arguments, **options)
  end

  def transport(url, timeout: 30.0)
    described_class.new(configuration: [:agent, url], upload_timeout_seconds: timeout)
  end

  lz4_magic = "\x04\x22\x4d\x18".b

  it "sends a report to an agent" do
    stub([200])
    expect(transport(@stub.url).export(new_flush)).to be(true)
    report = @stub.report
    expect([report.method, report.path]).to eq(["POST", "/profiling/v1/input"])
    expect(report.headers).to include(
      "user-agent" => "DDProf/6.0.0", "connection" => "close", "dd-evp-origin" => "dd-trace-rb",
      "dd-evp-origin-version" => Datadog::Profiling::VERSION, "transfer-encoding" => "chunked"
    )
    expect(report.headers).not_to have_key("dd-api-key")
    expect(report.parts.keys).to eq(%w[event.json code-provenance.json rubyprofile.pprof])
    expect(report.event).to eq(
      "attachments" => %w[code-provenance.json rubyprofile.pprof], "tags_profiler" => "service:shop,env:qa",
      "start" => "2027-01-15T08:00:00.000000123Z", "end" => "2027-01-15T08:01:00.000000456Z", "family" => "ruby",
      "version" => "4", "endpoint_counts" => nil, "internal" => { "a" => { "c" => [true] }, "b" => 1 },
      "info" => { "runtime" => { "engine" => "ruby" } }
    )
    expect(report.parts["event.json"]).to include('"internal":{"a":{"c":[true]},"b":1}')
    expect(report.parts["rubyprofile.pprof"]).to eq("the profile") # as it is
    expect(report.parts["code-provenance.json"]).to start_with(lz4_magic).and include('{"v1":[]}')
    expect(log.all).to eq([])
  end

  it "sends a report without code provenance" do
    stub([202])
    expect(transport(@stub.url).export(new_flush(code_provenance_data: nil))).to be(true)
    report = @stub.report
    expect(report.parts.keys).to eq(%w[event.json rubyprofile.pprof])
    expect(report.event["attachments"]).to eq(%w[rubyprofile.pprof])
  end

  it "compresses a profile that is not compressed" do
    stub([200])
    transport(@stub.url).export(new_flush(pprof_codec: :none))
    expect(@stub.report.parts["rubyprofile.pprof"]).to start_with(lz4_magic)
  end

  it "sends large profiles, bytes of any kind" do
    stub([200])
    bytes = Random.new(1).bytes(3_000_000)
    expect(transport(@stub.url).export(new_flush(pprof_data: bytes))).to be(true)
    expect(@stub.report.parts["rubyprofile.pprof"]).to eq(bytes)
  end

  it "goes through a unix socket, also one with blanks in its path" do
    Dir.mktmpdir do |folder|
      stub([200], listener: UNIXServer.new(File.join(folder, "a b.sock")))
      expect(transport(@stub.url).export(new_flush)).to be(true), log.all.inspect
      expect(@stub.report.event["family"]).to eq("ruby")
    end
  end

  [400, 404, 413, 500, 503, 302].each do |status|
    it "logs an answer of #{status}" do
      stub([status])
      expect(transport(@stub.url).export(new_flush)).to be(false)
      expect(log.of(:error)).to contain_exactly(include("status #{status}").and(include(@stub.url)))
    end
  end

  it "logs an agent that is not there" do
    server = TCPServer.new("127.0.0.1", 0)
    url = "http://127.0.0.1:#{server.local_address.ip_port}/"
    server.close
    expect(transport(url).export(new_flush)).to be(false)
    expect(log.of(:error)).to contain_exactly(match(/refused/i))
  end

  it "gives up after the timeout" do
    stub([:hang])
    expect(transport(@stub.url, timeout: 0.2).export(new_flush)).to be(false)
    expect(log.of(:error)).to contain_exactly(include("timed out"))
  end

  it "leaves out bad tags, and sends the rest" do
    stub([200])
    tags = [["good", "1"], ["", "x"], ["empty", ""], [":a", "b"], ["other", "2"], ["bytes", "\xff"]]
    expect(transport(@stub.url).export(new_flush(tags_as_array: tags))).to be(true)
    expect(@stub.report.event["tags_profiler"]).to eq("good:1,other:2,bytes:\uFFFD")
    expect(log.of(:warn).size).to eq(3)
  end

  it "can be interrupted at any time" do
    stub([:hang])
    thread = Thread.new { transport(@stub.url, timeout: 3600).export(new_flush) }
    wait_until(seconds: 30) { @stub.connections > 0 && thread.status == "sleep" }
    thread.kill
    expect(thread.join(30)).to be(thread)
    expect { Timeout.timeout(0.3) { transport(@stub.url, timeout: 3600).export(new_flush) } }.to raise_error(Timeout::Error)
    thread = Thread.new { transport(@stub.url, timeout: 3600).export(new_flush) }
    thread.report_on_exception = false
    wait_until(seconds: 30) { @stub.connections > 2 && thread.status == "sleep" }
    thread.raise(ArgumentError, "enough")
    expect { thread.value }.to raise_error(ArgumentError, "enough")
  end

  it "lets other threads run meanwhile" do
    stub([:hang])
    thread = Thread.new { transport(@stub.url, timeout: 3600).export(new_flush) }
    wait_until(seconds: 30) { @stub.connections > 0 }
    expect((1..1000).sum).to eq(500_500)
    expect(thread).to be_alive
    thread.kill.join
  end

  it "sends from a forked child at once" do
    stub([200])
    sender = transport(@stub.url)
    sender.export(new_flush)
    expect(in_child { sender.export(new_flush) }).to be(true)
    2.times { @stub.report }
  end

  it "never shows the API key" do
    agentless = described_class.new(configuration: [:agentless, "nowhere.invalid", "s3cret-key"], upload_timeout_seconds: 5)
    expect(agentless.inspect).not_to include("s3cret")
    with_env("HTTPS_PROXY" => "http://127.0.0.1:1") { expect(agentless.export(new_flush)).to be(false) }
    expect(log.of(:error)).to contain_exactly(include("nowhere.invalid"))
    expect(log.all.inspect).not_to include("s3cret")
    expect { described_class.new(configuration: [:agentless, "bad site", "s3cret-key"]) }.to raise_error(ArgumentError) { |e|
      expect(e.message).not_to include("s3cret")
    }
    expect { described_class.new(configuration: [:agentless, "x.org", :s3cret]) }.to raise_error(TypeError) { |e|
      expect(e.message).not_to include("s3cret")
    }
  end

  it "refuses at once what cannot work" do
    ["", "agent.example", "ftp://x", "http://", "http://a b/"].each do |url|
      expect { transport(url) }.to raise_error(ArgumentError), url
    end
    expect { described_class.new(configuration: [:pigeon, "x"]) }.to raise_error(ArgumentError, /:pigeon/)
    expect { described_class.new(configuration: "http://x") }.to raise_error(TypeError)
  end

  it "checks every argument before it does anything" do
    stub([200])
    {
      pprof_data: nil, pprof_file_name: 1, code_provenance_data: 5, internal_metadata_json: nil, info_json: :x
    }.each { |name, value| expect { transport(@stub.url).export(new_flush(name => value)) }.to raise_error(TypeError) }
    expect(@stub.connections).to eq(0)
  end

  it "logs a report that cannot be built" do
    stub([200])
    expect(transport(@stub.url).export(new_flush(info_json: "no json"))).to be(false)
    expect(log.of(:error).size).to eq(1)
  end
end
