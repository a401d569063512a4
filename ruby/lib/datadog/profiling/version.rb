# frozen_string_literal: true

module Datadog
  module Profiling
    VERSION = "0.1.0"
  end
end
