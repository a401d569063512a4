# frozen_string_literal: true

require "helper"
require "support/scenarios"

# The unmodified datadog gem in programs of users, on our library and on the original one.
RSpec.describe "A program under ddprofrb exec" do
  include NeedsGems

  def self.types(*names)
    names.map { |it| [it, it.end_with?("-samples") ? "count" : it.end_with?("-size") ? "bytes" : "nanoseconds"] }
  end

  base_types = types("cpu-samples", "wall-time", "cpu-time", "timeline")
  all_types = types("cpu-time", "cpu-samples", "wall-time", "alloc-samples", "heap-live-samples", "heap-live-size",
                    "timeline")

  def result(name, variant)
    Scenarios.result(name, variant)
  end

  # Every report passes the strict check, of the types that are wanted, and the agent got nothing that was cut off.
  def expect_good_reports(result, types)
    expect(result.reports).not_to be_empty, result.outcome.to_s
    expect(result.reports.map { |it| it.pprof.types }.uniq).to eq([types])
    expect(result.broken).to eq(0)
  end

  def expect_well_ended(result)
    expect(result.outcome.status).to be_success, result.outcome.to_s
    expect(result.outcome.to_s.lines.grep(/ERROR|error/)).to eq([]) # the gem writes its log to both
  end

  # Within what chance alone does to two shares (five standard deviations: of thousands of runs, none) and one point.
  def expect_same_share(one, other, what)
    (share, deviation), (other_share, other_deviation) = one, other
    expect((share - other_share).abs).to be < (5 * Math.hypot(deviation, other_deviation)) + 0.01,
                                         "#{what}: #{share.round(3)} and #{other_share.round(3)}"
  end

  Variants::ALL.each do |variant, description|
    context "on #{description}" do
      it "is profiled while it takes CPU time in methods whose shares it knows" do
        it = result(:cpu_bound, variant)
        expect_well_ended(it)
        expect_good_reports(it, base_types)
        taken = it.outcome.stdout.lines.to_h { |line| line.split.then { |name, time| [name, time.to_f] } }
        expect(taken.keys).to eq(%w[heavy medium light])
        taken.each do |name, time|
          expect_same_share(it.view.share(name), [time / taken.values.sum, 0], name)
        end
      end

      it "is profiled with threads, sleep, garbage collection, allocations and live objects" do
        it = result(:everything, variant)
        expect_well_ended(it)
        expect_good_reports(it, all_types)
        names = it.view.thread_samples.map { |sample| sample.labels["thread name"] }.uniq
        expect(names).to include("main", "computer", "sleeper", "allocator", "collector", "keeper")
        waiter = File.readlines(File.join(Program::FOLDER, "everything.rb")).index { |line| line.start_with?("waiter =") } + 1
        expect(names).to include("everything.rb:#{waiter}") # which has no name
        expect(it.view.gc.map { |sample| sample.labels["gc cause"] }).to include("GC.start()")
        expect(it.view.allocations.map { |sample| sample.labels["allocation class"] }).to include("Dropped")
        expect(it.view.live.map { |sample| sample.labels["allocation class"] }).to include("Kept")
        states = it.view.thread_samples("sleeper").map { |sample| sample.labels["state"] }
        expect(states).to include("sleeping")
      end

      it "is profiled in all processes of a clustered Puma under load" do
        it = result(:web, variant)
        statuses = it.facts.keys.map(&:first).uniq
        expect(statuses).to eq([200]), "#{it.facts}\n#{it.outcome}"
        workers = it.facts.keys.map(&:last).uniq
        expect(workers.size).to eq(2)
        expect_good_reports(it, base_types)
        by_pid = it.reports.group_by(&:pid)
        expect(by_pid.keys.size).to eq(3)
        expect(by_pid.keys).to include(*workers)
        expect(it.reports.map { |report| report.tags["runtime-id"] }.uniq.size).to eq(3)
        by_pid.each do |pid, reports|
          names = ProfileView.new(reports, it.install).frames.map(&:first)
          expect(names.include?("report")).to eq(workers.include?(pid)), "process #{pid}"
        end
        endpoints = it.view.samples.map { |sample| sample.labels["trace endpoint"] }.compact.uniq
        expect(endpoints).to contain_exactly("GET /report", "GET /page")
      end

      it "is profiled in each child that it forks for a job" do
        it = result(:jobs, variant)
        expect_well_ended(it)
        expect(it.outcome.stdout).to include("wrong: 0")
        expect_good_reports(it, base_types)
        by_pid = it.reports.group_by(&:pid)
        expect(by_pid.size).to eq(4)
        with_work = by_pid.count { |_, reports| ProfileView.new(reports, it.install).frames.map(&:first).include?("work") }
        expect(with_work).to eq(3)
      end

      it "does not grow with the jobs for which it forks" do
        it = result(:many_jobs, variant)
        expect_well_ended(it)
        expect(it.outcome.stdout).to include("wrong: 0")
        early, late = it.outcome.stdout[/^memory (.*)/, 1].split.map(&:to_i)
        expect(late).to be < early * 1.3
      end

      it "reports through a unix socket" do
        it = result(:unix_socket, variant)
        expect_well_ended(it)
        expect_good_reports(it, base_types)
      end

      it "ends as ever when there is no agent, and says why no report went out" do
        it = result(:agent_down, variant)
        expect(it.outcome.status).to be_success
        expect(it.outcome.stdout.scan(/^(heavy|medium|light) \d+$/).flatten).to eq(%w[heavy medium light])
        expect(it.outcome.to_s).to include("failed ddog_prof_Exporter_send: error trying to connect: tcp connect error: " \
                                             "Connection refused (os error 111)")
      end

      it "goes on while a slow agent takes its time" do
        it = result(:slow_agent, variant)
        expect_well_ended(it)
        expect_good_reports(it, base_types)
        # The report after a minute; whether the last one, at the end, comes through is a matter of time.
        first = it.arrivals.find(&:profile?).at.to_f
        ticks = it.outcome.stdout.lines.map(&:to_f)
        expect(ticks.count { |tick| tick.between?(first, it.facts.first.to_f) }).to be > 5
      end

      it "sends profiles that the pprof tool itself reads" do
        skip("there is no pprof tool here") unless RealPprof.path

        %i[cpu_bound everything].each do |name|
          raw = StrictLz4.decode(result(name, variant).reports.first.pprof_bytes)
          expect(RealPprof.read(raw, "-raw")).to include("Samples:")
          expect(RealPprof.read(raw, "-top")).to include("flat%")
        end
      end
    end
  end

  Variants::OURS.each do |variant, description|
    context "on #{description}, compared with the original library" do
      def both(name, variant)
        [variant, :rust].map { |it| Scenarios.result(name, it) }
      end

      it "has the same types, labels, frames and shares of CPU time" do
        ours, rust = both(:cpu_bound, variant).map(&:view)
        known = %w[<main> turn heavy medium light spin].map { |it| [it, "cpu_bound.rb"] }
        [ours, rust].each { |it| expect(it.frames(file: "cpu_bound.rb")).to include(*known) }
        expect(ours.label_keys(ours.thread_samples)).to eq(rust.label_keys(rust.thread_samples))
        expect_same_frames(ours, ours.thread_samples, rust, rust.thread_samples)
        %w[heavy medium light spin].each { |it| expect_same_share(ours.share(it), rust.share(it), it) }
      end

      it "has the same kinds of samples when everything is on" do
        ours, rust = both(:everything, variant).map(&:view)
        expect(ours.frames(file: "everything.rb")).to include(*%w[collect keep doze compute].map { |it| [it, "everything.rb"] })
        %i[thread_samples allocations live].each do |kind|
          expect(ours.label_keys(ours.public_send(kind))).to eq(rust.label_keys(rust.public_send(kind)))
        end
        %w[computer sleeper allocator collector keeper].each do |thread|
          expect_same_frames(ours, ours.thread_samples(thread), rust, rust.thread_samples(thread))
        end
      end

      it "sends event.json with the same keys and values of the same kinds" do
        ours, rust = both(:everything, variant).map { |it| kinds(it.reports.first.event) }
        expect(ours).to eq(rust)
      end

      it "has the same frames of the application in a web server's workers" do
        ours, rust = both(:web, variant).map(&:view)
        inside = [ours, rust].map { |it| it.thread_samples.select { |sample| it.frames([sample], file: "config.ru").any? } }
        expect_same_frames(ours, inside[0], rust, inside[1])
        labels, expected = [ours, rust].map { |it| it.thread_samples.flat_map { |sample| sample.labels.keys }.uniq.sort }
        expect(labels).to eq(expected)
      end

      it "ends with the same words when there is no agent" do
        ours, rust = both(:agent_down, variant).map { |it| said(it) }
        expect(ours.size).to be > 0
        expect(ours).to eq(rust)
      end

      # What each has seen often, the other has seen too.
      def expect_same_frames(view, samples, other, other_samples)
        expect(view.main_frames(samples, other_samples.size) - other.frames(other_samples)).to eq([])
        expect(other.main_frames(other_samples, samples.size) - view.frames(samples)).to eq([])
      end

      # The log without times, process ids, ports and folders.
      def said(result)
        result.outcome.to_s.lines.grep(/datadog:/).map do |line|
          line.gsub(%r{\d{4}-\d\d-[^ ]*|#\d+|127\.0\.0\.1:\d+|/[^ ]*/gems/}, "*")
        end
      end

      # Values become their kinds; what a system may lack is left out.
      def kinds(value)
        case value
        when Hash then value.transform_values { |it| kinds(it) }
        when Array then value.map { |it| kinds(it) }
        when Numeric then :number
        else value.class
        end
      end
    end
  end
end
