require "layer_helper"

RSpec.describe Datadog::Profiling::NoSignals do
  # What the process has loaded, as the detection sees it.
  def decide(setting = :auto, gems: {}, constants: {}, skip: false)
    specs = gems.transform_values { |version| Struct.new(:version).new(version) }
    real = Gem.method(:loaded_specs)
    before = $VERBOSE
    $VERBOSE = nil
    Gem.define_singleton_method(:loaded_specs) { specs }
    constants.each { |name, value| Object.const_set(name, value) }
    $LOADED_FEATURES << "mysql2.rb" if constants.key?(:Mysql2)
    described_class.enabled?(setting, skip_mysql2_check: skip)
  ensure
    Gem.define_singleton_method(:loaded_specs, real)
    constants.each_key { |name| Object.send(:remove_const, name) }
    $LOADED_FEATURES.delete("mysql2.rb")
    $VERBOSE = before
  end

  def mysql2(info, aurora: nil)
    client = Class.new
    client.define_singleton_method(:info) { info.is_a?(Exception) ? raise(info) : info } if info
    mod = Module.new
    mod.const_set(:Client, aurora ? Class.new : client)
    mod.const_set(:Aurora, Module.new.tap { |it| it.const_set(:ORIGINAL_CLIENT_CLASS, client) }) if aurora
    mod
  end

  before { $LOAD_PATH << (@folder = Dir.mktmpdir) }

  after do
    $LOAD_PATH.delete(@folder)
    FileUtils.remove_entry(@folder)
  end

  # `require "mysql2"` finds an empty file; the constant is there already.
  def with_mysql2(info, **options)
    File.write(File.join(@folder, "mysql2.rb"), "")
    decide(gems: { "mysql2" => "0.5.6" }, constants: { Mysql2: mysql2(info, **options) })
  end

  it "uses signals where nothing speaks against it, without a word" do
    expect(decide).to be(false)
    expect(log.all).to eq([])
  end

  it "does as it is told, with a warning" do
    expect(decide(true)).to be(true)
    expect(decide(false, gems: { "rugged" => "1.7" })).to be(false)
    expect(log.of(:warn).size).to eq(2)
  end

  it "takes anything else for :auto, with an error" do
    ["auto", nil, 1].each { |value| expect(decide(value)).to be(false) }
    expect(log.of(:error).size).to eq(3)
    expect(decide(:maybe, gems: { "rugged" => "1.7" })).to be(true)
  end

  it "does without beside rugged, with one warning" do
    expect(decide(gems: { "rugged" => "1.7" })).to be(true)
    expect(log.of(:warn).size).to eq(1)
    expect(log.of(:warn).first).to include("rugged")
  end

  {
    "MySQL 8" => [{ version: "8.0.0" }, false],
    "MySQL 8.4" => [{ version: "8.4.2", header_version: "8.4.2" }, false],
    "MySQL 10 by name" => [{ version: "10.0.1" }, false],
    "MySQL 5.7" => [{ version: "5.7.44", header_version: "5.7.44" }, true],
    "MariaDB's library" => [{ version: "3.3.8", header_version: "10.11.4" }, false],
    "MariaDB's library, newer" => [{ version: "3.4.1", header_version: "11.8.0" }, false],
    "an unknown library like MariaDB's" => [{ version: "3.3.8", header_version: "9.9.9" }, true],
    "one that does not know its header" => [{ version: "3.3.8" }, true],
    "a client without info" => [nil, true],
    "a client that raises" => [RuntimeError.new("no"), true],
    "a client without a version" => [{}, true]
  }.each do |name, (info, expected)|
    it "#{expected ? "does without" : "uses"} signals beside #{name}" do
      expect(with_mysql2(info)).to be(expected)
    end
  end

  it "looks through mysql2-aurora" do
    expect(with_mysql2({ version: "8.0.33" }, aurora: true)).to be(false)
    expect(with_mysql2({ version: "5.7.1" }, aurora: true)).to be(true)
  end

  it "does without where mysql2 cannot be loaded, or must not be looked at" do
    expect(decide(gems: { "mysql2" => "0.5.6" })).to be(true)
    expect(log.of(:warn).first).to include("LoadError")
    expect(decide(gems: { "mysql2" => "0.5.6" }, constants: { Mysql2: mysql2({ version: "8.0.0" }) }, skip: true)).to be(true)
  end

  it "does without beside a Passenger before 6.0.19, or one whose version nobody knows" do
    expect(%w[6.0.18 6.0.9 5.3.7 6.0.19 6.0.20 6.1.0].map { |it| decide(gems: { "passenger" => it }) })
      .to eq([true, true, true, false, false, false])
    expect(decide(constants: { PhusionPassenger: Module.new })).to be(true)
    expect(decide(gems: { "passenger" => "6.0.19" }, constants: { PhusionPassenger: Module.new })).to be(false)
  end
end
