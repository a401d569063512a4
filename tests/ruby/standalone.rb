# For scripts that specs run in a process of their own: the profiler and the helpers, without RSpec.
require "datadog/profiling"
require "datadog/profiling/pprof_reader"
Datadog::Profiling.load_profiling

require "support/profiles"
require "support/sessions"
require "support/threads"

include Support::Profiles
include Support::Sessions
include Support::Threads
