# frozen_string_literal: true

require_relative "../identity"
require_relative "../version"

module Datadog
  module Profiling
    module Collectors
      # What a report says about the system and the settings: found once, the same in every report.
      class Info
        START_TIME = Time.now.utc.strftime("%Y-%m-%dT%H:%M:%SZ").freeze
        LONGEST_TEXT = 1000
        DEEPEST = 10

        attr_reader :info

        def initialize(settings)
          @info = {
            platform: platform,
            runtime: { engine: RUBY_ENGINE, version: RUBY_VERSION, platform: RUBY_PLATFORM },
            application: {
              start_time: START_TIME, env: settings.env, service: settings.service, version: settings.version
            },
            profiler: {
              version: VERSION, libdatadog: "nonferrous-#{VERSION}-#{RUBY_PLATFORM}",
              settings: plain(settings.profiling.to_h, 0)
            }
          }
          freeze_all(@info)
        end

        private

        def platform
          system = Identity.uname
          {
            container_id: Identity.container_id, hostname: system.fetch(:nodename),
            kernel_name: system.fetch(:sysname), kernel_release: system.fetch(:release),
            kernel_version: system.fetch(:version)
          }
        end

        # Values that JSON has; others by what they say of themselves.
        def plain(value, depth)
          case value
          when nil, true, false, Numeric, Symbol then value
          when String then value.dup
          when Hash
            return "…" if depth > DEEPEST

            value.to_h { |key, it| [key.to_s, plain(it, depth + 1)] }
          when Enumerable
            return "…" if depth > DEEPEST

            value.first(100).map { |it| plain(it, depth + 1) }
          else described(value)
          end
        end

        def described(value)
          value.inspect[0, LONGEST_TEXT]
        rescue StandardError => e
          "(#{e.class})"
        end

        def freeze_all(value)
          value.each_value { |it| freeze_all(it) } if value.is_a?(Hash)
          value.each { |it| freeze_all(it) } if value.is_a?(Array)
          value.freeze
        end
      end
    end
  end
end
