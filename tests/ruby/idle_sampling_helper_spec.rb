require "spec_helper"

RSpec.describe Datadog::Profiling::Collectors::IdleSamplingHelper do
  subject(:helper) { described_class.new }

  after { helper.stop }

  def thread
    Thread.list.find { |it| it.name == described_class.name }
  end

  def request
    described_class::Testing._native_idle_sampling_helper_request_action(helper)
  end

  describe "start" do
    it "makes one thread with the name of the class, safe for forking servers" do
      expect(helper.start).to be true
      wait_until { thread }
      expect(thread.thread_variable_get(:fork_safe)).to be true
      expect(Thread.list.count { |it| it.name == described_class.name }).to eq(1)
    end

    it "does nothing when it runs already" do
      helper.start
      before = wait_until { thread }
      expect(helper.start).to be_nil
      expect(thread).to be before
    end

    it "starts again after it was stopped" do
      3.times do
        helper.start
        wait_until { thread&.alive? }
        helper.stop
        expect(thread).to be_nil
      end
    end

    it "starts again after its thread was killed" do
      helper.start
      wait_until { thread&.status == "sleep" }.then { thread.kill.join }
      expect(helper.start).to be true
      wait_until { thread&.alive? }
    end
  end

  describe "stop" do
    it "ends the thread at once" do
      helper.start
      running = wait_until { thread }
      before = monotonic
      helper.stop
      expect(running).not_to be_alive
      expect(monotonic - before).to be < 0.5
    end

    it "does nothing when nothing runs" do
      expect { 3.times { helper.stop } }.not_to raise_error
    end

    it "works right after start" do
      50.times do
        helper.start
        helper.stop
        expect(thread).to be_nil
      end
    end
  end

  describe "a request" do
    it "runs on the helper's thread, with the GVL" do
      ran_on = Queue.new
      $idle_sampling_helper_testing_action = -> { ran_on << Thread.current } # rubocop:disable Style/GlobalVars
      helper.start
      wait_until { thread&.status == "sleep" }
      3.times do
        wait_until { request }
        expect(ran_on.pop).to be thread
      end
    end

    it "is dropped while another one is under way" do
      go_on = Queue.new
      runs = 0
      $idle_sampling_helper_testing_action = -> { runs += 1 and go_on.pop } # rubocop:disable Style/GlobalVars
      helper.start
      wait_until { thread&.status == "sleep" }
      wait_until { request }
      wait_until { runs == 1 }
      expect(Array.new(5) { request }).to all(be false)
      go_on << true
      wait_until { request }
      wait_until { runs == 2 }
      go_on << true
    end

    it "is dropped when nothing runs" do
      $idle_sampling_helper_testing_action = -> { raise "nobody shall call this" } # rubocop:disable Style/GlobalVars
      expect(request).to be false
      helper.start
      wait_until { thread }
      helper.stop
      expect(request).to be false
    end

    it "that raises ends the thread without noise, and the helper can be started again" do
      $idle_sampling_helper_testing_action = -> { raise IOError, "on purpose" } # rubocop:disable Style/GlobalVars
      helper.start
      running = wait_until { thread }
      wait_until { running.status == "sleep" }
      wait_until { request }
      expect { running.join }.not_to raise_error
      expect(helper.failure).to be_a(IOError).and have_attributes(message: "on purpose")
      expect(helper.start).to be true
      $idle_sampling_helper_testing_action = -> {} # rubocop:disable Style/GlobalVars
      wait_until { request }
    end
  end

  describe "after a fork" do
    it "can be reset and started in the child" do
      helper.start
      wait_until { thread&.status == "sleep" }
      alive = in_child do
        helper.reset_after_fork
        helper.start
        wait_until { thread&.alive? }
        helper.stop
        thread.nil?
      end
      expect(alive).to be true
      expect(thread).to be_alive
    end

    it "can be started in the child without a reset" do
      helper.start
      wait_until { thread&.status == "sleep" }
      expect(in_child { helper.start && wait_until { thread }&.alive? }).to be true
    end
  end

  it "survives being killed, raised at and woken up" do
    helper.start
    20.times do
      running = wait_until { thread }
      running.wakeup
      running.report_on_exception = false
      running.raise(ArgumentError, "on purpose") if rand(2).zero?
      running.kill
      running.join rescue nil # rubocop:disable Style/RescueModifier
      helper.start
    end
    expect(wait_until { thread }).to be_alive
  end
end
