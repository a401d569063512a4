require "layer_helper"
require "json"

RSpec.describe Datadog::Profiling::TagBuilder do
  let(:settings) { Datadog::Profiling::Settings.new }

  it "says which process it is, in UTF-8, and lets nobody else say so" do
    settings.tags = { "team" => "a", "process_id" => "1", "language" => "perl" }
    settings.env = "qa"
    settings.service = "shop"
    settings.version = "9"
    tags = described_class.call(settings: settings, profile_seq: 4)
    expect(tags).to include(
      "team" => "a", "process_id" => Process.pid.to_s, "language" => "ruby", "runtime" => "ruby",
      "host" => Socket.gethostname, "runtime_engine" => "ruby", "runtime_version" => RUBY_VERSION,
      "runtime_platform" => RUBY_PLATFORM, "profiler_version" => Datadog::Profiling::VERSION, "env" => "qa",
      "service" => "shop", "version" => "9", "profile_seq" => "4"
    )
    expect(tags.to_a.flatten.map(&:encoding).uniq).to eq([Encoding::UTF_8])
    expect(tags["runtime-id"]).to match(/\A\h{8}-\h{4}-4\h{3}-[89ab]\h{3}-\h{12}\z/)
  end

  it "leaves out what is not set" do
    tags = described_class.call(settings: settings)
    expect(tags.keys & %w[env version git.repository_url git.commit.sha profile_seq]).to eq([])
  end

  it "names the commit, and nobody's password" do
    with_env("DD_GIT_REPOSITORY_URL" => "https://me:secret@host/a@b.git", "DD_GIT_COMMIT_SHA" => "abc") do
      expect(described_class.call(settings: settings))
        .to include("git.repository_url" => "https://host/a@b.git", "git.commit.sha" => "abc")
    end
    expect(described_class.without_credentials("git@host:a.git")).to eq("git@host:a.git")
  end

  it "makes UTF-8 of every text, and an empty one of what is none" do
    settings.tags = {
      "latin" => "é".encode(Encoding::ISO_8859_1), "utf16" => "ü".encode(Encoding::UTF_16LE), "bad" => "\xff",
      "binary" => "\xC3\xA9".b, "badbinary" => "\xff".b
    }
    expect(described_class.call(settings: settings))
      .to include("latin" => "é", "utf16" => "ü", "bad" => "", "binary" => "é", "badbinary" => "")
  end

  it "has another runtime id in each forked child, and the same within a process" do
    mine = Datadog::Profiling::Identity.runtime_id
    first, second = in_child { [Datadog::Profiling::Identity.runtime_id, Datadog::Profiling::Identity.runtime_id] }
    expect(first).to eq(second)
    expect(first).not_to eq(mine)
    expect(Datadog::Profiling::Identity.runtime_id).to eq(mine)
  end

  it "takes no random numbers from the program" do
    srand(42)
    expected = rand
    srand(42)
    described_class.call(settings: settings)
    in_child { Datadog::Profiling::Identity.runtime_id }
    expect(rand).to eq(expected)
  end
end

RSpec.describe Datadog::Profiling::Identity do
  it "finds the container's id" do
    id = "a1" * 32
    {
      "1:name=systemd:/docker/#{id}\n" => id,
      "0::/kubepods/pod1/cri-containerd-#{id}.scope\n" => id,
      "1:cpu:/ecs/task/#{"0f" * 16}-1234567890\n" => "#{"0f" * 16}-1234567890",
      "4:memory:/api/#{"ab" * 16}\n" => "ab" * 16,
      "1:cpu:/garden/12345678-90ab-cdef-1234-567890abcdef\n" => "12345678-90ab-cdef-1234-567890abcdef",
      "0::/gr\u00f6\u00dfe/\xff/a.slice\n1:cpu:/\xff/docker-#{id}.scope\n" => id,
      "0::/user.slice\n" => nil,
      "" => nil
    }.each do |text, expected|
      Dir.mktmpdir do |folder|
        file = File.join(folder, "cgroup")
        File.write(file, text)
        expect(described_class.container_id(file)).to eq(expected)
      end
    end
    expect(described_class.container_id("/nowhere")).to be_nil
  end

  it "finds it where the program wants its texts in another encoding" do
    script = <<~'RUBY'
      require "datadog/profiling/identity"
      Encoding.default_internal = "UTF-16LE"
      Encoding.default_external = "EUC-JP"
      $/ = "a"
      id = Datadog::Profiling::Identity.container_id(ARGV.first)
      print id == "a1" * 32, id.encoding
    RUBY
    Dir.mktmpdir do |folder|
      file = File.join(folder, "cgroup")
      File.binwrite(file, "0::/a\n1:cpu:/\xe3\x81/docker/#{"a1" * 32}\n")
      expect(run_ruby!(script, file, options: ["-W0"])).to eq("trueUTF-8")
    end
  end
end

