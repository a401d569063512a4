require "layer_helper"
require "json"

RSpec.describe Datadog::Profiling::Profiler do
  let(:calls) { [] }

  # Remembers what it was called for.
  def part(name, *answers)
    all = calls
    Class.new do
      answers.each do |method|
        define_method(method) do |*arguments, **options|
          all << [name, method, *arguments, *options.reject { |key, _| key == :on_failure_proc }.to_a.flatten]
          @failed = options[:on_failure_proc] if options.key?(:on_failure_proc)
          true
        end
      end
      define_method(:fail) { |error| @failed.call(error) }
      define_method(:running?) { true }
    end.new
  end

  let(:worker) { part(:worker, :start, :stop, :reset_after_fork, :pause, :wait_until_running) }
  let(:scheduler) { part(:scheduler, :start, :stop, :reset_after_fork, :perform) }
  let(:exporter) { part(:exporter, :note_failure, :can_flush?) }
  let(:profiler) { described_class.new(worker: worker, scheduler: scheduler, exporter: exporter) }

  after { Datadog::Profiling::ExecGuard.worker = Datadog::Profiling::ExecGuard.before_exec = nil }

  let(:started) { [%i[worker start], %i[scheduler start], %i[worker wait_until_running]] }

  it "starts the worker, then the scheduler, and gives the worker time to begin" do
    expect(profiler.start).to be(true)
    expect(calls.map { |it| it.first(2) }).to eq(started)
    expect(profiler.running?).to be(true)
  end

  it "stops the worker, then the scheduler, which has a second for the last report" do
    profiler.start
    calls.clear
    profiler.shutdown!
    expect(calls).to eq([%i[worker stop], [:scheduler, :stop, :force, true, :timeout, 1]])
  end

  it "gives the last report more time where it stays on this machine" do
    described_class.new(worker: worker, scheduler: scheduler, local_output: true).shutdown!
    expect(calls.last).to eq([:scheduler, :stop, :force, true, :timeout, 10])
  end

  it "begins anew in a forked child, whose parent's it does not touch" do
    profiler.start
    answer = in_child do
      calls.clear
      before = profiler.running?
      profiler.shutdown!
      nothing = calls.dup
      profiler.start
      [before, nothing, calls.map { |it| it.first(2) }]
    end
    expect(answer).to eq(
      [false, [], [%i[worker reset_after_fork], %i[scheduler reset_after_fork], *started]]
    )
  end

  it "stops one when the other fails, tells why once, and stays off" do
    profiler.start
    calls.clear
    worker.fail(RuntimeError.new("no clock"))
    scheduler.fail(RuntimeError.new("too"))
    expect(calls).to eq([[:exporter, :note_failure, :worker, "no clock (RuntimeError)"], [:scheduler, :stop, :timeout, 0]])
    expect(log.of(:warn)).to contain_exactly(include("worker").and(include("no clock")))
    expect(profiler.start).to be(false)
  end

  it "stops the worker when reports fail" do
    profiler.start
    calls.clear
    scheduler.fail(IOError.new("x"))
    expect(calls.last).to eq(%i[worker stop])
  end

  it "knows no other parts" do
    expect { profiler.component_failed(:engine) }.to raise_error(ArgumentError, /engine/)
  end

  it "tells in the next report that the worker has died, and the program goes on" do
    Dir.mktmpdir do |folder|
      script = <<~RUBY
        require "datadog/profiling"
        reports = Queue.new
        transport = Object.new
        transport.define_singleton_method(:export) { |flush| reports << flush.internal_metadata_json }
        Datadog.configure do |c|
          c.profiling.enabled = true
          c.profiling.exporter.transport = transport
        end
        worker = Datadog::Profiling::Configuration.profiler.worker
        worker.wait_until_running or abort "not running"
        Datadog::Profiling::Collectors::CpuAndWallTimeWorker::Testing._native_delayed_error(worker, "made to fail")
        print reports.pop
        $stdout.flush
        sleep 0.01 while Datadog::Profiling.enabled?
        exit 3
      RUBY
      outcome = run_ruby(script, seconds: 50)
      expect(outcome.status.exitstatus).to eq(3), outcome.to_s
      failures = JSON.parse(outcome.stdout).fetch("failures")
      expect(failures).to contain_exactly("component" => "worker", "reason" => include("made to fail"))
      expect(outcome.stderr.scan("made to fail").size).to eq(1)
      expect(outcome.stderr.lines.size).to eq(1), folder
    end
  end
end
