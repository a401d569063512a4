require "spec_helper"
require "fileutils"
require "open3"
require "tmpdir"

# ddprofrb, run by its users' means only: as a program, from a checkout, in a folder of the example's own.
module CLIHelper
  Outcome = Struct.new(:stdout, :stderr, :status) do
    # What a shell would have in $?.
    def exit_status
      status.exitstatus || (status.termsig + 128)
    end

    def to_s
      "#{status.inspect}\n--- stdout\n#{stdout}\n--- stderr\n#{stderr}"
    end
    alias_method :inspect, :to_s
  end

  SOURCES = File.expand_path("../../../..", __FILE__) # not __dir__, which leaves Bazel's runfiles

  # A checkout in which `bazel build //ruby:extension` has run (or not).
  def self.make_checkout(folder, built: true)
    FileUtils.mkdir_p(File.join(folder, "ruby/bin"))
    FileUtils.cp(File.join(SOURCES, "ruby/bin/ddprofrb"), File.join(folder, "ruby/bin"))
    if built
      FileUtils.mkdir_p(File.join(folder, "bazel-bin/ruby/extension"))
      system("cp", "-RL", Support.extension_folder, File.join(folder, "bazel-bin/ruby/extension/lib"), exception: true)
      system("chmod", "-R", "u+w", folder, exception: true)
    end
    File.join(folder, "ruby/bin/ddprofrb")
  end

  def self.checkout
    @checkout ||= Dir.mktmpdir("checkout-").tap do |folder|
      make_checkout(folder)
      pid = Process.pid
      at_exit { FileUtils.rm_rf(folder) if Process.pid == pid }
    end
  end

  def self.program
    File.join(checkout, "ruby/bin/ddprofrb")
  end

  # Everything that Ruby and we take from the environment, so that no example depends on how the specs were
  # started.
  CLEAN = ENV.keys.grep(/\A(RUBY|BUNDLE|GEM_|NF_RECORD|DD_)/).to_h { |name| [name, nil] }.freeze

  def ddprofrb(*arguments, env: {}, chdir: folder, stdin: "", program: CLIHelper.program, seconds: 50)
    run_program(program, *arguments, env: env, chdir: chdir, stdin: stdin, seconds: seconds)
  end

  # What is said once at the end of each recording on a Ruby that tells less; not what most examples are about.
  LIMITS = /^ddprofrb: something is missing in every profile: Ruby [\d.]+ is seen through its public functions only .*\n/.freeze

  def run_program(*command, env: {}, chdir: folder, stdin: "", seconds: 50)
    input, output, errors, waiter = Open3.popen3(CLEAN.merge(env), *command, chdir: chdir)
    readers = [output, errors].map { |io| Thread.new { io.read } }
    input.write(stdin)
    input.close
    unless waiter.join(seconds)
      Process.kill(:KILL, waiter.pid)
      raise "#{command.inspect} was not over after #{seconds} s"
    end
    out, err = readers.map { |it| it.value.force_encoding(Encoding::UTF_8) }
    Outcome.new(out, err.sub(LIMITS, ""), waiter.value)
  ensure
    readers&.each(&:join)
    [output, errors].each { |io| io&.close }
  end

  # Runs it as a user who may do nothing special.
  def as_nobody(*command)
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    skip "only a real root can become another user" unless system(*become, "true", err: File::NULL)
    system("chmod", "-R", "a+rX", CLIHelper.checkout, exception: true)
    File.chmod(0o755, folder)
    skip "another user cannot run #{RbConfig.ruby}" unless system(*become, RbConfig.ruby, "-e", "", err: File::NULL)
    run_program(*become, *command)
  end

  # Where commands run.
  def folder
    @folder ||= Dir.mktmpdir("ddprofrb spec é ")
  end

  def in_folder(name)
    File.join(folder, name)
  end

  # Names of all files there, hidden ones too.
  def files
    Dir.children(folder).sort
  end

  # A profile of that folder, checked by our reader on the way.
  def profile(name)
    bytes = File.binread(in_folder(name))
    raise "#{name} is not gzip" unless bytes.start_with?("\x1F\x8B".b)

    decode(bytes)
  end

  def names_in(name)
    profile(name).samples.flat_map(&:names).uniq
  end

  # Ruby code that takes CPU time in a method of that name.
  def busy(method, seconds = 0.15)
    "def #{method}(until_) nil while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < until_ end; " \
      "#{method}(Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) + #{seconds});"
  end
end

RSpec.configure do |config|
  config.include CLIHelper
  config.after { FileUtils.rm_rf(@folder) if defined?(@folder) && @folder }
end
