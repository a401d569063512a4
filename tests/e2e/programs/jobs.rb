# frozen_string_literal: true

# Takes jobs from a list and forks for each, as Resque does; so many at a time. Prints what came of each job and, at the
# end, the memory of the parent when an eighth of the jobs were done and when all were.
JOBS, MILLISECONDS, AT_ONCE = ARGV.map { |it| Integer(it) }

def work(milliseconds)
  finish = Process.clock_gettime(Process::CLOCK_MONOTONIC, :millisecond) + milliseconds
  sum = 0
  while Process.clock_gettime(Process::CLOCK_MONOTONIC, :millisecond) < finish
    sum += (1..50_000).sum { |it| it % 7 }
    sleep([milliseconds / 1000.0, 0.05].min)
  end
  sum
end

def memory
  File.read("/proc/self/status")[/^VmRSS:\s+(\d+)/, 1].to_i
end

def wait_for_one(running, results)
  pid, status = Process.wait2
  results << [running.delete(pid), status.exitstatus]
end

def fetch_jobs(count)
  running = {}
  results = []
  early = nil
  count.times do |job|
    wait_for_one(running, results) if running.size == AT_ONCE
    pid = fork do
      work(MILLISECONDS)
      exit(job % 3)
    end
    running[pid] = job
    early = memory if job == [count / 8, 1].max
  end
  wait_for_one(running, results) until running.empty?
  [results, early]
end

results, early = fetch_jobs(JOBS)
results.sort.each { |job, status| puts "job #{job}: #{status}" } if JOBS < 100
puts "wrong: #{results.count { |job, status| status != job % 3 }}"
puts "memory #{early} #{memory}"
