# frozen_string_literal: true

module Datadog
  module Profiling
    # What the profiler has to say, one line each: to the logger that is set, otherwise to standard error.
    # Nothing here fails. (Ruby's own logger is a gem of which the program may want another version.)
    module Log
      LEVELS = %i[debug info warn error].freeze

      @logger = nil
      @debug = false

      class << self
        # nil, or something with the methods of Ruby's Logger.
        attr_accessor :logger

        # Whether debug lines are wanted where there is no logger.
        attr_accessor :debug_enabled

        LEVELS.each do |level|
          define_method(level) { |text = nil, &block| write(level, text, &block) }
        end

        private

        def write(level, text)
          return if level == :debug && !logger && !debug_enabled

          text ||= yield
          return logger.public_send(level, text) if logger
          return if level == :info

          $stderr.write("[nonferrous] #{level.to_s.upcase}: #{text.to_s.tr("\n", " ")}\n")
          nil
        rescue StandardError
          nil
        end
      end
    end
  end
end
