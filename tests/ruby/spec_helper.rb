# What every spec file requires. Run through Bazel, or from a checkout after `bazel build //ruby:extension`:
#   rspec -I bazel-bin/ruby/extension/lib -I tests/ruby tests/ruby/stack_spec.rb
require "rspec/core"
require "rspec/expectations"
require "timeout"

require "datadog/profiling"
require "datadog/profiling/pprof_reader"
Datadog::Profiling.load_profiling

require "support/children"
require "support/profiles"
require "support/sessions"
require "support/threads"

# What Ruby itself has to say about the profiler's files, e.g. that a variable was read before it was set.
module OwnWarnings
  SEEN = []
  FOLDERS = %i[expand_path realpath].map { |it| File.dirname(File.public_send(it, "datadog/profiling.rb", Support.extension_folder)) }

  def warn(text, **options)
    SEEN << text if text.start_with?(*FOLDERS)
    super(text, **options) unless text.include?("remove a syscall function") # that of support/threads.rb
  end
end
Warning.singleton_class.prepend(OwnWarnings)

# Longer variants: NF_SOAK=1 rspec …, or bazel test --test_env=NF_SOAK=1
SOAK = ENV["NF_SOAK"] == "1"

RSpec.configure do |config|
  config.expect_with(:rspec) { |expectations| expectations.syntax = :expect }
  config.disable_monkey_patching!
  config.warnings = true
  config.order = :random
  Kernel.srand config.seed

  config.include Support::Children
  config.include Support::Profiles
  config.include Support::Sessions
  config.include Support::Threads

  # A profiler that hangs shall fail its example, not the whole run.
  config.around do |example|
    limit = example.metadata[:time_limit] || (SOAK ? 600 : 60)
    Timeout.timeout(limit, nil, "the example was not over after #{limit} s") { example.run }
  end

  config.before { @threads_before = Thread.list }

  # `needs: :native_files`: what not every Ruby tells, by the names that Datadog::Profiling.capabilities has for it.
  config.before do |example|
    missing = Datadog::Profiling.capabilities.fetch(:missing)
    Array(example.metadata[:needs]).each { |what| skip "#{what}: #{missing[what]}" if missing.key?(what) }
  end

  config.before(:example, :ractors) { skip "this Ruby has no Ractors" unless defined?(Ractor) }

  # Threads and Ractors block each other in Ruby itself, without a profiler: each holds a lock that the other waits for. One
  # thread that sleeps in a loop is enough, which a session has, too; so this is for examples with many Ractors in a row.
  config.before(:example, :ractors_beside_threads) do
    skip "Ruby #{RUBY_VERSION} may hang when Ractors are made while other threads run" if RUBY_VERSION.start_with?("3.3.", "3.4.")
  end

  config.before(:example, :soak) { skip "takes long: runs with NF_SOAK=1 only" unless SOAK }

  # Whatever an example starts, it ends. Anything else would disturb the next one.
  config.after do
    raise "Ruby warns: #{OwnWarnings::SEEN.slice!(0..).join}" unless OwnWarnings::SEEN.empty?
    wait_until(message: "threads of this example to end") { (Thread.list - @threads_before).none? { |it| ours?(it) } }
  end
end
