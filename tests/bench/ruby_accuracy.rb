#!/usr/bin/env ruby
# frozen_string_literal: true

# How true our times are: programs that measure themselves, by the system's clocks, against what their profile says.
#
#   tests/bench/ruby_accuracy.rb OUR_FOLDER [runs]
#
# OUR_FOLDER is bazel-bin/ruby/extension/lib of `bazel build --config=opt //ruby:extension`. Errors are in points of a
# percent of the CPU time (of the duration, where it is wall time); of several methods or threads the largest counts.
require "zlib"
require_relative "comparison"

# The measured programs: each runs in a process of its own. Each returns error by name.
module Program
  SECONDS = Float(ENV.fetch("NF_ACCURACY_SECONDS", "30"))

  module_function

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def cpu_ns = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)

  def burn(seconds)
    finish = cpu_ns + seconds * 1e9
    nil while cpu_ns < finish
  end

  def first(seconds) = burn(seconds)

  def second(seconds) = burn(seconds)

  def third(seconds) = burn(seconds)

  def fourth(seconds) = burn(seconds)

  Sample = Struct.new(:names, :values, :labels)

  # The profile of the block: its samples and its duration in nanoseconds.
  def profile(**options)
    recorder, _collector, worker = Parts.build(**options)
    worker.start
    sleep 0.05 until worker.stats[:trigger_sample_attempts] > 0
    recorder.serialize
    yield
    start, finish, bytes = recorder.serialize
    worker.stop
    read = Datadog::Profiling::PprofReader.parse(bytes)
    types = read.fetch(:sample_types).map(&:first)
    names = read.fetch(:locations).transform_values { |lines, _| read.fetch(:functions).fetch(lines.first.first).first }
    samples = read.fetch(:samples).map do |locations, values, labels|
      Sample.new(locations.map { |id| names.fetch(id) }, types.zip(values).to_h, labels.to_h { |it| it.first(2) })
    end
    [samples, (finish - start) * 1e9]
  end

  # Of the shares, in points.
  def differences(found, truth)
    truth.to_h { |key, it| [key, 100 * found.fetch(key, 0).fdiv(found.values.sum) - 100 * it.fdiv(truth.values.sum)] }
  end

  # Methods take turns for so long each: which and how long the block says.
  def methods_in_turn
    truth = Hash.new(0)
    samples, = profile do
      deadline = now + SECONDS
      while now < deadline
        yield.each do |name, *arguments|
          before = cpu_ns
          send(name, *arguments)
          truth[name] += cpu_ns - before
        end
      end
    end
    found = truth.to_h { |name, _| [name, samples.select { |it| it.names.include?(name) }.sum { |it| it.values["cpu-time"] }] }
    { "CPU time of methods" => differences(found, truth) }
  end

  NAMES = { "first" => 50, "second" => 30, "third" => 15, "fourth" => 5 }.flat_map { |name, weight| [name] * weight }

  def by_chance(turn) = methods_in_turn { [[NAMES.sample, rand(turn)]] }

  def long_turns = by_chance(0.02..0.08)

  def short_turns = by_chance(0.001..0.004)

  PAGE = Array.new(40) { |i| "<td>#{i * 7_919}</td>" }.join

  def pack = 300.times { Zlib.gzip(PAGE) }

  # One of them gives up the GVL all the time, and never for long.
  def with_and_without_gvl = methods_in_turn { [["first", 0.02], ["pack"]] }

  WORK = {
    "sleeps" => -> { sleep(0.01); burn(0.001) },
    "allocates" => -> { Array.new(2_000) { |i| i.to_s }; sleep(0.002) },
    "keeps" => -> { ((Thread.current[:kept] ||= []) << Array.new(500) { |i| "kept #{i}" }).shift(Thread.current[:kept].size > 50 ? 1 : 0); sleep(0.003) },
    "collects" => -> { collect; sleep(1) },
    "works" => -> { burn(0.01) }
  }.freeze

  # All at once, so that its start and end are known.
  def collect
    before = cpu_ns
    GC.start
    @collected = (@collected || 0) + cpu_ns - before
  end

  # Threads that work for a while and know how much CPU time that was; they are there before and after.
  def threads(**options)
    queues = WORK.keys.to_h { |name| [name, [Queue.new, Queue.new]] }
    threads = WORK.map do |name, work|
      Thread.new do
        Thread.current.name = name
        start, over = queues[name]
        deadline = start.pop
        before = cpu_ns
        work.call while now < deadline
        over << cpu_ns - before
        sleep
      end
    end
    sleep 0.2
    truth = nil
    samples, duration = profile(**options) do
      deadline = now + SECONDS
      queues.each_value { |start, _| start << deadline }
      truth = queues.transform_values { |_, over| over.pop }
      sleep 0.05 # so that they are sampled again
    end
    threads.each(&:kill)
    yield samples, duration, truth
  end

  def of_threads(samples, type)
    WORK.keys.to_h { |name| [name, samples.select { |it| it.labels["thread name"] == name }.sum { |it| it.values[type] }] }
  end

  def mixed_threads
    threads(allocations: true) do |samples, duration, truth|
      wall = of_threads(samples, "wall-time").transform_values { |it| 100 * it / duration - 100 }
      { "CPU time of threads" => differences(of_threads(samples, "cpu-time"), truth), "wall time of a thread" => wall }
    end
  end

  # What collections take is told apart from the threads in which they happen.
  def collections
    # None but those that are asked for, few and long: 0.15 ms of each are not the collector's, but of Ruby before and after.
    GC.disable
    kept = Array.new(1_000_000) { |i| "kept #{i}" }
    threads(gc: true, allocations: true) do |samples, _, truth|
      kept.clear
      found = { "GC" => samples.select { |it| it.labels["thread id"] == "GC" }.sum { |it| it.values["cpu-time"] } }
      found["threads"] = of_threads(samples, "cpu-time").values.sum
      { "CPU time of collections" => differences(found, "GC" => @collected, "threads" => truth.values.sum - @collected) }
    end
  end
end

PROGRAMS = {
  "four methods in turns of 20 to 80 ms" => "long_turns", "four methods in turns of 1 to 4 ms" => "short_turns",
  "a method that is busy and one that packs pages, without the GVL while Zlib works" => "with_and_without_gvl",
  "threads that sleep, allocate, collect, work" => "mixed_threads",
  "the same, with collections told apart" => "collections"
}.freeze

# Chance makes most of the error of one run; what is left of it in the mean of many is more than chance if it is more than
# twice its standard error.
def print_table(repetition)
  puts "| program | error of | one of #{repetition.runs} runs, mean | largest | mean of them all ± its standard error |",
       "|---|---|---|---|---|"
  PROGRAMS.each do |title, program|
    results = repetition.results(program)
    results.first.each_key do |error|
      runs = results.map { |it| it.fetch(error) }
      largest = runs.map { |it| it.values.map(&:abs).max }
      key = runs.first.keys.max_by { |it| runs.sum { |run| run.fetch(it) }.abs }
      mean, deviation = mean_and_error(runs.map { |it| it.fetch(key) })
      puts format("| %s | %s | %.3f | %.3f | %+.3f ± %.3f (%s) |", title, error, largest.sum / runs.size, largest.max, mean,
                  deviation, key)
    end
    $stdout.flush
  end
end

def mean_and_error(values)
  mean = values.sum / values.size
  [mean, Math.sqrt(values.sum { |it| (it - mean)**2 } / [values.size - 1, 1].max / values.size)]
end

Repetition.main(__FILE__, runs: 5, program: ->(name) { Program.send(name) }) { |repetition| print_table(repetition) }
