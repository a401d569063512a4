# frozen_string_literal: true

module Datadog
  module Profiling
    # Time that only goes forward. Programs, and libraries for tests, put something of theirs in the place of
    # Process.clock_gettime and Time.now; a profiler whose time stands still would never report.
    module Clock
      SYSTEM = ::Process.method(:clock_gettime)
      MONOTONIC = ::Process::CLOCK_MONOTONIC
      private_constant :SYSTEM, :MONOTONIC

      class << self
        def monotonic_ns
          return NativeExtension._native_monotonic_ns if defined?(NativeExtension._native_monotonic_ns)

          SYSTEM.call(MONOTONIC, :nanosecond)
        end

        # In seconds.
        def monotonic
          monotonic_ns / 1e9
        end
      end
    end
  end
end
