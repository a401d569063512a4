# frozen_string_literal: true

module Datadog
  module Profiling
    module Collectors
      # Keeps the cost of sampling near its target (ruby/profiler/dynamic_sampling_rate.c). The worker uses it
      # natively.
      class DynamicSamplingRate
      end
    end
  end
end
