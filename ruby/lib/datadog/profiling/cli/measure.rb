# frozen_string_literal: true

module Datadog
  module Profiling
    module CLI
      # Values with their unit and percentages, rounded as the pprof tool rounds them.
      class Measure
        SECONDS = [["hrs", 3600e9], ["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1.0]].freeze
        TIMES = {
          "nanoseconds" => 1.0, "ns" => 1.0, "microseconds" => 1e3, "us" => 1e3, "milliseconds" => 1e6,
          "ms" => 1e6, "seconds" => 1e9, "s" => 1e9
        }.freeze
        BYTES = [["GB", 2.0**30], ["MB", 2.0**20], ["kB", 1024.0], ["B", 1.0]].freeze

        def initialize(unit, total, rows)
          @total = total
          @factor = TIMES[unit] || 1.0
          @units = if TIMES.key?(unit) then SECONDS
                   elsif ["bytes", "B"].include?(unit) then BYTES
                   end
          @unit = common_unit(rows) if @units
        end

        def label(value)
          return value.to_s unless @units

          name, size = @unit
          text = format("%.2f", value * @factor / size).delete_suffix(".00")
          text == "0" || text == "-0" ? "0" : "#{text}#{name}"
        end

        def percent(value)
          ratio = @total == 0 ? 0.0 : value.abs * 100.0 / @total.abs
          if ratio >= 99.95 && ratio <= 100.05 then "  100%"
          elsif ratio >= 1.0 then format("%5.2f%%", ratio)
          else format("%5.2g%%", ratio)
          end
        end

        private

        # One unit for the whole table: the smallest value's, or a larger one in which that still has two
        # decimals. As in pprof, rows beyond the first 80, and those of less than 0.5 %, have no say in it.
        def common_unit(rows)
          least = (@total.abs * 0.005).to_i
          rows = rows.reject { |row| row.cum.abs < least }.first(80)
          smallest = rows.filter_map { |row| [row.flat.abs, row.cum.abs].find(&:positive?) }.min || @total.abs
          unit = fitting(smallest)
          unit = fitting(smallest * 100) if unit != fitting(@total.abs) && smallest * 100 < @total.abs
          unit
        end

        def fitting(value)
          value *= @factor
          @units.find { |_, size| value >= size } || @units.last
        end
      end
    end
  end
end
