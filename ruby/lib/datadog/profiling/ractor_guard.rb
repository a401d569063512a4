# frozen_string_literal: true

require_relative "ruby_rules"

module Datadog
  module Profiling
    # Where Ractors and the hooks for objects and garbage collection crash Ruby together, the hooks give way
    # (ruby/profiler/ractor_guard.c).
    module RactorGuard
      REASON = "allocations, live objects and garbage collection are followed no longer, as the program " \
               "makes Ractors: Ruby #{RUBY_VERSION} would crash (https://bugs.ruby-lang.org/issues/18464)"

      @installed = false
      @on_close = nil

      class << self
        # Called with the reason: before the first Ractor, or when a worker starts too late for its hooks.
        attr_writer :on_close

        # Before a worker starts that has such hooks.
        def install
          return if @installed

          @installed = true
          return if RubyRules.ractors_survive_tracepoints? || !defined?(::Ractor)

          _native_install
          _native_close if ::Ractor.count > 1
        end

        # The hooks have ended, or will not begin.
        def closed
          @on_close&.call(REASON)
        rescue StandardError # never the program's trouble
          nil
        end
      end
    end
  end
end
