# frozen_string_literal: true

require_relative "extensions"

module Datadog
  module Profiling
    # Reads pprof files: those that this profiler writes, and those of other tools.
    module PprofReader
      # Why a file cannot be read, in a sentence for people.
      class Error < StandardError; end

      # Uncompressed bytes. A profile that claims to be larger is refused instead of taking all memory.
      MAX_UNCOMPRESSED = 1 << 30

      class << self
        # A Hash: sample_types [[type, unit], …]; samples [[[location id, leaf first, …], [value, …], [[key,
        # value], …]], …]; locations {id => [[[function id, line], innermost first, …], address]}; functions
        # {id => [name, file, start line]}; time_nanos, duration_nanos, period_type, period,
        # default_sample_type.
        def read_file(path)
          stat = File.stat(path)
          kind = stat.ftype.sub("Special", " device").sub("fifo", "FIFO")
          raise Error, "it is a #{kind}, not a file" unless stat.file?
          raise Error, "it is too large: #{stat.size} bytes" if stat.size > MAX_UNCOMPRESSED

          parse(File.binread(path))
        rescue SystemCallError => e
          raise Error, describe(e)
        end

        def parse(bytes)
          load_native
          status, result = _native_read(bytes, MAX_UNCOMPRESSED)
          raise Error, result unless status == :ok

          result
        end

        private

        def describe(error)
          error.class.new.message.sub(/\A[A-Z]/, &:downcase) # without the path, which the caller names
        end

        def load_native
          return if respond_to?(:_native_read)

          Extensions.load("datadog_pprof_reader")
        rescue LoadError => e
          raise Error, "the reader for Ruby #{RUBY_VERSION} (#{RUBY_PLATFORM}) cannot be loaded: #{e.message}"
        end
      end
    end
  end
end
