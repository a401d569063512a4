# frozen_string_literal: true

# Three methods that take CPU time one after the other, in turns; prints how much each has taken, in nanoseconds.
SECONDS = Float(ARGV.fetch(0))
RANDOM = Random.new(7) # turns of one length would be in step with the sampler

def now
  Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)
end

def spin(nanoseconds)
  finish = now + nanoseconds
  x = 0
  x += 1 while now < finish
  x
end

def some(nanoseconds)
  RANDOM.rand(nanoseconds / 2..nanoseconds * 3 / 2)
end

def heavy
  spin(some(6_000_000))
end

def medium
  [1].each { spin(some(3_000_000)) }
end

def light
  spin(some(1_000_000))
end

def turn(taken)
  %i[heavy medium light].each do |name|
    start = now
    send(name)
    taken[name] += now - start
  end
end

taken = Hash.new(0)
start = now
turn(taken) while now - start < SECONDS * 1e9
puts taken.map { |name, nanoseconds| "#{name} #{nanoseconds}" }
