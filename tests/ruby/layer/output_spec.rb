require "layer_helper"
require "zlib"

RSpec.describe Datadog::Profiling::Output do
  let(:settings) { Datadog::Profiling::Settings.new }
  let(:folder) { @folder ||= Dir.mktmpdir }

  after { FileUtils.remove_entry(@folder) if @folder }

  def plan
    described_class.plan(settings)
  end

  before do
    skip "an agent's socket is on this machine" if File.socket?(Datadog::Profiling::AgentSettings::USUAL_SOCKET)
  end

  it "writes files if nobody knows of an agent" do
    expect([plan.names, plan.codec, plan.local]).to eq([["files"], :gzip, true])
    settings.site = "example.org"
    settings.api_key = "k"
    expect(plan.names).to eq(["files"]) # agentless must be asked for
  end

  it "reports to an agent that is configured in any way" do
    { "DD_AGENT_HOST" => "h", "DD_TRACE_AGENT_PORT" => "1", "DD_TRACE_AGENT_URL" => "http://h:1" }.each do |name, value|
      with_env(name => value) { expect([plan.names, plan.codec, plan.local]).to eq([["agent"], :lz4, false]) }
    end
    settings.agent.uds_path = "/x.sock"
    expect(plan.transport.shown).to eq("unix:///x.sock")
  end

  it "reports to the intake if that is wanted and site and key are there" do
    settings.profiling.agentless = true
    settings.site = "example.org"
    expect(plan.names).to eq(["files"])
    settings.api_key = "k"
    settings.agent.host = "h"
    expect(plan.names).to eq(["agentless"])
    expect(plan.transport.shown).to eq("the intake of example.org")
  end

  it "spools if the agent's URL is a folder" do
    with_env("DD_TRACE_AGENT_URL" => "file://#{folder}") do
      expect([plan.names, plan.local]).to eq([["agent"], true])
      expect(plan.transport.export(new_flush)).to be(true)
    end
    expect(Dir.children(folder)).to contain_exactly(end_with(".ddprof"))
  end

  it "does as it is told, and several at once" do
    settings.profiling.output = "files, agent,file://#{folder},files"
    settings.profiling.files.folder = folder
    expect(plan.names).to eq(["files", "agent", "file://#{folder}"])
    expect([plan.codec, plan.local]).to eq([:none, false])
    settings.profiling.output = %w[agent]
    expect(plan.codec).to eq(:lz4)
  end

  it "refuses what it does not know" do
    { "smoke" => /smoke/, "agentless" => /DD_API_KEY/ }.each do |name, message|
      settings.profiling.output = name
      expect { plan }.to raise_error(ArgumentError, message)
    end
  end

  it "hands reports to a transport of the program" do
    mine = Object.new
    settings.profiling.exporter.transport = mine
    expect(plan.transport).to be(mine)
    expect(plan.codec).to eq(:lz4)
  end

  it "does not let a dead output disturb the others" do
    dead = TCPServer.new("127.0.0.1", 0)
    url = "http://127.0.0.1:#{dead.local_address.ip_port}/"
    dead.close
    good = Support::AgentStub.new([200])
    hanging = Support::AgentStub.new([:hang])
    outputs = [url, hanging.url, good.url].map do |it|
      Datadog::Profiling::HttpTransport.new(configuration: [:agent, it], upload_timeout_seconds: 1)
    end
    files = Datadog::Profiling::Output::Files.new(folder: folder, keep: 5)
    broken = Object.new
    def broken.local?
      true
    end
    def broken.shown
      "nowhere"
    end
    def broken.export(_)
      raise "broken"
    end
    all = Datadog::Profiling::Output::FanOut.new([broken, *outputs, files])
    expect(all.export(new_flush(pprof_codec: :none))).to be(false)
    expect(good.report.event["family"]).to eq("ruby")
    expect(Dir.children(folder).size).to eq(1)
    expect(log.of(:error).size).to eq(3)
  ensure
    good&.close
    hanging&.close
  end

  it "does not take an output that has run out of memory for one that has accepted the report" do
    outputs = [-> { true }, -> { raise NoMemoryError, "none left" }].map do |outcome|
      Object.new.tap do |output|
        output.define_singleton_method(:local?) { false }
        output.define_singleton_method(:shown) { "an output" }
        output.define_singleton_method(:export) { |_| outcome.call }
      end
    end
    all = Datadog::Profiling::Output::FanOut.new(outputs)
    expect { all.export(new_flush) }.to raise_error(NoMemoryError, "none left")
  end
end

RSpec.describe Datadog::Profiling::Output::Files do
  around { |example| Dir.mktmpdir { |it| @folder = it and example.run } }

  def files(keep: 3, folder: File.join(@folder, "a/b"))
    described_class.new(folder: folder, keep: keep)
  end

  def names
    Dir.children(File.join(@folder, "a/b")).sort
  end

  it "writes pprof files as others read them, named by time and process" do
    expect(files.export(new_flush(pprof_codec: :gzip, pprof_data: Zlib.gzip("p")))).to be(true)
    expect(names).to eq(["profile.20270115T080000Z.#{Process.pid}.pb.gz"])
    expect(Zlib.gunzip(File.binread(File.join(@folder, "a/b", names.first)))).to eq("p")
    files.export(new_flush(pprof_codec: :none, pprof_data: "q"))
    expect(names.last).to eq("profile.20270115T080000Z.#{Process.pid}.pb.gz")
    expect(names.size).to eq(2)
    expect(Zlib.gunzip(File.binread(File.join(@folder, "a/b", names.first)))).to eq("q")
  end

  it "keeps the newest, and what is not ours" do
    File.write(File.join(FileUtils.mkdir_p(File.join(@folder, "a/b")).first, "mine.pb.gz"), "")
    6.times do |i|
      files.export(new_flush(pprof_codec: :gzip, start: Time.at(1_800_000_000 + (i * 60)).utc))
    end
    minutes = names.map { |it| it[/T08(\d\d)/, 1] }.compact
    expect(minutes).to eq(%w[03 04 05])
    expect(names).to include("mine.pb.gz")
  end

  it "says what keeps it from writing, and raises nothing" do
    File.write(File.join(@folder, "a"), "a file")
    expect(files.export(new_flush(pprof_codec: :gzip))).to be(false)
    expect(log.of(:error)).to contain_exactly(include(@folder))
  end

  it "leaves nothing half-written where there is no room" do
    FileUtils.mkdir_p(File.join(@folder, "a/b"))
    answer = in_child do
      Process.setrlimit(Process::RLIMIT_FSIZE, 1000)
      Datadog::Profiling::Log.logger = nil
      silently { files.export(new_flush(pprof_codec: :gzip, pprof_data: "x" * 5000)) }
    end
    expect(answer).to include("ERROR")
    expect(names).to eq([])
  end

  it "goes on where it began when the program changes its folder" do
    Dir.chdir(@folder) { @relative = files(folder: "here") }
    @relative.export(new_flush(pprof_codec: :gzip))
    expect(Dir.children(File.join(@folder, "here")).size).to eq(1)
  end

  it "refuses a folder without a name" do
    expect { files(folder: "") }.to raise_error(ArgumentError)
  end
end
