require "cli_helper"
require "pty"

RSpec.describe "signals to ddprofrb record" do
  # A command that tells which signals it gets, and ends with 7 when it is told to.
  TELLER = <<~'RUBY'.freeze
    %w[INT QUIT TERM HUP USR1 USR2 ALRM WINCH].each { |name| trap(name) { $stderr.syswrite("got #{name}\n") } }
    $stderr.syswrite("ready #{Process.pid}\n")
    sleep 0.02 until File.exist?("stop")
    exit 7
  RUBY

  def start(script, *options, prefix: [], **spawn_options)
    reader, writer = IO.pipe
    pid = spawn(CLIHelper::CLEAN, *prefix, CLIHelper.program, "record", "-q", *options, "ruby", "-e", script,
                out: writer, err: writer, chdir: folder, **spawn_options)
    writer.close
    [pid, reader]
  end

  def read_until(reader, pattern, into: +"")
    Timeout.timeout(20) { into << reader.readpartial(4096) until into.match?(pattern) }
    into
  rescue Timeout::Error
    raise "#{pattern.inspect} did not come, only #{into.inspect}"
  end

  def status_of(pid)
    Timeout.timeout(20) { Process.wait2(pid).last }
  end

  def state_of(pid)
    File.read("/proc/#{pid}/stat")[/\)\s+(\S)/, 1]
  end

  it "reach the command, once each" do
    pid, output = start(TELLER)
    text = read_until(output, /ready/)
    %w[INT QUIT TERM HUP USR1 USR2 ALRM WINCH].each do |name|
      Process.kill(name, pid)
      read_until(output, /got #{name}/, into: text)
    end
    File.write(in_folder("stop"), "")
    expect(status_of(pid).exitstatus).to eq(7)
    expect(text.scan(/got (\w+)/).flatten).to eq(%w[INT QUIT TERM HUP USR1 USR2 ALRM WINCH])
  end

  %w[TERM INT HUP USR1 USR2 ALRM].each do |name|
    it "end it like the command: #{name}" do
      pid, output = start("$stderr.reopen(File::NULL); $stdout.syswrite('ready'); sleep")
      read_until(output, /ready/)
      Process.kill(name, pid)
      expect(status_of(pid).termsig).to eq(Signal.list.fetch(name))
      profile("profile.pb.gz")
    end
  end

  it "end it like the command: KILL, and signals that Ruby does not handle" do
    %w[KILL QUIT XCPU].each do |name|
      pid, = start("Process.kill(:#{name}, $$); sleep")
      expect(status_of(pid).termsig).to eq(Signal.list.fetch(name))
    end
    expect(Dir.glob("core*", base: folder)).to eq([])
  end

  it "may come again while the profile is written" do
    pid, output = start("$stdout.syswrite('ready'); $stderr.reopen(File::NULL); x = 0; loop { x += 1 }")
    read_until(output, /ready/)
    6.times do
      Process.kill(:TERM, pid)
      sleep 0.01
    end
    expect(status_of(pid).termsig).to eq(15)
    profile("profile.pb.gz")
    expect(files).to eq(["profile.pb.gz"])
  end

  it "may go to the whole group" do
    pid, output = start("at_exit { $stdout.syswrite('bye') }; $stdout.syswrite('ready'); sleep", pgroup: true)
    read_until(output, /ready/)
    Process.kill(:TERM, -pid)
    expect(status_of(pid).termsig).to eq(15)
    expect(output.read).to include("bye")
    profile("profile.pb.gz")
  end

  it "that are ignored stay ignored" do
    pid, output = start("$stdout.syswrite('ready'); $stdout.syswrite(trap(:HUP, 'IGNORE')); sleep 0.02 until File.exist?('stop'); exit 7", prefix: ["nohup"])
    read_until(output, /readyIGNORE/)
    Process.kill(:HUP, pid)
    sleep 0.2
    File.write(in_folder("stop"), "")
    expect(status_of(pid).exitstatus).to eq(7)
  end

  it "leave the command's own signal settings as without us" do
    command = ["grep", "-E", "Sig(Ign|Blk|Cgt)", "/proc/self/status"]
    expect(ddprofrb("record", "-q", *command).stdout).to eq(run_program(*command).stdout)
  end

  it "stop and continue both" do
    pid, output = start(TELLER)
    command = read_until(output, /ready \d+\n/)[/\d+/].to_i
    Process.kill(:TSTP, command)
    wait_until(seconds: 10) { state_of(command) == "T" && state_of(pid) == "T" }
    Process.kill(:CONT, pid)
    wait_until(seconds: 10) { state_of(command) != "T" && state_of(pid) != "T" }
    File.write(in_folder("stop"), "")
    expect(status_of(pid).exitstatus).to eq(7)
  end

  it "stop and continue both when they go to the command alone" do
    pid, output = start(TELLER)
    command = read_until(output, /ready \d+\n/)[/\d+/].to_i
    %w[STOP TSTP].each do |name|
      Process.kill(name, command)
      wait_until(seconds: 10) { state_of(command) == "T" && state_of(pid) == "T" }
      Process.kill(:CONT, command)
      wait_until(seconds: 10) { state_of(command) != "T" && state_of(pid) != "T" }
    end
    wait_until(seconds: 10) { File.read("/proc/#{pid}/task/#{pid}/children").split.map(&:to_i) == [command] }
    File.write(in_folder("stop"), "")
    expect(status_of(pid).exitstatus).to eq(7)
  end

  describe "of a terminal" do
    # ddprofrb in a terminal, as a shell would start it.
    def in_terminal(*command)
      PTY.spawn(CLIHelper::CLEAN, *command, chdir: folder) { |output, input, pid| yield output, input, pid }
    end

    it "are not doubled" do
      in_terminal(CLIHelper.program, "record", "-q", "ruby", "-e", TELLER) do |output, input, pid|
        text = read_until(output, /ready/)
        input.write("\x03")
        read_until(output, /got INT/, into: text)
        input.write("\x1C")
        read_until(output, /got QUIT/, into: text)
        sleep 0.3
        Process.kill(:USR1, pid)
        read_until(output, /got USR1/, into: text)
        File.write(in_folder("stop"), "")
        expect(status_of(pid).exitstatus).to eq(7)
        expect(text.scan(/got (\w+)/).flatten).to eq(%w[INT QUIT USR1])
      end
    end

    it "end the command" do
      in_terminal(CLIHelper.program, "record", "-q", "ruby", "-e", "$stderr.reopen(File::NULL); puts :ready; sleep") do |output, input, pid|
        read_until(output, /ready/)
        input.write("\x03")
        expect(status_of(pid).termsig).to eq(2)
      end
      profile("profile.pb.gz")
    end

    it "stop and continue a job of a shell" do
      script = "puts 40 + 2; puts \"read \#{$stdin.gets}\"; exit 7"
      in_terminal("bash", "--norc", "-i") do |output, input, _|
        input.puts("'#{CLIHelper.program}' record -q ruby -e '#{script.gsub("'", %q('"'"'))}'")
        text = read_until(output, /42/)
        input.write("\x1A")
        read_until(output, /Stopped/, into: text)
        input.puts("fg")
        sleep 0.3
        input.puts("hello")
        read_until(output, /read hello/, into: text)
        input.puts("echo status $?")
        read_until(output, /status 7/, into: text)
        input.puts("exit")
      end
    end

    it "is the command's terminal" do
      in_terminal(CLIHelper.program, "record", "-q", "ruby", "-e", "p $stdin.tty?, $stdout.tty?, $stderr.tty?, File.open('/dev/tty', &:tty?)") do |output, _, pid|
        text = read_until(output, /(true\s+){4}/)
        expect(text).not_to include("false")
        expect(status_of(pid)).to be_success
      end
    end
  end

  it "have no part in file descriptors: the command has those that it would have" do
    reader, writer = IO.pipe
    outcome = [[], [CLIHelper.program, "record", "-q"]].map do |prefix|
      output, child_end = IO.pipe
      pid = spawn(CLIHelper::CLEAN, *prefix, "ls", "/proc/self/fd", out: child_end, 7 => writer, chdir: folder)
      child_end.close
      Process.wait(pid)
      output.read.split
    end
    expect(outcome.first).to include("7")
    expect(outcome.last).to eq(outcome.first)
  ensure
    reader&.close
    writer&.close
  end
end
