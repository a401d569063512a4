# frozen_string_literal: true

# What `ddprofrb exec` puts into each Ruby process (RUBYOPT=-rdatadog/profiling/preload): with
# DD_PROFILING_ENABLED=true the process is profiled from here to its end, into a file of its own in the folder
# where the first one started: profile.<pid>.pb.gz. Otherwise nothing happens.
enabled = ENV["DD_PROFILING_ENABLED"].to_s
enabled = enabled.encode(Encoding::UTF_8) unless enabled.encoding.ascii_compatible?
if %w[1 true].include?(enabled.b.strip.downcase) && !ENV["NF_RECORD_FOLDER"]
  ENV["NF_RECORD_FILE"] ||= File.join(Dir.pwd, "profile.pb.gz") # for children, wherever they go
  require_relative "recording"
end
