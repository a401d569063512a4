require "layer_helper"

RSpec.describe Datadog::Profiling::Component do
  let(:settings) { Datadog::Profiling::Settings.new.tap { |it| it.profiling.enabled = true } }

  # What each of the parts was made with.
  let(:made) { {} }
  let(:parts) do
    [
      Datadog::Profiling::StackRecorder, Datadog::Profiling::Collectors::ThreadContext,
      Datadog::Profiling::Collectors::CpuAndWallTimeWorker, Datadog::Profiling::Exporter, Datadog::Profiling::Scheduler
    ]
  end

  def build
    all = made
    parts.each do |part|
      part.define_singleton_method(:new) do |**options|
        all[part.name.split("::").last] = options
        super(**options)
      end
    end
    described_class.build_profiler_component(settings: settings, optional_tracer: nil)
  ensure
    parts.each { |part| part.singleton_class.send(:remove_method, :new) }
  end

  def on_ruby(rules)
    rules.each { |name, answer| Datadog::Profiling::RubyRules.define_singleton_method(name) { |*| answer } }
    yield
  ensure
    load File.join(Support.extension_folder, "datadog/profiling/ruby_rules.rb")
  end

  around do |example|
    before = $VERBOSE
    $VERBOSE = nil
    example.run
    $VERBOSE = before
  end

  good = { allocation_refused: nil, heap_refused: nil, ractors_survive_tracepoints?: true, ractors_end_tracepoints?: false }

  it "makes nothing unless profiling is enabled" do
    settings.profiling.enabled = false
    expect(build).to eq([nil, { profiling_enabled: false }])
    expect(made).to eq({})
  end

  it "says why there is no profiler where it cannot work" do
    Datadog::Profiling.define_singleton_method(:unsupported_reason) { "made up" }
    expect(build).to eq([nil, { profiling_enabled: false }])
    expect(log.of(:warn)).to contain_exactly(include("made up"))
  ensure
    Datadog::Profiling.singleton_class.send(:remove_method, :unsupported_reason)
    load File.join(Support.extension_folder, "datadog/profiling.rb")
  end

  it "makes a profiler of the defaults" do
    on_ruby(good) do
      profiler, state = build
      expect(profiler).to be_a(Datadog::Profiling::Profiler)
      expect(state).to eq(profiling_enabled: true)
    end
    expect(made["StackRecorder"]).to eq(
      cpu_time_enabled: true, alloc_samples_enabled: false, heap_samples_enabled: false, heap_size_enabled: false,
      heap_sample_every: 10, timeline_enabled: true
    )
    expect(made["ThreadContext"]).to include(
      max_frames: 400, tracer: nil, endpoint_collection_enabled: true, timeline_enabled: true, gvl_enabled: true,
      native_filenames_enabled: true, otel_context_enabled: false
    )
    expect(made["CpuAndWallTimeWorker"]).to include(
      gc_profiling_enabled: true, no_signals_workaround_enabled: false, allocation_profiling_enabled: false,
      dynamic_sampling_rate_overhead_target_percentage: 2.0, interval: 0.01
    )
    expect(made["Exporter"]).to include(
      internal_metadata: { no_signals_workaround_enabled: false, timeline_enabled: true, heap_sample_every: 10 }
    )
    expect(made["Scheduler"]).to include(interval: 60)
    expect(log.of(:warn) + log.of(:error)).to eq([])
  end

  it "passes every setting on" do
    settings.profiling.allocation_enabled = true
    advanced = settings.profiling.advanced
    advanced.max_frames = 123
    advanced.endpoint.collection.enabled = false
    advanced.timeline_enabled = false
    advanced.experimental_heap_enabled = true
    advanced.experimental_heap_sample_rate = 3
    advanced.no_signals_workaround_enabled = true
    advanced.overhead_target_percentage = 5 # an Integer
    advanced.upload_period_seconds = 90
    advanced.cpu_sampling_interval_ms = 4
    advanced.gvl_enabled = false
    advanced.native_filenames_enabled = false
    advanced.preview_otel_context_enabled = :both
    advanced.code_provenance_enabled = false
    on_ruby(good) { build }
    expect(made["StackRecorder"]).to include(
      alloc_samples_enabled: true, heap_samples_enabled: true, heap_size_enabled: true, heap_sample_every: 3,
      timeline_enabled: false
    )
    expect(made["ThreadContext"]).to include(
      max_frames: 123, endpoint_collection_enabled: false, timeline_enabled: false, gvl_enabled: false,
      native_filenames_enabled: false, otel_context_enabled: :both
    )
    expect(made["CpuAndWallTimeWorker"]).to include(
      allocation_profiling_enabled: true, no_signals_workaround_enabled: true,
      dynamic_sampling_rate_overhead_target_percentage: 5.0, interval: 0.004
    )
    expect(made["Exporter"]).to include(code_provenance_collector: nil)
    expect(made["Scheduler"]).to include(interval: 90)
  end

  it "leaves out sizes if that is asked for" do
    settings.profiling.allocation_enabled = settings.profiling.advanced.experimental_heap_enabled = true
    settings.profiling.advanced.experimental_heap_size_enabled = false
    on_ruby(good) { build }
    expect(made["StackRecorder"]).to include(heap_samples_enabled: true, heap_size_enabled: false)
  end

  it "has garbage collection only where a Ractor does not make it crash, unless forced" do
    on_ruby(good.merge(ractors_survive_tracepoints?: false)) do
      build
      expect(made["CpuAndWallTimeWorker"]).to include(gc_profiling_enabled: false)
      settings.profiling.advanced.force_enable_gc_profiling = true
      build
      expect(made["CpuAndWallTimeWorker"]).to include(gc_profiling_enabled: true)
    end
    on_ruby(good) do
      settings.profiling.advanced.force_enable_gc_profiling = false
      settings.profiling.advanced.gc_enabled = false
      build
      expect(made["CpuAndWallTimeWorker"]).to include(gc_profiling_enabled: false)
    end
  end

  it "refuses allocations where they crash Ruby; the rest runs" do
    settings.profiling.allocation_enabled = settings.profiling.advanced.experimental_heap_enabled = true
    on_ruby(good.merge(allocation_refused: "it crashes")) { expect(build.first).not_to be_nil }
    expect(made["CpuAndWallTimeWorker"]).to include(allocation_profiling_enabled: false)
    expect(made["StackRecorder"]).to include(alloc_samples_enabled: false, heap_samples_enabled: false)
    expect(log.of(:warn)).to include(include("it crashes"))
  end

  it "says what becomes of Ractors where they do not go together" do
    settings.profiling.allocation_enabled = true
    on_ruby(good.merge(ractors_survive_tracepoints?: false)) { build }
    expect(log.of(:debug).join).to include("until the program makes its first Ractor").and include("18464")
    expect(log.of(:warn)).to be_empty
    on_ruby(good.merge(ractors_end_tracepoints?: true)) { build }
    expect(log.of(:debug).join).to include("19112")
  end

  it "refuses the heap where it cannot be followed, or without allocations; the rest runs" do
    settings.profiling.advanced.experimental_heap_enabled = true
    on_ruby(good) { build }
    expect(log.of(:error).last).to include("allocation profiling")
    settings.profiling.allocation_enabled = true
    on_ruby(good.merge(heap_refused: "too old")) { build }
    expect(log.of(:error).last).to include("too old")
    expect(made["StackRecorder"]).to include(alloc_samples_enabled: true, heap_samples_enabled: false)
  end

  it "uses the transport of the program" do
    mine = Object.new
    settings.profiling.exporter.transport = mine
    build
    expect(made["Scheduler"]).to include(transport: mine)
  end
end
