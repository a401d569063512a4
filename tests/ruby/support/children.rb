require "open3"
require "rbconfig"
require "timeout"

module Support
  # Where the profiler under test lies.
  def self.extension_folder
    $LOAD_PATH.find { |it| File.exist?(File.join(it, "datadog/profiling.rb")) }
  end

  # Code that must run in a process of its own.
  module Children
    Outcome = Struct.new(:stdout, :stderr, :status) do
      def to_s
        "#{status.inspect}\n--- stdout\n#{stdout}\n--- stderr\n#{stderr}"
      end
    end

    # Runs the block in a forked child and returns its value (through Marshal). An exception of the child is raised here
    # too, a crash or a hang is an error.
    def in_child(seconds: 30)
      reader, writer = IO.pipe(binmode: true)
      pid = fork do
        reader.close
        answer =
          begin
            [:ok, yield]
          rescue Exception => e # rubocop:disable Lint/RescueException
            [:raised, "#{e.class}: #{e.message}\n#{e.backtrace&.first(8)&.join("\n")}"]
          end
        writer.write(Marshal.dump(answer))
        writer.close
        exit!(0)
      end
      writer.close
      kind, value = read_answer(reader, pid, seconds)
      raise "in child #{pid}: #{value}" if kind == :raised
      value
    ensure
      reader&.close
    end

    # Runs a script in a new Ruby that has the profiler on its load path.
    def run_ruby(script, *arguments, env: {}, seconds: 60, options: [])
      load_path = [Support.extension_folder, File.expand_path("..", __dir__)]
      command = [RbConfig.ruby, *load_path.flat_map { |it| ["-I", it] }, *options, "-e", script, *arguments]
      stdin, stdout, stderr, waiter = Open3.popen3(env, *command)
      stdin.close
      readers = [stdout, stderr].map { |io| Thread.new { io.read } }.each { |it| it.report_on_exception = false }
      unless waiter.join(seconds)
        Process.kill(:KILL, waiter.pid)
        # Its children may hold the pipes as long as they like.
        said = readers.map { |it| it.join(1) ? it.value : "(not over: a child of it lives on)" }
        raise "#{script[0, 200]}… was not over after #{seconds} s:\n#{said.join("\n")}"
      end
      Outcome.new(*readers.map(&:value), waiter.value)
    ensure
      Process.kill(:KILL, waiter.pid) if waiter&.alive?
      readers&.each(&:kill)
      [stdout, stderr].each { |io| io&.close }
    end

    # The same, for scripts that must end well; returns what they print.
    def run_ruby!(script, *arguments, **options)
      outcome = run_ruby(script, *arguments, **options)
      raise "the script failed: #{outcome}" unless outcome.status.success?
      outcome.stdout
    end

    # Builds a shared library from C and returns its path.
    def compile(source, into:, name: "library.so", flags: [])
      path = File.join(into, name)
      file = "#{path}.c"
      File.write(file, source)
      command = [ENV.fetch("CC", "gcc"), "-shared", "-fPIC", "-o", path, file, *flags]
      output, status = Open3.capture2e(*command)
      raise "#{command.join(" ")}: #{output}" unless status.success?
      path
    end

    private

    def read_answer(reader, pid, seconds)
      bytes = Timeout.timeout(seconds) { reader.read }
      _, status = Process.wait2(pid)
      raise "child #{pid} ended without an answer: #{status.inspect}" if bytes.empty?
      Marshal.load(bytes)
    rescue Timeout::Error
      Process.kill(:KILL, pid)
      Process.wait(pid)
      raise "child #{pid} was not over after #{seconds} s"
    end
  end
end
