# frozen_string_literal: true

require "helper"

# The unmodified datadog gem, installed against our library and against the original one.
RSpec.describe "The datadog gem" do
  include NeedsGems

  def ruby!(install, code, env: {})
    output, status = Installs.run(RbConfig.ruby, "-e", code, env: install.env.merge(env))
    raise "#{status.inspect}: #{output}" unless status.success?

    output
  end

  # Undefined dynamic symbols of the library's interface.
  def imports(install)
    output, status = Installs.run("nm", "-D", "--undefined-only", install.extension)
    raise output unless status.success?

    output.scan(/\bddog_\w+/).sort
  end

  # The file from which the extension has the library's functions in a running process.
  def mapped_library(install)
    ruby!(install, <<~'RUBY')[%r{/.*}]
      require "datadog"
      Datadog::Profiling.supported? or abort(Datadog::Profiling.unsupported_reason)
      puts File.readlines("/proc/self/maps").grep(/libdatadog_profiling/).map { |it| it.split(" ", 6).last }.uniq
    RUBY
  end

  Variants::ALL.each do |variant, description|
    context "on #{description}" do
      let(:install) { Variants[variant] }

      it "supports profiling" do
        code = 'require "datadog"; p [Datadog::Profiling.supported?, Datadog::Profiling.unsupported_reason]'
        expect(ruby!(install, code)).to eq("[true, nil]\n")
        expect(Dir[File.join(install.gem("datadog"), "ext/*/skipped_reason.txt")]).to eq([])
      end

      it "loads when all symbols are bound at once" do
        code = 'require "datadog"; p Datadog::Profiling.supported?'
        expect(ruby!(install, code, env: { "LD_BIND_NOW" => "1" })).to eq("true\n")
      end

      it "gets its functions from that library and no other" do
        expect(mapped_library(install)).to start_with("#{File.realpath(install.home)}/")
        expect(File.size(mapped_library(install)) > 2 << 20).to eq(variant == :rust)
      end
    end
  end

  Variants::OURS.each do |variant, description|
    it "imports from #{description}, what it imports from the original library" do
      expect(imports(Variants[variant])).to eq(imports(Variants[:rust]))
      expect(imports(Variants[:rust]).size).to eq(22) # all that this gem uses
    end
  end
end
