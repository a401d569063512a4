# frozen_string_literal: true

module Support
  # Objects with the instance variables of the `datadog` tracer and of OpenTelemetry, and no behaviour: the profiler
  # must not need any.
  module Traces
    # An object whose every method raises.
    class Silent < BasicObject
      SET = ::Kernel.instance_method(:instance_variable_set)

      def set(**variables)
        variables.each { |name, value| SET.bind_call(self, "@#{name}", value) }
        self
      end

      def method_missing(name, *)
        ::Kernel.raise "somebody has called #{name}"
      end

      def respond_to_missing?(*)
        false
      end
    end

    def object(**variables)
      Silent.new.set(**variables)
    end

    # A Hash, with such objects as keys.
    def table(*pairs)
      pairs.each_with_object({}.compare_by_identity) { |(key, value), hash| hash[key] = value }
    end

    # What Datadog::Tracing gives, as far as the profiler looks at it.
    class Tracer
      attr_reader :provider

      def initialize(key)
        context = Object.new
        context.instance_variable_set(:@key, key)
        @provider = Object.new
        @provider.instance_variable_set(:@context, context)
      end
    end

    def span(id, **variables)
      object(id: id, **variables)
    end

    # With the given spans as root and active ones.
    def trace(root, active = root, **variables)
      object(root_span: root, active_span: active, **variables)
    end

    def otel_key(name = "current-span")
      object(name: name)
    end

    # Of OpenTelemetry: ids are bytes.
    def otel_span(trace_id, id, remote: false, **variables)
      object(context: object(trace_id: [trace_id].pack("Q>") * 2, span_id: [id].pack("Q>"), remote: remote), **variables)
    end

    def otel_context(span)
      object(entries: table([otel_key("baggage"), {}], [otel_key, span]))
    end
  end
end
