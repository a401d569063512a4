# frozen_string_literal: true

module Datadog
  module Profiling
    module Collectors
      # Reads stacks (ruby/profiler/stack_collector.c). The thread context uses it natively.
      class Stack
      end
    end
  end
end
