# frozen_string_literal: true

require "fileutils"
require "tmpdir"

require_relative "installs"

# Programs of users, run to their end or beside the specs.
class Program
  FOLDER = File.expand_path("../programs", __dir__)

  # What became of it; output and errors are apart.
  Outcome = Struct.new(:stdout, :stderr, :status) do
    def to_s
      "#{status.inspect}\n--- stdout\n#{stdout}\n--- stderr\n#{stderr}"
    end
    alias_method :inspect, :to_s
  end

  # What the datadog gem is told in all scenarios: profile, and be still about all else.
  SETTINGS = {
    "DD_PROFILING_ENABLED" => "true", "DD_INSTRUMENTATION_TELEMETRY_ENABLED" => "false",
    "DD_REMOTE_CONFIGURATION_ENABLED" => "false", "DD_TRACE_STARTUP_LOGS" => "false", "DD_SERVICE" => "shop"
  }.freeze

  attr_reader :pid, :folder

  # As `ddprofrb exec` of that installation runs it; agent: a URL
  def self.profiled(install, agent, *command, env: {}, **options)
    ddprofrb = File.join(install.home, "bin/ddprofrb")
    new([RbConfig.ruby, ddprofrb, "exec", *command],
        install.env.merge(SETTINGS, "DD_TRACE_AGENT_URL" => agent).merge(env), **options)
  end

  def initialize(command, env, chdir: FOLDER)
    @folder = Dir.mktmpdir("nf-e2e")
    @pid = Process.spawn(env, *command, chdir: chdir, in: File::NULL, out: path("stdout"), err: path("stderr"), pgroup: true)
    @waiter = Process.detach(@pid)
  end

  def running?
    @waiter.alive?
  end

  def signal(name)
    Process.kill(name, @pid) if running?
  end

  # Waits for its end; whatever is not over then is ended.
  def outcome(seconds)
    over = @waiter.join(seconds)
    kill unless over
    raise "pid #{@pid} was not over after #{seconds} s:\n#{stderr}" unless over

    @outcome ||= Outcome.new(stdout, stderr, @waiter.value).tap { kill && FileUtils.rm_rf(@folder) }
  end

  def stdout
    File.read(path("stdout"), encoding: Encoding::UTF_8)
  end

  def stderr
    File.read(path("stderr"), encoding: Encoding::UTF_8)
  end

  # With all that it has started.
  def kill
    Process.kill(:KILL, -@pid)
    true
  rescue Errno::ESRCH
    true
  end

  private

  def path(name)
    File.join(@folder, name)
  end
end
