# frozen_string_literal: true

# `ruby -rdatadog/profiling/preload`, and what `ddprofrb exec` puts into each Ruby process: the profiler runs
# from here on, if DD_PROFILING_ENABLED says so. The program is never disturbed, whatever goes wrong.
enabled = ENV["DD_PROFILING_ENABLED"].to_s
enabled = enabled.encode(Encoding::UTF_8) unless enabled.encoding.ascii_compatible?
# `ddprofrb record` is at work already where there is such a folder.
if %w[1 true].include?(enabled.b.strip.downcase) && !ENV["NF_RECORD_FOLDER"]
  begin
    if defined?(Gem) && %w[datadog ddtrace].any? { |name| Gem.loaded_specs.key?(name) } # and will be loaded
      $stderr.puts("[nonferrous] WARN: The datadog gem is part of this program: nonferrous does nothing")
    else
      require_relative "../profiling"
      Datadog::Profiling.start_if_enabled if defined?(Datadog::Profiling::Configuration)
    end
  rescue StandardError, ScriptError, NoMemoryError => e
    $stderr.puts("[nonferrous] WARN: Profiling is off: #{e.message} (#{e.class})")
  end
end
