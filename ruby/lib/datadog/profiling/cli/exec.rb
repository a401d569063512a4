# frozen_string_literal: true

require_relative "child"

module Datadog
  module Profiling
    module CLI
      class Exec
        HELP = <<~TEXT
          usage: ddprofrb exec COMMAND [ARGUMENT…]

          Replaces itself by a command in which each Ruby process loads the profiler. It is the environment
          that says what it does there: DD_PROFILING_ENABLED=true turns it on. Each process then reports every
          minute and when it ends: to a Datadog agent if one is configured (DD_AGENT_HOST, DD_TRACE_AGENT_URL …),
          otherwise as pprof files in the folder `profiles` here. DD_PROFILING_OUTPUT names other places.

          Exit status: the command's; 126 if it cannot be run, 127 if there is none of its name, 2 for wrong
          usage.
        TEXT

        def initialize(lib:)
          @lib = lib
        end

        def run(arguments)
          options, command = Options.parse(arguments, { "-h" => :flag, "--help" => :flag })
          return CLI.print_line(HELP) if options.any?
          raise UsageError, "exec needs a command to run" if command.empty?

          # Wherever processes of the command may go.
          folder = ENV["DD_PROFILING_FILES_FOLDER"].to_s
          folder = File.expand_path(folder.empty? ? "profiles" : folder)
          environment = Child.loading("datadog/profiling/preload", @lib)
          environment["DD_PROFILING_FILES_FOLDER"] = folder
          name = command.first
          Child.translating_errors(name) do
            Kernel.exec(environment, [name, name], *command.drop(1), close_others: false)
          end
        end
      end
    end
  end
end
