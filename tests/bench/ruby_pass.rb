#!/usr/bin/env ruby
# frozen_string_literal: true

# What one sampling pass over five threads costs: ours, and that of the `datadog` gem with the original library. The
# same program runs with either, by turns, and each profiler counts for itself.
#
#   tests/bench/ruby_pass.rb OUR_FOLDER PEER_GEMS [rounds]    (after tests/bench/fetch_peer, which prints PEER_GEMS)
#
# OUR_FOLDER is bazel-bin/ruby/extension/lib of `bazel build --config=opt //ruby:extension`.
require_relative "comparison"

# The measured program: runs in a process of its own with one of the profilers.
module Program
  DEPTH = 20
  SECONDS = Float(ENV.fetch("NF_PASS_SECONDS", "4"))

  module_function

  def busy(seconds)
    finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    text = 0
    text += 1 while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
  end

  def profiler
    Parts.build(endpoints: true, dynamic_rate: false)
  end

  # Main thread, two that sleep, and the profiler's own two. CPU time per pass comes from the samples of
  # `profiler overhead`, which both profilers record.
  def sampled(output)
    recorder, _collector, worker = profiler
    2.times { Thread.new { Parts.nest(DEPTH) { sleep } } }
    worker.start
    sleep 0.3
    recorder.serialize
    worker.stats_and_reset_not_thread_safe
    Parts.nest(DEPTH) { busy(SECONDS) }
    stats = worker.stats
    raise "there are #{Thread.list.size} threads" unless Thread.list.size == 5
    worker.stop
    File.binwrite("#{output}.pprof", recorder.serialize.last)
    File.write(output, JSON.generate(stats.slice(
      :cpu_sampled, :cpu_sampling_time_ns_min, :cpu_sampling_time_ns_avg
    )))
  end

  # Passes one after the other, over the main thread and four that sleep: what remains when all is in the caches.
  def looped(output)
    _recorder, collector, _worker = profiler
    4.times { Thread.new { Parts.nest(DEPTH) { sleep } } }
    sleep 0.3
    doors = Datadog::Profiling::Collectors::ThreadContext::Testing
    current = Thread.current
    blocks = Array.new(Integer(ENV.fetch("NF_PASS_BLOCKS", "40"))) do
      before = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond)
      Parts.nest(DEPTH) { 100.times { doors._native_sample(collector, current) } }
      (Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond) - before) / 100.0
    end
    File.write(output, JSON.generate(loop_min: blocks.min, loop_median: blocks.sort[blocks.size / 2]))
  end
end

# CPU time per pass, from the samples of the profiler's own.
def overhead(bytes)
  require "datadog/profiling/pprof_reader" # ours, in either case
  read = Datadog::Profiling::PprofReader.parse(bytes)
  types = read.fetch(:sample_types).map(&:first)
  own = read.fetch(:samples).map { |_, values, labels| [types.zip(values).to_h, labels.map(&:first)] }
  own = own.select { |_, keys| keys.include?("profiler overhead") }.map(&:first)
  { "cpu_avg" => own.sum { |it| it["cpu-time"] }.fdiv(own.sum { |it| it["cpu-samples"] }) }
end

ROWS = {
  "CPU time of a pass, average" => "cpu_avg", "own counter, average" => "cpu_sampling_time_ns_avg",
  "own counter, minimum" => "cpu_sampling_time_ns_min", "passes in a loop, median" => "loop_median",
  "passes in a loop, minimum" => "loop_min"
}.transform_values { |key| ->(it) { it.fetch(key) / 1e3 } }.freeze

Comparison.main(
  __FILE__,
  kinds: %w[sampled looped], rows: ROWS, unit: "µs", rounds: 5, program: ->(kind, file) { Program.send(kind, file) }
) { |kind, result, file| kind == "sampled" ? result.merge(overhead(File.binread("#{file}.pprof"))) : result }
