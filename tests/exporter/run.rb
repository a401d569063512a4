# Runs the process-level tests of the exporter: ruby run.rb [spec file or RSpec option]...
#
# NF_DRIVER, NF_PRELOAD and NF_LIBRARY name what was built (driver.c, preload.c, the library under test);
# NF_CACHE is where
# the other implementation lies; NF_SOAK=1 also runs what takes minutes.
require_relative "support/namespace"

Namespace.enter(__FILE__, ARGV)
if Namespace.inside?
  Namespace.raise_loopback
  Namespace.complete_etc
end

require "rspec/core"
require_relative "support/helper"

arguments = ["--format", "documentation", "--no-color", *ARGV]
exit RSpec::Core::Runner.run(arguments)
