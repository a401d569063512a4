#!/usr/bin/env ruby
# frozen_string_literal: true

# What allocation and heap profiling cost: ours, and those of the `datadog` gem with the original library. The same
# program runs with either, by turns.
#
#   tests/bench/ruby_allocations.rb OUR_FOLDER PEER_GEMS [rounds]    (after tests/bench/fetch_peer, which prints PEER_GEMS)
#
# OUR_FOLDER is bazel-bin/ruby/extension/lib of `bazel build --config=opt //ruby:extension`.
require_relative "comparison"

# The measured program: runs in a process of its own with one of the profilers, or with none.
module Program
  DEPTH = 20
  OBJECTS = Integer(ENV.fetch("NF_ALLOCATIONS", "6000000"))
  LIVE = 20_000

  module_function

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
    recorder, _collector, worker = Parts.build(allocations: true, heap: heap, dynamic_rate: !every_object)
    worker.start
    sleep 0.3
    [recorder, worker]
  end

  def off
    { per_object: Parts.nest(DEPTH) { churn(OBJECTS) } }
  end

  def allocations(heap: false)
    _recorder, worker = start(heap, false)
    per_object = Parts.nest(DEPTH) { churn(OBJECTS) }
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
    sampled = Parts.nest(DEPTH) do
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

Comparison.main(
  __FILE__,
  kinds: %w[off allocations heap live], rows: ROWS, unit: "CPU time", rounds: 3,
  program: ->(kind, file) { File.write(file, JSON.generate(Program.send(kind))) }
)
