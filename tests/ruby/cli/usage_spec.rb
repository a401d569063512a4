require "cli_helper"

RSpec.describe "ddprofrb" do
  def refused(*arguments, status:, message:, **options)
    outcome = ddprofrb(*arguments, **options)
    expect(outcome.stderr).to match(/\Addprofrb: .*#{message.is_a?(Regexp) ? message.source : Regexp.escape(message)}.*\n\z/)
    expect(outcome.stdout).to eq("")
    expect(outcome.exit_status).to eq(status)
  end

  it "refuses a missing or an unknown command" do
    refused(status: 2, message: "no command")
    refused("recrod", "ls", status: 2, message: %(unknown command "recrod"))
    refused("--bogus", status: 2, message: "--bogus")
    refused("", status: 2, message: "unknown command")
    refused("help", "bogus", status: 2, message: "bogus")
  end

  it "refuses commands that lack something" do
    refused("record", status: 2, message: "needs a command")
    refused("record", "--", status: 2, message: "needs a command")
    refused("record", "-o", status: 2, message: "-o")
    refused("record", "-o", "", "true", status: 2, message: "empty")
    refused("exec", status: 2, message: "needs a command")
    refused("report", status: 2, message: "needs a file")
  end

  it "refuses unknown options and wrong values" do
    refused("record", "--bogus", "true", status: 2, message: "--bogus")
    refused("record", "-x", "true", status: 2, message: "-x")
    refused("record", "--quiet=yes", "true", status: 2, message: "--quiet")
    %w[0 1001 -1 ten 1e9 NaN].each { |it| refused("record", "--interval", it, "true", status: 2, message: "--interval") }
    refused("record", "--max-frames", "4", "true", status: 2, message: "--max-frames")
    refused("report", "--limit", "many", "x", status: 2, message: "--limit")
    refused("exec", "--bogus", "true", status: 2, message: "--bogus")
    expect(files).to eq([])
  end

  it "helps" do
    overview = ddprofrb("help")
    expect(overview.exit_status).to eq(0)
    expect(overview.stderr).to eq("")
    expect(overview.stdout).to include("record", "report", "exec", "help")
    expect(ddprofrb("--help").stdout).to eq(overview.stdout)
    expect(ddprofrb("-h").stdout).to eq(overview.stdout)
    %w[record report exec help].each do |command|
      help = ddprofrb(command, "--help")
      expect([command, help.exit_status, help.stderr]).to eq([command, 0, ""])
      expect(help.stdout).not_to be_empty
      expect(ddprofrb("help", command).stdout).to eq(help.stdout)
    end
    expect(ddprofrb("record", "--help").stdout).to include("--output", "--quiet", "Exit status")
  end

  it "knows its version" do
    expect(ddprofrb("--version").stdout).to match(/\Addprofrb \d+\.\d+\.\d+\n\z/)
  end

  it "says that a command does not exist, or cannot be run" do
    %w[record exec].each do |way|
      refused(way, "no-such-program", status: 127, message: "no-such-program: command not found")
      refused(way, "./no-such-program", status: 127, message: "./no-such-program")
      refused(way, "", status: 127, message: "command not found")
      refused(way, "./", status: 126, message: "Permission denied")
      File.write(in_folder("plain"), "#!/bin/sh\n")
      refused(way, "./plain", status: 126, message: "Permission denied")
    end
    expect(files).to eq(["plain"])
  end

  it "leaves options of the command alone" do
    outcome = ddprofrb("record", "-q", "echo", "-o", "--help", "--", "-q")
    expect(outcome.stdout).to eq("-o --help -- -q\n")
    expect(ddprofrb("record", "-q", "--", "echo", "-n", "a b", "").stdout).to eq("a b ")
    expect(ddprofrb("exec", "--", "printf", "%s", "--help").stdout).to eq("--help")
  end

  it "never takes a command for a shell's" do
    expect(ddprofrb("record", "-q", "echo a; echo b").exit_status).to eq(127)
    expect(ddprofrb("record", "-q", "echo", "$HOME", "*").stdout).to eq("$HOME *\n")
  end

  it "records allocations, live objects, garbage collection and times, if asked" do
    script = 'KEPT = Array.new(30_000) { "x" * 50 }; 3.times { GC.start }; sleep 0.2'
    outcome = ddprofrb("record", "--alloc", "--heap", "--gc", "--timeline", "-o", "all.pb.gz", "ruby", "-e", script)
    expect(outcome.exit_status).to eq(0), outcome.inspect
    all = profile("all.pb.gz")
    followed = !Datadog::Profiling.capabilities[:missing].key?(:heap)
    live = followed ? %w[heap-live-samples heap-live-size] : []
    expect(all.types.map(&:first)).to contain_exactly("cpu-time", "cpu-samples", "wall-time", "alloc-samples", "timeline", *live)
    expect(outcome.stderr).to include("live objects cannot be followed") unless followed
    # Two Strings each time, of which one lives on; what Ruby itself has made is little beside them.
    expect(all.total("alloc-samples")).to be_within(0.2 * 60_000).of(60_000)
    expect(all.total("heap-live-samples")).to be_within(0.2 * 30_000).of(30_000) if followed
    expect(all.samples.map { |it| it.labels["event"] }).to include("gc")
    expect(all.samples.map { |it| it.labels.key?("end_timestamp_ns") }).to include(true)
    expect(ddprofrb("record", "-q", "-o", "plain.pb.gz", "ruby", "-e", "1").exit_status).to eq(0)
    expect(profile("plain.pb.gz").types.map(&:first)).to contain_exactly("cpu-time", "cpu-samples", "wall-time")
  end

  it "records a program with Ractors, whatever is asked for, and says what its Ruby does not bear", :ractors do
    script = "def take(it); it.respond_to?(:value) ? it.value : it.take; end; " \
             "sleep 0.1; p 20.times.map { |i| take(Ractor.new(i) { |n| Array.new(n) { Object.new }.size }) }.sum; GC.start"
    outcome = ddprofrb("record", "--alloc", "--heap", "--gc", "--timeline", "-o", "all.pb.gz", "ruby", "-W0", "-e", script)
    expect([outcome.stdout, outcome.exit_status]).to eq(["190\n", 0]), outcome.inspect
    incomplete = outcome.stderr.lines.grep(/is not complete: .*bugs\.ruby-lang\.org/)
    expect(incomplete.size).to eq(Datadog::Profiling::RubyRules.ractors_survive_tracepoints? ? 0 : 1)
    expect(profile("all.pb.gz").total("wall-time")).to be > 50_000_000
  end

  it "execs with the profiler loaded, after what the user has in the environment" do
    outcome = ddprofrb("exec", "ruby", "-e", "puts ENV['RUBYOPT'], ENV['RUBYLIB'], $PROGRAM_NAME", env: { "RUBYOPT" => "-W0", "RUBYLIB" => "/mine" })
    rubyopt, rubylib, = outcome.stdout.lines(chomp: true)
    expect(rubyopt).to eq("-W0 -rdatadog/profiling/preload")
    expect(rubylib).to end_with(":/mine")
    expect(files).to eq([])
  end

  # Less than the turn that Ruby gives a busy thread before another one may run.
  it "sees a program that is busy from its first instant, and soon over" do
    expect(ddprofrb("exec", "ruby", "-e", busy("short", 0.08), env: { "DD_PROFILING_ENABLED" => "true" }).exit_status).to eq(0)
    expect(names_in("profiles/#{Dir.children(in_folder("profiles")).first}")).to include("short")
  end

  it "execs and profiles when the environment says so" do
    script = "#{busy("exec_busy")} fork { #{busy("child_busy")} }; Process.wait; exit 5"
    outcome = ddprofrb("exec", "ruby", "-e", script, env: { "DD_PROFILING_ENABLED" => "true" })
    expect(outcome.exit_status).to eq(5)
    expect(outcome.stderr).to eq("")
    profiles = Dir.children(in_folder("profiles"))
    expect(profiles.size).to eq(2)
    expect(profiles).to all(match(/\Aprofile\.\d{8}T\d{6}Z\.\d+\.pb\.gz\z/))
    expect(profiles.map { |it| names_in("profiles/#{it}") & %w[exec_busy child_busy] })
      .to contain_exactly(["exec_busy"], ["child_busy"])
    expect(ddprofrb("exec", "ruby", "-e", "exit 6", env: { "DD_PROFILING_ENABLED" => "false" }).exit_status).to eq(6)
    expect(Dir.children(in_folder("profiles")).size).to eq(2)
  end
end
