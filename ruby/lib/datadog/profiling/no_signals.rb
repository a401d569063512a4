# frozen_string_literal: true

require_relative "log"
require_relative "ruby_rules"

module Datadog
  module Profiling
    # Whether to do without signals. A few libraries cannot bear system calls that a signal interrupts;
    # without signals threads are sampled a little later, where they would be switched anyway.
    class NoSignals
      FIRST_GOOD_PASSENGER = [6, 0, 19].freeze
      FIRST_GOOD_MYSQL = [8, 0, 0].freeze
      # MariaDB's client library counts for itself; what it imitates has numbers like these.
      MARIADB_BELOW = [5, 0, 0].freeze
      MARIADB_HEADER = [10, 0, 0].freeze

      def self.enabled?(setting, skip_mysql2_check: false)
        new(skip_mysql2_check).decide(setting)
      end

      def initialize(skip_mysql2_check)
        @skip_mysql2_check = skip_mysql2_check
      end

      def decide(setting)
        case setting
        when false
          Log.warn("Profiling uses signals, as set. If the program then misbehaves, do not set " \
                   "no_signals_workaround_enabled to false")
          false
        when true
          Log.warn("Profiling uses no signals, as set. Samples are less precise; please only do this where a " \
                   "library cannot bear signals")
          true
        when :auto then needed?
        else
          Log.error("no_signals_workaround_enabled can be true, false or :auto, not #{setting.inspect}: :auto is used")
          needed?
        end
      end

      private

      def needed?
        reason = culprit
        return false unless reason

        Log.warn("Profiling uses no signals, as #{reason} cannot bear them. Samples are less precise")
        true
      rescue StandardError, ScriptError => e
        Log.warn("Profiling uses no signals: whether all libraries bear them cannot be told: #{e.message}")
        true
      end

      # nil, or the name of a library that is loaded.
      def culprit
        return "the client library of mysql2" if loaded?("mysql2") && !mysql2_bears_signals?
        return "libgit2 (the gem rugged)" if loaded?("rugged")

        "this version of Passenger" if passenger_objects?
      end

      def loaded?(gem)
        defined?(::Gem) && ::Gem.loaded_specs.key?(gem)
      end

      # --- mysql2 ---

      def mysql2_bears_signals?
        return false if @skip_mysql2_check

        begin
          require "mysql2"
        rescue StandardError, LoadError => e
          Log.warn("mysql2 cannot be loaded, so its client library is not known: #{e.message} (#{e.class})")
          return false
        end
        good_mysql_client?(mysql2_client)
      rescue StandardError, ScriptError => e
        Log.warn("The version of mysql2's client library cannot be found: #{e.message} (#{e.class})")
        false
      end

      # mysql2-aurora puts itself before the real one.
      def mysql2_client
        defined?(::Mysql2::Aurora::ORIGINAL_CLIENT_CLASS) ? ::Mysql2::Aurora::ORIGINAL_CLIENT_CLASS : ::Mysql2::Client
      end

      def good_mysql_client?(client)
        return false unless client.respond_to?(:info)

        info = client.info
        version = numbers(info[:version])
        header = info[:header_version]
        at_least?(version, FIRST_GOOD_MYSQL) ||
          (!at_least?(version, MARIADB_BELOW) && !header.nil? && at_least?(numbers(header), MARIADB_HEADER))
      end

      # --- Passenger ---

      def passenger_objects?
        spec = ::Gem.loaded_specs["passenger"] if loaded?("passenger")
        return !at_least?(numbers(spec.version.to_s), FIRST_GOOD_PASSENGER) if spec

        defined?(::PhusionPassenger) ? true : false
      end

      def numbers(version)
        RubyRules.numbers(version.to_s)
      end

      def at_least?(version, limit)
        (version <=> limit) >= 0
      end
    end
  end
end
