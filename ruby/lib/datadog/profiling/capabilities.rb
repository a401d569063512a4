# frozen_string_literal: true

require_relative "ruby_rules"

module Datadog
  module Profiling
    # What can be profiled in this process, and what cannot, and why. Where the profiler knows this very Ruby's
    # inside, it reads that (the private tier); elsewhere it asks Ruby's public functions, which know less.
    module Capabilities
      # What public functions do not tell, for each way in which the native side says that it lacks something.
      PUBLIC_LACKS = {
        other_stacks: "stacks of threads that wait are not seen before Ruby 3.3: their time has no frames",
        gvl_owner: "which thread runs is not known before Ruby 3.2, it is guessed from their CPU time",
        thread_ids: "kernel ids of threads that begin before the profiler is loaded are not known before Ruby 3.1: " \
                    "such a thread is seen from the first time on that it is found running",
        native_methods: "methods written in C are not seen before Ruby 3.0",
        exact_frames: "blocks that methods written in C make show as one more frame of these methods",
        native_files: "the library of a method written in C is not known",
        fiber_contexts: "OpenTelemetry contexts that are kept in fibers are not found",
      }.freeze

      @told = false

      class << self
        # See Profiling.capabilities.
        def to_h
          reason = Profiling.unsupported_reason
          return { ruby: RUBY_VERSION, supported: false, why_unsupported: reason, tier: nil, why_public: nil, missing: {} } if reason

          tier, why, _mismatch, known = NativeExtension._native_vm_access
          { ruby: RUBY_VERSION, supported: true, why_unsupported: nil, tier: tier, why_public: why,
            missing: refused.merge(tier == :public ? lacking(known) : {}) }
        end

        # nil, or what the public tier means for profiles: one sentence.
        def limits
          tier, why, _mismatch, known = NativeExtension._native_vm_access
          return if tier == :private

          "Ruby #{RUBY_VERSION} is seen through its public functions only (#{why}); #{lacking(known).values.join("; ")}"
        end

        # Once in a process, where a header of this Ruby was there, but does not describe it.
        def warn_of_mismatch
          _tier, why, mismatch, = NativeExtension._native_vm_access
          return if @told || !mismatch

          @told = true
          require_relative "log"
          Log.warn("The profiler was built with a header that does not describe this Ruby #{RUBY_VERSION}: #{why}. " \
                   "It goes on with Ruby's public functions only, which tell less (see Datadog::Profiling.capabilities)")
        end

        private

        def lacking(known)
          known += [:native_methods] if RubyRules.public_frames_of_native_methods?
          PUBLIC_LACKS.reject { |what, _| known.include?(what) }
        end

        # What is off on this Ruby in either tier.
        def refused
          missing = {}
          missing[:cpu_time] = "the system has no CPU clocks of threads" unless NativeExtension._native_cpu_time?
          missing[:allocations] = RubyRules.allocation_refused
          missing[:heap] = RubyRules.heap_refused || RubyRules.allocation_refused
          missing[:gvl_waiting] = "Ruby tells of threads that wait for the GVL since 3.3" unless RubyRules.gvl_waiting?
          missing.compact
        end
      end
    end
  end
end
