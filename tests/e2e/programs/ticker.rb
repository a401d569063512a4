# frozen_string_literal: true

# Says what time it is, ten times a second, for so many seconds.
finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + Float(ARGV.fetch(0))
while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
  puts Process.clock_gettime(Process::CLOCK_REALTIME)
  sleep 0.1
end
