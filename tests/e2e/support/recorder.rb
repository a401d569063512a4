# frozen_string_literal: true

require "fileutils"
require "rbconfig"
require "tmpdir"

# `ddprofrb` of a checkout in which `bazel build //ruby:extension` has run.
module Recorder
  class << self
    # What stands before a command, for reports to an agent, or wherever the environment says.
    def exec_command
      [RbConfig.ruby, File.join(checkout, "ruby/bin/ddprofrb"), "exec"]
    end

    # The same, for a file.
    def command(file)
      [RbConfig.ruby, File.join(checkout, "ruby/bin/ddprofrb"), "record", "-q", "-o", file, "--"]
    end

    # All profiles in a folder, as our reader has them.
    def profiles(folder)
      $LOAD_PATH.unshift(library) unless $LOAD_PATH.include?(library)
      require "datadog/profiling/pprof_reader"
      Dir[File.join(folder, "p*.gz")].sort.map { |it| Datadog::Profiling::PprofReader.read_file(it) }
    end

    def library
      File.join(checkout, "bazel-bin/ruby/extension/lib")
    end

    def wait_for(seconds)
      finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
      until yield
        raise "not within #{seconds} s" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > finish

        sleep 0.05
      end
    end

    private

    def checkout
      @checkout ||= Dir.mktmpdir("nf-checkout-").tap do |folder|
        FileUtils.mkdir_p([File.join(folder, "ruby/bin"), File.join(folder, "bazel-bin/ruby/extension")])
        FileUtils.cp("ruby/bin/ddprofrb", File.join(folder, "ruby/bin"))
        system("cp", "-RL", "ruby/extension/lib", File.join(folder, "bazel-bin/ruby/extension/lib"), exception: true)
        system("chmod", "-R", "u+w", folder, exception: true)
        pid = Process.pid
        at_exit { FileUtils.rm_rf(folder) if Process.pid == pid }
      end
    end
  end
end
