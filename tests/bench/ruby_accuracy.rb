#!/usr/bin/env ruby
# frozen_string_literal: true

# How true our times are: programs that measure themselves, by the system's clocks, against what their profile says.
#
#   tests/bench/ruby_accuracy.rb OUR_FOLDER [runs]
#
# OUR_FOLDER is bazel-bin/ruby/extension/lib of `bazel build --config=opt //ruby:extension`. Errors are in points of a
# percent of the CPU time (of the duration, where it is wall time); of several methods or threads the largest counts.
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

  def largest_difference(found, truth)
    truth.map { |key, it| (100 * found.fetch(key, 0).fdiv(found.values.sum) - 100 * it.fdiv(truth.values.sum)).abs }.max
  end

  # Four methods take turns, by chance, for so long each.
  def methods_in_turn(turn)
    truth = Hash.new(0)
    weights = { "first" => 50, "second" => 30, "third" => 15, "fourth" => 5 }
    names = weights.flat_map { |name, weight| [name] * weight }
    samples, = profile do
      deadline = now + SECONDS
      while now < deadline
        name = names.sample
        before = cpu_ns
        send(name, rand(turn))
        truth[name] += cpu_ns - before
      end
    end
    found = weights.to_h { |name, _| [name, samples.select { |it| it.names.include?(name) }.sum { |it| it.values["cpu-time"] }] }
    { "CPU time of methods" => largest_difference(found, truth) }
  end

  def long_turns = methods_in_turn(0.02..0.08)

  def short_turns = methods_in_turn(0.001..0.004)

  WORK = {
    "sleeps" => -> { sleep(0.01); burn(0.001) },
    "allocates" => -> { Array.new(2_000) { |i| i.to_s }; sleep(0.002) },
    "keeps" => -> { ((Thread.current[:kept] ||= []) << Array.new(500) { |i| "kept #{i}" }).shift(Thread.current[:kept].size > 50 ? 1 : 0); sleep(0.003) },
    "collects" => -> { GC.start; sleep(0.1) },
    "works" => -> { burn(0.01) }
  }.freeze

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
    truth = collected = nil
    samples, duration = profile(**options) do
      collected = GC.stat(:time) if GC.stat.key?(:time)
      deadline = now + SECONDS
      queues.each_value { |start, _| start << deadline }
      truth = queues.transform_values { |_, over| over.pop }
      collected = GC.stat(:time) - collected if collected
      sleep 0.05 # so that they are sampled again
    end
    threads.each(&:kill)
    yield samples, duration, truth, collected
  end

  def of_threads(samples, type)
    WORK.keys.to_h { |name| [name, samples.select { |it| it.labels["thread name"] == name }.sum { |it| it.values[type] }] }
  end

  def mixed_threads
    threads(allocations: true) do |samples, duration, truth, _|
      wall = of_threads(samples, "wall-time").values.map { |it| (100 * it / duration - 100).abs }.max
      { "CPU time of threads" => largest_difference(of_threads(samples, "cpu-time"), truth), "wall time of a thread" => wall }
    end
  end

  # What collections take is told apart from the threads in which they happen.
  def collections
    threads(gc: true, allocations: true) do |samples, _, truth, collected|
      found = { "GC" => samples.select { |it| it.labels["thread id"] == "GC" }.sum { |it| it.values["cpu-time"] } }
      found["threads"] = of_threads(samples, "cpu-time").values.sum
      # The VM counts in microseconds and tells in milliseconds.
      { "CPU time of collections" => largest_difference(found, "GC" => collected * 1e6, "threads" => truth.values.sum - collected * 1e6) }
    end
  end
end

PROGRAMS = {
  "four methods in turns of 20 to 80 ms" => "long_turns", "four methods in turns of 1 to 4 ms" => "short_turns",
  "threads that sleep, allocate, collect, work" => "mixed_threads",
  "the same, with collections told apart" => "collections"
}.freeze

def print_table(repetition)
  puts "| program | error of | mean of #{repetition.runs} runs | largest |", "|---|---|---|---|"
  PROGRAMS.each do |title, program|
    results = repetition.results(program)
    results.first.each_key do |error|
      found = results.map { |it| it.fetch(error) }
      puts format("| %s | %s | %.3f | %.3f |", title, error, found.sum / repetition.runs, found.max)
    end
    $stdout.flush
  end
end

Repetition.main(__FILE__, runs: 5, program: ->(name) { Program.send(name) }) { |repetition| print_table(repetition) }
