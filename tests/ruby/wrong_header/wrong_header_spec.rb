require "spec_helper"
require "fileutils"
require "tmpdir"

# Extensions that were built with a private header of another layout (see BUILD). Whatever they would read in the wrong
# place must be found out when they are loaded, and cost nothing but a warning.
RSpec.describe "a private header that does not describe this Ruby" do
  # (Bazel's links lie beside this file, which is one itself.)
  EXTENSIONS = Dir[File.join(File.dirname(__FILE__), "*.so")].to_h { |it| [File.basename(it, ".so"), it] }.freeze

  WITH_RACTORS = {
    "thread_kernel_id" => /its kernel id/,
    "vm_ractor" => /main Ractor/,
    "ractor_lock" => /holds the GVL/,
    "ractor_context" => /running execution context/,
    "ractor_main" => /main thread/,
    "ractor_threads" => /list of threads/,
  }.freeze

  WITHOUT_RACTORS = {
    "vm_lock" => /holds the GVL/,
    "vm_main" => /main thread/,
    "vm_threads" => /list of threads/,
  }.freeze

  REASONS = {
    "release" => /\Abuilt for Ruby #{RUBY_VERSION}1 but loaded by #{RUBY_VERSION}\z/,
    "thread_object" => /its Thread object/,
    "thread_context" => /its execution context/,
    "thread_vm" => /its execution context/, # which comes before the VM, and moves with it
    "thread_pthread" => /its pthread_t/,
    "thread_name" => /its name/,
    "thread_block" => /how it was started/,
    "thread_node" => /Thread object/,
    "context_thread" => /lead back to its thread/,
    "context_stack" => /code of a frame/, # what is read for the newest frame is none
    "context_frame" => /on the VM's stack|frame/,
    "context_exception" => /its exception/,
    "frame_size" => /frame/,
    "frame_code" => /code of a frame/,
    "frame_environment" => /environment|method/,
    "code_body" => /code of a frame/,
    "code_start" => /code/,
    "code_location" => /code of a frame does not hold its name/,
    "method_name" => /method of a frame in C does not hold its name/,
    "vm_heap" => /its heap/,
    **(defined?(Ractor) ? WITH_RACTORS : WITHOUT_RACTORS),
  }.freeze

  SCRIPT = <<~RUBY.freeze
    require "datadog/profiling"
    require "datadog/profiling/pprof_reader"
    require "support/threads"
    include Support::Threads

    named = Thread.new { sleep }
    named.name = "one that sleeps"
    session = Datadog::Profiling::Session.new
    session.start
    burn(0.3)
    bytes = session.stop.bytes
    $stdout.binmode
    print Marshal.dump([Datadog::Profiling.capabilities.values_at(:tier, :why_public), bytes])
  RUBY

  around do |example|
    Dir.mktmpdir do |folder|
      @folder = folder
      example.run
    end
  end

  # The profiler under test, but for its extension.
  def run_with(extension)
    # (cp follows Bazel's links at every depth, which FileUtils.cp_r does not.)
    system("cp", "-rL", "#{Support.extension_folder}/.", @folder, exception: true)
    target = Dir[File.join(@folder, "datadog_profiling_native_extension.*")].first
    FileUtils.rm_f(target)
    FileUtils.cp(extension, target)
    run_ruby("$LOAD_PATH.unshift(#{@folder.dump})\n#{SCRIPT}")
  end

  it "is there in all these variants" do
    skip "no private header of Ruby #{RUBY_VERSION} is known, so none can be wrong" if Datadog::Profiling.capabilities[:tier] == :public
    expect(EXTENSIONS.keys).to match_array(REASONS.keys)
  end

  EXTENSIONS.each do |name, extension|
    it "is found out at load, said once, and done without: #{name}" do
      outcome = run_with(extension)
      expect(outcome.status).to be_success, outcome.to_s
      (tier, why), bytes = Marshal.load(outcome.stdout.b)
      expect([tier, why]).to match([:public, REASONS.fetch(name)])
      expect(outcome.stderr.lines).to contain_exactly(a_string_including("does not describe this Ruby #{RUBY_VERSION}: #{why}."))
      profile = decode(bytes)
      burnt = profile.samples.select { |sample| sample.names.include?("burn") && !sample.overhead? }
      expect(burnt.sum(&:cpu)).to be > 150_000_000
      expect(profile.samples.map(&:thread_name)).to include("one that sleeps")
    end
  end
end
