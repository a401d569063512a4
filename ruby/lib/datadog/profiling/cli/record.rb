# frozen_string_literal: true

require_relative "../profile_file"
require_relative "../recording"
require_relative "child"

module Datadog
  module Profiling
    module CLI
      class Record
        HELP = <<~TEXT
          usage: ddprofrb record [options] [--] COMMAND [ARGUMENT…]

          Runs a command and profiles each Ruby process that it starts, from its start to its end: CPU and wall time of
          all threads. Each process writes one pprof file (gzip). Output, signals and exit status are the command's own.

            -o, --output FILE    where the first Ruby process writes; others put their process id before the ending
                                 (default: profile.pb.gz in this folder)
            -q, --quiet          no summary at the end
                --interval MS    milliseconds between samples, 1 to 1000 (default: 10)
                --max-frames N   frames of a stack that are kept, 5 to 10000 (default: 400)
            -h, --help           show this

          A process that is killed with SIGKILL writes nothing.

          Exit status: the command's; 126 if it cannot be run, 127 if there is none of its name; 2 for wrong usage and 1
          if the file could not be written, both before the command is run.
        TEXT
        OPTIONS = {
          "-o" => :value, "--output" => :value, "-q" => :flag, "--quiet" => :flag, "-h" => :flag, "--help" => :flag,
          "--interval" => :value, "--max-frames" => :value
        }.freeze
        DEFAULT_OUTPUT = "profile.pb.gz"

        def initialize(lib:)
          @lib = lib
        end

        def run(arguments)
          options, command = Options.parse(arguments, OPTIONS)
          return CLI.print_line(HELP) if options["-h"] || options["--help"]
          raise UsageError, "record needs a command to run" if command.empty?

          @quiet = options["-q"] || options["--quiet"]
          settings = settings_from(options)
          output = output_from(options["-o"] || options["--output"] || DEFAULT_OUTPUT)
          status, log = with_folder { |folder| [Child.run(environment(output, folder, settings), command), read(folder)] }
          summarize(log) unless @quiet
          Child.end_like(status)
        end

        private

        def output_from(name)
          raise UsageError, "the output file has an empty name" if name.empty?

          path = File.expand_path(name)
          obstacle = name.end_with?("/") ? Errno::EISDIR.new : ProfileFile.obstacle(path)
          raise Failure, "cannot write #{name}: #{ProfileFile.reason(obstacle)}" if obstacle

          path
        rescue ArgumentError => e # a NUL, or a ~user that does not exist
          raise Failure, "cannot write #{name.inspect}: #{e.message}"
        end

        def settings_from(options)
          settings = {}
          if (text = options["--interval"])
            settings["interval"] = number("--interval", text, 1..1000) / 1000.0
          end
          if (text = options["--max-frames"])
            settings["max_frames"] = number("--max-frames", text, 5..10_000).to_i
          end
          settings
        end

        def number(option, text, range)
          value = Float(text, exception: false)
          return value if value && range.cover?(value)

          raise UsageError, "#{option} takes a number from #{range.begin} to #{range.end}, not #{text.inspect}"
        end

        # RUBYOPT cannot hold a path with a blank in it, so the path goes into RUBYLIB. What the user has there stays.
        def environment(output, folder, settings)
          {
            "RUBYLIB" => [@lib, *ENV["RUBYLIB"]].join(File::PATH_SEPARATOR),
            "RUBYOPT" => [*ENV["RUBYOPT"], "-rdatadog/profiling/recording"].join(" "),
            Recording::OUTPUT => output,
            Recording::FOLDER => folder,
            Recording::OPTIONS => settings.map { |name, value| "#{name}=#{value}" }.join(" ")
          }
        end

        def with_folder
          require "tmpdir"
          begin
            folder = Dir.mktmpdir("ddprofrb-")
            File.write("#{folder}/log", "")
          rescue SystemCallError => e
            raise Failure, "cannot write to the folder for temporary files: #{ProfileFile.reason(e)}"
          end
          yield folder
        ensure
          FileUtils.remove_entry(folder, true) if folder
        end

        def read(folder)
          File.readlines("#{folder}/log", chomp: true).map { |line| line.split("\t", 5) }
        rescue SystemCallError
          []
        end

        def summarize(log)
          wrote = log.filter_map { |event, *fields| fields if event == "wrote" }
          started = log.count { |event, *| event == "started" }
          $stderr.puts("ddprofrb: #{wrote.empty? ? nothing(started) : files(wrote, started)}")
        rescue SystemCallError, IOError
          nil
        end

        def nothing(started)
          return "no Ruby process was recorded, so there is no profile" if started == 0

          "no profile was written (#{count(started, "recorded process")} killed, still running, or unable to write)"
        end

        def files(wrote, started)
          samples, threads = [0, 1].map { |i| wrote.sum { |fields| fields[i].to_i } }
          seconds = wrote.map { |fields| fields[2].to_f }.max
          missing = started - wrote.size
          names = wrote.map(&:last)
          shown = names.include?(names.min_by(&:length)) ? names.min_by(&:length) : names.first
          "#{count(wrote.size, "file")}, #{count(samples, "sample")}, #{count(threads, "thread")}, " \
            "#{format("%.1f", seconds)} s#{" (#{count(missing, "process")} wrote nothing)" if missing > 0}; " \
            "next: ddprofrb report #{quoted(relative(shown))}"
        end

        def count(number, what)
          plural = what.end_with?("s") ? "#{what}es" : "#{what}s"
          "#{number} #{number == 1 ? what : plural}"
        end

        def relative(path)
          path.delete_prefix("#{Dir.pwd}/")
        rescue SystemCallError
          path
        end

        def quoted(path)
          path.match?(%r{\A[A-Za-z0-9_./+-]+\z}) ? path : "'#{path.gsub("'", %q('\\\\''))}'"
        end
      end
    end
  end
end
