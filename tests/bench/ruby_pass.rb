#!/usr/bin/env ruby
# frozen_string_literal: true

# What one sampling pass over five threads costs: ours, and that of the `datadog` gem with the original library. The
# same program runs with either, by turns, and each profiler counts for itself.
#
#   tests/bench/ruby_pass.rb OUR_FOLDER PEER_GEMS [rounds]    (after tests/bench/fetch_peer, which prints PEER_GEMS)
#
# OUR_FOLDER is bazel-bin/ruby/extension/lib of `bazel build --config=opt //ruby:extension`.
require "json"
require "rbconfig"
require "tempfile"

# The measured program: runs in a process of its own with one of the profilers.
module Program
  DEPTH = 20
  SECONDS = Float(ENV.fetch("NF_PASS_SECONDS", "4"))

  module_function

  def nest(depth, &work)
    depth > 1 ? nest(depth - 1, &work) : work.call
  end

  def busy(seconds)
    finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    text = 0
    text += 1 while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
  end

  def profiler
    recorder = Datadog::Profiling::StackRecorder.new(
      cpu_time_enabled: true, alloc_samples_enabled: false, heap_samples_enabled: false, heap_size_enabled: false,
      heap_sample_every: 1, timeline_enabled: false
    )
    collector = Datadog::Profiling::Collectors::ThreadContext.new(
      recorder: recorder, max_frames: 400, tracer: nil, endpoint_collection_enabled: true, timeline_enabled: false
    )
    worker = Datadog::Profiling::Collectors::CpuAndWallTimeWorker.new(
      gc_profiling_enabled: false, no_signals_workaround_enabled: false, thread_context_collector: collector,
      dynamic_sampling_rate_overhead_target_percentage: 2.0, allocation_profiling_enabled: false,
      dynamic_sampling_rate_enabled: false
    )
    [recorder, collector, worker]
  end

  # Main thread, two that sleep, and the profiler's own two. CPU time per pass comes from the samples of
  # `profiler overhead`, which both profilers record.
  def sampled(output)
    recorder, _collector, worker = profiler
    2.times { Thread.new { nest(DEPTH) { sleep } } }
    worker.start
    sleep 0.3
    recorder.serialize
    worker.stats_and_reset_not_thread_safe
    nest(DEPTH) { busy(SECONDS) }
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
    4.times { Thread.new { nest(DEPTH) { sleep } } }
    sleep 0.3
    doors = Datadog::Profiling::Collectors::ThreadContext::Testing
    current = Thread.current
    blocks = Array.new(Integer(ENV.fetch("NF_PASS_BLOCKS", "40"))) do
      before = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond)
      nest(DEPTH) { 100.times { doors._native_sample(collector, current) } }
      (Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond) - before) / 100.0
    end
    File.write(output, JSON.generate(loop_min: blocks.min, loop_median: blocks.sort[blocks.size / 2]))
  end

  def run(kind, output)
    require "datadog/profiling"
    Datadog::Profiling.send(:load_profiling)
    send(kind, output)
  end
end

# Runs it and compares.
class Comparison
  def initialize(folder, gems)
    @environments = {
      "datadog 2.0.0.beta1" => [{ "GEM_HOME" => gems }, ["-rdatadog"]],
      "ours" => [{}, ["-I", folder]]
    }
    $LOAD_PATH.unshift(folder)
    require "datadog/profiling/pprof_reader"
  end

  def run(rounds)
    results = @environments.transform_values { [] }
    rounds.times { @environments.each { |name, how| results[name] << one(*how) } }
    print_table(results)
  end

  private

  def one(environment, options)
    Tempfile.create("pass") do |file|
      %w[sampled looped].each_with_object({}) do |kind, all|
        command = [RbConfig.ruby, "-W0", *options, __FILE__, "--program", kind, file.path]
        system(environment, *command, exception: true)
        all.update(JSON.parse(File.read(file.path)))
        all.update(overhead(File.binread("#{file.path}.pprof"))) if kind == "sampled"
      ensure
        File.delete("#{file.path}.pprof") if File.exist?("#{file.path}.pprof")
      end
    end
  end

  def overhead(bytes)
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
  }.freeze

  def print_table(results)
    puts "| µs, least of #{results.values.first.size} runs | #{results.keys.join(" | ")} |", "|---|---|---|"
    ROWS.each do |title, key|
      puts "| #{title} | #{results.values.map { |runs| format("%.1f", runs.map { |it| it.fetch(key) }.min / 1e3) }.join(" | ")} |"
    end
  end
end

if ARGV.first == "--program"
  Program.run(ARGV[1], ARGV[2])
else
  abort "usage: #{$PROGRAM_NAME} OUR_FOLDER PEER_GEMS [rounds]" unless ARGV.size.between?(2, 3)
  Comparison.new(File.expand_path(ARGV[0]), File.expand_path(ARGV[1])).run(Integer(ARGV.fetch(2, "5")))
end
