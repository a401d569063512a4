# frozen_string_literal: true

require_relative "extensions"

module Datadog
  module Profiling
    # Opens the profiler's extension with local symbols (see ruby/loader/loader.c).
    module Loader
    end
  end
end

begin
  Datadog::Profiling::Extensions.load("datadog_profiling_loader")
rescue LoadError => e
  raise LoadError,
        "the profiler's loader for Ruby #{RUBY_VERSION} (#{RUBY_PLATFORM}) cannot be loaded. If Ruby was " \
        "changed since the installation, build or install the profiler again. The cause: #{e.message}"
end
