require "layer_helper"

RSpec.describe Datadog::Profiling::Settings do
  let(:settings) { described_class.new }

  def at(path)
    path.split(".").reduce(settings) { |object, name| object.public_send(name) }
  end

  def set(path, value)
    *groups, name = path.split(".")
    groups.reduce(settings) { |object, group| object.public_send(group) }.public_send(:"#{name}=", value)
  end

  # name, variable, default, text, what the text means, value in code
  [
    ["profiling.enabled", "DD_PROFILING_ENABLED", false, " True ", true, true],
    ["profiling.enabled", "DD_PROFILING_ENABLED", false, "1", true, true],
    ["profiling.enabled", "DD_PROFILING_ENABLED", false, "yes", false, true],
    ["profiling.allocation_enabled", "DD_PROFILING_ALLOCATION_ENABLED", false, "true", true, true],
    ["profiling.agentless", "DD_PROFILING_AGENTLESS", false, "true", true, true],
    ["profiling.advanced.max_frames", "DD_PROFILING_MAX_FRAMES", 400, "100", 100, 7],
    ["profiling.advanced.endpoint.collection.enabled", "DD_PROFILING_ENDPOINT_COLLECTION_ENABLED", true, "0", false, false],
    ["profiling.advanced.force_enable_gc_profiling", "DD_PROFILING_FORCE_ENABLE_GC", false, "true", true, true],
    ["profiling.advanced.gc_enabled", "DD_PROFILING_GC_ENABLED", Datadog::Profiling::RubyRules.ractors_survive_tracepoints?,
     "false", false, true],
    ["profiling.advanced.experimental_heap_enabled", "DD_PROFILING_EXPERIMENTAL_HEAP_ENABLED", false, "1", true, true],
    ["profiling.advanced.experimental_heap_size_enabled", "DD_PROFILING_EXPERIMENTAL_HEAP_SIZE_ENABLED", true, "false", false, false],
    ["profiling.advanced.experimental_heap_sample_rate", "DD_PROFILING_EXPERIMENTAL_HEAP_SAMPLE_RATE", 10, "3", 3, 1],
    ["profiling.advanced.skip_mysql2_check", "DD_PROFILING_SKIP_MYSQL2_CHECK", false, "true", true, true],
    ["profiling.advanced.timeline_enabled", "DD_PROFILING_TIMELINE_ENABLED", true, "false", false, false],
    ["profiling.advanced.no_signals_workaround_enabled", "DD_PROFILING_NO_SIGNALS_WORKAROUND_ENABLED", :auto, "1", true, false],
    ["profiling.advanced.no_signals_workaround_enabled", "DD_PROFILING_NO_SIGNALS_WORKAROUND_ENABLED", :auto, "auto", false, true],
    ["profiling.advanced.overhead_target_percentage", "DD_PROFILING_OVERHEAD_TARGET_PERCENTAGE", 2.0, "1.5", 1.5, 3.0],
    ["profiling.advanced.upload_period_seconds", "DD_PROFILING_UPLOAD_PERIOD", 60, "90", 90, 120],
    ["profiling.advanced.upload_period_seconds", "DD_PROFILING_UPLOAD_PERIOD", 60, "5", 60, 61],
    ["profiling.advanced.dir_interruption_workaround_enabled", "DD_PROFILING_DIR_INTERRUPTION_WORKAROUND_ENABLED", true, "false", false, false],
    ["profiling.advanced.native_filenames_enabled", "DD_PROFILING_NATIVE_FILENAMES_ENABLED", true, "false", false, false],
    ["profiling.advanced.gvl_enabled", "DD_PROFILING_GVL_ENABLED", true, "false", false, false],
    ["profiling.advanced.cpu_sampling_interval_ms", "DD_PROFILING_CPU_SAMPLING_INTERVAL_MS", 10, "1", 1, 5],
    ["profiling.advanced.preview_otel_context_enabled", "DD_PROFILING_PREVIEW_OTEL_CONTEXT_ENABLED", false, "only", :only, :both],
    ["profiling.upload.timeout_seconds", "DD_PROFILING_UPLOAD_TIMEOUT", 30.0, "2.5", 2.5, 1.0],
    ["profiling.output", "DD_PROFILING_OUTPUT", nil, "files,agent", "files,agent", ["files"]],
    ["profiling.files.folder", "DD_PROFILING_FILES_FOLDER", "profiles", "/tmp/x", "/tmp/x", "y"],
    ["profiling.files.keep", "DD_PROFILING_FILES_KEEP", 200, "5", 5, 6],
    ["env", "DD_ENV", nil, "qa", "qa", "dev"],
    ["version", "DD_VERSION", nil, "9", "9", "10"],
    ["site", "DD_SITE", nil, "example.org", "example.org", "x.org"],
    ["api_key", "DD_API_KEY", nil, "k", "k", "l"],
    ["agent.host", "DD_AGENT_HOST", nil, "h", "h", "i"],
    ["agent.port", "DD_TRACE_AGENT_PORT", nil, "9126", 9126, 1],
    ["agent.url", "DD_TRACE_AGENT_URL", nil, "http://h", "http://h", "http://i"]
  ].each do |path, variable, default, text, meaning, code|
    it "takes #{path} from code, else from #{variable} (#{text.inspect}), else #{default.inspect}" do
      expect(at(path)).to eq(default)
      with_env(variable => text) do
        expect(at(path)).to eq(meaning)
        set(path, code)
        expect(at(path)).to eq(code)
      end
    end
  end

  it "has no variable for the transport and for code provenance" do
    expect(settings.profiling.exporter.transport).to be_nil
    expect(settings.profiling.advanced.code_provenance_enabled).to be(true)
  end

  it "names the variable that it cannot read" do
    {
      "DD_PROFILING_MAX_FRAMES" => ["profiling.advanced.max_frames", %w[ten 1.5 0x10 4]],
      "DD_PROFILING_UPLOAD_TIMEOUT" => ["profiling.upload.timeout_seconds", %w[soon 0 -1]],
      "DD_PROFILING_OVERHEAD_TARGET_PERCENTAGE" => ["profiling.advanced.overhead_target_percentage", %w[2%]],
      "DD_PROFILING_EXPERIMENTAL_HEAP_SAMPLE_RATE" => ["profiling.advanced.experimental_heap_sample_rate", %w[0 -5]]
    }.each do |variable, (path, texts)|
      texts.each do |text|
        with_env(variable => text) { expect { at(path) }.to raise_error(ArgumentError, /#{variable}/) }
      end
    end
  end

  it "takes an empty variable for none" do
    with_env("DD_PROFILING_MAX_FRAMES" => " ", "DD_ENV" => "") do
      expect([settings.profiling.advanced.max_frames, settings.env]).to eq([400, nil])
    end
  end

  it "reads variables whatever encodings the program has chosen" do
    script = <<~'RUBY'
      require "datadog/profiling"
      Encoding.default_internal = "UTF-16LE"
      Encoding.default_external = "EUC-JP"
      settings = Datadog::Profiling::Settings.new
      print settings.profiling.advanced.max_frames, settings.env.b == "\xC3\x9Fa".b, settings.version.b == "9".b
    RUBY
    env = { "DD_PROFILING_MAX_FRAMES" => "77", "DD_ENV" => "\u00dfa", "DD_VERSION" => "9", "LC_ALL" => "C.UTF-8" }
    expect(run_ruby!(script, env: env, options: ["-W0"])).to eq("77truetrue")
  end

  it "refuses values of another type, where they are set" do
    expect { settings.profiling.enabled = "true" }.to raise_error(ArgumentError, /enabled .*"true"/)
    expect { settings.profiling.advanced.max_frames = 1.5 }.to raise_error(ArgumentError, /max_frames/)
    expect { settings.profiling.advanced.experimental_heap_sample_rate = 0 }.to raise_error(ArgumentError)
    expect { settings.profiling.advanced.overhead_target_percentage = "3" }.to raise_error(ArgumentError)
  end

  it "takes an Integer or a Rational for a Float, as a Float" do
    settings.profiling.advanced.overhead_target_percentage = 3
    expect(settings.profiling.advanced.overhead_target_percentage).to be_a(Float).and eq(3.0)
    settings.profiling.upload.timeout_seconds = Rational(1, 2)
    expect(settings.profiling.upload.timeout_seconds).to be_a(Float).and eq(0.5)
  end

  it "logs an overhead target beyond all sense, and uses the default" do
    [0, -1.0, 20.5, 100].each do |value|
      settings.profiling.advanced.overhead_target_percentage = value
      expect(settings.profiling.advanced.overhead_target_percentage).to eq(2.0)
    end
    settings.profiling.advanced.overhead_target_percentage = 20
    expect(settings.profiling.advanced.overhead_target_percentage).to eq(20.0)
    expect(log.of(:error).size).to eq(4)
  end

  it "only warns of settings of the past" do
    %i[allocation_counting_enabled experimental_allocation_enabled experimental_allocation_sample_rate
       experimental_timeline_enabled].each { |name| settings.profiling.advanced.public_send(:"#{name}=", true) }
    expect(log.of(:warn).size).to eq(4)
  end

  it "reads tags with commas or blanks, and finds service, env and version there" do
    with_env("DD_TAGS" => "team:a, url:http://x:1,bad,:v,k:, service:shop,env:qa,version:3") do
      expect(settings.tags).to eq(
        "team" => "a", "url" => "http://x:1", "service" => "shop", "env" => "qa", "version" => "3"
      )
      expect([settings.service, settings.env, settings.version]).to eq(%w[shop qa 3])
    end
    with_env("DD_TAGS" => "a:b c:d") { expect(settings.tags).to eq("a" => "b", "c" => "d") }
  end

  it "calls a service that nobody has named after the program" do
    expect(settings.service).to eq(File.basename($PROGRAM_NAME, ".*"))
  end

  it "forgets what was set" do
    settings.profiling.advanced.max_frames = 7
    settings.reset!
    expect(settings.profiling.advanced.max_frames).to eq(400)
  end
end

RSpec.describe Datadog::Profiling::AgentSettings do
  let(:agent) { Datadog::Profiling::Settings.new.agent }

  def url(socket: "/nowhere")
    described_class.new(agent, usual_socket: socket).url
  end

  it "is where agents usually are if nobody says anything" do
    expect(url).to eq("http://127.0.0.1:8126/")
    expect(described_class.new(agent, usual_socket: "/nowhere").given?).to be(false)
    Dir.mktmpdir do |folder|
      socket = UNIXServer.new(File.join(folder, "apm.socket"))
      expect(url(socket: socket.path)).to eq("unix://#{socket.path}")
      expect(described_class.new(agent, usual_socket: socket.path).given?).to be(true)
      socket.close
    end
  end

  it "goes by code, then by variables, a URL before its parts" do
    with_env("DD_AGENT_HOST" => "envhost") do
      expect(url).to eq("http://envhost:8126/")
      with_env("DD_TRACE_AGENT_PORT" => "9") { expect(url).to eq("http://envhost:9/") }
      with_env("DD_TRACE_AGENT_URL" => "unix:///s") { expect(url).to eq("unix:///s") }
      agent.port = 7
      expect(url).to eq("http://envhost:7/")
      agent.host = "::1"
      agent.use_ssl = true
      expect(url).to eq("https://[::1]:7/")
      agent.uds_path = "/x y"
      expect(url).to eq("unix:///x y")
    end
  end

  it "knows what is a port" do
    agent.port = 70_000
    expect { url }.to raise_error(ArgumentError, /70000/)
  end
end

RSpec.describe Datadog::Profiling::RubyRules do
  it "compares versions as versions" do
    expect(described_class.ractors_survive_tracepoints?("3.1.3")).to be(false)
    expect(described_class.ractors_survive_tracepoints?("3.1.4")).to be(true)
    expect(described_class.ractors_survive_tracepoints?("3.1.10")).to be(true)
    expect(%w[2.7.8 3.0.7 3.2.2 3.2.3 3.3.0 3.10.0].map { |it| described_class.ractors_survive_tracepoints?(it) })
      .to eq([true, false, false, true, true, true])
    expect(%w[3.1.9 3.2.0 3.2.2 3.2.3 3.2.10].map { |it| !described_class.allocation_refused(it).nil? })
      .to eq([false, true, true, false, false])
    expect(%w[2.7.4 3.0.10 3.1.0 3.10.0].map { |it| !described_class.heap_refused(it).nil? }).to eq([true, true, false, false])
    expect(%w[3.3.10 3.4.0 3.10.0 3.4.0preview1].map { |it| described_class.dir_interruptible?(it) })
      .to eq([true, false, false, false])
  end

  it "refuse threads that share native ones" do
    expect(described_class.threads_refused("ruby 3.3.8 (2025-04-09 revision b200bad6cd) +MN [x86_64-linux]")).to include("RUBY_MN_THREADS")
    expect(described_class.threads_refused("ruby 3.4.5 (2025-07-16) +YJIT +MN +PRISM [x86_64-linux]")).to include("RUBY_MN_THREADS")
    expect(described_class.threads_refused("ruby 3.4.5 (2025-07-16) +YJIT +PRISM [x86_64-linux]")).to be_nil
    expect(described_class.threads_refused("ruby 3.1.2p20 (2022-04-12 revision 4491bb740a) [x86_64-linux-gnu]")).to be_nil
  end
end
