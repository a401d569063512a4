# frozen_string_literal: true

require "spec_helper"
require "fiber" # of which Fiber.current is a part before Ruby 3.1
require "support/traces"

RSpec.describe "labels of traces" do
  include Support::Traces

  let(:recorder) { new_recorder }
  let(:key) { :"datadog_context_#{object_id}" }
  let(:tracer) { Support::Traces::Tracer.new(key) }
  let(:options) { {} }
  let(:context) { new_thread_context(recorder, tracer: tracer, endpoint_collection_enabled: true, **options) }
  let(:doors) { Datadog::Profiling::Collectors::ThreadContext::Testing }

  # A thread that works on this, as Thread#[] shows it to others.
  def working_on(active_trace)
    with_sleeping_thread do |thread|
      thread[key] = object(active_trace: active_trace)
      yield thread
    end
  end

  def sample
    doors._native_sample(context, Thread.current)
  end

  def samples_of(thread)
    sample
    serialize(recorder).of_thread(thread)
  end

  # [local root span id, span id, endpoint] of the one sample of a thread
  def labels_of(thread)
    labels = samples_of(thread).first.labels
    labels.values_at("local root span id", "span id", "trace endpoint")
  end

  let(:nothing) { [nil, nil, nil] }

  describe "of the datadog tracer" do
    it "are the root's and the active span's ids" do
      working_on(trace(span(11), span(22))) { |it| expect(labels_of(it)).to eq([11, 22, nil]) }
    end

    it "are on the samples of the thread that works on them, and on no other" do
      working_on(trace(span(11), span(22))) do |one|
        working_on(trace(span(33), span(44))) do |other|
          sample
          profile = serialize(recorder)
          ids = ->(thread) { profile.of_thread(thread).map { |it| it.labels.values_at("local root span id", "span id") } }
          expect([ids.call(one), ids.call(other), ids.call(Thread.current)]).to eq([[[11, 22]], [[33, 44]], [[nil, nil]]])
        end
      end
    end

    it "are on the overhead sample too" do
      Thread.current[key] = object(active_trace: trace(span(5), span(6)))
      sample
      overhead = serialize(recorder).samples.select(&:overhead?)
      expect(overhead.map { |it| it.labels.values_at("local root span id", "span id") }).to eq([[5, 6]])
    ensure
      Thread.current[key] = nil
    end

    it "are of 64 bits" do
      [[1, 2**62], [2**62 - 1, 2**63 - 1], [2**63 - 1, 1]].each do |root, active|
        working_on(trace(span(root), span(active))) { |it| expect(labels_of(it)).to eq([root, active, nil]) }
      end
      working_on(trace(span(2**64 - 1), span(2**63))) { |it| expect(labels_of(it)).to eq([-1, -2**63, nil]) }
    end

    it "follow the thread from span to span" do
      root = span(1)
      active = trace(root, span(2))
      working_on(active) do |thread|
        expect(labels_of(thread)).to eq([1, 2, nil])
        active.set(active_span: span(3))
        expect(labels_of(thread)).to eq([1, 3, nil])
        thread[key] = object(active_trace: nil)
        expect(labels_of(thread)).to eq(nothing)
      end
    end

    it "are not there without a tracer, or with one of another kind" do
      without_provider = Object.new
      provider = ->(value) { Object.new.tap { |it| it.define_singleton_method(:provider) { value } } }
      no_key = Object.new.tap { |it| it.instance_variable_set(:@context, Object.new) }
      odd_key = Object.new.tap { |it| it.instance_variable_set(:@context, Object.new.tap { |c| c.instance_variable_set(:@key, "text") }) }
      tracers = [nil, without_provider, provider.call(nil), provider.call(Object.new), provider.call(no_key), provider.call(odd_key)]
      working_on(trace(span(1), span(2))) do |thread|
        tracers.each do |it|
          other = new_thread_context(recorder, tracer: it, endpoint_collection_enabled: true)
          doors._native_sample(other, Thread.current)
          labels = serialize(recorder).of_thread(thread).first.labels
          expect(labels.keys).not_to include("local root span id", "span id", "trace endpoint")
        end
      end
    end

    describe "that is loaded" do
      let(:loaded) { new_thread_context(recorder, tracer: :loaded, endpoint_collection_enabled: true) }

      after { Datadog.remove_instance_variable(:@components) if Datadog.instance_variable_defined?(:@components) }

      def load_tracer(key)
        context = object(key: key)
        Datadog.instance_variable_set(:@components, object(tracer: object(provider: object(context: context))))
      end

      def labels_now(thread)
        doors._native_sample(loaded, Thread.current)
        serialize(recorder).of_thread(thread).first.labels.values_at("local root span id", "span id", "trace endpoint")
      end

      it "are found when it comes, when it is replaced, and not when it is gone" do
        with_sleeping_thread do |thread|
          keys = Array.new(2) { |i| :"datadog_context_of_#{object_id}_#{i}" }
          thread[keys.first] = object(active_trace: trace(span(1), span(2)))
          thread[keys.last] = object(active_trace: trace(span(3, type: "web"), span(4), resource: "GET"))
          expect(labels_now(thread)).to eq(nothing)
          load_tracer(keys.first)
          expect(labels_now(thread)).to eq([1, 2, nil])
          load_tracer(keys.last)
          GC.start
          expect(labels_now(thread)).to eq([3, 4, "GET"])
          [nil, 1, "text", object].each do |it|
            load_tracer(it)
            expect(labels_now(thread)).to eq(nothing)
          end
          [nil, 1, object, object(tracer: nil), object(tracer: object(provider: 1))].each do |it|
            Datadog.instance_variable_set(:@components, it)
            expect(labels_now(thread)).to eq(nothing)
          end
        end
      end

      it "make no Ruby object" do
        load_tracer(:datadog_context_known)
        current = Thread.current
        context = loaded
        3.times { doors._native_sample(context, current) }
        GC.disable
        before = GC.stat(:total_allocated_objects)
        200.times { doors._native_sample(context, current) }
        expect(GC.stat(:total_allocated_objects) - before).to be <= 5
      ensure
        GC.enable
      end
    end

    it "are not there when a part is missing, or is not what it should be" do
      odd = [
        nil, 1, 2.5, :symbol, "text", [], {}, Object, Object.new, object, object(active_span: span(1)), object(root_span: span(1)),
        trace(span(1), nil), trace(nil, span(1)), trace(span(nil), span(1)), trace(span(1), span(nil)), trace(1, 2),
        trace(span(0), span(1)), trace(span(1), span(0)), trace(span(-1), span(1)), trace(span(1), span(-1)),
        trace(span(2**64), span(1)), trace(span(1), span(2**64)), trace(span("1"), span(1)), trace(span(1), span(1.0)),
        trace(span(1), nil, otel_values: {}), trace(span(1), nil, otel_values: 1)
      ]
      found = odd.map { |it| working_on(it) { |thread| labels_of(thread) } }
      expect(found).to eq([nothing] * odd.size)
      [nil, 1, :x, "x", [], Object.new, object].each do |it|
        with_sleeping_thread do |thread|
          thread[key] = it
          expect(labels_of(thread)).to eq(nothing)
        end
      end
    end
  end

  describe "endpoints" do
    %w[web proxy worker].each do |type|
      it "are the resource of a trace whose root is of type #{type}" do
        working_on(trace(span(1, type: type), span(2), resource: "OrdersController#show")) do |thread|
          expect(labels_of(thread)).to eq([1, 2, "OrdersController#show"])
        end
      end
    end

    it "are the root's resource when the trace has none" do
      working_on(trace(span(1, type: "web", resource: "GET 200"), span(2))) { |it| expect(labels_of(it)).to eq([1, 2, "GET 200"]) }
      working_on(trace(span(1, type: "web", resource: "GET 200"), span(2), resource: nil)) do |it|
        expect(labels_of(it)).to eq([1, 2, "GET 200"])
      end
      working_on(trace(span(1, type: "web"), span(2))) { |it| expect(labels_of(it)).to eq([1, 2, nil]) }
    end

    it "are left out for other types and for resources that are no text" do
      [nil, "sql", "Web", "", :web, 1, Object.new].each do |type|
        working_on(trace(span(1, type: type), span(2), resource: "secret")) { |it| expect(labels_of(it)).to eq([1, 2, nil]) }
      end
      [:symbol, 1, Object.new, []].each do |resource|
        working_on(trace(span(1, type: "web", resource: "root"), span(2), resource: resource)) do |it|
          expect(labels_of(it)).to eq([1, 2, nil])
        end
      end
    end

    it "may hold anything that is text" do
      working_on(trace(span(1, type: "web"), span(2), resource: "größe 日本 #{"x" * 5_000}")) do |it|
        expect(labels_of(it).last).to eq("größe 日本 #{"x" * 5_000}")
      end
      working_on(trace(span(1, type: "web"), span(2), resource: "a\xff".dup.force_encoding("UTF-8"))) do |it|
        expect(labels_of(it).last).to eq("a\uFFFD")
      end
    end

    it "are of all samples of that root span, earlier ones too; the last one counts" do
      active = trace(span(1, type: "web"), span(2))
      working_on(active) do |thread|
        sample
        active.set(resource: "first", active_span: span(3))
        sample
        active.set(resource: "last", active_span: span(4))
        sample
        found = serialize(recorder).of_thread(thread).map { |it| it.labels.values_at("span id", "trace endpoint") }
        expect(found).to match_array([[2, "last"], [3, "last"], [4, "last"]])
      end
    end

    it "stay with their root span" do
      working_on(trace(span(1, type: "web"), span(2), resource: "one")) do |one|
        working_on(trace(span(3, type: "web"), span(4), resource: "other")) do |other|
          sample
          profile = serialize(recorder)
          expect(profile.of_thread(one).first.labels["trace endpoint"]).to eq("one")
          expect(profile.of_thread(other).first.labels["trace endpoint"]).to eq("other")
          expect(profile.of_thread(Thread.current).first.labels).not_to include("trace endpoint")
        end
      end
    end

    it "are not collected when that is switched off" do
      off = new_thread_context(recorder, tracer: tracer, endpoint_collection_enabled: false)
      working_on(trace(span(1, type: "web"), span(2), resource: "secret")) do |thread|
        doors._native_sample(off, Thread.current)
        labels = serialize(recorder).of_thread(thread).first.labels
        expect(labels.values_at("local root span id", "span id", "trace endpoint")).to eq([1, 2, nil])
      end
    end

    it "are forgotten with their profile" do
      working_on(trace(span(1, type: "web"), span(2), resource: "GET")) { |it| labels_of(it) }
      working_on(trace(span(1), span(2))) { |it| expect(labels_of(it)).to eq([1, 2, nil]) }
    end
  end

  describe "of OpenTelemetry through the datadog tracer" do
    # The trace that belongs to a span of OpenTelemetry.
    def bridged(span_id, around = nil, root: nil, active: nil, **variables)
      values = around ? table([otel_key, object(datadog_trace: around)]) : {}
      object(parent_span_id: span_id, otel_values: values, root_span: root, active_span: active, **variables)
    end

    it "are the ids of a span alone" do
      own = bridged(7, root: span(7))
      own.set(otel_values: table([otel_key, object(datadog_trace: own)]))
      working_on(own) { |it| expect(labels_of(it)).to eq([7, 7, nil]) }
    end

    it "lead to the outermost trace" do
      outer = trace(span(1, type: "web"), span(2), resource: "GET /outer")
      middle = bridged(3, outer)
      inner = bridged(4, middle, resource: "not this")
      working_on(inner) { |it| expect(labels_of(it)).to eq([1, 4, "GET /outer"]) }
    end

    it "are those of a datadog span within" do
      outer = trace(span(1), span(2))
      working_on(bridged(3, outer, root: span(9), active: span(9))) { |it| expect(labels_of(it)).to eq([1, 9, nil]) }
    end

    it "are found whatever else the table holds" do
      outer = trace(span(1), span(2))
      others = [["text", 1], [nil, 2], [:x, 3], [object, 4], [object(name: 5), 6], [otel_key("baggage"), {}]]
      [others, others + Array.new(30) { |i| [i, i] }].each do |it|
        values = table(*it, [otel_key, object(datadog_trace: outer)])
        working_on(object(parent_span_id: 5, otel_values: values)) { |thread| expect(labels_of(thread)).to eq([1, 5, nil]) }
      end
    end

    it "end somewhere, even in a ring of traces" do
      one = bridged(1, root: span(10))
      other = bridged(2, one, root: span(20))
      one.set(otel_values: table([otel_key, object(datadog_trace: other)]))
      working_on(one) { |it| expect(labels_of(it)[1]).to eq(1) }
    end
  end

  describe "of OpenTelemetry alone" do
    def in_otel(*spans)
      with_sleeping_thread do |thread|
        thread[:__opentelemetry_context_storage__] = spans.map { |it| otel_context(it) }
        yield thread
      end
    end

    it "are not there unless asked for" do
      in_otel(otel_span(1, 2)) { |it| expect(labels_of(it)).to eq(nothing) }
    end

    [:only, :both].each do |mode|
      context "with #{mode.inspect}" do
        let(:options) { { otel_context_enabled: mode } }

        it "are the ids of the current span and of the first of its trace" do
          in_otel(otel_span(1, 2)) { |it| expect(labels_of(it)).to eq([2, 2, nil]) }
          in_otel(otel_span(1, 2), otel_span(1, 3), otel_span(1, 4)) { |it| expect(labels_of(it)).to eq([2, 4, nil]) }
          in_otel(otel_span(1, 2**63 - 1)) { |it| expect(labels_of(it)).to eq([2**63 - 1, 2**63 - 1, nil]) }
        end

        it "leave out spans of other traces and of other processes" do
          in_otel(otel_span(9, 1), otel_span(1, 2), otel_span(1, 3)) { |it| expect(labels_of(it)).to eq([2, 3, nil]) }
          in_otel(otel_span(1, 9, remote: true), otel_span(1, 2), otel_span(1, 3)) { |it| expect(labels_of(it)).to eq([2, 3, nil]) }
        end

        it "have the name of a root span that serves a request as endpoint" do
          root = otel_span(1, 2, kind: :server, name: "GET /orders")
          in_otel(root, otel_span(1, 3, kind: :internal, name: "query")) { |it| expect(labels_of(it)).to eq([2, 3, "GET /orders"]) }
          in_otel(root) { |it| expect(labels_of(it)).to eq([2, 2, "GET /orders"]) }
          in_otel(otel_span(1, 2, kind: :client, name: "x"), otel_span(1, 3, kind: :server, name: "y")) do |it|
            expect(labels_of(it)).to eq([2, 3, nil])
          end
        end

        it "are found in the fiber, where newer versions keep them", needs: :fiber_contexts do
          contexts = [otel_context(otel_span(1, 2)), otel_context(otel_span(1, 3))]
          with_sleeping_thread(-> { Fiber.new { Fiber.current.instance_variable_set(:@opentelemetry_context, contexts) && sleep }.resume }) do |it|
            expect(labels_of(it)).to eq([2, 3, nil])
          end
          with_sleeping_thread(-> { Fiber.current.instance_variable_set(:@opentelemetry_context, contexts) && sleep }) do |it|
            expect(labels_of(it)).to eq([2, 3, nil])
          end
        end

        it "are not there when a part is missing, or is not what it should be" do
          [nil, 1, "x", {}, [], [nil], [1], [object], [object(entries: nil)], [object(entries: {})], [object(entries: table([otel_key, nil]))],
           [object(entries: table([otel_key, object(context: nil)]))], [object(entries: table([otel_key, object(context: object(span_id: 1))]))],
           [object(entries: table([otel_key, object(context: object(span_id: "short"))]))], [otel_context(otel_span(1, 0))]].each do |it|
            with_sleeping_thread do |thread|
              thread[:__opentelemetry_context_storage__] = it
              expect(labels_of(thread)).to eq(nothing)
            end
          end
        end
      end
    end

    it "come second when the datadog tracer has something, with :both" do
      both = new_thread_context(recorder, tracer: tracer, endpoint_collection_enabled: true, otel_context_enabled: :both)
      only = new_thread_context(recorder, tracer: tracer, endpoint_collection_enabled: true, otel_context_enabled: :only)
      in_otel(otel_span(1, 2)) do |thread|
        thread[key] = object(active_trace: trace(span(11), span(22)))
        ids = [both, only].map do |it|
          doors._native_sample(it, Thread.current)
          serialize(recorder).of_thread(thread).first.labels.values_at("local root span id", "span id")
        end
        expect(ids).to eq([[11, 22], [2, 2]])
      end
    end

    it "refuses any other mode" do
      [nil, true, :yes, "only", 1].each do |it|
        expect { new_thread_context(recorder, otel_context_enabled: it) }.to raise_error(ArgumentError, /otel_context_enabled/)
      end
    end
  end

  it "make no Ruby object" do
    outer = trace(span(2**63 - 1, type: "web"), span(2), resource: "GET")
    inner = object(parent_span_id: 2**62 + 1, otel_values: table([otel_key, object(datadog_trace: outer)]))
    working_on(inner) do |thread|
      thread[:__opentelemetry_context_storage__] = [otel_context(otel_span(1, 2))]
      other = new_thread_context(recorder, tracer: tracer, endpoint_collection_enabled: true, otel_context_enabled: :only)
      current = Thread.current
      all = [context, other]
      3.times { all.each { |it| doors._native_sample(it, current) } }
      GC.disable
      before = GC.stat(:total_allocated_objects)
      200.times { all.each { |it| doors._native_sample(it, current) } }
      made = GC.stat(:total_allocated_objects) - before
      expect(made).to be <= 5
      expect(serialize(recorder).of_thread(thread).map { |it| it.labels["trace endpoint"] }).to include("GET")
    ensure
      GC.enable
    end
  end

  it "survive compaction and the end of the tracer" do
    working_on(trace(span(1, type: "web"), span(2), resource: +"GET")) do |thread|
      5.times { GC.compact && sample } if GC.respond_to?(:compact)
      expect(labels_of(thread)).to eq([1, 2, "GET"])
    end
  end
