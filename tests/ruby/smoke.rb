# Uses every part of the extension once, for checkers that make programs slow (see memcheck.rb). Prints "smoke: fine".
require "standalone"
require "tmpdir"
require "support/traces"
include Support::Traces

doors = Datadog::Profiling::NativeExtension::Testing
collectors = Datadog::Profiling::Collectors
check = ->(what, fine) { fine or abort("smoke: #{what}") }

# Text, checks, errors.
doors._native_repair_utf8("a\xff\xe2\x82b")
doors._native_template_name("_app_views_x_html_erb___1_2", "/app/views/x.html.erb")
check["raise", (doors._native_grab_gvl_and_raise(IOError, "text", 1, true) rescue $!).is_a?(IOError)]
check["type error", (new_recorder(cpu_time_enabled: 1) rescue $!).is_a?(TypeError)]
check["self-test", Datadog::Profiling::NativeExtension.send(:native_working?)]

# Stacks of all kinds into a recorder, all codecs.
recorder = new_recorder
sleeper = Thread.new { [1].each { |_| eval("sleep", binding, "gr\u00f6\u00dfe.rb", 7) } }
Thread.pass until sleeper.status == "sleep"
ended = Thread.new {}.tap(&:join)
odd = Object.new
odd.instance_eval("def odd(&block); block.call; end", "/odd/\xff.rb".b, 1)
[5, 400].each do |max_frames|
  record_stack(recorder, sleeper, max_frames: max_frames)
  record_stack(recorder, ended, max_frames: max_frames)
  odd.odd { record_stack(recorder, max_frames: max_frames) }
  50.times { |i| record_stack(recorder, sleeper, labels: { "n" => "text #{i}" }, numeric_labels: { "i" => i }) }
end
(record_stack(recorder, numeric_labels: { "local root span id" => 0 }) rescue $!).is_a?(ArgumentError) or abort("label")
%i[gzip lz4 zstd none].each do |codec|
  record_stack(recorder, labels: { "codec" => codec.to_s })
  check[codec, recorder.serialize!(codec: codec).bytesize > 0]
end
recorder.reset_after_fork
check["reset", decode(recorder.serialize!(codec: :none)).samples.empty?]

# The thread context: threads that come and go, compaction, a fork.
key = :datadog_context
context = collectors::ThreadContext.new(
  recorder: recorder, max_frames: 400, tracer: Support::Traces::Tracer.new(key), endpoint_collection_enabled: true,
  timeline_enabled: true, otel_context_enabled: :both, native_filenames_enabled: true, gvl_enabled: true
)
3.times do |i|
  threads = Array.new(20) { Thread.new { sleep } }
  wait_until { threads.all?(&:stop?) }
  traced = trace(span(i + 1, type: "web"), span(i + 2), resource: "GET #{i}", otel_values: { 1 => 2 })
  threads.each { |it| it[key] = object(active_trace: traced) }
  threads.first(5).each { |it| it[key] = nil or it[:__opentelemetry_context_storage__] = [otel_context(otel_span(1, 2))] }
  collectors::ThreadContext::Testing._native_sample(context, Thread.current)
  threads.each(&:kill).each(&:join)
  collectors::ThreadContext::Testing._native_on_gc_start(context)
  collectors::ThreadContext::Testing._native_on_gc_finish(context)
  context.finish_profile
  GC.compact
end
collectors::ThreadContext::Testing._native_per_thread_context(context)
context.inspect
check["context", decode(recorder.serialize!(codec: :none)).samples.size > 20]

# Whole sessions, with and without signals; signals to everybody; threads that are killed; forks; objects that nobody stops.
all = { allocations: true, heap: true, gc: true, timeline: true }
all.delete(:heap) if Datadog::Profiling.capabilities[:missing].key?(:heap) # not on every Ruby
[{}, { no_signals: true }, all].each do |options|
  session = Datadog::Profiling::Session.new(interval: 0.001, overhead_target_percentage: 100, **options)
  session.start
  busy = Thread.new { [3, 1, 2].sort_by { |it| -it } && Thread.pass while true }
  killed = Array.new(10) { Thread.new { sleep } }
  deadline = monotonic + 0.3
  kept = [] # so that there are live objects to be seen
  while monotonic < deadline
    Process.kill(:PROF, Process.pid)
    doors._native_signal_thread(sleeper)
    Thread.new { nil }.join
    kept << Array.new(100, &:to_s)
  end
  doors._native_signal_native_threads(2, 20)
  killed.each(&:kill)
  GC.start
  pid = fork do
    session.reset_after_fork or exit!(1)
    burn(0.05)
    profile = decode(session.stop.bytes)
    exit!(profile.samples.any? ? 0 : 1)
  end
  check["child", Process.wait2(pid).last.success?]
  busy.kill.join
  profile = session.stop
  check["session: #{profile.failure}", profile.failure.nil? && profile.sample_count > 20]
  decoded = decode(profile.bytes)
  check["profile", options[:allocations] || decoded.total("cpu-samples") == profile.sample_count]
  objects = { allocations: ["alloc-samples"], heap: ["heap-live-samples", "heap-live-size"] }.slice(*options.keys).values.flatten
  check["objects", objects.all? { |it| decoded.total(it) > 0 }]
end
3.times { new_worker }
sleeper.kill.join
recorder = context = nil
GC.start

puts "smoke: fine"
