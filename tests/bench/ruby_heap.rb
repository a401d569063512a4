#!/usr/bin/env ruby
# frozen_string_literal: true

# How true our live heap and allocation counts are: against what ObjectSpace and GC.stat say, over many runs of programs
# that allocate and keep in different ways.
#
#   tests/bench/ruby_heap.rb OUR_FOLDER [runs]
#
# OUR_FOLDER is bazel-bin/ruby/extension/lib of `bazel build --config=opt //ruby:extension`.
require "objspace"
require_relative "comparison"

class Kept; end
class KeptText < String; end
class Dropped; end

# The measured program: runs in a process of its own.
module Program
  SECONDS = Float(ENV.fetch("NF_HEAP_SECONDS", "4"))
  # Of a thousand objects, every so manyth is kept, with a string of its own.
  WAYS = {
    "without a pause, one of 4 kept" => [4, ->(_kept) {}],
    "with pauses, one of 4 kept" => [4, ->(_kept) { sleep 0.001 }],
    "with pauses, one of 100 kept" => [100, ->(_kept) { sleep 0.001 }],
    "with pauses, kept for a while" => [4, ->(kept) { sleep 0.001; kept.shift(kept.size / 2) if kept.size > 20_000 }]
  }.freeze

  module_function

  def run(way, every)
    share, after = WAYS.fetch(way)
    recorder, _collector, worker = Parts.build(allocations: true, heap: true, heap_sample_every: every)
    kept = []
    worker.start
    sleep 0.05 until worker.stats[:trigger_sample_attempts] > 0
    recorder.serialize
    made = GC.stat(:total_allocated_objects)
    random = Random.new
    finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + SECONDS
    while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
      1000.times { random.rand(share).zero? ? kept << Kept.new << KeptText.new(capacity: random.rand(100..300)) : Dropped.new }
      after.call(kept)
    end
    made = GC.stat(:total_allocated_objects) - made
    worker.stop
    GC.start
    GC.disable
    bytes = recorder.serialize.last
    compare(Datadog::Profiling::PprofReader.parse(bytes), made)
  end

  # What `kept` has given away may still live: arrays that share their memory hold it. ObjectSpace knows.
  def compare(profile, made)
    types = profile.fetch(:sample_types).map(&:first)
    samples = profile.fetch(:samples).map { |_, values, labels| [types.zip(values).to_h, labels.to_h { |it| it.first(2) }] }
    sum = lambda do |type, *classes|
      samples.sum { |values, labels| classes.empty? || classes.include?(labels["allocation class"]) ? values.fetch(type) : 0 }
    end
    strings = ObjectSpace.each_object(KeptText).to_a
    {
      "objects" => sum["heap-live-samples", "Kept"].fdiv(ObjectSpace.each_object(Kept).count),
      "strings" => sum["heap-live-samples", "KeptText"].fdiv(strings.size),
      "bytes of strings" => sum["heap-live-size", "KeptText"].fdiv(strings.sum { |it| ObjectSpace.memsize_of(it) }),
      "allocations" => sum["alloc-samples"].fdiv(made)
    }
  end
end

def print_table(repetition)
  columns = ["objects", "strings", "bytes of strings", "allocations"]
  puts "| one in | objects are made | #{columns.join(" | ")} |", "|---|---|#{"---|" * columns.size}"
  [1, 10].product(Program::WAYS.keys) do |every, way|
    results = repetition.results(way, every.to_s)
    cells = columns.map do |column|
      found = results.map { |it| it.fetch(column) }
      mean = found.sum / repetition.runs
      deviation = Math.sqrt(found.sum { |it| (it - mean)**2 } / (repetition.runs - 1))
      format("%.4f ± %.4f (%.3f to %.3f)", mean, deviation / Math.sqrt(repetition.runs), *found.minmax)
    end
    puts "| #{every} | #{way} | #{cells.join(" | ")} |"
    $stdout.flush
  end
end

Repetition.main(__FILE__, runs: 20, program: ->(way, every) { Program.run(way, Integer(every)) }) { |repetition| print_table(repetition) }