end

# The same with the gems themselves, where somebody has installed them: tests/bench/fetch_peer does.
RSpec.describe "labels of traces of installed gems" do
  gems = ENV.fetch("NF_PEER_GEMS") { File.join(ENV.fetch("NF_CACHE") { File.join(Dir.home, ".cache/nonferrous") }, "peer-gems") }

  def labels_in(script, gems)
    skip "the gems are not in #{gems}" unless Dir.exist?("#{gems}/gems")
    built_for = Dir["#{gems}/extensions/*/*"].map { |it| File.basename(it) }
    skip "the gems in #{gems} are built for Ruby #{built_for.join(", ")}" unless built_for.include?(Gem.extension_api_version)
    output = run_ruby!(<<~RUBY, env: { "GEM_HOME" => gems, "GEM_PATH" => nil, "OTEL_TRACES_EXPORTER" => "none" }, options: ["-W0"])
      require "standalone"
      require "logger"
      def sample(**options)
        recorder = new_recorder
        context = new_thread_context(recorder, endpoint_collection_enabled: true, **options)
        context.class::Testing._native_sample(context, Thread.current)
        labels = serialize(recorder).of_thread(Thread.current).first.labels
        p labels.values_at("local root span id", "span id", "trace endpoint").then { |ids| ids.first(2).map { |it| it && it % 2**64 } + ids.last(1) }
      end
      #{script}
    RUBY
    output.lines.map { |it| eval(it) } # rubocop:disable Security/Eval
  end

  let(:datadog) { <<~RUBY }
    require "datadog/tracing"
    require "datadog/tracing/contrib"
    Datadog.configure do |c|
      c.tracing.test_mode.enabled = true
      c.tracing.test_mode.writer_options = { transport: Object.new.tap { |it| def it.send_traces(*); []; end } } rescue nil
      c.logger.instance = Logger.new(nil)
    end
    tracer = Datadog::Tracing.send(:tracer)
  RUBY

  it "of the datadog tracer are right" do
    got = labels_in(<<~RUBY, gems)
      #{datadog}
      sample(tracer: tracer)
      Datadog::Tracing.trace("request", type: "web", resource: "Orders#show") do |root, trace|
        p [root.id, root.id, "Orders#show"]
        sample(tracer: tracer)
        Datadog::Tracing.trace("query") do |span|
          p [root.id, span.id, "Orders#show"]
          sample(tracer: tracer)
        end
        trace.resource = "Orders#late"
        p [root.id, root.id, "Orders#late"]
        sample(tracer: tracer)
      end
      sample(tracer: tracer)
    RUBY
    expect([got.first, got.last]).to eq([[nil, nil, nil]] * 2)
    expect(got[1..-2].each_slice(2).map(&:first)).to eq(got[1..-2].each_slice(2).map(&:last))
  end

  it "of the datadog tracer are right however often it is configured" do
    got = labels_in(<<~RUBY, gems)
      sample(tracer: :loaded)
      2.times do |i|
        #{datadog.gsub("\n", "\n  ")}
        Datadog::Tracing.trace("request", type: "web", resource: "Orders#\#{i}") do |root|
          p [root.id, root.id, "Orders#\#{i}"]
          sample(tracer: :loaded)
        end
      end
    RUBY
    expect(got.first).to eq([nil, nil, nil])
    expect(got.drop(1).each_slice(2).map(&:first)).to eq(got.drop(1).each_slice(2).map(&:last))
  end

  it "of OpenTelemetry through the datadog tracer are right" do
    got = labels_in(<<~RUBY, gems)
      require "opentelemetry/sdk"
      #{datadog}
      require "datadog/opentelemetry"
      OpenTelemetry::SDK.configure
      tracer = Datadog::Tracing.send(:tracer) # a new one
      otel = OpenTelemetry.tracer_provider.tracer("test")
      id = ->(span) { span.datadog_span.id } # not that which OpenTelemetry knows
      otel.in_span("outer", kind: :server) do |outer|
        p [id[outer], id[outer], nil]
        sample(tracer: tracer)
        otel.in_span("inner") do |inner|
          p [id[outer], id[inner], nil]
          sample(tracer: tracer)
          Datadog::Tracing.trace("innermost") do |span|
            p [id[outer], span.id, nil]
            sample(tracer: tracer)
          end
        end
      end
      Datadog::Tracing.trace("first", type: "web", resource: "Orders#show") do |root|
        otel.in_span("second") do |second|
          p [root.id, id[second], "Orders#show"]
          sample(tracer: tracer)
        end
      end
    RUBY
    expect(got.each_slice(2).map(&:last)).to eq(got.each_slice(2).map(&:first))
  end

  it "of OpenTelemetry alone are right", needs: :fiber_contexts do
    got = labels_in(<<~RUBY, gems)
      require "opentelemetry/sdk"
      OpenTelemetry::SDK.configure
      otel = OpenTelemetry.tracer_provider.tracer("test")
      id = ->(span) { span.context.span_id.unpack1("Q>") }
      remote = OpenTelemetry::Trace::SpanContext.new(remote: true, trace_flags: OpenTelemetry::Trace::TraceFlags::SAMPLED)
      OpenTelemetry::Context.with_current(OpenTelemetry::Trace.context_with_span(OpenTelemetry::Trace.non_recording_span(remote))) do
        otel.in_span("GET /orders", kind: :server) do |outer|
          p [id[outer], id[outer], "GET /orders"]
          sample(tracer: nil, otel_context_enabled: :only)
          otel.in_span("inner") do |inner|
            p [id[outer], id[inner], "GET /orders"]
            sample(tracer: nil, otel_context_enabled: :both)
          end
        end
      end
      p [nil, nil, nil]
      sample(tracer: nil, otel_context_enabled: :only)
    RUBY
    expect(got.each_slice(2).map(&:last)).to eq(got.each_slice(2).map(&:first))
  end
end
