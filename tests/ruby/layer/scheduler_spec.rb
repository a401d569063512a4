require "layer_helper"

RSpec.describe Datadog::Profiling::Scheduler do
  let(:exporter) do
    Class.new do
      attr_accessor :pending, :flushes, :resets, :result

      def can_flush?
        pending
      end

      def flush
        self.flushes = flushes.to_i + 1
        result.is_a?(Exception) ? raise(result) : result
      end

      def reset_after_fork
        self.resets = resets.to_i + 1
      end
    end.new.tap { |it| it.result = :a_flush }
  end
  let(:transport) do
    Class.new do
      attr_accessor :behaviour

      def exported
        @exported ||= Queue.new
      end

      def export(flush)
        exported << flush
        behaviour&.call
      end
    end.new
  end

  def scheduler(**options)
    @scheduler = described_class.new(exporter: exporter, transport: transport, **options)
  end

  after { @scheduler&.stop(force: true, timeout: 5) }

  it "waits a minute, unless told otherwise" do
    expect(scheduler.interval).to eq(60)
    expect(scheduler.enabled).to be(true)
    expect(scheduler(interval: 5).interval).to eq(5)
  end

  it "starts one thread, named after it and left alone by Puma, if it is enabled" do
    expect(scheduler(enabled: false).start).to be_nil
    expect(@scheduler.running?).to be(false)
    expect(scheduler.start).to be(true)
    expect(@scheduler.start).to be_nil
    thread = Thread.list.find { |it| it.name == described_class.name }
    expect(thread.thread_variable_get(:fork_safe)).to be(true)
  end

  it "reports nothing before the first interval is over, then again and again" do
    exporter.pending = true
    scheduler(interval: 0.05).start
    3.times { expect(transport.exported.pop).to eq(:a_flush) }
    expect(exporter.flushes).to be >= 3
  end

  it "asks the exporter whether there is something to report" do
    exporter.pending = false
    scheduler.start
    @scheduler.stop
    expect(exporter.flushes).to be_nil
  end

  it "reports once more when it is stopped" do
    exporter.pending = true
    scheduler.start
    expect(@scheduler.stop(timeout: 30)).to be(true)
    expect(transport.exported.size).to eq(1)
    expect(@scheduler.running?).to be(false)
  end

  it "sends nothing if there is no report" do
    exporter.result = nil
    scheduler.perform
    expect(transport.exported).to be_empty
  end

  it "counts the time of a report as part of its interval" do
    expect(scheduler(interval: 10).wait_time).to eq(10)
    transport.behaviour = -> { sleep 0.05 }
    @scheduler.perform
    expect(@scheduler.wait_time).to be_between(0, 9.95)
    @scheduler.instance_variable_set(:@last_duration, 11)
    expect(@scheduler.wait_time).to eq(0)
  end

  it "logs a failure of the transport, and goes on" do
    exporter.pending = true
    transport.behaviour = -> { raise "the wire is cut" }
    scheduler(interval: 0.02).start
    2.times { transport.exported.pop }
    expect(@scheduler.running?).to be(true)
    expect(log.of(:error).first).to include("the wire is cut")
  end

  it "tells of what ends it, once, with the reason" do
    exporter.pending = true
    told = Queue.new
    transport.behaviour = -> { raise NotImplementedError, "worse" }
    scheduler(interval: 0.02).start(on_failure_proc: ->(error) { told << error })
    expect(told.pop.message).to eq("worse")
    wait_until { !@scheduler.running? }
    expect(log.of(:warn)).to contain_exactly(include("worse"))
    @scheduler.stop
  end

  it "ends no program that wants to end with its threads' exceptions" do
    exporter.pending = true
    exporter.result = NotImplementedError.new("worse")
    before = Thread.abort_on_exception
    Thread.abort_on_exception = true
    begin
      scheduler(interval: 0.02).start
      wait_until { !@scheduler.running? }
    ensure
      Thread.abort_on_exception = before
    end
    expect(log.of(:warn)).to contain_exactly(include("worse"))
  end

  it "that the program has killed says so, and still sends the last report" do
    exporter.pending = true
    told = Queue.new
    scheduler.start(on_failure_proc: ->(error) { told << error })
    thread = Thread.list.find { |it| it.name == described_class.name }
    wait_until { thread.status == "sleep" }
    thread.kill.join
    expect(told.pop.message).to include("the program has ended")
    expect(exporter.flushes).to be_nil
    2.times { expect(@scheduler.stop(timeout: 30)).to be(true) }
    expect(exporter.flushes).to eq(1)
    expect(transport.exported.size).to eq(1)
  end

  it "still sends the last report if the program has killed it before it began" do
    exporter.pending = true
    10.times do |i|
      scheduler.start
      @scheduler.instance_variable_get(:@thread).kill.join
      expect(@scheduler.stop(timeout: 30)).to be(true)
      expect(exporter.flushes).to eq(i + 1)
    end
  end

  it "is killed if it does not stop, and says that a report was lost" do
    exporter.pending = true
    transport.behaviour = -> { sleep }
    scheduler(interval: 0.02).start
    transport.exported.pop
    expect(@scheduler.stop(timeout: 0)).to be(false)
    expect(@scheduler.stop(force: true, timeout: 0.05)).to be(true)
    expect(@scheduler.running?).to be(false)
    expect(log.of(:warn)).to include(include("interrupted"))
  end

  it "waits up to 3 s so that not all processes report at once, but only in the loop" do
    naps = []
    scheduler.define_singleton_method(:sleep) { |seconds| naps << seconds }
    @scheduler.perform
    expect(naps).to eq([])
    @scheduler.instance_variable_set(:@thread, Thread.current)
    20.times { @scheduler.perform }
    expect(naps.size).to eq(20)
    expect(naps).to all(be_between(0, 3))
    expect(naps.uniq.size).to be > 10
    @scheduler.instance_variable_set(:@stopping, true)
    @scheduler.perform
    expect(naps.size).to eq(20)
    @scheduler.instance_variable_set(:@thread, nil)
  end

  it "starts again in a forked child" do
    scheduler.start
    answer = in_child do
      running = @scheduler.running?
      @scheduler.reset_after_fork
      result = [running, exporter.resets, @scheduler.start, @scheduler.running?]
      @scheduler.stop
      result
    end
    expect(answer).to eq([false, 1, true, true])
  end
end
