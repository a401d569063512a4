# frozen_string_literal: true

module Datadog
  module Profiling
    # What is known to go wrong in which Ruby. Versions are compared as versions: 3.1.10 is newer than 3.1.4.
    module RubyRules
      class << self
        # nil, or why allocations cannot be followed. A tracepoint on new objects crashes these (bug 19482).
        def allocation_refused(version = RUBY_VERSION)
          return unless between?(version, "3.2.0", "3.2.2")

          "Ruby #{version} crashes when allocations are traced (https://bugs.ruby-lang.org/issues/19482); 3.2.3 " \
            "does not"
        end

        # nil, or why the threads of this process cannot be sampled: with several of them on one of the system's
        # (Ruby 3.3 and newer, if asked for) signals and CPU clocks would be those of somebody else. The environment
        # may say something else by now than when Ruby started.
        def threads_refused(description = RUBY_DESCRIPTION)
          return unless description.split.include?("+MN")

          "RUBY_MN_THREADS=1 lets Ruby's threads share native ones, which cannot be sampled"
        end

        # False for those in which a new Ractor crashes while a tracepoint for objects or collections is on
        # (bug 18464).
        def ractors_survive_tracepoints?(version = RUBY_VERSION)
          !(between?(version, "3.0.0", "3.0.999") || between?(version, "3.1.0", "3.1.3") ||
            between?(version, "3.2.0", "3.2.2"))
        end

        # For those where a garbage-collected Ractor turns all tracepoints off (bug 19112).
        def ractors_end_tracepoints?(version = RUBY_VERSION)
          between?(version, "3.0.0", "3.999")
        end

        # nil, or why live objects cannot be followed. Before 3.1 native code could recycle an object without
        # anybody being told (rb_gc_force_recycle).
        def heap_refused(version = RUBY_VERSION)
          return unless before?(version, "3.1.0")

          "live objects cannot be followed reliably on Ruby #{version}; 3.1 is needed"
        end

        # Reading a folder that a signal interrupts can end too early (bug 20586).
        def dir_interruptible?(version = RUBY_VERSION)
          before?(version, "3.4.0")
        end

        # Do Ruby's public functions for profilers show methods written in C?
        def public_frames_of_native_methods?(version = RUBY_VERSION)
          !before?(version, "3.0.0")
        end

        # Does Ruby keep for each thread what an event of it has left there? (ruby/profiler/gvl_watch.c)
        def gvl_waiting?(version = RUBY_VERSION)
          !before?(version, "3.3.0")
        end

        # Numbers only: what follows them ("3.4.0preview1") does not matter here.
        def numbers(version)
          version.scan(/\d+/).first(3).map(&:to_i)
        end

        private

        def before?(version, limit)
          (numbers(version) <=> numbers(limit)) < 0
        end

        def between?(version, first, last)
          (numbers(version) <=> numbers(first)) >= 0 && (numbers(version) <=> numbers(last)) <= 0
        end
      end
    end
  end
end
