# frozen_string_literal: true

require_relative "../pprof_reader"
require_relative "measure"
require_relative "totals"

module Datadog
  module Profiling
    module CLI
      class Report
        HELP = <<~TEXT
          usage: ddprofrb report [options] FILE…

          Shows for each function how much was spent in it alone (flat) and in it and what it called (cum), most
          first. Several files are added up. Reads the pprof files of any tool (gzip, LZ4, zstd or not compressed).

            -t, --sample-type TYPE  what to show, e.g. wall-time (default: cpu-time, else the file's own)
            -n, --limit N           how many functions (default: 30; 0: all)
                --thread NAME       only samples of threads of this name or id
            -h, --help              show this

          The figures are those of `pprof -top -nodefraction=0` for the same file.

          Exit status: 1 if a file cannot be read, 2 for wrong usage.
        TEXT
        OPTIONS = {
          "-t" => :value, "--sample-type" => :value, "-n" => :value, "--limit" => :value,
          "--thread" => :value, "-h" => :flag, "--help" => :flag
        }.freeze

        def initialize(lib:)
          @lib = lib
        end

        def run(arguments)
          options, files = Options.parse_anywhere(arguments, OPTIONS)
          return CLI.print_line(HELP) if options["-h"] || options["--help"]
          raise UsageError, "report needs a file to read" if files.empty?

          limit = limit_from(options["-n"] || options["--limit"] || "30")
          profiles = files.map { |file| read(file) }
          type = pick_type(profiles, options["-t"] || options["--sample-type"])
          totals = Totals.new(type, thread: options["--thread"])
          profiles.each { |profile| totals.add(profile) }
          print(files, profiles, type, totals, limit)
        end

        private

        def limit_from(text)
          limit = Integer(text, 10, exception: false)
          raise UsageError, "--limit takes a number, not #{text.inspect}" unless limit && limit >= 0

          limit == 0 ? nil : limit
        end

        def read(file)
          PprofReader.read_file(file)
        rescue PprofReader::Error => e
          raise Failure, "#{file}: #{e.message}"
        rescue ArgumentError => e # a NUL in the name
          raise Failure, "#{file.inspect}: #{e.message}"
        end

        def pick_type(profiles, wanted)
          types = profiles.map { |profile| profile[:sample_types].map(&:first) }.reduce(:&)
          raise Failure, "the files have no sample type in common" if types.empty? && profiles.size > 1
          raise Failure, "the profile has no sample types" if types.empty?
          return wanted if types.include?(wanted)
          raise UsageError, "no sample type #{wanted.inspect} (there are: #{types.join(", ")})" if wanted

          default = ["cpu-time", profiles.last[:default_sample_type]].find { |type| types.include?(type) }
          default || types.last
        end

        def print(files, profiles, type, totals, limit)
          puts heading(files, profiles)
          puts about_type(profiles, type, totals)
          rows = totals.rows
          measure = Measure.new(totals.unit(profiles), totals.total, rows)
          puts "      flat  flat%   sum%        cum   cum%  function"
          sum = 0
          rows.first(limit || rows.size).each do |row|
            sum += row.flat
            puts format(
              "%10s %s %s %10s %s  %s%s", measure.label(row.flat), measure.percent(row.flat),
              measure.percent(sum), measure.label(row.cum), measure.percent(row.cum), printable(row.name),
              row.file.empty? ? "" : "  #{printable(short(row.file))}"
            )
          end
          left = rows.size - (limit || rows.size)
          puts "(#{left} more: --limit 0)" if left > 0
          $stdout.flush
          0
        end

        def heading(files, profiles)
          start = profiles.map { |profile| profile[:time_nanos] }.reject(&:zero?).min
          seconds = profiles.map { |profile| profile[:duration_nanos] }.max / 1e9
          name = files.size == 1 ? printable(files.first) : "#{files.size} files"
          at = start && Time.at(start / 1_000_000_000).strftime(" from %Y-%m-%d %H:%M:%S %z")
          "#{name}: #{format("%.2f", seconds)} s#{at}"
        end

        def about_type(profiles, type, totals)
          others = profiles.first[:sample_types].map(&:first) - [type]
          measure = Measure.new(totals.unit(profiles), totals.total, [])
          others = others.empty? ? "" : "; see also --sample-type #{others.join(", ")}"
          "#{printable(type)}: #{measure.label(totals.total)} in all#{others}"
        end

        # Where gems, or the profiler, are installed is of no interest here.
        def short(path)
          path.sub(%r{\A/.*/(?=datadog/profiling/)|\A/.*/gems/(?=[^/]+-\d[^/]*/)}, "")
        end

        # Names come from a file: nothing in them may move the cursor or break a line.
        def printable(text)
          text.gsub(/[[:cntrl:]]/) { |char| char.inspect[1..-2] }
        end

        def puts(line)
          $stdout.write(line, "\n")
        end
      end
    end
  end
end
