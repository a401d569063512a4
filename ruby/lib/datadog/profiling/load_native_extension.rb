# frozen_string_literal: true

require_relative "loader"
require_relative "version"

# Top-level code, so that it runs once per process.
extension = "datadog_profiling_native_extension"
status, reason = Datadog::Profiling::Loader._native_load(
  Datadog::Profiling::Loader.path_of(extension), "Init_#{extension}"
)
raise "Failure to load #{extension}.#{Datadog::Profiling::Loader::SUFFIX}: #{reason}" if status == :error
