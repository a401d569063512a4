#!/usr/bin/env ruby
# frozen_string_literal: true

# What allocation and heap profiling cost: ours, and those of the `datadog` gem with the original library. The same
# program runs with either, by turns.
#
#   tests/bench/ruby_allocations.rb OUR_FOLDER PEER_GEMS [rounds]    (after tests/bench/fetch_peer, which prints PEER_GEMS)
#
# OUR_FOLDER is bazel-bin/ruby/extension/lib of `bazel build --config=opt //ruby:extension`.
require "json"
require "rbconfig"
require "tempfile"

# The measured program: runs in a process of its own with one of the profilers, or with none.
module Program
  DEPTH = 20
  OBJECTS = Integer(ENV.fetch("NF_ALLOCATIONS", "6000000"))
  LIVE = 20_000

  module_function

  def nest(depth, &work)
    depth > 1 ? nest(depth - 1, &work) : work.call
  end

  def cpu_ns
    Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)
  end

  # CPU time per object, of objects that die young.
  def churn(count)
    before = cpu_ns
    i = 0
    while i < count
      Object.new
      i += 1
    end
    (cpu_ns - before).fdiv(count)
  end

  def start(heap, every_object)
    recorder = Datadog::Profiling::StackRecorder.new(
      cpu_time_enabled: true, alloc_samples_enabled: true, heap_samples_enabled: heap, heap_size_enabled: heap,
      heap_sample_every: 1, timeline_enabled: false
    )
    collector = Datadog::Profiling::Collectors::ThreadContext.new(
      recorder: recorder, max_frames: 400, tracer: nil, endpoint_collection_enabled: false, timeline_enabled: false
    )
    worker = Datadog::Profiling::Collectors::CpuAndWallTimeWorker.new(
      gc_profiling_enabled: false, no_signals_workaround_enabled: false, thread_context_collector: collector,
      dynamic_sampling_rate_overhead_target_percentage: 2.0, allocation_profiling_enabled: true,
      dynamic_sampling_rate_enabled: !every_object
    )
    worker.start
    sleep 0.3
    [recorder, worker]
  end

  def off
    { per_object: nest(DEPTH) { churn(OBJECTS) } }
  end

  def allocations(heap: false)
    _recorder, worker = start(heap, false)
    per_object = nest(DEPTH) { churn(OBJECTS) }
    stats = worker.stats
    worker.stop
    { per_object: per_object, sample: stats.fetch(:allocation_sampling_time_ns_avg), least: stats.fetch(:allocation_sampling_time_ns_min) }
  end

  def heap
    allocations(heap: true)
  end

  # Each object is sampled; then how long the calling thread needs for a profile with so many live ones.
  def live
    recorder, worker = start(true, true)
    kept = nil
    sampled = nest(DEPTH) do
      before = cpu_ns
      kept = Array.new(LIVE) { Object.new }
      (cpu_ns - before).fdiv(LIVE)
    end
    GC.start
    times = Array.new(5) do
      before = cpu_ns
      recorder.serialize
      cpu_ns - before
    end
    worker.stop
    { every_object: sampled, serialize: times.min, kept: kept.size }
  end
end

# Runs it and compares.
class Comparison
  def initialize(folder, gems)
    @environments = {
      "datadog 2.0.0.beta1" => [{ "GEM_HOME" => gems }, ["-rdatadog"]],
      "ours" => [{}, ["-I", folder]]
    }
  end

  def run(rounds)
    results = @environments.transform_values { [] }
    rounds.times { @environments.each { |name, how| results[name] << one(*how) } }
    print_table(results)
  end

  private

  def one(environment, options)
    %w[off allocations heap live].to_h do |kind|
      Tempfile.create("allocations") do |file|
        command = [RbConfig.ruby, "-W0", *options, __FILE__, "--program", kind, file.path]
        system(environment, *command, exception: true)
        [kind, JSON.parse(File.read(file.path))]
      end
    end
  end

  ROWS = {
    "one object, without a profiler, ns" => ->(it) { it["off"]["per_object"] },
    "one object, allocations profiled, ns" => ->(it) { it["allocations"]["per_object"] },
    "one object, live objects too, ns" => ->(it) { it["heap"]["per_object"] },
    "one sample, own counter, average, ns" => ->(it) { it["allocations"]["sample"] },
    "one sample, own counter, minimum, ns" => ->(it) { it["allocations"]["least"] },
    "the same with live objects, average, ns" => ->(it) { it["heap"]["sample"] },
    "the same with live objects, minimum, ns" => ->(it) { it["heap"]["least"] },
    "one object when each is sampled and lives, ns" => ->(it) { it["live"]["every_object"] },
    "a profile with 20 000 live objects, ms" => ->(it) { it["live"]["serialize"] / 1e6 }
  }.freeze

  def print_table(results)
    puts "| CPU time, least of #{results.values.first.size} runs | #{results.keys.join(" | ")} |", "|---|---|---|"
    ROWS.each do |title, figure|
      puts "| #{title} | #{results.values.map { |runs| format("%.1f", runs.map(&figure).min) }.join(" | ")} |"
    end
  end
end

if ARGV.first == "--program"
  require "datadog/profiling"
  Datadog::Profiling.send(:load_profiling)
  File.write(ARGV[2], JSON.generate(Program.send(ARGV[1])))
else
  abort "usage: #{$PROGRAM_NAME} OUR_FOLDER PEER_GEMS [rounds]" unless ARGV.size.between?(2, 3)
  Comparison.new(File.expand_path(ARGV[0]), File.expand_path(ARGV[1])).run(Integer(ARGV.fetch(2, "3")))
end
