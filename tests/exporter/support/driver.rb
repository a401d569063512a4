require "tempfile"
require "tmpdir"

# Runs the driver (driver.c) with one library and tells what it printed.
class Driver
  BINARY = ENV.fetch("NF_DRIVER")
  PRELOAD = ENV.fetch("NF_PRELOAD")
  OURS = ENV.fetch("NF_LIBRARY")
  CACHE = ENV["NF_CACHE"] || File.join(ENV["HOME"] || "/root", ".cache/nonferrous")
  ORACLE = File.join(CACHE, "rust/lib/libdatadog_profiling.so")

  class Result
    attr_reader :events, :exit, :elapsed_ms, :stderr, :output

    def initialize(output, stderr, exit, elapsed_ms)
      @output = output
      @events = output.lines(chomp: true).map { |line| line.split("\t", -1) }
      @stderr = stderr
      @exit = exit
      @elapsed_ms = elapsed_ms
    end

    def all(name) = @events.select { |event| event.first == name }.map { |event| event.drop(1) }
    def field(name, index = 0) = all(name).first&.at(index)
    def number(name, index = 0) = field(name, index)&.to_f

    # What a caller of the ABI sees of one report: the status as a number, or the error's text.
    def outcome = outcomes.first
    def outcomes
      @events.filter_map do |name, *fields|
        case name
        when "status" then fields[1].to_i
        when "send_error" then fields[1]
        when "new_error", "build_error" then "#{name.delete_suffix("_error")}: #{fields[0]}"
        end
      end
    end

    def send_ms = (all("status") + all("send_error")).first&.first&.to_f
    def woken_ms = number("woken")

    # Calls that the library under test, or what it is made of, made to change the process.
    def calls = all("called").reject { |_, _, object| object == File.basename(BINARY) }

    def clean_exit? = @exit.exited? && @exit.exitstatus <= 1
    def inspect = "#<Driver::Result #{@exit.inspect} #{@output[0, 2000]} #{@stderr[0, 500]}>"
  end

  class << self
    def oracle? = File.exist?(ORACLE)

    # Options are driver.c's: `url: "…"` is `--url …`, `token: true` is `--token`, arrays repeat the
    # option.
    def run(library = OURS, limit: 60, **options) = start(library, **options).finish(limit)

    # env, preload, cgroup, spawn are not the driver's: what its process is to be like.
    def start(library = OURS, env: {}, preload: false, cgroup: nil, spawn: {}, **options)
      arguments = options.flat_map do |name, value|
        flag = "--#{name.to_s.tr("_", "-")}"
        next [] if value.nil? || value == false
        next [flag] if value == true

        as_is = %i[file compress].include?(name) # "name=path"
        Array(value).flat_map do |item|
          item = as_is || !item.is_a?(String) ? item.to_s : armour(item, hidden: name == :key)
          [flag, item]
        end
      end
      command = [BINARY, library, *arguments]
      if cgroup # a file that stands for /proc/self/cgroup of the driver only
        shell = 'mount --bind "$0" /proc/$$/cgroup && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", shell, cgroup, *command]
      end
      env = env.merge("LD_PRELOAD" => PRELOAD) if preload
      Running.new(clean_environment.merge(env), command, spawn)
    end

    private

    # Any byte may stand in an option; the driver decodes. What is hidden is not to be found in its arguments.
    def armour(text, hidden:)
      plain = !hidden && text.b.match?(/\A[\x20-\x7e]*\z/n) && !text.start_with?("hex:")
      plain ? text : "hex:#{text.unpack1("H*")}"
    end

    # Nothing that the machine happens to set may decide a test.
    def clean_environment
      proxies = %w[http_proxy https_proxy all_proxy no_proxy]
      names = proxies + proxies.map(&:upcase) + %w[SSL_CERT_FILE SSL_CERT_DIR DD_AZURE_APP_SERVICES]
      names.to_h { |name| [name, nil] }
    end
  end

  class Running
    attr_reader :pid

    def initialize(env, command, spawn)
      @out = Tempfile.new("out")
      @err = Tempfile.new("err")
      @begin = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      @pid = Process.spawn(env, *command, in: File::NULL, out: @out.path, err: @err.path, **spawn)
    end

    # Output so far.
    def output = File.read(@out.path)

    def finish(limit)
      Process.detach(@pid).then do |waiter|
        unless waiter.join(limit)
          Process.kill(:KILL, @pid)
          waiter.join
        end
        raise "the driver could not start: #{File.read(@err.path)}" if waiter.value.exitstatus == 2

        elapsed = (Process.clock_gettime(Process::CLOCK_MONOTONIC) - @begin) * 1000
        Result.new(output.force_encoding("UTF-8"), File.read(@err.path), waiter.value, elapsed)
      end
    ensure
      @out.close!
      @err.close!
    end
  end
end
