# frozen_string_literal: true

# What the measuring scripts of the Ruby profiler share: the profiler's parts, and the same program run with it and
# with the `datadog` gem by turns.
require "json"
require "rbconfig"
require "tmpdir"

# Of whichever profiler is loaded.
module Parts
  module_function

  # Recorder, thread context and worker; nothing runs yet.
  def build(allocations: false, heap: false, heap_sample_every: 1, endpoints: false, gc: false,
            dynamic_rate: true)
    recorder = Datadog::Profiling::StackRecorder.new(
      cpu_time_enabled: true, alloc_samples_enabled: allocations, heap_samples_enabled: heap, heap_size_enabled: heap,
      heap_sample_every: heap_sample_every, timeline_enabled: false
    )
    collector = Datadog::Profiling::Collectors::ThreadContext.new(
      recorder: recorder, max_frames: 400, tracer: nil, endpoint_collection_enabled: endpoints, timeline_enabled: false
    )
    worker = Datadog::Profiling::Collectors::CpuAndWallTimeWorker.new(
      gc_profiling_enabled: gc, no_signals_workaround_enabled: false, thread_context_collector: collector,
      dynamic_sampling_rate_overhead_target_percentage: 2.0, allocation_profiling_enabled: allocations,
      dynamic_sampling_rate_enabled: dynamic_rate
    )
    [recorder, collector, worker]
  end

  # Calls the block so deep.
  def nest(depth, &work)
    depth > 1 ? nest(depth - 1, &work) : work.call
  end
end

# Runs a script's program, once for each of `kinds`, in a process of its own with one of the profilers, and compares
# what the processes wrote.
class Comparison
  # The script's last line. `program` is called with a kind and the file to write JSON into.
  def self.main(script, kinds:, rows:, unit:, rounds:, program:, &after)
    if ARGV.first == "--program"
      require "datadog/profiling"
      Datadog::Profiling.send(:load_profiling)
      program.call(ARGV[1], ARGV[2])
    else
      abort "usage: #{script} OUR_FOLDER PEER_GEMS [rounds]" unless ARGV.size.between?(2, 3)
      comparison = new(script, *ARGV.first(2).map { |it| File.expand_path(it) }, kinds, after)
      comparison.run(Integer(ARGV.fetch(2, rounds)), rows, unit)
    end
  end

  def initialize(script, folder, gems, kinds, after)
    @script = script
    @kinds = kinds
    @after = after || ->(kind, result, _file) { { kind => result } }
    @environments = {
      "datadog 2.0.0.beta1" => [{ "GEM_HOME" => gems }, ["-rdatadog"]],
      "ours" => [{}, ["-I", folder]]
    }
    $LOAD_PATH.unshift(folder)
  end

  # `rows`: title => what to take of a round.
  def run(rounds, rows, unit)
    results = @environments.transform_values { [] }
    rounds.times { @environments.each { |name, how| results[name] << one(*how) } }
    puts "| #{unit}, least of #{rounds} runs | #{results.keys.join(" | ")} |", "|---|---|---|"
    rows.each do |title, figure|
      puts "| #{title} | #{results.values.map { |runs| format("%.1f", runs.map(&figure).min) }.join(" | ")} |"
    end
  end

  private

  def one(environment, options)
    @kinds.each_with_object({}) do |kind, all|
      Dir.mktmpdir do |folder|
        file = File.join(folder, "result")
        system(environment, RbConfig.ruby, "-W0", *options, @script, "--program", kind, file, exception: true)
        all.update(@after.call(kind, JSON.parse(File.read(file)), file))
      end
    end
  end
end

# Runs a script's program again and again, each time in a process of its own with our profiler.
class Repetition
  # The script's last line. `program` is called with the arguments of one run and returns what is to be compared;
  # `table` with a Repetition, and prints.
  def self.main(script, runs:, program:, &table)
    if ARGV.first == "--program"
      require "datadog/profiling"
      require "datadog/profiling/pprof_reader"
      Datadog::Profiling.send(:load_profiling)
      puts JSON.generate(program.call(*ARGV.drop(1)))
    else
      abort "usage: #{script} OUR_FOLDER [runs]" unless ARGV.size.between?(1, 2)
      table.call(new(script, File.expand_path(ARGV[0]), Integer(ARGV.fetch(1, runs))))
    end
  end

  attr_reader :runs

  def initialize(script, folder, runs)
    @script = script
    @folder = folder
    @runs = runs
  end

  # What the program returned in each run.
  def results(*arguments)
    Array.new(@runs) do
      out = IO.popen([RbConfig.ruby, "-W0", "-I", @folder, @script, "--program", *arguments], &:read)
      raise "the program ended with #{$?}" unless $?.success?
      JSON.parse(out)
    end
  end
end
