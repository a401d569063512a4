# frozen_string_literal: true

require "open3"
require "tempfile"

require_relative "installs"

# Several reports of one program looked at as one profile.
class ProfileView
  attr_reader :samples

  def initialize(reports, install)
    @samples = reports.flat_map { |it| it.pprof.samples }
    # Where the same file lies in another installation.
    @prefixes = [install.home, *install.gem_path].sort_by { |it| -it.size }
  end

  # CPU and wall samples of threads, without what the profiler itself cost.
  def thread_samples(name = nil)
    @samples.select do |it|
      it.values["cpu-samples"].positive? && !it.labels.key?("profiler overhead") && !it.labels.key?("event") &&
        (name.nil? || it.labels["thread name"] == name)
    end
  end

  def allocations
    @samples.select { |it| it.values.fetch("alloc-samples", 0).positive? }
  end

  def live
    @samples.select { |it| it.values.fetch("heap-live-samples", 0).positive? }
  end

  def gc
    @samples.select { |it| it.labels["event"] == "gc" }
  end

  # Of so many samples, the share in which a method is on the stack, and how far that may be off by chance alone: one
  # standard deviation for samples of such unequal weight.
  def share(method, samples = thread_samples("main"), type = "cpu-time")
    weights = samples.map { |it| it.values.fetch(type) }
    total = weights.sum.to_f
    inside = samples.zip(weights).sum { |it, weight| it.frames.any? { |frame| frame[0] == method } ? weight : 0 } / total
    [inside, Math.sqrt([inside * (1 - inside), 0.01].max * weights.sum { |it| it.to_f**2 }) / total]
  end

  # [name, file] of what was on a stack, the same whatever the installation; of a file name's ending only, if given.
  def frames(samples = @samples, file: "")
    samples.flat_map(&:frames).map { |name, path, _| [name, plain(path)] }.uniq.select { |it| it[1].end_with?(file) }.sort
  end

  # Frames that are in so many of the samples that chance does not hide them from `others` more, taken likewise.
  def main_frames(samples, others)
    counts = Hash.new(0)
    samples.each { |it| frames([it]).each { |frame| counts[frame] += 1 } }
    counts.select { |_, count| count >= 25 && count * others >= 25 * samples.size }.keys.sort
  end

  # The kinds of labels that go together, of samples that the block picks.
  def label_keys(samples)
    samples.map { |it| it.labels.keys.sort }.uniq.sort
  end

  private

  def plain(path)
    prefix = @prefixes.find { |it| path.start_with?("#{it}/") }
    prefix ? path.delete_prefix(prefix) : path
  end
end

# The pprof tool itself, where it is there.
module RealPprof
  module_function

  def path
    [ENV["NF_PPROF"], File.join(Installs.cache, "pprof"), "/usr/bin/pprof"].compact.find { |it| File.executable?(it) }
  end

  # What `pprof REPORT` prints of an uncompressed profile; raises if it refuses it.
  def read(raw, report = "-top")
    Tempfile.create("profile", binmode: true) do |file|
      file.write(raw) && file.flush
      env = { "PPROF_TMPDIR" => File.dirname(file.path), "HOME" => File.dirname(file.path) }
      output, status = Open3.capture2e(env, path, report, file.path)
      raise "pprof refuses it: #{output}" unless status.success?

      output
    end
  end
end
