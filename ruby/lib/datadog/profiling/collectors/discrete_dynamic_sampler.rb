# frozen_string_literal: true

module Datadog
  module Profiling
    module Collectors
      # Chooses which allocations to sample (ruby/profiler/discrete_dynamic_sampler.c). The worker uses it
      # natively.
      class DiscreteDynamicSampler
      end
    end
  end
end
