# frozen_string_literal: true

require "json"

# As small as an application can be that computes, renders and is traced.
class Shop
  def call(env)
    kind = env["PATH_INFO"]
    body = traced(kind) { kind == "/report" ? report : page(kind) }
    [200, { "content-type" => "text/plain" }, [body]]
  end

  private

  def traced(kind, &block)
    return yield unless defined?(Datadog::Tracing)

    Datadog::Tracing.trace("rack.request", service: "shop", resource: "GET #{kind}", type: "web", &block)
  end

  def report
    rows = Array.new(4_000) { |it| { "id" => it, "total" => it * 3 % 101 } }
    "#{Process.pid} #{rows.group_by { |it| it["total"] }.transform_values(&:size).to_json.size}\n"
  end

  def page(kind)
    sleep 0.005
    "#{Process.pid} #{kind}\n"
  end
end

run Shop.new
