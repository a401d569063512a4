# frozen_string_literal: true

require_relative "version"

module Datadog
  module Profiling
    # The command line. Each command is a class with SUMMARY, and `run(arguments)` that returns the exit
    # status.
    module CLI
      # What the user got wrong; said in one line, exit status 2.
      class UsageError < StandardError; end

      # What cannot be done; said in one line.
      class Failure < StandardError
        attr_reader :status

        def initialize(message, status: 1)
          super(message)
          @status = status
        end
      end

      COMMANDS = {
        "record" => :Record, "report" => :Report, "exec" => :Exec, "upload" => :Upload, "help" => :Help
      }.freeze
      HELP = <<~TEXT
        ddprofrb profiles Ruby programs.

          ddprofrb record [-o FILE] [--] COMMAND…   run a command and profile each Ruby process in it, to pprof files
          ddprofrb report FILE…                     show where the time of such files went
          ddprofrb exec COMMAND…                    run a command with the profiler loaded, set up by DD_PROFILING_…
          ddprofrb upload FOLDER --agent URL        send the reports in a folder, and remove what was accepted
          ddprofrb help [COMMAND]                   show this, or the help of a command

        `ddprofrb COMMAND --help` tells the options of a command, `ddprofrb --version` the version.
      TEXT

      class << self
        # `lib`: the folder from which `datadog/profiling` can be required.
        def run(arguments, lib:)
          [$stdout, $stderr].each(&:binmode) # names in profiles are UTF-8, whatever the terminal's encoding
          first, *rest = arguments
          case first
          when nil then raise UsageError, "no command given"
          when "--version", "-v" then print_line("ddprofrb #{VERSION}")
          when "--help", "-h" then print_line(HELP)
          else command(first).new(lib: lib).run(rest)
          end
        rescue UsageError => e
          complain("#{e.message} (see `ddprofrb help`)", 2)
        rescue Failure => e
          complain(e.message, e.status)
        rescue Errno::EPIPE # `ddprofrb report … | head`: ends as other tools do
          trap(:PIPE, "SYSTEM_DEFAULT")
          Process.kill(:PIPE, Process.pid)
        rescue Interrupt
          130
        rescue SystemCallError => e # writing to $stdout
          complain("cannot write: #{e.class.new.message}", 1)
        end

        def command(name)
          constant = COMMANDS[name] or raise UsageError, "unknown command #{name.inspect}"
          require_relative "cli/#{name}"
          const_get(constant)
        end

        def print_line(text)
          $stdout.puts(text)
          $stdout.flush
          0
        end

        def complain(text, status)
          $stderr.write("ddprofrb: ".b << text.b.tr("\n", " ") << "\n".b)
          status
        rescue SystemCallError, IOError
          status
        end
      end

      # Options of one command, up to its first argument or `--`. `takes` maps each option to :flag or :value.
      class Options
        def self.parse(arguments, takes)
          rest = arguments.dup
          found = {}
          while (word = rest.first)&.start_with?("-") && word != "-"
            rest.shift
            break if word == "--"

            name, value = word.match(/\A(--[^=]+)=(.*)\z/m)&.captures || split_short(word, takes)
            kind = takes[name] or raise UsageError, "unknown option #{name}"
            if kind == :flag
              raise UsageError, "option #{name} takes no value" if value

              found[name] = true
            else
              value ||= rest.shift or raise UsageError, "option #{name} needs a value"
              found[name] = value
            end
          end
          [found, rest]
        end

        # For commands whose options may also stand behind their arguments; behind `--` there are none.
        def self.parse_anywhere(arguments, takes)
          options, rest = {}, []
          until arguments.empty?
            found, left = parse(arguments, takes)
            options.merge!(found)
            only_arguments = left.size < arguments.size && arguments[-left.size - 1] == "--"
            rest.concat(left.shift(only_arguments ? left.size : 1))
            arguments = left
          end
          [options, rest]
        end

        # -oFILE
        def self.split_short(word, takes)
          short = word[0, 2]
          return [word, nil] if word.start_with?("--") || word.length <= 2 || takes[short] != :value

          [short, word[2..]]
        end
        private_class_method :split_short
      end
    end
  end
end
