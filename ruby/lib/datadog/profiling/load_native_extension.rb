# frozen_string_literal: true

require_relative "extensions"
require_relative "version"

# Top-level code, so that it runs once per process.
extension = "datadog_profiling_native_extension"
# What is linked into Ruby shows no symbols to anybody, so it needs no care.
unless Datadog::Profiling::Extensions.load_linked(extension)
  require_relative "loader"
  status, reason = Datadog::Profiling::Loader._native_load(
    Datadog::Profiling::Extensions.path_of(extension), "Init_#{extension}"
  )
  raise "Failure to load #{extension}.#{Datadog::Profiling::Extensions::SUFFIX}: #{reason}" if status == :error
end
