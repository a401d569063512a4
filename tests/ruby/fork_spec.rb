require "spec_helper"
require "tmpdir"

RSpec.describe "forks of a profiled process" do
  let(:session) { Datadog::Profiling::Session.new }

  after { session.stop }

  def only_in_parent(seconds)
    burn(seconds)
  end

  def only_in_child(seconds)
    burn(seconds)
  end

  def names(profile)
    profile.samples.flat_map(&:names).uniq
  end

  def own_cpu(profile)
    profile.of_thread(Thread.current).sum(&:cpu)
  end

  it "leave the parent's profile whole, and give the child one of its own" do
    session.start
    only_in_parent(0.2)
    child = in_child do
      restarted = session.reset_after_fork
      only_in_child(0.3)
      raw = session.stop
      used = cpu_time # of the new process's only thread
      profile = decode(raw.bytes)
      main = profile.of_thread(Thread.current)
      { restarted: restarted, names: names(profile), cpu: main.sum(&:cpu), used: used, count: main.sum(&:count), start: raw.start,
        stats: raw.sample_count, ids: profile.samples.map { |it| it.labels["thread id"].to_i }.uniq, pid: Process.pid }
    end
    only_in_parent(0.2)
    raw = session.stop
    parent = decode(raw.bytes)

    expect(child[:restarted]).to be true
    expect(child[:names]).to include("only_in_child")
    expect(child[:names]).not_to include("only_in_parent")
    expect(child[:cpu]).to be_between(240_000_000, child[:used] * 1e9)
    expect(child[:count]).to be >= 20
    expect(child[:start]).to be > raw.start
    expect(child[:ids]).to include(child[:pid])
    expect(child[:ids]).not_to include(Process.pid)

    expect(names(parent)).to include("only_in_parent")
    expect(names(parent)).not_to include("only_in_child")
    expect(own_cpu(parent)).to be > 360_000_000
  end

  it "are harmless when nobody tells the profiler" do
    session.start
    result = in_child do
      burn(0.1)
      [session.stop, session.started?, session.stats.is_a?(Hash), Thread.list.size, GC.start]
    end
    expect(result).to eq([nil, false, true, 1, nil])
    expect(session.stop).to be_a(Datadog::Profiling::Profile)
  end

  it "let a child start a session of its own, whatever the parent's is" do
    session.start
    cpu, names_in_child = in_child do
      profile, = profile_of { only_in_child(0.2) }
      [own_cpu(profile), names(profile)]
    end
    expect(cpu).to be > 140_000_000
    expect(names_in_child).to include("only_in_child")
    expect(names_in_child).not_to include("only_in_parent")
  end

  it "let a child profile whose parent never did" do
    script = <<~'RUBY'
      require "standalone"
      pid = fork do
        profile, = profile_of { burn(0.2) }
        main = profile.of_thread(Thread.current)
        exit!(main.sum(&:cpu) > 140_000_000 && profile.samples.any? { |it| it.labels["thread id"].to_i == Process.pid } ? 42 : 1)
      end
      print Process.wait2(pid).last.exitstatus
    RUBY
    expect(run_ruby!(script)).to eq("42")
  end

  it "may come from a background thread, which is then the child's main thread" do
    session.start
    thread = Thread.new do
      in_child do
        session.reset_after_fork
        only_in_child(0.25)
        profile = decode(session.stop.bytes)
        main = profile.of_thread(Thread.current)
        [main.sum(&:cpu), main.map(&:thread_name).uniq, main.map { |it| it.labels["thread id"].to_i }.uniq == [Process.pid]]
      end
    end
    cpu, main, own_pid = thread.value
    expect(cpu).to be > 180_000_000
    expect(main).to eq(["main"])
    expect(own_pid).to be true
  end

  it "may come from a fiber, and from a block deep in C" do
    session.start
    counts = [
      Fiber.new { in_child { session.reset_after_fork && burn(0.1) || session.stop.sample_count } }.resume,
      [1].map { |_| [1].each_with_object([]) { |_, all| all << in_child { session.reset_after_fork && burn(0.1) || session.stop.sample_count } } }.flatten.first,
    ]
    expect(counts).to all(be > 5)
  end

  it "may be nested" do
    # What the profile has, and what the system has counted since the process began.
    cpu = lambda do
      bytes = session.stop.bytes
      used = cpu_time * 1e9
      [own_cpu(decode(bytes)), used]
    end
    session.start
    levels = in_child(seconds: 50) do
      session.reset_after_fork
      burn(0.05)
      deeper = in_child do
        session.reset_after_fork
        burn(0.05)
        deepest = in_child do
          session.reset_after_fork
          burn(0.15)
          [cpu.call]
        end
        burn(0.1)
        [cpu.call, *deepest]
      end
      burn(0.05)
      [cpu.call, *deeper]
    end
    levels.zip([70_000_000, 100_000_000, 100_000_000]) do |(profiled, used), least|
      expect(profiled).to be_between(least, used)
    end
  end

  it "may be many, in the middle of sampling and of serializing, with children that profile" do
    quick = Datadog::Profiling::Session.new(interval: 0.001)
    quick.start
    stop = false
    others = [Thread.new { Thread.pass while !stop && burn(0.002).nil? }, Thread.new { sleep(0.001) until stop }]
    children = (SOAK ? 500 : 40).times.map do |i|
      in_child(seconds: 20) do
        quick.reset_after_fork
        burn(0.03)
        profile = decode(quick.stop.bytes)
        [profile.samples.flat_map(&:names).include?("of_the_parent"), own_cpu(profile) > 10_000_000]
      end.tap { of_the_parent(0.001) if i.even? }
    end
    expect(children.uniq).to eq([[false, true]])
    expect(quick.stop.failure).to be_nil
  ensure
    stop = true
    others&.each(&:join)
    quick&.stop
  end

  def of_the_parent(seconds)
    burn(seconds)
  end

  it "may be many at once" do
    session.start
    pids = Array.new(8) do
      fork do
        session.reset_after_fork
        burn(0.1)
        profile = decode(session.stop.bytes)
        exit!(own_cpu(profile) > 40_000_000 ? 0 : 1)
      end
    end
    expect(pids.map { |pid| Process.wait2(pid).last.exitstatus }).to all(eq(0))
    expect(session.stop.failure).to be_nil
  end

  it "leave the child able to end in any way" do
    session.start
    ways = {
      -> { exit } => 0, -> { exit(3) } => 3, -> { exit!(4) } => 4, -> { abort } => 1, -> { Process.kill(:TERM, Process.pid) && sleep } => 15,
      -> { exec("true") } => 0, -> { Thread.new { exit(5) }.join } => 5,
    }
    statuses = ways.keys.flat_map do |way|
      [true, false].map do |reset|
        pid = fork do
          $stderr.reopen(File::NULL)
          session.reset_after_fork if reset
          way.call
        end
        status = Process.wait2(pid).last
        status.exitstatus || status.termsig
      end
    end
    expect(statuses).to eq(ways.values.flat_map { |it| [it, it] })
  end

  it "do not disturb programs that the process starts" do
    quick = Datadog::Profiling::Session.new(interval: 0.001)
    quick.start
    30.times do
      expect(system("exit 7")).to be false
      expect($?.exitstatus).to eq(7) # rubocop:disable Style/SpecialGlobalVars
      expect(`printf x`).to eq("x")
      pid = spawn("sleep 0.01")
      expect(Process.wait2(pid).last).to be_success
    end
    expect(quick.stop.failure).to be_nil
  ensure
    quick&.stop
  end

  it "in a long chain cost no memory" do
    skip "AddressSanitizer keeps what is freed" if ENV["NF_EXTENSION_ASAN"]
    links = SOAK ? 300 : 30
    script = <<~'RUBY'
      require "standalone"
      require "fiddle"
      used = Fiddle::Function.new(Fiddle::Handle.new(ARGV[0], Fiddle::RTLD_LAZY)["used"], [], Fiddle::TYPE_LONG)
      measure = -> { [3.times { GC.start }, used.call].last }
      session = Datadog::Profiling::Session.new(interval: 0.002) if ARGV[2] == "profiled"
      queue = Queue.new
      begin_link = lambda do |first|
        # Without a profiler as many threads, as Ruby itself loses something for each thread that a fork leaves behind.
        session ? (first ? session.start : session.reset_after_fork) : 2.times { Thread.new { queue << 1 and sleep } && queue.pop }
      end
      begin_link.call(true) or abort("not started")
      ARGV[1].to_i.times do |i|
        sleep(0.02)
        if (pid = fork)
          session&.stop
          exit!(Process.wait2(pid).last.success? ? 0 : 1)
        end
        begin_link.call(false) or abort("not restarted")
        sleep(0.02)
        if i % 10 == 9
          puts(measure.call)
          $stdout.flush
        end
      end
      exit!(session.nil? || session.stop.sample_count > 2 ? 0 : 1)
    RUBY
    Dir.mktmpdir do |folder|
      library = compile(<<~C, into: folder)
        #include <malloc.h>
        long used(void) { struct mallinfo2 info = mallinfo2(); return info.uordblks + info.hblkhd; }
      C
      # Caches of threads that a fork leaves behind are lost, too: glibc does without them here.
      env = { "GLIBC_TUNABLES" => "glibc.malloc.tcache_count=0" }
      plain, profiled = %w[plain profiled].map do |how|
        bytes = run_ruby!(script, library, links.to_s, how, env: env, seconds: SOAK ? 280 : 28).lines.map { |it| Integer(it) }
        expect(bytes.size).to eq(links / 10)
        (bytes.last - bytes.first) / (links - 10.0)
      end
      expect(plain).to be > 0
      expect(profiled).to be < plain + 300 # bytes for each fork
    end
  end

  it "for one job after another cost the parent no memory" do
    skip "AddressSanitizer keeps what is freed" if ENV["NF_EXTENSION_ASAN"]
    jobs = SOAK ? 2_000 : 120
    script = <<~'RUBY'
      require "standalone"
      session = Datadog::Profiling::Session.new
      session.start
      rss = -> { GC.start || File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i }
      run = lambda do |jobs|
        jobs.times do
          pid = fork do
            session.reset_after_fork
            Array.new(1_000, &:to_s)
            exit!(session.stop.bytes.empty? ? 1 : 0)
          end
          Process.wait2(pid).last.success? or abort("a job failed")
        end
      end
      run.call(20)
      before = rss.call
      run.call(ARGV.first.to_i)
      print rss.call - before
    RUBY
    expect(run_ruby!(script, jobs.to_s, seconds: SOAK ? 500 : 50).to_i).to be < 2_000 + jobs # kB
  end

  it "survive Process.daemon" do
    Dir.mktmpdir do |folder|
      script = <<~'RUBY'
        require "standalone"
        session = Datadog::Profiling::Session.new
        session.start
        Process.daemon(true, true)
        session.reset_after_fork
        burn(0.2)
        profile = decode(session.stop.bytes)
        File.write(ARGV.first + ".part", profile.of_thread(Thread.current).sum(&:cpu).to_s)
        File.rename(ARGV.first + ".part", ARGV.first)
      RUBY
      file = File.join(folder, "cpu")
      run_ruby!(script, file)
      wait_until(seconds: 10) { File.exist?(file) }
      expect(File.read(file).to_i).to be > 140_000_000
    end
  end
end
