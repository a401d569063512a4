# frozen_string_literal: true

require "rbconfig"

module Datadog
  module Profiling
    # Opens the profiler's extension with local symbols (see ruby/loader/loader.c).
    module Loader
      SUFFIX = "#{RUBY_VERSION}_#{RUBY_PLATFORM}"
      FOLDER = File.expand_path("../..", __dir__)

      def self.path_of(extension)
        "#{FOLDER}/#{extension}.#{SUFFIX}.#{RbConfig::CONFIG["DLEXT"]}"
      end
    end
  end
end

begin
  require Datadog::Profiling::Loader.path_of("datadog_profiling_loader")
rescue LoadError => e
  raise LoadError,
        "the profiler's loader for Ruby #{RUBY_VERSION} (#{RUBY_PLATFORM}) cannot be loaded. If Ruby was " \
        "changed since the installation, build or install the profiler again. The cause: #{e.message}"
end
