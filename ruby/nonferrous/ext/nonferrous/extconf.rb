# frozen_string_literal: true

# RubyGems runs this to install the gem. All the work is done here; the Makefile that RubyGems wants does nothing. An
# installation never fails for want of a profiler: it then says why there is none, and so does the program that asks for
# it later. (No mkmf: requiring it fails where Ruby's headers are missing.)

require_relative "skip_reasons"
require_relative "native_build"

build = Nonferrous::NativeBuild
system = Nonferrous::SkipReasons::System.new(RUBY_ENGINE, RUBY_PLATFORM, Gem.win_platform?, RUBY_VERSION,
                                             build.ruby_headers?, ENV.to_h, nil)

reason_file = File.join(build::LIB, "datadog", "profiling", "skipped_reason.txt")
File.delete(reason_file) if File.exist?(reason_file) # of an earlier installation

reason = Nonferrous::SkipReasons.first_of(system)
unless reason # then it is worth trying
  system.build_problem = build.new.problem
  reason = Nonferrous::SkipReasons.first_of(system)
end

if reason
  if ENV["DD_PROFILING_FAIL_INSTALL_IF_MISSING_EXTENSION"].to_s.strip.downcase == "true"
    text = "The profiler is not compiled, because #{reason.reason.join(" ")}. #{reason.suggested.join(" ")}"
    File.write("mkmf.log", "#{text}\n") # which RubyGems keeps
    warn(text)
    exit(1)
  end
  warn(Nonferrous::SkipReasons.box(reason))
  File.write(reason_file, "#{(reason.reason + reason.suggested).join(" ")}\n")
  File.chmod(0o644, reason_file) # whatever the umask is
end

# Readable for everybody, whatever the umask is: RubyGems sees to that for files, but not for folders.
FileUtils.chmod_R("a+rX", build::ROOT)

File.write("Makefile", "all install clean:\n\t@:\n.PHONY: all install clean\n")
File.chmod(0o644, "Makefile")
