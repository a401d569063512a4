require "spec_helper"
require "tmpdir"
require "support/agent_stub"

module LayerHelper
  # A logger that remembers.
  class Lines
    attr_reader :all

    def initialize
      @all = []
    end

    %i[debug info warn error].each do |level|
      define_method(level) { |text| @all << [level, text] }
    end

    def of(level)
      @all.select { |it| it.first == level }.map(&:last)
    end
  end

  def with_env(values)
    before = values.keys.to_h { |name| [name, ENV[name]] }
    values.each { |name, value| ENV[name] = value }
    yield
  ensure
    before.each { |name, value| ENV[name] = value }
  end

  def log
    @log ||= Lines.new
  end

  # A report, without a profiler.
  def new_flush(**changes)
    Datadog::Profiling::Flush.new(
      start: Time.at(1_800_000_000, 123, :nsec).utc, finish: Time.at(1_800_000_060, 456, :nsec).utc,
      pprof_file_name: "rubyprofile.pprof", pprof_data: "the profile".b, pprof_codec: :lz4,
      code_provenance_file_name: "code-provenance.json", code_provenance_data: '{"v1":[]}',
      tags_as_array: [%w[service shop], %w[env qa]], internal_metadata_json: '{"b":1,"a":{"c":[true]}}',
      info_json: '{"runtime":{"engine":"ruby"}}', **changes
    )
  end
end

RSpec.configure do |config|
  config.include LayerHelper
  config.before { Datadog::Profiling::Log.logger = log }
  config.after { Datadog::Profiling::Log.logger = nil }
  # Nothing that the machine has set.
  config.around do |example|
    with_env(ENV.keys.grep(/\A(DD_|NF_RECORD)/).to_h { |name| [name, nil] }) { example.run }
  end
end
