# frozen_string_literal: true

module Datadog
  module Profiling
    module CLI
      # Flat and cumulative values by function name, as `pprof -top` adds them up.
      class Totals
        Row = Struct.new(:name, :file, :flat, :cum)

        attr_reader :total # of the absolute values: what percentages refer to

        def initialize(type, thread: nil)
          @type = type
          @thread = thread
          @rows = {}
          @files = Hash.new { |files, name| files[name] = Hash.new(0) }
          @total = 0
        end

        def add(profile)
          index = profile[:sample_types].index { |type, _| type == @type }
          names = names_of(profile)
          profile[:samples].each do |locations, values, labels|
            value = values[index]
            next if value == 0 || (@thread && !of_thread?(labels))

            @total += value.abs
            add_sample(locations, names, value)
          end
        end

        # Most first.
        def rows
          @rows.values.each { |row| row.file = main_file(row.name) }
          @rows.values.sort_by { |row| [-row.flat.abs, -row.cum.abs, row.name] }
        end

        def unit(profiles)
          profiles.first[:sample_types].find { |type, _| type == @type }.last
        end

        private

        # {location id => [[name, file], …]}, the innermost of inlined functions first
        def names_of(profile)
          functions = profile[:functions]
          profile[:locations].transform_values do |lines, address|
            found = lines.map { |id, _| functions[id] }.compact
            found = found.map { |name, file, _| [name_of(name, file), file] }
            found.empty? ? [[address == 0 ? "<unknown>" : format("0x%x", address), ""]] : found
          end
        end

        # Frames that stand for something else than a function have only a file ("In native code").
        def name_of(name, file)
          return name unless name.empty?

          file.empty? ? "<unknown>" : "(#{file})"
        end

        def add_sample(locations, names, value)
          seen = {} # a function that calls itself counts once
          leaf = true
          locations.each do |id|
            names[id].each do |name, file|
              row = @rows[name] ||= Row.new(name, "", 0, 0)
              row.flat += value if leaf
              leaf = false
              next if seen[name]

              seen[name] = true
              row.cum += value
              @files[name][file] += value.abs
            end
          end
        end

        # Methods of one name in several files share a row, as in pprof.
        def main_file(name)
          files = @files[name]
          file, = files.max_by { |path, value| [value, path] }
          return "" if name == "(#{file})"

          files.size > 1 ? "#{file} (and #{files.size - 1} more)" : file
        end

        def of_thread?(labels)
          labels.any? { |key, value| ["thread name", "thread id"].include?(key) && thread_matches?(value) }
        end

        def thread_matches?(value)
          value = value.to_s
          value == @thread || value.split(" ").first == @thread
        end
      end
    end
  end
end
