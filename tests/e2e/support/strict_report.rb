# frozen_string_literal: true

require "json"
require "time"

require "tests/exporter/support/http_message"
require_relative "strict"
require_relative "strict_lz4"
require_relative "strict_pprof"

# One report, every byte of it accounted for: request line, headers and their order, multipart, event.json, LZ4, pprof.
# Anything else than what the `datadog` gem sends with libdatadog 6 is a Strict::Violation; so is, if `own`, anything else
# than that and what our own profiler is known to add to it.
class StrictReport
  EVENT_KEYS = %w[attachments end endpoint_counts family info internal start tags_profiler version].freeze
  PROVENANCE = "code-provenance.json"
  PPROF = "rubyprofile.pprof"
  TIME = /\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z\z/.freeze
  # Of the library in the report's header and of the gem that sends it.
  USER_AGENT = "DDProf/6.0.0"
  MADE_BY = "dd-trace-rb"

  WORKER_STATS = { # name => kinds of value
    %w[trigger_sample_attempts trigger_simulated_signal_delivery_attempts simulated_signal_delivery
       signal_handler_enqueued_sample signal_handler_wrong_thread postponed_job_skipped_already_existed
       postponed_job_success postponed_job_full postponed_job_unknown_result cpu_sampled cpu_skipped] => [Integer],
    %w[cpu_effective_sample_rate cpu_sampling_time_ns_avg allocation_effective_sample_rate
       allocation_sampling_time_ns_avg] => [Integer, Float, NilClass],
    %w[allocations_during_sample cpu_sampling_time_ns_min cpu_sampling_time_ns_max cpu_sampling_time_ns_total allocation_sampled
       allocation_skipped allocation_sampling_time_ns_min allocation_sampling_time_ns_max
       allocation_sampling_time_ns_total] => [Integer, NilClass],
    %w[allocation_sampler_snapshot] => [Hash, NilClass],
  }.flat_map { |names, kinds| names.map { |it| [it, kinds] } }.to_h.freeze

  INFO = { # the same for info, nested
    "platform" => %w[hostname kernel_name kernel_release kernel_version],
    "runtime" => %w[engine platform version],
    "application" => %w[env service start_time version],
    "profiler" => %w[libdatadog settings version],
  }.freeze

  TAGS = %w[host language process_id profiler_version runtime runtime-id runtime_engine runtime_platform
            runtime_version service].freeze

  attr_reader :event, :tags, :pprof, :provenance

  # Of our own profiler only.
  OWN_INTERNAL = %w[recorder_stats].freeze
  OWN_WORKER_STATS = %w[allocation_hook_revived].freeze

  # host: what the client has to name; version: of the gem that sends it; own: it is our profiler's report
  def initialize(raw, host:, version:, container_id: StrictReport.container_id, own: false)
    @own = own
    @message = HttpMessage.new(raw)
    check_head(host, version, container_id)
    check_parts
    check_event(@message.parts[0].data.dup.force_encoding(Encoding::UTF_8))
    check_provenance(@message.part(PROVENANCE)) if @message.part(PROVENANCE)
    @pprof = StrictPprof.new(StrictLz4.decode(@message.part(PPROF).data))
    check_agreement
  rescue ArgumentError, NoMethodError => e
    raise Strict::Violation, "a request that cannot be taken apart: #{e.message} (#{e.backtrace.first})"
  end

  def pid
    Integer(tags.fetch("process_id"))
  end

  def pprof_bytes
    @message.part(PPROF).data
  end

  # Facts §5.3.
  def self.container_id(file = "/proc/self/cgroup")
    uuid = /[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}/
    pattern = /(#{uuid}|[0-9a-f]{64}|[0-9a-f]{32}-\d+)(?:.scope)?\s*\z/
    File.readlines(file).each { |line| return Regexp.last_match(1) if line.match?(/\A\d+:[^:]*:/) && line =~ pattern }
    nil
  rescue SystemCallError
    nil
  end

  private

  def check_head(host, version, container_id)
    Strict.same("the request line", "POST /profiling/v1/input HTTP/1.1", @message.request_line)
    boundary = @message.boundary.to_s
    Strict.match("the boundary", /\A[0-9A-Za-z]{6,70}\z/, boundary)
    expected = [["user-agent", USER_AGENT], ["datadog-container-id", container_id], %w[connection close],
                ["dd-evp-origin", MADE_BY], ["dd-evp-origin-version", version],
                ["content-type", "multipart/form-data; boundary=#{boundary}"], ["host", host],
                %w[transfer-encoding chunked]].select(&:last)
    Strict.same("the headers", expected, @message.headers)
  end

  def check_parts
    names = @message.parts.map(&:name)
    Strict.check([["event", PROVENANCE, PPROF], ["event", PPROF]].include?(names), "the parts are #{names}")
    @message.parts.each do |part|
      file, type = part.name == "event" ? %w[event.json application/json] : [part.name, "application/octet-stream"]
      Strict.same("the headers of part #{part.name}", [["content-type", type], [
        "content-disposition", "form-data; name=\"#{part.name}\"; filename=\"#{file}\""
      ]], part.headers)
    end
  end

  def check_event(text)
    Strict.check(text.valid_encoding?, "event.json is not UTF-8")
    Strict.match("event.json without its strings", /\A[^\s"]+\z/, text.gsub(/"(?:[^"\\]|\\.)*"/, "_"))
    @event = JSON.parse(text)
    check_sorted("event.json", @event)
    Strict.same("the keys of event.json", EVENT_KEYS, @event.keys)
    Strict.same("attachments", @message.parts.drop(1).map(&:name), @event["attachments"])
    Strict.same("family", "ruby", @event["family"])
    Strict.same("version", "4", @event["version"])
    Strict.same("endpoint_counts", nil, @event["endpoint_counts"])
    %w[start end].each { |it| Strict.match(it, TIME, @event[it]) }
    check_tags
    check_internal(@event["internal"])
    check_info(@event["info"])
  end

  def check_sorted(what, value)
    case value
    when Hash
      Strict.same("the order of the keys of #{what}", value.keys.sort_by(&:b), value.keys)
      value.each { |key, inner| check_sorted("#{what}, #{key}", inner) }
    when Array then value.each { |inner| check_sorted(what, inner) }
    end
  end

  def check_tags
    pairs = @event["tags_profiler"].split(",", -1).map { |it| it.split(":", 2) }
    Strict.check(pairs.all? { |key, value| key && !key.empty? && value && !value.empty? }, "tags: #{pairs}")
    Strict.same("tags that come twice", [], pairs.map(&:first).tally.select { |_, count| count > 1 }.keys)
    @tags = pairs.to_h
    Strict.same("tags that are missing", [], TAGS - @tags.keys)
    Strict.same("tag language", "ruby", @tags["language"])
    Strict.match("tag process_id", /\A[1-9]\d*\z/, @tags["process_id"])
    Strict.match("tag runtime-id", /\A\h{8}-\h{4}-4\h{3}-[89ab]\h{3}-\h{12}\z/, @tags["runtime-id"])
  end

  def check_internal(internal)
    keys = %w[gc heap_sample_every no_signals_workaround_enabled timeline_enabled worker_stats]
    Strict.same("the keys of internal", keys, internal.keys - (@own ? OWN_INTERNAL : []))
    Strict.check([true, false].include?(internal["timeline_enabled"]), "timeline_enabled")
    Strict.check([true, false].include?(internal["no_signals_workaround_enabled"]), "no_signals_workaround_enabled")
    Strict.check(internal["heap_sample_every"].is_a?(Integer), "heap_sample_every")
    Strict.check(internal["gc"].any? && internal["gc"].values.all? { |it| it.is_a?(Numeric) }, "gc: #{internal["gc"]}")
    stats = internal["worker_stats"]
    known = stats.reject { |key, _| @own && OWN_WORKER_STATS.include?(key) }
    Strict.same("the keys of worker_stats", WORKER_STATS.keys.sort, known.keys)
    known.each do |key, value|
      Strict.check(WORKER_STATS[key].any? { |it| value.is_a?(it) }, "worker_stats, #{key}: #{value.inspect}")
    end
  end

  def check_info(info)
    Strict.same("the keys of info", INFO.keys.sort, info.keys)
    INFO.each { |key, names| Strict.same("keys of info, #{key}, that are missing", [], names - info[key].keys) }
    Strict.match("the library in info", @own ? /\Anonferrous-/ : /\A6\.0\.0\.2\.0-/, info["profiler"]["libdatadog"])
    Strict.same("the runtime in info", %w[ruby] + [RUBY_VERSION], info["runtime"].values_at("engine", "version"))
    Strict.match("start_time", /\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\z/, info["application"]["start_time"])
  end

  def check_provenance(part)
    @provenance = JSON.parse(StrictLz4.decode(part.data).force_encoding(Encoding::UTF_8))
    Strict.same("the keys of #{PROVENANCE}", %w[v1], @provenance.keys)
    @provenance["v1"].each do |library|
      Strict.same("the keys of a library", %w[kind name paths version], library.keys.sort)
      Strict.check(["library", "standard library"].include?(library["kind"]), "kind #{library["kind"]}")
      Strict.check(library["paths"].all? { |it| it.is_a?(String) && it.start_with?("/") }, "paths #{library["paths"]}")
    end
    Strict.check(@provenance["v1"].any? { |it| it["kind"] == "standard library" }, "the standard library is missing")
  end

  # What is said in two places must be the same.
  def check_agreement
    start = Time.iso8601(@event["start"])
    finish = Time.iso8601(@event["end"])
    nanoseconds = [start, finish].map { |it| it.to_i * 1_000_000_000 + it.nsec }
    Strict.same("the time of the profile", nanoseconds[0], @pprof.time)
    Strict.same("the duration of the profile", nanoseconds[1] - nanoseconds[0], @pprof.duration)
    Strict.check(finish <= Time.now + 1, "a profile from the future: #{finish}")
  end
end
