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
  VENDOR_TREE = File.expand_path("vendor_tree") # in Bazel's runfiles, where run_spec.sh starts

  OURS = { override: "ours, by LIBDATADOG_VENDOR_OVERRIDE" }.freeze
  ALL = OURS.merge(rust: "the original library").freeze

  class << self
    def [](name)
      @installs ||= {}
      @installs[name] ||= name == :override ? Installs.override(VENDOR_TREE) : Installs.public_send(name)
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
