# frozen_string_literal: true

require "helper"
require "fileutils"
require "socket"
require "tmpdir"

require "support/recorder"

# Programs that people run, under our own `ddprofrb record`: they do and say what they do and say without it.
RSpec.describe "Under ddprofrb record" do
  include NeedsGems

  before { @folder = Dir.mktmpdir("nf real ") }
  after { FileUtils.rm_rf(@folder) }

  LIMIT = 1500 # seconds; the machine may be busy

  # Runs it as it is and recorded; returns the profiles, of one process each. The block is called with the running program.
  def expect_unchanged(*command, install: Installs.tools, chdir: Program::FOLDER, env: {}, plain: ->(text) { text })
    outcomes = [command, Recorder.command(File.join(@folder, "p.gz")) + command].map do |it|
      program = Program.new(it, install.env.merge(env), chdir: chdir)
      yield(program) if block_given?
      program.outcome(LIMIT)
    end
    said = outcomes.map { |it| [plain.call(it.stdout), plain.call(it.stderr), it.status.exitstatus, it.status.termsig] }
    # What the recorder says comes after all that the program says.
    said[1][1] = said[1][1].lines.reject { |line| line.start_with?("ddprofrb: ") }.join
    expect(said[1]).to eq(said[0])
    @stdout = outcomes[1].stdout
    Recorder.profiles(@folder)
  end

  def names(profiles)
    profiles.flat_map { |it| it.fetch(:functions).values.map(&:first) }.uniq
  end

  it "RuboCop finds what it finds in its own source" do
    source = Installs.rubocop.gem("rubocop")
    where = SOAK ? "lib" : "lib/rubocop/cop/naming"
    profiles = expect_unchanged("rubocop", "--cache", "false", "--format", "clang", where,
                                install: Installs.rubocop, chdir: source)
    expect(@stdout).to match(/\d+ files inspected/)
    expect(names(profiles)).to include("investigate")
  end

  it "a clustered Puma answers, ends when it is told to, and leaves a profile of each process" do
    socket = nil
    answers = Hash.new(0)
    # Ports, process ids and times differ, and who of two workers is first.
    plain = ->(text) { text.gsub(/\d+/, "N").gsub(%r{/tmp\S*}, "PATH").lines.sort.join }
    runs = 0
    sockets = Array.new(2) { |it| File.join(Dir.tmpdir, "nf#{Process.pid}-#{it}.sock") }
    starter = "ENV['SHOP_SOCKET'] = #{sockets}[ENV['NF_RECORD_FOLDER'] ? 1 : 0]; load Gem.bin_path('puma', 'puma')"
    profiles = expect_unchanged("ruby", "-e", starter, "--", "-C", "puma.rb", "config.ru", plain: plain) do |program|
      socket = sockets[runs]
      runs += 1
      Recorder.wait_for(LIMIT) { File.socket?(socket) || !program.running? }
      (SOAK ? 2000 : 300).times { answers[ask(socket)] += 1 }
      program.signal(:TERM)
    end
    expect(answers.keys.map(&:first).uniq).to eq([200])
    expect(profiles.size).to eq(3)
    expect(profiles.count { |it| names([it]).include?("report") }).to eq(2)
  ensure
    sockets&.each { |it| FileUtils.rm_f(it) }
  end

  # [status, pid]
  def ask(path)
    UNIXSocket.open(path) do |connection|
      connection.write("GET /report HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n")
      answer = connection.read
      [answer[%r{\AHTTP/1.1 (\d+)}, 1].to_i, answer[/\r\n\r\n(\d+)/, 1].to_i]
    end
  end

  it "Bundler installs gems, one of them in C, from a folder" do
    installed = Array.new(2) do |number|
      app = File.join(@folder, "app#{number}")
      FileUtils.mkdir_p(File.join(app, "vendor/cache"))
      %w[rack rainbow msgpack].each { |it| FileUtils.cp(Installs.gem_file(it), File.join(app, "vendor/cache")) }
      File.write(File.join(app, "Gemfile"), "%w[rack rainbow msgpack].each { |it| gem it }\n")
      app
    end
    env = { "BUNDLE_PATH" => "vendor/bundle", "BUNDLE_JOBS" => "1", "BUNDLE_SILENCE_ROOT_WARNING" => "1" }
    script = "cd \"$0$(test -n \"$NF_RECORD_FOLDER\" && echo 1 || echo 0)\" && exec bundle install --local"
    profiles = expect_unchanged("sh", "-c", script, File.join(@folder, "app"), env: env)
    trees = installed.map do |app|
      Dir[File.join(app, "vendor/bundle/**/*.{rb,so}")].map { |it| it.delete_prefix(app) }.sort
    end
    expect(trees[0].grep(/msgpack\.so/)).not_to be_empty
    expect(trees[1]).to eq(trees[0])
    expect(names(profiles)).not_to be_empty
  end

  it "WEBrick serves over TLS" do
    profiles = expect_unchanged("ruby", "tls_server.rb", SOAK ? "2000" : "200")
    expect(@stdout.lines.sum { |line| line.to_i }).to eq(SOAK ? 2000 : 200)
    expect(names(profiles)).to include("do_GET")
  end

  it "a program that forks for each job has its jobs done" do
    plain = ->(text) { text.lines.reject { |line| line.start_with?("memory") }.join }
    profiles = expect_unchanged("ruby", "jobs.rb", "9", "300", "3", plain: plain)
    expect(@stdout).to include("job 8: 2\nwrong: 0")
    expect(profiles.size).to eq(10)
    expect(profiles.count { |it| names([it]).include?("work") }).to eq(9)
  end
end
