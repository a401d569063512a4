# frozen_string_literal: true

module Datadog
  module Profiling
    # The native side as a whole (ruby/profiler/extension.c).
    module NativeExtension
      # Only until the extension replaces it.
      unless singleton_class.private_method_defined?(:native_working?)
        def self.native_working?
          raise "the native extension is not loaded"
        end
        private_class_method :native_working?
      end
    end
  end
end
