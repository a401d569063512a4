# frozen_string_literal: true

module Datadog
  module Profiling
    module Collectors
      # Knows, for every thread, how much time it has used since its last sample
      # (ruby/profiler/thread_context.c).
      class ThreadContext
        attr_reader :recorder

        def initialize(recorder:, max_frames: 400)
          @recorder = recorder
          self.class._native_initialize(self, recorder, max_frames)
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
      end
    end
  end
end
