require "cli_helper"

RSpec.describe "ddprofrb record" do
  def record(*command, options: ["-o", "p.pb.gz"], **others)
    ddprofrb("record", *options, "--", *command, **others)
  end

  def record_ruby(script, **options)
    record("ruby", "-e", script, **options)
  end

  it "writes a profile and says so in one line" do
    outcome = record_ruby("#{busy("hot", 0.3)} print 1")
    expect(outcome.stdout).to eq("1")
    expect(outcome.exit_status).to eq(0)
    expect(outcome.stderr).to match(/\Addprofrb: 1 file, \d+ samples, 1 thread, \d+\.\d s; next: \S+ report p\.pb\.gz\n\z/)
    expect(files).to eq(["p.pb.gz"])
    own = profile("p.pb.gz").samples.select { |it| it.thread_name == "main" }
    hot = own.select { |it| it.names.include?("hot") }.sum(&:cpu)
    expect(hot).to be_between(220_000_000, 400_000_000)
  end

  it "profiles every process, each in a file of its own" do
    script = <<~RUBY
      #{busy("parent")}
      fork { #{busy("forked")} }
      fork { #{busy("hard_exit")} exit!(3) }
      IO.popen("-") { |io| io || (#{busy("popened")} 1) }
      system("ruby", "-e", #{busy("system_ruby").inspect})
      Process.wait spawn("ruby", "-e", #{busy("spawned").inspect})
      fork { fork { #{busy("nested")} }; Process.wait }
      Process.waitall
    RUBY
    outcome = record_ruby(script)
    expect(outcome.stderr).to match(/\Addprofrb: 8 files, /)
    expect(files.size).to eq(8)
    expect(names_in("p.pb.gz")).to include("parent")
    marks = %w[parent forked hard_exit popened system_ruby spawned nested]
    found = files.map { |it| names_in(it) & marks }
    expect(found.flatten).to match_array(marks) # each in one file only: no child has its parent's samples
    expect(files - ["p.pb.gz"]).to all(match(/\Ap\.\d+\.pb\.gz\z/))
  end

  it "gives FILE to what a process is at last, and keeps what it was" do
    outcome = record_ruby("#{busy("before")} exec('ruby', '-e', #{busy("after").inspect} + 'exit 4')")
    expect(outcome.exit_status).to eq(4)
    expect(files.size).to eq(2)
    expect(names_in("p.pb.gz")).to include("after")
    expect(names_in((files - ["p.pb.gz"]).first)).to include("before")
    FileUtils.rm(files.map { |it| in_folder(it) })

    expect(record_ruby("#{busy("before")} exec('true')").exit_status).to eq(0)
    expect(files).to eq(["p.pb.gz"])
    expect(names_in("p.pb.gz")).to include("before")
  end

  it "goes on when an exec fails, and changes nothing about its error" do
    script = "begin; exec 'no-such-program'; rescue SystemCallError => e; p e, e.backtrace; end; #{busy("afterwards")}"
    outcome = record_ruby(script)
    expect(outcome.stdout).to eq(run_program("ruby", "-e", script).stdout)
    expect(files.flat_map { |it| names_in(it) }).to include("afterwards")
    expect(record_ruby("exec 'no-such-program'").stderr.lines.first).to eq(run_program("ruby", "-e", "exec 'no-such-program'").stderr.lines.first)
  end

  {
    "exit" => "exit 3", "exit!" => "exit!(3)", "abort" => "abort 'bye'", "an exception" => "raise 'no'",
    "exit in at_exit" => "at_exit { exit 9 }", "exit! in at_exit" => "at_exit { exit! 9 }", "exit in a thread" => "Thread.new { exit 5 }.join",
    "throw" => "throw :x", "a trap that exits" => "trap(:USR1) { exit 6 }; Process.kill(:USR1, $$); sleep",
    "a trap that ends hard" => "trap(:USR1) { exit! 6 }; Process.kill(:USR1, $$); sleep",
    "a trap that execs" => "trap(:USR1) { exec 'sh', '-c', 'exit 8' }; Process.kill(:USR1, $$); sleep",
    "a trap that forks" => "trap(:USR1) { Process.wait(fork { exit! 1 }); exit 7 }; Process.kill(:USR1, $$); sleep",
    "threads left" => "3.times { Thread.new { begin; sleep; ensure; $stderr.puts :ensured; end } }; sleep 0.1",
    "closed streams" => "$stdout.close; $stderr.close; exit 2",
  }.each do |name, script|
    it "changes nothing about the end by #{name}, and has the profile" do
      without = run_program("ruby", "-e", script)
      outcome = record_ruby(script, options: ["-q", "-o", "p.pb.gz"])
      expect([outcome.stdout, outcome.stderr, outcome.exit_status]).to eq([without.stdout, without.stderr, without.exit_status])
      expect(files).to include("p.pb.gz")
      expect(profile("p.pb.gz").samples).not_to be_empty
    end
  end

  it "has the time of other at_exit handlers" do
    record_ruby("at_exit { #{busy("late_work")} }")
    expect(names_in("p.pb.gz")).to include("late_work")
  end

  it "runs programs that are not Ruby, and says that there is no profile" do
    outcome = record("sh", "-c", "cat; exit 4", stdin: "in")
    expect(outcome.stdout).to eq("in")
    expect(outcome.exit_status).to eq(4)
    expect(outcome.stderr).to match(/\Addprofrb: no profile, because no Ruby process was profiled\n\z/)
    expect(files).to eq([])
  end

  it "profiles Ruby below a shell, and scripts that are programs" do
    File.write(in_folder("x.rb"), "#!/usr/bin/env ruby\n#{busy("script")}\n")
    File.chmod(0o755, in_folder("x.rb"))
    record("./x.rb")
    expect(names_in("p.pb.gz")).to include("script")
    record("sh", "-c", "cd / && ruby -e #{"'#{busy("shell")}'"}; exit 7")
    expect(names_in("p.pb.gz")).to include("shell")
  end

  it "is silent with -q" do
    expect(record_ruby("1", options: ["-q"]).stderr).to eq("")
    expect(files).to eq(["profile.pb.gz"])
    expect(record_ruby("1", options: ["--quiet", "--output=x.pprof"]).stderr).to eq("")
    expect(record("true", options: ["-q"]).stderr).to eq("")
    expect(files).to eq(["profile.pb.gz", "x.pprof"])
  end

  it "says that a killed process has left nothing" do
    outcome = record_ruby("Process.kill(:KILL, Process.pid); sleep")
    expect(outcome.exit_status).to eq(137)
    expect(outcome.stderr).to include("no profile", "killed")
    expect(files).to eq([])
  end

  it "profiles a daemon, and says that it goes on" do
    outcome = record_ruby("Process.daemon(true); #{busy("daemon_work")}")
    expect(outcome.stderr).to match(/still running, will write p\./)
    wait_until(seconds: 20, message: "the daemon's profile") { files.grep(/\Ap\.\d+\.pb\.gz\z/).any? }
    expect(names_in(files.grep(/\Ap\.\d+/).first)).to include("daemon_work")
  end

  it "records itself" do
    outcome = record(CLIHelper.program, "record", "-q", "-o", "inner.pb.gz", "ruby", "-e", "#{busy("inner")} exit 3")
    expect(outcome.exit_status).to eq(3)
    expect(files).to eq(["inner.pb.gz", "p.pb.gz"])
    expect(names_in("inner.pb.gz")).to include("inner")
    expect(names_in("p.pb.gz")).not_to include("inner")
  end

  it "leaves the program's world as it was" do
    script = "p $LOAD_PATH.grep(/extension/), $!, $?, $PROGRAM_NAME, ARGV, __FILE__; srand(1); p rand, Dir.pwd; p Dir.children('/proc/self/fd').size"
    without = run_program("ruby", "-e", script).stdout
    expect(record_ruby(script).stdout).to eq(without)
  end

  it "bears any encodings, warnings and frozen literals" do
    script = "Encoding.default_external = 'UTF-8'; Encoding.default_internal = 'UTF-16LE'; fork { exit! }; Process.wait; exec 'ruby', '-w', '-e', 'exit 0'"
    [{}, { "LANG" => "C", "LC_ALL" => "C" }, { "RUBYOPT" => "-w --enable=frozen-string-literal" }].each do |env|
      outcome = record_ruby(script, env: env, options: ["-o", "ü.pb.gz"])
      expect(outcome.stderr.lines.grep_v(/\A-e:1: warning: setting Encoding/)).to match([/\Addprofrb: 3 files, .* report ü\.pb\.gz\n\z/])
    end
    expect(files.size).to eq(7)
    files.each { |it| profile(it) }
  end

  it "works without RubyGems, and says when Ruby was told to ignore it" do
    expect(record("ruby", "--disable-gems", "-e", "1").stderr).to start_with("ddprofrb: 1 file")
    expect(record("ruby", "--disable=rubyopt", "-e", "1").stderr).to include("no Ruby process was profiled")
  end

  it "lets the program run when it cannot be profiled, and says why in one line" do
    checkout = in_folder("broken")
    program = CLIHelper.make_checkout(checkout)
    Dir[File.join(checkout, "bazel-bin/ruby/extension/lib/datadog_profiling_native_extension.*")].each { |it| File.write(it, "broken") }
    outcome = record("ruby", "-e", "fork { exit! }; Process.wait; exec 'ruby', '-e', 'puts 1; exit 3'", program: program, options: ["-q"])
    expect(outcome.stdout).to eq("1\n")
    expect(outcome.exit_status).to eq(3)
    expect(outcome.stderr).to match(/\Addprofrb: process \d+ is not profiled: [^\n]+\n\z/)
  end

  it "keeps what there is when the program ends our threads, and says so" do
    others = "ObjectSpace.each_object(Thread) { |it| %s unless it == Thread.current }; sleep 0.2; exit 3"
    ["it.kill", "it.raise('no')"].each do |attack|
      outcome = record_ruby("#{busy("before", 0.3)} $stderr.reopen(File::NULL); #{format(others, attack)}")
      expect(outcome.exit_status).to eq(3)
      expect(outcome.stderr).to match(/\Addprofrb: the profile of process \d+ is not complete: [^\n]+\nddprofrb: 1 file, /)
      expect(names_in("p.pb.gz")).to include("before")
    end
  end

  it "stays away from a program with the datadog gem's profiler, and says so" do
    File.write(in_folder("theirs.rb"), "module Datadog; module VERSION; STRING = '2.0'; end; end")
    outcome = record_ruby("p Datadog::VERSION::STRING", env: { "RUBYLIB" => folder, "RUBYOPT" => "-rtheirs" })
    expect(outcome.stdout).to eq(%("2.0"\n))
    expect(outcome.stderr.lines.first).to match(/not profiled: the profiler of the gem datadog is in the same program/)
    expect(files).to eq(["theirs.rb"])
  end
end
