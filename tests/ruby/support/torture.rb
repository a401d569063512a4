require "standalone"
require "fiddle"
require "io/wait"
require "socket"
require "timeout"

# For programs that are tortured, see torture_spec.rb: all collectors on at their highest rate, a profile every second as in
# production, and next to the work a thread that would notice calls that a signal cuts short.
class Torture
  class Kept; attr_accessor :data; end

  KEPT = 500

  attr_reader :worker, :rounds

  # `ends`: false, or what the profiler's end must be about (where the program takes what it needs). `objects`: false where
  # objects are not followed to the end. `grows`: by how many kB the work lets Ruby itself grow each round.
  def self.run(seconds, ends: false, objects: true, no_signals: false, grows: 0, &work)
    new(seconds, ends, objects, no_signals, grows).run(&work)
  end

  # How many kB the same work lets Ruby grow each round when it is not profiled.
  def self.alone(seconds, **_options, &work)
    new(seconds, false, true, false, 0).alone(&work)
  end

  def initialize(seconds, ends, objects, no_signals, grows)
    @seconds = seconds
    @ends = ends
    @objects = objects
    @grows = grows
    @recorder = new_recorder(
      alloc_samples_enabled: true, heap_samples_enabled: true, heap_size_enabled: true, timeline_enabled: true
    )
    context = new_thread_context(@recorder, timeline_enabled: true)
    @worker = new_worker(
      recorder: @recorder, context: context, interval: 0.001, gc_profiling_enabled: true, allocation_profiling_enabled: true,
      no_signals_workaround_enabled: no_signals, dynamic_sampling_rate_overhead_target_percentage: 100.0
    )
    @serializing = Mutex.new
    @kept = []
    @rounds = @calls = @samples = @profiles = 0
  end

  def run(&work)
    start(@worker)
    begin_work
    profiles = Thread.new { serialize_now_and_then }
    took = work_until_over(&work)
    profiles.join
    finish(took)
  end

  def alone(&work)
    begin_work
    work_until_over(&work)
    puts((rss - @rss_early).fdiv([@rounds - @rounds_early, 1].max).round(1))
  end

  # Not before everything has had its turn, which can take a while on a busy machine.
  def over?
    now = monotonic
    now > @deadline && ([@rounds, @calls].min >= 2 || now > @deadline + 150)
  end

  def half_over?
    monotonic > @started + @seconds * 0.5
  end

  # Around what forks. AddressSanitizer (of gcc 12) leaves its own locks as they were to children, which then wait for ever if
  # another thread was asking for memory. Here nobody does so at that moment: only who encodes a profile does it beside others.
  # Without it forks meet that, too.
  def while_children_are_born(&forks)
    ENV["NF_EXTENSION_ASAN"] ? @serializing.synchronize(&forks) : forks.call
  end

  # Of a child that goes on profiling.
  def in_new_child
    @worker.reset_after_fork
    start(@worker)
    yield
    @worker.stop
    decode(@recorder.serialize!(codec: :lz4)).samples.size
  end

  private

  def begin_work
    fail_as_one_line
    @started = monotonic
    @deadline = @started + @seconds
  end

  # Returns how many seconds that was.
  def work_until_over
    calls = Thread.new { call_the_system }
    until over?
      keep
      yield self
      @rounds += 1
      note_memory if !@rss_early && monotonic > @started + @seconds * 0.4
    end
    GC.stress = false
    calls.join
    note_memory unless @rss_early
    monotonic - @started
  end

  def note_memory
    @rss_early = rss
    @rounds_early = @rounds
  end

  def fail_as_one_line
    Thread.report_on_exception = false
    Thread.abort_on_exception = false
  end

  # Some objects stay, most go.
  def keep
    20.times do |i|
      @kept << Kept.new
      @kept.last.data = [i.to_s, { i => 1.0 * i }]
    end
    @kept.shift(@kept.size - KEPT) if @kept.size > KEPT
  end

  def serialize_now_and_then
    until over?
      sleep(1)
      @serializing.synchronize { check(@recorder.serialize!(codec: :lz4)) }
    end
  end

  def check(bytes)
    @profiles += 1
    @samples += @recorder.stats.fetch(:samples_in_last_profile)
    @last_bytes = bytes
  end

  # What a program may call, in Ruby and below: none of it may ever end with EINTR, or before its time.
  def call_the_system
    raw_pipe = Fiddle::Function.new(Fiddle::Handle::DEFAULT["pipe"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_INT)
    raw_read = [
      Fiddle::Handle::DEFAULT["read"], [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T], Fiddle::TYPE_SSIZE_T
    ]
    raw_read = begin
      Fiddle::Function.new(*raw_read, need_gvl: true)
    rescue ArgumentError # of Ruby 2.7, which cannot call C with the GVL
      Fiddle::Function.new(*raw_read)
    end
    ends = +"12345678"
    raw_pipe.call(ends)
    raw_reader, raw_writer = ends.unpack("i2") # one that blocks, as Ruby's do not
    buffer = Fiddle.malloc(16)
    reader, writer = IO.pipe
    ours, theirs = UNIXSocket.pair
    until over?
      writer.syswrite("12345678")
      raise "read" unless reader.wait_readable(5) && reader.sysread(8) == "12345678"
      theirs.sendmsg("x" * 8)
      raise "recv" unless ours.recv(8).size == 8
      before = monotonic
      sleep(0.002)
      raise "a sleep of #{monotonic - before} s instead of 0.002" if monotonic - before < 0.002
      # The other end of the pipe is written to by a process of its own, while we hold the GVL in a call of C.
      if (@calls % 50).zero?
        pid = spawn("sleep 0.03; printf 12345678", out: raw_writer)
        got = raw_read.call(raw_reader, buffer, 8)
        raise "read(2) has returned #{got}, errno #{Fiddle.last_error}" unless got == 8
        raise "a child has ended badly: #{$?}" unless Process.wait2(pid).last.success?
      end
      File.open(__FILE__) { |file| file.flock(File::LOCK_SH) && file.read }
      @calls += 1
    end
  rescue Errno::EINTR => e
    abort("EINTR has reached the program: #{e.full_message}")
  rescue SystemCallError, RuntimeError => e
    abort("a call has gone wrong: #{e.full_message}")
  end

  # kB
  def rss
    3.times { GC.start }
    File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i
  end

  def finish(seconds)
    rss_late = rss
    failure = @worker.failure_exception
    abort("the profiler's end: #{failure.inspect}") unless @ends ? failure&.message.to_s.include?(@ends) : failure.nil?
    GC.start
    GC.disable # what lives is what is seen, and what is counted
    check(@recorder.serialize!(codec: :lz4))
    look_into(decode(@last_bytes))
    abort("the tables are not consistent") unless Datadog::Profiling::StackRecorder::Testing._native_check_heap_hashes(@recorder)
    reduced = @worker.incomplete_because
    abort("the objects' end: #{reduced.inspect}") unless @objects == reduced.nil?
    @worker.stop
    stats = @recorder.stats
    abort("#{stats[:refused_samples]} samples were refused: #{stats[:first_refusal]}") if stats[:refused_samples] > 0
    # A collection for each object leaves little time for anything else.
    abort("only #{@samples} samples, #{@rounds} rounds, #{@calls} calls") if @samples < 5 || [@rounds, @calls].min < 2
    growth = rss_late - @rss_early
    puts("survived #{seconds.round(1)} s: #{@rounds} rounds of work, #{@calls} of calls, #{@samples} samples in #{@profiles} profiles, " \
         "memory #{@rss_early / 1024} -> #{rss_late / 1024} MB")
    return if ENV["NF_EXTENSION_ASAN"] # keeps what is freed
    # In a short run much of it is the program itself, which is still growing to its size.
    allowed = (@seconds < 30 ? 100_000 : 20_000) + @rss_early / 10 + 2 * @grows * (@rounds - @rounds_early)
    abort("memory has grown by #{growth} kB, more than #{allowed.round}") if growth > allowed
  end

  def look_into(profile)
    abort("negative values") if profile.samples.any? { |it| it.values.values.any?(&:negative?) }
    abort("no time") unless profile.total("wall-time") > 0 || @ends
    return unless @objects && !@ends
    live = profile.samples.select { |it| it.labels["allocation class"] == "Torture::Kept" }
    seen = live.sum { |it| it.values.fetch("heap-live-samples") }
    there = ObjectSpace.each_object(Kept).count
    # How close that is, heap_spec asks. Here a few samples stand for all: some are seen, and those that are gone are not.
    abort("#{seen} objects seen alive, of #{there}") unless seen.between?(there < KEPT ? 0 : 1, there * 10)
  end
end
