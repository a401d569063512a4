# frozen_string_literal: true

require_relative "lib/datadog/profiling/version"

Gem::Specification.new do |spec|
  spec.name = "nonferrous"
  spec.version = Datadog::Profiling::VERSION
  spec.platform = Gem::Platform::RUBY
  spec.authors = ["the Nonferrous authors"]
  spec.summary = "A profiler for Ruby programs, in C"
  spec.description = "Profiles CPU time, wall time, allocations, live objects and garbage collection of all threads, and " \
                     "writes pprof files or reports to a Datadog agent. Compiled from C when it is installed. " \
                     "Not made by Datadog."
  spec.licenses = ["Apache-2.0", "BSD-3-Clause"]
  spec.required_ruby_version = ">= 2.5.0" # on 2.5 and 2.6 it installs, and says that it cannot profile
  spec.files = Dir["{bin,lib,ext,src}/**/*", "LICENSE*", "NOTICE", "README.md"].select { |file| File.file?(file) }.sort
  spec.extensions = ["ext/nonferrous/extconf.rb"]
  spec.bindir = "bin"
  spec.executables = ["ddprofrb"]
  spec.require_paths = ["lib"]
end
