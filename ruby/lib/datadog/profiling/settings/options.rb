# frozen_string_literal: true

require_relative "../recording/environment"

module Datadog
  module Profiling
    # What can be set, by code, by environment variable, or else has a default: in this order.
    #
    #   class Settings < Options
    #     option :max_frames, :int, 400, env: "DD_PROFILING_MAX_FRAMES"
    #     settings(:upload) { option :timeout_seconds, :float, 30.0, env: "DD_PROFILING_UPLOAD_TIMEOUT" }
    #   end
    #
    # A value of the wrong type is refused where it is set; a variable that cannot be read, where it is asked
    # for. Both are ArgumentErrors that name the option or the variable.
    class Options
      Option = Struct.new(:name, :type, :default, :env, :convert)

      # From code: the value, or nothing if it is not of the type. Symbols are types of their own.
      FROM_CODE = {
        any: ->(value) { [value] },
        bool: ->(value) { [value] if [true, false].include?(value) },
        int: ->(value) { [value] if value.is_a?(Integer) },
        float: ->(value) { [value.to_f] if [Float, Integer, Rational].any? { |it| value.is_a?(it) } },
        string: ->(value) { [value] if value.nil? || value.is_a?(String) },
        hash: ->(value) { [value.to_h { |key, text| [key.to_s, text.to_s] }] if value.is_a?(Hash) },
        switch: ->(value) { [value] }
      }.freeze

      # From the environment.
      FROM_TEXT = {
        any: ->(text) { text },
        bool: ->(text) { %w[true 1].include?(text.strip.downcase) },
        int: ->(text) { Integer(text.strip, 10) },
        float: ->(text) { Float(text.strip) },
        string: ->(text) { text },
        hash: ->(text) { Options.tags_from(text) },
        switch: ->(text) { %w[true 1].include?(text.strip.downcase) }
      }.freeze

      # "a:b,c:d", or with blanks in between where there is no comma. What has no key or no value is left out.
      def self.tags_from(text)
        parts = text.include?(",") ? text.split(",") : text.split(/\s+/)
        parts.each_with_object({}) do |part, tags|
          key, value = part.split(":", 2).map(&:strip)
          tags[key] = value unless key.to_s.empty? || value.to_s.empty?
        end
      end

      class << self
        def options
          @options ||= {}
        end

        def groups
          @groups ||= {}
        end

        # `default`: a value, or a block that is run on the settings. The block given turns a value into the
        # one that is kept; it may raise ArgumentError.
        def option(name, type, default, env: nil, &convert)
          options[name] = Option.new(name, type, default, env, convert)
          define_method(name) { value_of(name) }
          define_method(:"#{name}=") { |value| set(name, value) }
        end

        def settings(name, &definition)
          groups[name] = Class.new(Options, &definition)
          define_method(name) { @groups.fetch(name) }
        end

        # Settings of the past: said once, and without effect.
        def retired(name, instead)
          define_method(name) { nil }
          define_method(:"#{name}=") do |value|
            Log.warn("The setting #{name} has no effect any more: #{instead}")
            value
          end
        end
      end

      def initialize
        @values = {}
        @groups = self.class.groups.transform_values(&:new)
      end

      # :code, :env or :default
      def source_of(name)
        return :code if @values.key?(name)

        text_of(self.class.options.fetch(name)) ? :env : :default
      end

      def reset!
        @values.clear
        @groups.each_value(&:reset!)
      end

      def to_h
        own = self.class.options.keys.to_h { |name| [name, public_send(name)] }
        own.merge(@groups.transform_values(&:to_h))
      end

      private

      def set(name, value)
        option = self.class.options.fetch(name)
        found = FROM_CODE.fetch(option.type).call(value)
        raise ArgumentError, "#{name} cannot be set to #{value.inspect}: it takes #{article(option)}" unless found

        @values[name] = option.convert ? instance_exec(found.first, &option.convert) : found.first
      end

      def value_of(name)
        return @values.fetch(name) if @values.key?(name)

        option = self.class.options.fetch(name)
        text = text_of(option)
        return from_text(option, text) if text

        option.default.is_a?(Proc) ? instance_exec(&option.default) : option.default
      end

      # An empty variable is as good as none, except that it is no `true`.
      def text_of(option)
        text = option.env && Recording::Environment[option.env]
        return if text.nil? || (text.strip.empty? && !%i[bool switch].include?(option.type))

        text.force_encoding(Encoding::UTF_8).scrub("?")
      end

      def from_text(option, text)
        value = FROM_TEXT.fetch(option.type).call(text)
        option.convert ? instance_exec(value, &option.convert) : value
      rescue ArgumentError => e
        raise ArgumentError, "the environment variable #{option.env} cannot be used: #{e.message}"
      end

      def article(option)
        { bool: "true or false", int: "an Integer", float: "a number", string: "a String or nil", hash: "a Hash" }
          .fetch(option.type)
      end
    end
  end
end
