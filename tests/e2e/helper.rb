# frozen_string_literal: true

require "rspec/core"
require "rspec/expectations"

require "support/agent"
require "support/installs"
require "support/profile_view"
require "support/programs"
require "support/strict_report"

SOAK = ENV["NF_SOAK"] == "1"

# The ways in which the datadog gem comes to a library.
module Variants
  # In Bazel's runfiles, where run_spec.sh starts.
  VENDOR_TREE = File.expand_path("vendor_tree")
  LIBDATADOG_GEM = File.expand_path("ruby/libdatadog/libdatadog-6.0.0.2.0.gem")

  OURS = { override: "ours, by LIBDATADOG_VENDOR_OVERRIDE", gem: "ours, by our libdatadog gem" }.freeze
  ALL = OURS.merge(rust: "the original library").freeze

  class << self
    def [](name)
      @installs ||= {}
      @installs[name] ||=
        case name
        when :override then Installs.override(VENDOR_TREE)
        when :gem then Installs.own_gem(LIBDATADOG_GEM)
        else Installs.rust
        end
    end
  end
end

# For examples that need what fetch_gems gets.
module NeedsGems
  def self.included(group)
    group.before do
      why = Installs.missing
      next unless why

      puts "skipped: #{why}"
      skip why
    end
  end
end

RSpec.configure do |config|
  config.expect_with(:rspec) { |expectations| expectations.syntax = :expect }
  config.disable_monkey_patching!
  config.warnings = false # other people's code is not ours to warn of
  config.order = :random
  Kernel.srand config.seed
end
