# Profiles itself and a forked child, and says what there was to see. For a Ruby with the profiler linked into it.
require "datadog/profiling"
require "datadog/profiling/pprof_reader"

def busy(seconds)
  finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
  nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
end

def hot_method
  busy(0.5)
end

# Whether a profile of hot_method shows it.
def profiled?
  session = Datadog::Profiling::Session.new
  session.start
  hot_method
  profile = Datadog::Profiling::PprofReader.parse(session.stop.bytes)
  names = profile.fetch(:functions).map { |_id, (name, *)| name }
  profile.fetch(:samples).size > 1 && names.grep(/hot_method/).any?
end

puts "supported: #{Datadog::Profiling.supported?}"
puts "here: #{profiled?}"
reader, writer = IO.pipe
pid = fork do
  reader.close
  writer.print(profiled?)
  writer.close
  exit!(0)
end
writer.close
puts "in a child: #{reader.read}"
Process.wait(pid)
puts "linked: #{$LOADED_FEATURES.grep(/\Adatadog_\w+\.so\z/).sort.join(" ")}"
puts "opened: #{File.read("/proc/self/maps").scan(%r{/[^\n]*datadog_[^\n/]*\.so}).uniq.join(" ")}"
