# frozen_string_literal: true

module Datadog
  module Profiling
    # Where samples become profiles (ruby/profiler/stack_recorder.c).
    class StackRecorder
      # How a profile can be compressed: what every pprof tool opens, an LZ4 frame, the smallest, not at all.
      CODECS = %i[gzip lz4 zstd none].freeze

      def initialize(
        cpu_time_enabled:, alloc_samples_enabled:, heap_samples_enabled:, heap_size_enabled:,
        heap_sample_every:, timeline_enabled:
      )
        @serializing = Mutex.new
        @before_serialize = nil
        @last_error = nil
        self.class._native_initialize(
          self, cpu_time_enabled, alloc_samples_enabled, heap_samples_enabled, heap_size_enabled,
          heap_sample_every, timeline_enabled
        )
      end

      # Ends the current profile and begins the next: [start, finish, bytes], or nil when that failed
      # (`last_error`).
      def serialize(codec: :gzip)
        @before_serialize&.call
        status, result = @serializing.synchronize { self.class._native_serialize(self, codec) }
        @last_error = status == :error ? result : nil
        result if status == :ok
      end

      # What a profile must still be told before it ends. One block at most.
      def before_serialize(&block)
        @before_serialize = block
      end

      # The bytes only; raises RuntimeError.
      def serialize!(codec: :gzip)
        _start, _finish, bytes = serialize(codec: codec)
        bytes || raise("the profile cannot be encoded: #{@last_error}")
      end

      attr_reader :last_error

      # In a forked child: drops the parent's samples.
      def reset_after_fork
        @serializing = Mutex.new # may be in the hands of a thread that only the parent has
        self.class._native_reset_after_fork(self)
      end

      # After the last profile: live objects are not watched any more.
      def forget_objects
        self.class._native_forget_objects(self)
      end

      def stats
        self.class._native_stats(self)
      end
    end
  end
end
