# frozen_string_literal: true

# RubyGems runs this to install the gem. All the work is done here; the Makefile that RubyGems wants does nothing.

require_relative "../../lib/libdatadog/source_build"

begin
  Libdatadog::SourceBuild.new.run
rescue Libdatadog::SourceBuild::Failed => e
  warn(e.message)
  exit(1)
end

File.write("Makefile", "all install clean:\n\t@:\n.PHONY: all install clean\n")
File.chmod(0o644, "Makefile") # whatever the umask is
