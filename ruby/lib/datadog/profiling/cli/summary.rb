# frozen_string_literal: true

require_relative "../recording/target"

module Datadog
  module Profiling
    module CLI
      # What `ddprofrb record` says at the end: one line of what there is, and one for each thing that went
      # wrong.
      class Summary
        # `notes`: see Recording::Notes; `output`: the path of the first profile, `shown`: as the user wrote
        # it.
        def initialize(notes, output:, shown:, quiet:)
          @notes = notes
          @output = output
          @shown = shown
          @quiet = quiet
        end

        def print
          lines = problems
          lines << outcome unless @quiet
          lines.each { |line| $stderr.write("ddprofrb: ".b << line.b.tr("\n", " ") << "\n".b) }
        rescue SystemCallError, IOError # nobody listens
          nil
        end

        private

        def problems
          lost = of(:lost).map { |pid, reason| "no profile of process #{pid}: #{reason}" }
          incomplete = of(:incomplete).map do |pid, reason|
            "the profile of process #{pid} is not complete: #{reason}"
          end
          limited = of(:limited).map { |_, reason| "something is missing in every profile: #{reason}" }
          limited + lost + incomplete
        end

        def outcome
          return "no profile, because no Ruby process was profiled#{of_failed}" if started.empty?
          return "no profile: #{rest}" if files.empty?

          samples, threads = [1, 2].map { |i| ended.sum { |fields| fields[i].to_i } }
          seconds = ended.map { |fields| fields[3].to_f }.max
          "#{count(files.size, "file")}, #{count(samples, "sample")}, #{count(threads, "thread")}, " \
            "#{format("%.1f", seconds)} s#{" (#{rest})" if rest}; " \
            "next: #{program} report #{quoted(main_file)}"
        end

        def of_failed
          " (of #{failed.size} started)" if failed.any?
        end

        def of(kind)
          @notes.select { |it, *| it == kind }.map { |_, *fields| fields }
        end

        def started
          of(:start).map(&:first)
        end

        def failed
          of(:fail).map(&:first).uniq
        end

        # Path, samples, threads, seconds: of each profile that was written.
        def ended
          of(:end).map { |_, *fields| fields }
        end

        def files
          moved = of(:moved).map(&:last)
          (ended.map(&:first) + moved).uniq
        end

        def main_file
          files.any? { |path| path.b == @output.b } ? @shown : relative(ended.first.first)
        end

        # Of processes that have left no profile, or nil.
        def rest
          open = started.tally
          (of(:end) + of(:lost)).each { |pid, *| open[pid] -= 1 if open.key?(pid) }
          open = open.select { |_, left| left > 0 }.keys
          running, gone = open.partition { |pid| running?(pid) }
          said = []
          if running.any?
            said << "#{count(running.size, "process")} still running, will write #{future(running)}"
          elsif of(:daemon).any?
            said << "a daemon is still running, will write #{future(["PID"])}"
          end
          said << "#{count(gone.size, "process")} killed or crashed before writing" if gone.any?
          said << "#{count(failed.size, "process")} not profiled" if failed.any?
          said << "#{count(of(:lost).size, "process")} could not write" if of(:lost).any?
          said.join(", ") if said.any?
        end

        # Not those that are dead, and that nobody has asked for yet.
        def running?(pid)
          !%w[Z X].include?(File.binread("/proc/#{pid}/stat")[/\)\s+(\S)/n, 1])
        rescue SystemCallError
          false
        end

        def future(pids)
          names = pids.first(2).map { |pid| relative(Recording::Target.variant(@output, pid.to_s)) }
          pids.size > 2 ? "#{names.join(", ")}, …" : names.join(" and ")
        end

        def count(number, what)
          return "1 #{what}" if number == 1

          "#{number} #{what}#{what.end_with?("s") ? "es" : "s"}"
        end

        def relative(path)
          path.b.delete_prefix("#{Dir.pwd}/".b).force_encoding(Encoding::UTF_8)
        rescue SystemCallError
          path
        end

        # As the user has called it, so that it can be typed again.
        def program
          $PROGRAM_NAME.include?("/") ? quoted($PROGRAM_NAME) : "ddprofrb"
        end

        def quoted(path)
          path.b.match?(%r{\A[A-Za-z0-9_./+@:,=\x80-\xff-]+\z}n) ? path : "'#{path.gsub("'", %q('\\\\''))}'"
        end
      end
    end
  end
end
