# frozen_string_literal: true

# Threads that compute, sleep, wait, allocate, keep objects and collect garbage, for so many seconds.
SECONDS = Float(ARGV.fetch(0))
FINISH = Process.clock_gettime(Process::CLOCK_MONOTONIC) + SECONDS

class Kept
  def initialize(number)
    @name = "kept #{number}"
  end
end

class Dropped
end

def over?
  Process.clock_gettime(Process::CLOCK_MONOTONIC) > FINISH
end

def compute
  x = 0
  20_000.times { x += 1 }
end

def doze
  sleep 0.05
end

def allocate
  200.times { Dropped.new }
  sleep 0.001
end

def collect
  GC.start
  sleep 0.3
end

def keep(objects)
  50.times { objects << Kept.new(objects.size) } if objects.size < 20_000
  sleep 0.002
end

def named(name)
  Thread.new do
    Thread.current.name = name
    yield until over?
  end
end

objects = []
queue = Queue.new
threads = [named("computer") { compute }, named("sleeper") { doze }, named("allocator") { allocate },
           named("collector") { collect }, named("keeper") { keep(objects) }]
waiter = Thread.new { queue.pop } # has no name
threads.each(&:join)
queue << :over
waiter.join
puts "kept #{objects.size}"
