# frozen_string_literal: true

# The profiler of the `datadog` gem has classes of the same names, and takes the same signal.
if defined?(Datadog::VERSION) || defined?(DDTrace)
  $stderr.puts("[nonferrous] WARN: The datadog gem is in this program, and does the profiling: nonferrous does nothing")
  return
end

module Datadog
  # A profiler for Ruby programs. There are two ways in: `Datadog.configure` (or DD_PROFILING_ENABLED) for a
  # profiler that reports again and again, `Profiling::Session` for one that is started, stopped, and looked at.
  #
  # Requiring this file never fails: where the native part cannot work, `supported?` is false and says why.
  module Profiling
    # Raised by what cannot work without a supported system; the message is `Profiling.unsupported_reason`.
    class Unsupported < StandardError; end

    module Collectors; end

    @native_extension_loaded = @self_test_passed = false
    @loading_failure = nil

    class << self
      def supported?
        unsupported_reason.nil?
      end

      # nil, or a sentence for people that says why this process cannot be profiled.
      def unsupported_reason
        reason = reason_from_build || RubyRules.threads_refused || reason_from_loading || reason_from_self_test
        reason && "Profiling is not available: #{reason}"
      end

      # What can be profiled here, a Hash: `ruby` (version), `supported`, `why_unsupported` (nil or a sentence),
      # `tier` (:private: Ruby's inside is read; :public: only its public functions are asked; nil),
      # `why_public` (nil or why it is not the private tier), `missing` (a Hash: what there is not, and why).
      def capabilities
        Capabilities.to_h
      end

      # Starts what the settings ask for; called again in a forked child, it begins anew there. Whether it runs.
      def start_if_enabled
        Configuration.start_if_enabled
      end

      # Whether profiles are being made, and reported.
      def enabled?
        Configuration.running?
      end

      # How many objects the current thread has made; nil if nobody counts.
      def allocation_count
        worker = Collectors::CpuAndWallTimeWorker
        worker._native_allocation_count if worker.respond_to?(:_native_allocation_count)
      end

      # Loads everything, once; raises Unsupported.
      def load_profiling
        reason = unsupported_reason
        raise Unsupported, reason if reason

        Capabilities.warn_of_mismatch
        true
      end

      private

      SKIPPED_REASON = File.expand_path("profiling/skipped_reason.txt", __dir__)
      private_constant :SKIPPED_REASON

      def reason_from_build
        # Compilers and paths speak any encoding, and the program may want its texts in another.
        text = File.binread(SKIPPED_REASON).force_encoding(Encoding::UTF_8).scrub.strip
        "it was left out of this build, because #{text}" unless text.empty?
      rescue SystemCallError
        nil
      end

      def reason_from_loading
        return if @native_extension_loaded
        return @loading_failure if @loading_failure

        require_relative "profiling/load_native_extension"
        @native_extension_loaded = true
        nil
      rescue StandardError, ScriptError, NoMemoryError => e
        where = " at #{e.backtrace.first}" unless e.backtrace.to_a.empty?
        @loading_failure = "its native extension cannot be loaded: #{e.message} (#{e.class}#{where})"
      end

      def reason_from_self_test
        return if @self_test_passed

        require_relative "profiling/native_extension"
        NativeExtension.send(:native_working?)
        @self_test_passed = true
        nil
      rescue StandardError, ScriptError, NoMemoryError => e
        e.message
      end
    end
  end
end

require_relative "profiling/capabilities"
require_relative "profiling/own_thread"
require_relative "profiling/ruby_rules"
require_relative "profiling/stack_recorder"
require_relative "profiling/collectors/discrete_dynamic_sampler"
require_relative "profiling/collectors/dynamic_sampling_rate"
require_relative "profiling/collectors/stack"
require_relative "profiling/collectors/thread_context"
require_relative "profiling/collectors/idle_sampling_helper"
require_relative "profiling/ractor_guard"
require_relative "profiling/collectors/cpu_and_wall_time_worker"
require_relative "profiling/exec_guard"
require_relative "profiling/session"
require_relative "profiling/configuration"

# The `datadog` gem may come after us, with classes of the same names. All it has is in Datadog::Core, or comes
# after that: then this file is loaded first, and makes room if need be.
Datadog.autoload(:Core, File.expand_path("profiling/stand_aside.rb", __dir__))
require_relative "profiling/stand_aside" unless Datadog.autoload?(:Core) # its tracer is here already

Datadog::Profiling.supported? # loads the native part
