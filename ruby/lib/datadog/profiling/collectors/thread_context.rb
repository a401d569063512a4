# frozen_string_literal: true

module Datadog
  module Profiling
    module Collectors
      # Knows, for every thread, how much time it has used since its last sample
      # (ruby/profiler/thread_context.c).
      class ThreadContext
        attr_reader :recorder

        # `tracer`: whose traces samples are labelled with, nil for none, :loaded for the one that the `datadog`
        # gem has at the moment, if any. `endpoint_collection_enabled`: also
        # with the resource (the route) of a trace. `timeline_enabled`: samples carry the time at which they
        # were taken. `allocation_type_enabled`: samples of allocations carry the class.
        # `otel_context_enabled`: whether traces are looked for in OpenTelemetry's gem itself: false, :only (and
        # not at `tracer`) or :both. `native_filenames_enabled`: methods written in C show their library, and
        # not the file and line of their caller. `gvl_enabled`: from Ruby 3.3 on, time that threads wait for the
        # GVL has a state of its own, and threads that have not had it since their last sample are not sampled
        # again until they do or the profile ends.
        def initialize(
          recorder:, max_frames:, tracer:, endpoint_collection_enabled:, timeline_enabled:,
          allocation_type_enabled: true, otel_context_enabled: false, native_filenames_enabled: false,
          gvl_enabled: false
        )
          @recorder = recorder
          self.class._native_initialize(
            self, recorder, max_frames, tracer_context_key(tracer), endpoint_collection_enabled,
            otel_context_enabled, timeline_enabled, allocation_type_enabled, native_filenames_enabled,
            gvl_enabled
          )
          recorder.before_serialize { self.class._native_sample_skipped(self) } if gvl_enabled
        end

        def stats
          self.class._native_stats(self)
        end

        # Drops all samples; the profile begins now, for every thread.
        def begin_profile
          self.class._native_begin_profile(self)
        end

        # One sample of every thread, now: what they have used since their last one would be in no profile
        # otherwise.
        def finish_profile
          self.class._native_sample_all(self)
        end

        # In a forked child: forgets the parent's threads and samples.
        def reset_after_fork
          self.class._native_reset_after_fork(self)
          recorder.reset_after_fork
        end

        def inspect
          "#<#{self.class} #{stats.map { |name, value| "#{name}=#{value}" }.join(" ")}>"
        end

        private

        # The name of the fiber-local variable in which the tracer keeps a thread's traces; nil if the tracer
        # is of a kind that has none.
        def tracer_context_key(tracer)
          return true if tracer == :loaded
          return unless tracer.respond_to?(:provider)

          key = variable(variable(tracer.provider, :@context), :@key)
          key if key.is_a?(Symbol)
        end

        # nil if there is none. Asking first, as Ruby warns before 3.0.
        def variable(object, name)
          object.instance_variable_get(name) if object&.instance_variable_defined?(name)
        end
      end
    end
  end
end
