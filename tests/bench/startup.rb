# frozen_string_literal: true

# What it costs to start a program with the datadog gem's profiler on: on our library, and on the original one, in turn.
#
#   ruby tests/bench/startup.rb VENDOR_TREE [PAIRS]     (VENDOR_TREE: bazel build --config=opt //:vendor_tree)
#
# Needs the gems of tests/e2e/fetch_gems. Prints CPU and wall time of the whole process: minima, medians, ratios.

require_relative "../e2e/support/installs"

tree, pairs = ARGV
abort("usage: ruby tests/bench/startup.rb VENDOR_TREE [PAIRS]") unless tree
if (missing = Installs.missing)
  abort(missing)
end

kinds = { "Rust" => Installs.rust, "ours" => Installs.override(tree) }
environment = { "DD_PROFILING_ENABLED" => "true", "DD_TRACE_AGENT_URL" => "http://127.0.0.1:1", "DD_TRACE_ENABLED" => "false",
                "DD_INSTRUMENTATION_TELEMETRY_ENABLED" => "false", "DD_REMOTE_CONFIGURATION_ENABLED" => "false" }
check = "exit(Datadog::Profiling.supported? ? 0 : 1)"
times = Hash.new { |hash, key| hash[key] = [] }
Integer(pairs || 20).times do
  kinds.to_a.shuffle.each do |name, install|
    cpu = Process.times
    wall = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    pid = spawn(install.env.merge(environment), RbConfig.ruby, "-rdatadog/profiling/preload", "-e", check, %i[out err] => File::NULL)
    _, status = Process.wait2(pid)
    abort("the profiler on #{name} does not start") unless status.success?
    now = Process.times
    times[name] << [now.cutime + now.cstime - cpu.cutime - cpu.cstime, Process.clock_gettime(Process::CLOCK_MONOTONIC) - wall]
  end
end

%w[CPU wall].each_with_index do |what, column|
  figures = times.transform_values do |rows|
    values = rows.map { |row| row[column] }.sort
    [values.first, values[values.size / 2]]
  end
  %w[minimum median].each_with_index do |kind, row|
    rust, ours = figures.fetch("Rust")[row], figures.fetch("ours")[row]
    puts format("%-5s %-8s Rust %7.1f ms, ours %7.1f ms, ratio %.3f", what, kind, rust * 1000, ours * 1000, ours / rust)
  end
end
