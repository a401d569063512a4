# How much slower does a CPU-bound program get when it is profiled?
#
#   ruby -I bazel-bin/ruby/extension/lib tests/ruby/slowdown.rb [SECONDS] [PAIRS]
#
# Runs the same fixed work (SECONDS long without a profiler, 3 by default) with and without a session, in pairs (5 by default)
# and in turns, each in a process of its own, and prints the median of the pairs. Measured is the wall time of the work, and its
# CPU time, which other programs on the machine disturb less.
require "rbconfig"

WORK = <<~'RUBY'
  require "datadog/profiling"

  def fibonacci(n)
    n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2)
  end

  def words(n)
    Array.new(n) { |i| (i * 7919 % 104_729).to_s(36) }
  end

  def work
    fibonacci(18)
    words(800).group_by { |it| it[0] }.transform_values { |all| all.sort.join(",").hash }
    "some text, again and again; ".then { |text| text.gsub(/[aeiou]/) { |it| it.upcase } }
  end

  rounds = ARGV[0].to_i
  session = Datadog::Profiling::Session.new if ARGV[1] == "with"
  20.times { work }
  clocks = [Process::CLOCK_MONOTONIC, Process::CLOCK_PROCESS_CPUTIME_ID]
  session&.start
  started = clocks.map { |it| Process.clock_gettime(it) }
  rounds.times { work }
  puts clocks.zip(started).map { |clock, start| Process.clock_gettime(clock) - start }.join(" ")
  profile = session&.stop
  abort(profile.failure.message) if profile&.failure
RUBY

LOAD_PATH = $LOAD_PATH.select { |it| File.exist?(File.join(it, "datadog/profiling.rb")) }.flat_map { |it| ["-I", it] }

def run(rounds, how)
  output = IO.popen([RbConfig.ruby, *LOAD_PATH, "-e", WORK, rounds.to_s, how], &:read)
  abort("the work failed") unless $?.success?
  output.split.map(&:to_f)
end

def median(values)
  values.sort[values.size / 2]
end

seconds = (ARGV[0] || 3).to_f
pairs = (ARGV[1] || 5).to_i
abort("usage: slowdown.rb [SECONDS] [PAIRS]") unless seconds.positive? && pairs.positive?

rounds = (100 * seconds / run(100, "without").first).ceil
puts "#{rounds} rounds of work, #{pairs} pairs"
percentages = Array.new(pairs) do |i|
  order = i.even? ? %w[without with] : %w[with without]
  times = order.to_h { |how| [how, run(rounds, how)] }
  times["with"].zip(times["without"]).map { |with, without| 100 * (with / without - 1) }.tap do |wall, cpu|
    puts format("without %.3f s, with %.3f s: %+.2f %% wall time, %+.2f %% CPU time", times["without"][0], times["with"][0], wall, cpu)
  end
end
puts format("median: %+.2f %% wall time, %+.2f %% CPU time", *percentages.transpose.map { |it| median(it) })
