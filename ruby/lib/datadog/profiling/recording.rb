# frozen_string_literal: true

# What `ddprofrb record` puts into each Ruby process of the command (RUBYOPT=-rdatadog/profiling/recording).
#
# This file runs before the program, inside of it. So it never raises, needs no library that the program might
# want in another version, takes nothing that the program can see (random numbers, $?, $!), and keeps to the
# syntax of old Rubies.
recording = ENV["NF_RECORD_FILE"]
if recording
  # Whoever starts other programs passes the load path on through RUBYLIB; this program has no need of it.
  own_folder = File.expand_path("../..", __dir__)
  position = $LOAD_PATH.index { |folder| File.expand_path(folder) == own_folder }
  $LOAD_PATH.delete_at(position) if position

  require_relative "recording/process"
  Datadog::Profiling::Recording.begin_process
end