RSpec.describe Datadog::Profiling::Collectors::Info do
  let(:settings) { Datadog::Profiling::Settings.new }

  it "describes platform, runtime, application and profiler, and is frozen" do
    settings.env = "qa"
    info = described_class.new(settings).info
    expect(info.keys).to eq(%i[platform runtime application profiler])
    expect(info[:platform].keys).to eq(%i[container_id hostname kernel_name kernel_release kernel_version])
    expect(info[:platform][:kernel_name]).to eq("Linux")
    expect(info[:runtime]).to eq(engine: "ruby", version: RUBY_VERSION, platform: RUBY_PLATFORM)
    expect(info[:application]).to include(env: "qa", version: nil, service: settings.service)
    expect(info[:application][:start_time]).to match(/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\z/)
    expect(info[:profiler]).to include(version: Datadog::Profiling::VERSION)
    expect(info[:profiler][:settings]).to include("enabled" => false)
    expect(info[:profiler][:settings]["advanced"]).to include("max_frames" => 400, "endpoint" => { "collection" => { "enabled" => true } })
    expect([info, info[:runtime], info[:profiler][:settings]["advanced"]]).to all(be_frozen)
  end

  it "shows values of every kind, also those that cannot say what they are" do
    odd = Object.new
    def odd.inspect
      raise "no"
    end
    plain = Class.new do
      def inspect
        "a plain one"
      end
    end
    settings.profiling.exporter.transport = plain.new
    settings.profiling.output = [:a, { "k" => 1.5 }, nil, true, odd]
    shown = described_class.new(settings).info[:profiler][:settings]
    expect(shown["exporter"]["transport"]).to eq("a plain one")
    expect(shown["output"]).to eq([:a, { "k" => 1.5 }, nil, true, "(RuntimeError)"])
    expect(JSON.parse(Datadog::Profiling::JSONText.generate(shown))["output"]).to eq(["a", { "k" => 1.5 }, nil, true, "(RuntimeError)"])
  end

  it "holds no API key" do
    settings.api_key = "secret-key"
    expect(described_class.new(settings).info.inspect).not_to include("secret-key")
  end
end

RSpec.describe Datadog::Profiling::Collectors::CodeProvenance do
  spec = Struct.new(:name, :version, :gem_dir)

  it "names the libraries whose files were loaded, the innermost folder first" do
    outer = spec.new("outer", "1.0", "/gems/outer")
    inner = spec.new("inner", "2.0", "/gems/outer/vendor/inner")
    unused = spec.new("unused", "3.0", "/gems/unused")
    neighbour = spec.new("out", "4.0", "/gems/out")
    collector = described_class.new(standard_library_path: "/usr/lib/ruby/3.1.0")
    expect(collector.refresh(loaded_files: ["/gems/outer/vendor/inner/a.rb"], loaded_specs: [outer, inner, unused, neighbour]))
      .to be(collector)
    expect(collector.libraries.map(&:name)).to eq(%w[inner])
    collector.refresh(loaded_files: ["/gems/outer/lib/b.rb", "/usr/lib/ruby/3.1.0/set.rb", "rational.so"], loaded_specs: [outer])
    expect(collector.libraries.map(&:name)).to contain_exactly("inner", "outer", "stdlib")
    expect(JSON.parse(collector.generate_json)).to eq(
      "v1" => collector.libraries.map do |it|
        { "kind" => it.kind, "name" => it.name, "version" => it.version, "paths" => [it.path] }
      end
    )
    expect(collector.libraries.find { |it| it.name == "stdlib" }.to_h)
      .to eq("kind" => "standard library", "name" => "stdlib", "version" => RUBY_VERSION, "paths" => ["/usr/lib/ruby/3.1.0"])
  end

  it "finds RSpec and the standard library in this process" do
    names = described_class.new.refresh.libraries.map { |it| [it.kind, it.name] }
    expect(names).to include(["standard library", "stdlib"])
  end

  it "writes the same file where others have changed how JSON is written" do
    script = <<~RUBY
      require "datadog/profiling"
      collector = Datadog::Profiling::Collectors::CodeProvenance.new(standard_library_path: "/std")
      collector.refresh(loaded_files: ["/std/a.rb"], loaded_specs: [])
      before = collector.generate_json
      require "json"
      module Patched
        define_method(:to_json) { |*| "patched" }
        define_method(:as_json) { |*| "patched" }
      end
      [Hash, Array, String, Symbol, Integer, NilClass, Struct].each { |it| it.prepend(Patched) }
      JSON.define_singleton_method(:generate) { |*| "patched" }
      JSON.define_singleton_method(:dump) { |*| "patched" }
      print collector.generate_json == before, " ", before
    RUBY
    expect(run_ruby!(script)).to eq(
      %(true {"v1":[{"kind":"standard library","name":"stdlib","version":"#{RUBY_VERSION}","paths":["/std"]}]})
    )
  end
end

RSpec.describe Datadog::Profiling::JSONText do
  it "writes what Ruby's library reads back" do
    [
      {}, [], nil, true, 1, -(2**70), 1.5, 1e300, "", "\u0000\u001f\"\\/é\u2028\u{1F600}\x7f", { "a" => [{ "b" => nil }] }
    ].each do |value|
      expect(JSON.parse(described_class.generate(value), quirks_mode: true)).to eq(value)
    end
  end

  it "writes something valid for what JSON does not have" do
    expect(described_class.generate([:a, Float::NAN, Float::INFINITY, "\xff", Time.at(0).utc, { 1 => 2 }]))
      .to eq(%(["a",null,null,"\uFFFD","1970-01-01 00:00:00 UTC",{"1":2}]))
    expect(described_class.generate("é".encode(Encoding::UTF_16LE))).to eq('"é"')
    deep = []
    deep << deep
    expect { described_class.generate(deep) }.to raise_error(ArgumentError)
  end
end
