# frozen_string_literal: true

require "helper"
require "tmpdir"

require "support/recorder"

# Our own profiler under `ddprofrb exec`, without the datadog gem: its reports stand up to the same judges.
RSpec.describe "Our profiler under ddprofrb exec" do
  LIMIT = 1500 # seconds; the machine may be busy
  ALL_ON = { "DD_PROFILING_ALLOCATION_ENABLED" => "true", "DD_PROFILING_EXPERIMENTAL_HEAP_ENABLED" => "true",
             "DD_PROFILING_FORCE_ENABLE_GC" => "true" }.freeze

  def version
    File.read("ruby/extension/lib/datadog/profiling/version.rb")[/VERSION = "([^"]+)"/, 1]
  end

  # [outcome, reports]; a last report that a busy machine cut short is tried for again.
  def run(*command, env: {}, unix: nil)
    4.times do
      agent = Agent.new(unix: unix)
      outcome = program(agent.address, *command, env: env)
      reports = agent.reports.map { |it| StrictReport.new(it.raw, host: agent.host, version: version, own: true) }
      return [outcome, reports] if reports.any?
    ensure
      agent&.close
    end
    raise "no report has come"
  end

  def program(url, *command, env: {})
    settings = Program::SETTINGS.merge("DD_TRACE_AGENT_URL" => url)
    Program.new(Recorder.exec_command + command, Installs::CLEAN.merge(settings, env)).outcome(LIMIT)
  end

  def names(reports)
    reports.flat_map { |it| it.pprof.samples.flat_map(&:frames) }.map(&:first).uniq
  end

  it "reports CPU time in the methods that took it" do
    outcome, reports = run("ruby", "cpu_bound.rb", "4")
    expect(outcome.status).to be_success, outcome.to_s
    expect(outcome.stderr).to eq("")
    install = Installs::Install.new("own", Recorder.library, [])
    taken = outcome.stdout.lines.to_h { |line| line.split.then { |name, time| [name, time.to_f] } }
    taken.each do |name, time|
      share, deviation = ProfileView.new(reports, install).share(name)
      expect(share).to be_within((5 * deviation) + 0.01).of(time / taken.values.sum), name
    end
  end

  it "reports threads, garbage collection, allocations and live objects" do
    outcome, reports = run("ruby", "everything.rb", "6", env: ALL_ON)
    expect(outcome.status).to be_success, outcome.to_s
    types = reports.first.pprof.types.map(&:first)
    expect(types).to eq(%w[cpu-time cpu-samples wall-time alloc-samples heap-live-samples heap-live-size timeline])
    view = ProfileView.new(reports, Installs::Install.new("own", Recorder.library, []))
    expect(view.thread_samples.map { |it| it.labels["thread name"] }).to include("main", "sleeper", "keeper")
    expect(view.allocations.map { |it| it.labels["allocation class"] }).to include("Dropped", "Kept")
    expect(view.live.map { |it| it.labels["allocation class"] }).to include("Kept")
    expect(view.gc.map { |it| it.labels["gc cause"] }).to include("GC.start()")
  end

  it "reports from each child that is forked for a job, and through a unix socket" do
    Dir.mktmpdir("nf-", "/tmp") do |folder|
      outcome, reports = run("ruby", "jobs.rb", "3", "2500", "3", unix: File.join(folder, "agent.sock"))
      expect(outcome.stdout).to include("wrong: 0")
      expect(reports.map { |it| it.tags["runtime-id"] }.uniq.size).to eq(reports.map(&:pid).uniq.size)
      expect(names(reports)).to include("work")
      # Of a parent that only waits, nothing of its children's work.
      by_pid = reports.group_by(&:pid)
      expect(by_pid.size).to be > 1
      expect(by_pid.values.count { |it| names(it).include?("work") }).to be >= by_pid.size - 1
    end
  end

  it "sends profiles that the pprof tool itself reads" do
    skip("there is no pprof tool here") unless RealPprof.path

    _, reports = run("ruby", "everything.rb", "3", env: ALL_ON)
    expect(RealPprof.read(StrictLz4.decode(reports.first.pprof_bytes), "-raw")).to include("Samples:")
  end

  it "leaves a program as it is when there is no agent, and says so" do
    free = TCPServer.open("127.0.0.1", 0) { |it| it.addr[1] }
    outcome = program("http://127.0.0.1:#{free}", "ruby", "cpu_bound.rb", "2")
    expect(outcome.status).to be_success
    expect(outcome.stdout.lines.map { |line| line.split.first }).to eq(%w[heavy medium light])
    expect(outcome.stderr).to include("Connection refused")
  end
end
