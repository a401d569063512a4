# frozen_string_literal: true

require_relative "../recording/notes"
require_relative "../recording/target"
require_relative "child"
require_relative "summary"

module Datadog
  module Profiling
    module CLI
      class Record
        HELP = <<~TEXT
          usage: ddprofrb record [options] [--] COMMAND [ARGUMENT…]

          Runs a command and profiles each Ruby process that it starts, from its start to its end: CPU and wall
          time of all threads. Each process writes one pprof file (gzip). Output, signals and exit status are
          the command's own.

            -o, --output FILE    where the first Ruby process writes; others put their process id before the
                                 ending (default: profile.pb.gz in this folder; an older file is replaced)
            -q, --quiet          no summary at the end
                --interval MS    milliseconds between samples, 1 to 1000 (default: 10)
                --max-frames N   frames of a stack that are kept, 5 to 10000 (default: 400)
                --alloc          which objects are made, and where
                --heap           which of them live at the end, and their size; with --alloc
                --gc             garbage collection by itself, not as CPU time of the threads that had to do it
                --timeline       samples one by one, with their time; files are larger
            -h, --help           show this

          A signal that is sent to this process is passed on. What somebody sends to its whole group (kill -TERM
          -GROUP) the command gets twice, as nobody can see to whom a signal was sent; keys of a terminal (^C) come
          once.

          A process that is killed with SIGKILL, or that crashes, writes nothing. A program that becomes another
          one (exec) counts as two: FILE is then the profile of the last one.

          Exit status: the command's; 126 if it cannot be run, 127 if there is none of its name; 2 for wrong
          usage and 1 if FILE could not be written, both before the command is run. What cannot be written
          after that is said, and changes no status.
        TEXT
        OPTIONS = {
          "-o" => :value, "--output" => :value, "-q" => :flag, "--quiet" => :flag,
          "-h" => :flag, "--help" => :flag, "--interval" => :value, "--max-frames" => :value,
          "--alloc" => :flag, "--heap" => :flag, "--gc" => :flag, "--timeline" => :flag
        }.freeze
        COLLECTORS = %w[alloc heap gc timeline].freeze
        DEFAULT_OUTPUT = "profile.pb.gz"

        def initialize(lib:)
          @lib = lib
        end

        def run(arguments)
          options, command = Options.parse(arguments, OPTIONS)
          return CLI.print_line(HELP) if options["-h"] || options["--help"]
          raise UsageError, "record needs a command to run" if command.empty?

          settings = settings_from(options)
          shown = options["-o"] || options["--output"] || DEFAULT_OUTPUT
          output = output_from(shown)
          status, notes = with_folder(File.dirname(output)) do |folder|
            [Child.run(environment(output, folder, settings), command), read(folder)]
          end
          Summary.new(notes, output: output, shown: shown, quiet: options["-q"] || options["--quiet"]).print
          Child.end_like(status)
        end

        private

        # The absolute path; of what it points to, if it is a link. Failure if it is clear that nothing could
        # be written.
        def output_from(name)
          raise UsageError, "the output file has an empty name" if name.empty?
          raise Errno::EISDIR, name if name.end_with?("/") || File.directory?(name)

          path = File.absolute_path(name)
          path = File.realdirpath(path) if File.symlink?(path)
          unwritable = File.exist?(path) && !File.writable?(path)
          raise Errno::EACCES, name if unwritable
          raise Failure, "cannot write #{name}: it is a #{File.ftype(path)}, not a file" unless fit?(path)

          Recording::Target.new(path, replace: true).try
          path
        rescue SystemCallError => e
          folder = File.dirname(name)
          why = File.directory?(folder) ? e.class.new.message : "there is no folder #{folder}"
          raise Failure, "cannot write #{name}: #{why}"
        rescue ArgumentError => e # a NUL
          raise Failure, "cannot write #{name.inspect}: #{e.message}"
        end

        # A file, or something like /dev/null.
        def fit?(path)
          !File.exist?(path) || File.file?(path) || (File.chardev?(path) && !File.open(path, "rb", &:tty?))
        end

        def settings_from(options)
          settings = COLLECTORS.select { |name| options["--#{name}"] }.to_h { |name| [name, "on"] }
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

          limits = "#{range.begin} to #{range.end}"
          raise UsageError, "#{option} takes a number from #{limits}, not #{text.inspect}"
        end

        def environment(output, folder, settings)
          Child.loading("datadog/profiling/recording", @lib).merge(
            "NF_RECORD_FILE" => output,
            "NF_RECORD_FOLDER" => folder,
            "NF_RECORD_OPTIONS" => settings.map { |name, value| "#{name}=#{value}" }.join(" "),
            "NF_RECORD_IMAGE" => nil # of a recording that we may be a part of
          )
        end

        # Where there is no other place, beside the profile.
        def with_folder(beside)
          require "tmpdir"
          begin
            folder = Dir.mktmpdir("ddprofrb-")
          rescue SystemCallError, ArgumentError
            folder = Dir.mktmpdir(".ddprofrb-", beside)
          end
          File.chmod(0o700, folder) # whatever the umask
          Recording::Notes.prepare(folder)
          yield folder
        rescue SystemCallError => e
          raise Failure, "cannot write to #{folder || "a folder for temporary files"}: #{e.class.new.message}"
        ensure
          FileUtils.remove_entry(folder, true) if folder
        end

        def read(folder)
          Recording::Notes.read(folder)
        rescue SystemCallError # somebody has tidied up
          []
        end
      end
    end
  end
end
