# Prints "N passed, N failed[, N skipped]" for one `bazel test` run and exits with 0 only if nothing failed.
# Cases are counted where a runner tells them (GoogleTest's XML, RSpec's closing line), otherwise targets.
require "json"
require "rexml/document"
require "uri"

events_file, bazel_status = ARGV
passed = failed = skipped = 0
failures = []

# Of a test that Bazel tried again, only the last attempt counts.
events = File.foreach(events_file, encoding: "UTF-8").map { |line| JSON.parse(line) }
events = events.reverse.uniq { |event| event["testResult"] ? event.dig("id", "testResult", "label") : event.object_id }.reverse
events.each do |event|
  if (result = event["testResult"])
    label = event.dig("id", "testResult", "label")
    files = (result["testActionOutput"] || []).to_h do |file|
      [file["name"], file["uri"] && URI::DEFAULT_PARSER.unescape(URI(file["uri"]).path)]
    end
    ok = result["status"] == "PASSED"
    log = files["test.log"] && File.exist?(files["test.log"]) ? File.read(files["test.log"]).scrub : ""
    if (counts = log.scan(/^(\d+) examples?, (\d+) failures?(?:, (\d+) pending)?/)).any?
      counts.each do |total, bad, pending|
        passed += total.to_i - bad.to_i - pending.to_i
        failed += bad.to_i
        skipped += pending.to_i
      end
      failures << label unless ok
      failed += 1 if !ok && counts.sum { |_, bad, _| bad.to_i }.zero?
    elsif files["test.xml"] && log.match?(/^\[==========\]/) && File.exist?(files["test.xml"])
      root = REXML::Document.new(File.read(files["test.xml"])).root
      total, bad, off = %w[tests failures disabled].map { |name| root.attributes[name].to_i }
      bad += root.attributes["errors"].to_i
      off += root.get_elements("//testcase[@result='skipped']").size
      passed += total - bad - off
      failed += bad
      skipped += off
      failures << label unless ok
      failed += 1 if !ok && bad.zero?
    elsif ok && (why = log[/^skipped: .*/])
      skipped += 1
      puts "#{label} #{why}"
    elsif ok
      passed += 1
    else
      failed += 1
      failures << label
    end
  elsif (event.dig("id", "targetCompleted") && (event["completed"] || event["aborted"]))
    # A test that could not be built never gets a testResult.
    label = event.dig("id", "targetCompleted", "label")
    unless event.dig("completed", "success")
      failed += 1
      failures << "#{label} (does not build)"
    end
  end
end

if failed.zero? && bazel_status != "0" # e.g. a BUILD file that cannot be loaded
  failed = 1
  failures << "bazel test (exit status #{bazel_status})"
end
flaky = events.select { |event| event.dig("testSummary", "overallStatus") == "FLAKY" }
flaky.each { |event| puts "FLAKY #{event.dig("id", "testSummary", "label")}: failed, then passed" }
failures.uniq.each { |label| puts "FAILED #{label}" }
puts "#{passed} passed, #{failed} failed#{", #{skipped} skipped" if skipped.positive?}"
exit(failed.zero? && passed.positive? ? 0 : 1)
