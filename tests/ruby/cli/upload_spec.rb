require "cli_helper"
require "socket"

# Reports that an exporter has left in a folder, sent by `ddprofrb upload`.
RSpec.describe "ddprofrb upload" do
  library, driver = %w[core/libdatadog_profiling.so tests/exporter/driver].map { |path| File.expand_path(path) }

  def reports
    Dir.children(in_folder("spool")).grep(/\.ddprof\z/)
  end

  define_method(:leave_reports) do |count|
    text = in_folder("profile.pprof")
    count.times do |i|
      File.write(text, "profile #{i}")
      system(driver, library, "--url", "file://#{in_folder("spool").gsub(" ", "%20").gsub("é", "%C3%A9")}", "--file",
             "profile.pprof=#{text}", out: File::NULL, exception: true)
    end
    expect(reports.size).to eq(count)
  end

  # Answers each request with the next of the statuses (the last one again and again); `requests` has what came.
  def serve(*statuses, listener: TCPServer.new("127.0.0.1", 0))
    @requests = []
    @server = Thread.new do
      loop do
        client = listener.accept
        request = +"".b
        request << client.readpartial(65_536) until request.end_with?("0\r\n\r\n")
        @requests << request
        status = statuses.size > 1 ? statuses.shift : statuses.first
        status == :hang ? sleep : client.write("HTTP/1.1 #{status} Status\r\n\r\n")
        client.close
      rescue SystemCallError, IOError # the client was killed
        client.close
      end
    end
    listener.local_address.ip? ? "http://127.0.0.1:#{listener.local_address.ip_port}" : "unix://#{listener.path}"
  end

  after { @server&.kill }

  it "sends all reports, oldest first, and removes them" do
    leave_reports(3)
    outcome = ddprofrb("upload", "spool", "--agent", serve(200))
    expect(outcome.stdout).to eq("3 sent\n"), outcome.inspect
    expect(outcome.stderr).to eq("")
    expect(outcome.exit_status).to eq(0)
    expect(reports).to be_empty
    expect(@requests.map { |request| request[/^profile \d/] }).to eq(["profile 0", "profile 1", "profile 2"])
    expect(@requests).to all(start_with("POST /profiling/v1/input HTTP/1.1\r\nuser-agent: DDProf/6.0.0\r\n"))
    expect(@requests).to all(include("\r\ndd-evp-origin: dd-trace-test\r\ndd-evp-origin-version: 1.2.3\r\n"))

    outcome = ddprofrb("upload", "spool", "--agent", "http://127.0.0.1:1")
    expect([outcome.stdout, outcome.exit_status]).to eq(["0 sent\n", 0])
  end

  it "reaches an agent's unix socket, and the agent of DD_TRACE_AGENT_URL" do
    leave_reports(1)
    url = serve(202, listener: UNIXServer.new(in_folder("agent.sock")))
    expect(ddprofrb("upload", "spool", env: { "DD_TRACE_AGENT_URL" => url }).stdout).to eq("1 sent\n")
  end

  it "keeps what the server refuses, and says so" do
    leave_reports(3)
    outcome = ddprofrb("upload", "--agent", serve(200, 413, 200), "spool")
    expect(outcome.stdout).to eq("2 sent, 1 refused by the server (status 413)\n")
    expect(outcome.exit_status).to eq(1)
    expect(reports.size).to eq(1)
  end

  it "keeps damaged reports, and says so" do
    leave_reports(2)
    path = in_folder("spool/#{reports.min}")
    File.binwrite(path, File.binread(path)[0..-2])
    outcome = ddprofrb("upload", "spool", "--agent", serve(200))
    expect([outcome.stdout, outcome.exit_status]).to eq(["1 sent, 1 damaged\n", 1])
    expect(reports).to eq([File.basename(path)])
  end

  it "keeps everything when the agent cannot be reached" do
    leave_reports(2)
    outcome = ddprofrb("upload", "spool", "--agent", "http://127.0.0.1:1")
    expect(outcome.stderr).to match(/\Addprofrb: error trying to connect: .*Connection refused.*; reports left: 2\n\z/)
    expect(outcome.exit_status).to eq(1)
    expect(reports.size).to eq(2)
  end

  it "gives up on a report after the timeout" do
    leave_reports(1)
    outcome = ddprofrb("upload", "spool", "--agent", serve(:hang), "--timeout", "0.2")
    expect(outcome.stderr).to eq("ddprofrb: operation timed out; reports left: 1\n")
    expect(reports.size).to eq(1)
  end

  it "loses nothing when it is killed, wherever it is" do
    leave_reports(6)
    url = serve(200)
    kills = 0
    until reports.empty?
      pid = spawn(CLIHelper::CLEAN, CLIHelper.program, "upload", "spool", "--agent", url, chdir: folder, out: File::NULL)
      seen = @requests.size
      sleep(0.001) until @requests.size > seen || Process.wait(pid, Process::WNOHANG)
      next if $?&.pid == pid

      sleep(rand * 0.002)
      Process.kill(:KILL, pid)
      Process.wait(pid)
      kills += 1
      raise "it does not get on" if kills > 100
    end
    expect(@requests.map { |request| request[/^profile \d+/] }.uniq.size).to eq(6)
  end

  it "stops at once on Ctrl-C" do
    leave_reports(1)
    url = serve(:hang)
    pid = spawn(CLIHelper::CLEAN, CLIHelper.program, "upload", "spool", "--agent", url, chdir: folder)
    sleep(0.01) until @requests.any?
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    Process.kill(:INT, pid)
    Process.wait(pid)
    expect(Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).to be < 5
    expect($?.exitstatus).to eq(130)
    expect(reports.size).to eq(1)
  end

  it "wants a folder, and one place to send to" do
    {
      [] => "upload needs a folder (see `ddprofrb help`)",
      %w[a b --agent x] => "upload takes one folder (see `ddprofrb help`)",
      %w[a] => "upload needs --agent or --site (see `ddprofrb help`)",
      %w[a --agent x --site y] => "either --agent or --site (see `ddprofrb help`)",
      %w[a --site y] => "--site needs the API key in DD_API_KEY (see `ddprofrb help`)",
      %w[a --agent file:///x] => "an agent is needed, not a folder: file:///x (see `ddprofrb help`)",
      %w[a --agent x --timeout soon] => '--timeout takes a number of seconds, not "soon" (see `ddprofrb help`)',
    }.each do |arguments, message|
      outcome = ddprofrb("upload", *arguments)
      expect([outcome.stderr, outcome.exit_status]).to eq(["ddprofrb: #{message}\n", 2])
    end
  end

  it "says what is wrong with a folder or a URL" do
    outcome = ddprofrb("upload", "none", "--agent", "http://127.0.0.1:1")
    expect(outcome.stderr).to eq("ddprofrb: cannot open the folder #{in_folder("none")}: No such file or directory (os error 2)\n")
    expect(outcome.exit_status).to eq(1)
    Dir.mkdir(in_folder("empty"))
    expect(ddprofrb("upload", "empty", "--agent", "http://a b").stderr).to eq("ddprofrb: invalid uri character\n")
    expect(ddprofrb("upload", "--help").stdout).to start_with("usage: ddprofrb upload [options] FOLDER\n")
  end
end
