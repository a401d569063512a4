# frozen_string_literal: true

module Datadog
  module Profiling
    module CLI
      class Help
        HELP = "usage: ddprofrb help [COMMAND]"

        def initialize(lib:)
          @lib = lib
        end

        def run(arguments)
          name, *rest = arguments
          raise UsageError, "help takes one command at most" if rest.any?

          name = nil if ["--help", "-h"].include?(name)
          CLI.print_line(name && name != "help" ? CLI.command(name)::HELP : CLI::HELP)
        end
      end
    end
  end
end
