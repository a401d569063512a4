# frozen_string_literal: true

# `ddprofrb exec` has this file loaded into every Ruby process. With DD_PROFILING_ENABLED=true the process is profiled from
# here to its end, into profile.pb.gz of the folder in which it started (and, where that exists, profile.<pid>.pb.gz).

enabled = ENV.fetch("DD_PROFILING_ENABLED", "").strip.downcase
if ["true", "1"].include?(enabled)
  ENV["NF_RECORD_OUTPUT"] ||= File.expand_path("profile.pb.gz")
  require_relative "recording"
end
