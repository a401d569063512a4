require "spec_helper"
require "tmpdir"

RSpec.describe "Datadog::Profiling.capabilities" do
  PUBLIC = { "DD_PROFILING_VM_ACCESS" => "public" }.freeze

  def capabilities_of(env)
    Marshal.load(run_ruby!('require "datadog/profiling"; $stdout.binmode; print Marshal.dump(Datadog::Profiling.capabilities)', env: env))
  end

  it "names this Ruby, how it is read, and gives a reason for all that is missing" do
    capabilities = Datadog::Profiling.capabilities
    expect(capabilities).to include(ruby: RUBY_VERSION, supported: true, why_unsupported: nil)
    expect(capabilities.fetch(:why_public).nil?).to eq(capabilities.fetch(:tier) == :private)
    expect(capabilities.fetch(:missing)).to all(satisfy { |what, why| what.is_a?(Symbol) && why.match?(/\w+ \w+/) })
  end

  it "knows what this version of Ruby does not tell" do
    missing = capabilities_of(PUBLIC).fetch(:missing)
    version = Gem::Version.new(RUBY_VERSION)
    since = { other_stacks: "3.3", gvl_owner: "3.2", thread_ids: "3.1", native_methods: "3.0", gvl_waiting: "3.3" }
    expect(since.keys.select { |it| missing.key?(it) }).to eq(since.keys.reject { |it| version >= Gem::Version.new(since[it]) })
    expect(missing).to include(:exact_frames, :native_files, :fiber_contexts)
  end

  it "has the public tier where that is asked for, without a warning" do
    outcome = run_ruby('require "datadog/profiling"; p Datadog::Profiling.capabilities.values_at(:tier, :why_public)', env: PUBLIC)
    expect(outcome.stderr).to eq("")
    expect(outcome.stdout).to match(/\A\[:public, ".*"\]\n\z/)
  end

  it "is nothing where threads share native ones, as they may from Ruby 3.3 on, whatever the environment says later" do
    script = 'ENV["RUBY_MN_THREADS"] = ARGV[0]; require "datadog/profiling"; p Datadog::Profiling.capabilities.values_at(:supported, :why_unsupported)'
    shared, usual = [%w[1 0], %w[0 1]].map { |at_start, later| run_ruby!(script, later, env: { "RUBY_MN_THREADS" => at_start }) }
    expect(usual).to eq("[true, nil]\n")
    if Gem::Version.new(RUBY_VERSION) >= Gem::Version.new("3.3")
      expect(shared).to match(/\A\[false, ".*RUBY_MN_THREADS.*"\]\n\z/)
    else
      expect(shared).to eq(usual)
    end
  end

  it "has the same tier in a process that was forked before the profiler was loaded" do
    loads = 'require "datadog/profiling"; p Datadog::Profiling.capabilities.fetch(:tier)'
    expected = Datadog::Profiling.capabilities.fetch(:tier).inspect
    fork = "Process.wait(fork { #{loads} })"
    forks = [fork, "Thread.new { #{fork} }.join"].map { |script| run_ruby(script) }
    expect(forks.map(&:stdout)).to all(eq("#{expected}\n"))
    expect(forks.map(&:stderr)).to all(eq(""))
  end

  it "has the same tier where the kernel forbids reading like a debugger" do
    Dir.mktmpdir do |folder|
      forbids = compile(<<~C, into: folder, flags: ["-ldl"])
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <errno.h>
        #include <sys/syscall.h>

        long syscall(long number, long a, long b, long c, long d, long e, long f) {
          long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
          if (number != SYS_process_vm_readv) return real(number, a, b, c, d, e, f);
          errno = EPERM;
          return -1;
        }
      C
      script = 'require "datadog/profiling"; p Datadog::Profiling.capabilities.fetch(:tier)'
      outcome = run_ruby(script, env: { "LD_PRELOAD" => forbids })
      expect([outcome.stdout, outcome.stderr]).to eq(["#{Datadog::Profiling.capabilities.fetch(:tier).inspect}\n", ""])
    end
  end

  it "says why there is no profiling at all" do
    script = <<~RUBY
      require "datadog/profiling"
      def (Datadog::Profiling).unsupported_reason; "no reason"; end
      p Datadog::Profiling.capabilities.values_at(:supported, :why_unsupported, :tier, :missing)
    RUBY
    expect(run_ruby!(script)).to eq(%([false, "no reason", nil, {}]\n))
  end

  # Of the threads there are, public functions tell the least.
  describe "by public functions, threads" do
    prelude = <<~'RUBY'
      require "standalone"
      require "support/children"
      include Support::Children
      Thread.report_on_exception = false
      BEFORE = Thread.new { sleep } # before anybody looks
      RECORDER = new_recorder
      CONTEXT = new_thread_context(RECORDER)
      DOORS = CONTEXT.class::Testing

      def sleeper(&first)
        Thread.new { first&.call; sleep }.tap { |it| wait_until { it.stop? } }
      end

      def all_known?
        DOORS._native_thread_list.sort_by(&:object_id) == Thread.list.sort_by(&:object_id)
      end

      def names(thread)
        DOORS._native_sample(CONTEXT, BEFORE)
        serialize(RECORDER).of_thread(thread).map(&:thread_name).uniq
      end
    RUBY

    define_method(:answers) { |script| run_ruby!(prelude + script, env: PUBLIC) }

    it "are known from their first moment to their end, whatever ends them" do
      expect(answers(<<~'RUBY')).to eq([true, 20, true, true, true].inspect)
        results = [all_known?]
        endings = [-> { raise "on purpose" }, -> { Thread.exit }, -> { :result }, -> { Thread.current.kill }]
        threads = Array.new(40) { |i| Thread.new { i.odd? ? endings[i / 2 % 4].call : sleep } }
        wait_until { threads.all?(&:stop?) }
        results << (threads & DOORS._native_thread_list).size << all_known?
        threads.each { |it| it.kill.join rescue nil }
        results << all_known?
        BEFORE.kill.join
        print results << all_known?
      RUBY
    end

    it "are known in a child that any of them has forked" do
      expect(answers(<<~'RUBY')).to eq([[1, 2, true]].*(3).inspect)
        known = lambda do
          in_child { [DOORS._native_thread_list.size, (sleeper; DOORS._native_thread_list.size), all_known?] }
        end
        print [known.call, Thread.new(&known).value, in_child { Thread.new(&known).value }]
      RUBY
    end

    it "have the name that they were given last" do
      expect(answers(<<~'RUBY')).to eq([["its own"], ["another"], true, ["a third"]].inspect)
        named = sleeper { Thread.current.name = "its own" }
        results = [names(named)]
        named.name = "another"
        results << names(named)
        named.name = nil
        results << names(named).first.match?(/\A-e:\d+\z/)
        wait_until { BEFORE.stop? } # on a busy machine it may not even have begun
        BEFORE.name = "a third"
        print results << names(BEFORE)
      RUBY
    end

    it "are let go of when they have ended" do
      expect(Integer(answers(<<~'RUBY'))).to be < 30
        class Result; end
        def leave_results
          100.times do
            Thread.new { Result.new }.join
            sleeper { Thread.current[:result] = Result.new }.kill.join
            Thread.new { Thread.current[:result] = Result.new; raise "on purpose" }.join rescue nil
          end
        end
        leave_results
        2.times { GC.start }
        print ObjectSpace.each_object(Result).count
      RUBY
    end

    it "take no room any more when they have ended" do
      expect(Integer(answers(<<~'RUBY'))).to be < 200_000
        require "objspace"
        # Without Threads, as one that has not been collected yet holds a stack of 1 MiB.
        in_use = -> { 2.times { GC.start } && ObjectSpace.memsize_of_all - ObjectSpace.memsize_of_all(Thread) }
        in_use.call
        before = in_use.call
        20_000.times { Thread.new {}.join }
        print in_use.call - before
      RUBY
    end
  end

  # Time on this thread must arrive with its stack in either tier.
  it "profiles the thread that runs by public functions" do
    script = <<~RUBY
      require "datadog/profiling"
      require "datadog/profiling/pprof_reader"
      require "support/threads"
      include Support::Threads
      session = Datadog::Profiling::Session.new
      session.start
      burn(0.5)
      $stdout.binmode
      print session.stop.bytes
    RUBY
    bytes = run_ruby!(script, env: PUBLIC).b
    burnt = decode(bytes).samples.select { |sample| sample.names.include?("burn") && !sample.overhead? }
    expect(burnt.sum(&:cpu)).to be > 250_000_000
  end
end
