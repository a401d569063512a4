# Threads that wait for jobs, compute, and sleep, and a forked child that does some of the work: what a
# profile shows of them differs by sample type (cpu-time: who computes; wall-time: who waits, too).

require "digest/sha2" # not by its autoload, which threads cannot share

def check_sum(text)
  400.times { text = Digest::SHA256.hexdigest(text) }
  text
end

def count_words(text)
  text.scan(/\w+/).tally.max_by(&:last)
end

def work_off(jobs, results)
  while (job = jobs.pop)
    results << (job.odd? ? check_sum("job #{job}") : count_words("to be or not to be #{job} " * 200))
  end
end

def pause_now_and_then(stop)
  sleep 0.05 until stop.closed?
end

def run(count)
  jobs = Queue.new
  results = Queue.new
  stop = Queue.new
  workers = Array.new(3) do |i|
    Thread.new do
      Thread.current.name = "worker #{i}"
      work_off(jobs, results)
    end
  end
  pauses = Thread.new { pause_now_and_then(stop) }
  pauses.name = "pauses"
  count.times { |job| jobs << job }
  jobs.close
  workers.each(&:join)
  stop.close
  pauses.join
  results.size
end

child = fork { exit!(run(1_000) == 1_000 ? 0 : 1) }
done = run(2_000)
_, status = Process.wait2(child)
puts "#{done} jobs done here, #{status.success? ? "all" : "not all"} of the child's"
