# frozen_string_literal: true

require_relative "lib/libdatadog/version"

Gem::Specification.new do |spec|
  spec.name = "libdatadog"
  spec.version = Libdatadog::VERSION
  spec.platform = Gem::Platform::RUBY
  spec.authors = ["the Nonferrous authors"]
  spec.summary = "DataDog's profiling library without the Rust, compiled from C when it is installed"
  spec.description = "The C interface of libdatadog 6 for the profiler of the datadog gem, in C: for machines that nobody " \
                     "ships a prebuilt libdatadog for. Not made by Datadog."
  spec.licenses = ["Apache-2.0", "BSD-3-Clause"]
  spec.required_ruby_version = ">= 2.5.0"
  spec.files = Dir["{lib,ext,src}/**/*"].select { |file| File.file?(file) }.sort + ["README.md"]
  spec.extensions = ["ext/libdatadog/extconf.rb"]
  spec.require_paths = ["lib"]
end
