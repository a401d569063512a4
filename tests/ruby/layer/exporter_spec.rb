require "layer_helper"
require "json"

RSpec.describe Datadog::Profiling::Exporter do
  let(:settings) { Datadog::Profiling::Settings.new }
  let(:recorder) { new_recorder }
  let(:worker) do
    Class.new do
      def stats_and_reset_not_thread_safe
        { cpu_sampled: 7 }
      end
    end.new
  end
  let(:clock) do
    Class.new do
      attr_accessor :monotonic
    end.new.tap { |it| it.monotonic = 1000.0 }
  end

  def exporter(**options)
    @exporter ||= described_class.new(
      settings: settings, pprof_recorder: recorder, worker: worker,
      info_collector: Datadog::Profiling::Collectors::Info.new(settings),
      code_provenance_collector: Datadog::Profiling::Collectors::CodeProvenance.new,
      internal_metadata: { no_signals_workaround_enabled: false, timeline_enabled: true, heap_sample_every: 10 },
      minimum_duration_seconds: 0, clock: clock, **options
    )
  end

  it "gathers a report" do
    record_stack(recorder)
    flush = exporter.flush
    expect(flush.finish).to be >= flush.start
    expect([flush.pprof_file_name, flush.code_provenance_file_name]).to eq(%w[rubyprofile.pprof code-provenance.json])
    expect(flush.pprof_codec).to eq(:lz4)
    expect(flush.pprof_data).to start_with("\x04\x22\x4d\x18".b) # an LZ4 frame
    expect(decode(flush.pprof_data).samples.size).to eq(1)
    expect(JSON.parse(flush.code_provenance_data).keys).to eq(%w[v1])
    expect(flush.tags_as_array).to include(["language", "ruby"], ["profile_seq", "0"])
    internal = JSON.parse(flush.internal_metadata_json)
    expect(internal).to include(
      "no_signals_workaround_enabled" => false, "timeline_enabled" => true, "heap_sample_every" => 10,
      "worker_stats" => { "cpu_sampled" => 7 }
    )
    expect(internal["gc"].keys).to include("count")
    expect(internal["recorder_stats"]).to include("samples_in_last_profile" => 1, "refused_samples" => 0)
    expect(internal).not_to have_key("failures")
    expect(JSON.parse(flush.info_json)["runtime"]["engine"]).to eq("ruby")
    expect(exporter.flush.tags_as_array).to include(["profile_seq", "1"])
  end

  it "goes without code provenance where that is off, or fails" do
    expect(exporter(code_provenance_collector: nil).flush.code_provenance_data).to be_nil
    @exporter = nil
    broken = Object.new
    def broken.refresh
      raise "broken"
    end
    expect(exporter(code_provenance_collector: broken).flush.code_provenance_data).to be_nil
    expect(log.of(:warn).size).to eq(1)
    exporter.flush
    expect(log.of(:warn).size).to eq(1)
  end

  it "reports nothing of less than a second" do
    expect(exporter(minimum_duration_seconds: 1).flush).to be_nil
    expect(log.of(:debug).first).to include("No report")
  end

  it "can flush once a second is over" do
    exporter(minimum_duration_seconds: 1)
    expect(exporter.can_flush?).to be(false)
    clock.monotonic += 1.01
    expect(exporter.can_flush?).to be(true)
    exporter.flush
    expect(exporter.can_flush?).to be(false)
    clock.monotonic += 1.01
    expect(exporter.can_flush?).to be(true)
    expect(exporter.reset_after_fork).to be_nil
    expect(exporter.can_flush?).to be(false)
  end

  it "reports nothing, and says so, where the profile cannot be encoded" do
    def recorder.serialize(**)
      @last_error = "no memory"
      nil
    end
    expect(exporter.flush).to be_nil
    expect(log.of(:error)).to contain_exactly(include("no memory"))
  end

  it "tells of failures in the next report, however short it is, and once" do
    exporter(minimum_duration_seconds: 1000)
    exporter.note_failure(:worker, "it broke")
    expect(exporter.can_flush?).to be(true)
    internal = JSON.parse(exporter.flush.internal_metadata_json)
    expect(internal["failures"]).to eq([{ "component" => "worker", "reason" => "it broke" }])
    expect(exporter.can_flush?).to be(false)
    expect(exporter.flush).to be_nil
  end

  it "tells of samples that found no room, once" do
    def recorder.stats
      super.merge(refused_samples: 3, first_refusal: "budget")
    end
    expect(JSON.parse(exporter.flush.internal_metadata_json)["failures"]).to eq([{ "component" => "recorder", "reason" => "budget" }])
    expect(JSON.parse(exporter.flush.internal_metadata_json)).not_to have_key("failures")
    expect(log.of(:warn).size).to eq(1)
  end
end
