# ruby static_ruby_check.rb FOLDER PLAIN EXTENSION: is all of the profiler in the Ruby that tools/static-ruby has put into
# FOLDER? PLAIN is the same Ruby without it, EXTENSION the folder of //ruby:extension for it. Prints "WHAT<tab>RESULT" lines;
# ends with 1 if a result says FAILED.
require "fileutils"
require "open3"
require "openssl"
require "tmpdir"
require "timeout"
require_relative "../support/agent_stub"
require_relative "../../exporter/support/certificates"

module StaticRubyCheck
  FOLDER, PLAIN, EXTENSION = ARGV.map { |it| File.expand_path(it) }
  RUBY = "#{FOLDER}/bin/ruby".freeze
  DDPROFRB = "#{FOLDER}/bin/ddprofrb".freeze
  ROOT = File.expand_path("../../..", __dir__)
  SENT = <<~RUBY.freeze
    def hot_method(seconds)
      finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
      nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
    end
    hot_method(1.2)
    pids = Array.new(2) { fork { hot_method(1.2) } }
    pids.each { |pid| Process.wait(pid) }
    $stdout.puts [Process.pid, *pids].join(" ")
  RUBY
  CLEAN = ENV.keys.grep(/\A(DD_|RUBY|GEM|BUNDLE|SSL_|https?_proxy|no_proxy)/i).to_h { |name| [name, nil] }.freeze

  class << self
    def run
      @failed = false
      @scratch = Dir.mktmpdir
      all
      exit(@failed ? 1 : 0)
    ensure
      FileUtils.rm_rf(@scratch)
    end

    private

    def all
      check("libraries that it needs and the same Ruby without the profiler does not") { (needed(RUBY) - needed(PLAIN)).join(", ") }
      check("global names of the profiler") { names }
      check("`require`, profiles here and in a child; `.so` files opened") { program(RUBY, "-I", "#{FOLDER}/lib", "-rdatadog_profiling_loader") }
      check("`ddprofrb record` and `report` of the demo's program") { record("orders.rb", "split_line") }
      check("the same of the demo's program that forks") { record("workers.rb", "check_sum") }
      with_agent { |agent| check("reports to an agent, by HTTP, of 3 processes") { reports(agent, agent.url) } }
      unix = UNIXServer.new("#{@scratch}/agent.sock")
      with_agent(listener: unix) { |agent| check("the same by a Unix socket") { reports(agent, agent.url) } }
      https
      check("the Ruby without it: the profiler as `.so`, by the loader") { program(PLAIN, "-I", EXTENSION) }
    end

    def https
      authority = Certificates.new
      tcp = TCPServer.new("127.0.0.1", 0)
      secure = OpenSSL::SSL::SSLServer.new(tcp, authority.context("127.0.0.1"))
      secure.define_singleton_method(:local_address) { tcp.local_address }
      secure.define_singleton_method(:accept) do
        super().tap { |socket| socket.define_singleton_method(:binmode) { self } }
      rescue OpenSSL::SSL::SSLError # a client that does not trust it
        retry
      end
      with_agent(listener: secure) do |agent|
        url = agent.url.sub("http:", "https:")
        check("the same by HTTPS, to a server of a known authority") { reports(agent, url, "SSL_CERT_FILE" => authority.file) }
        check("and to one of an unknown authority") { refused(url, "SSL_CERT_FILE" => Certificates.new("Another").file) }
      end
      check("libcurl in it") { linked_libcurl? ? "linked" : "opened when needed" }
    end

    def check(what)
      result = Timeout.timeout(180) { yield }
      result = "none" if result.empty?
    rescue StandardError => e
      @failed = true
      warn("#{what}: #{e.message}")
      result = "FAILED (#{e.message.lines.first.to_s.strip[0, 120]})"
    ensure
      puts "#{what}\t#{result}"
      $stdout.flush
    end

    def ran(*command, env: {})
      output, errors, status = Open3.capture3(CLEAN.merge(env), *command)
      raise "#{command.first(4).join(" ")}: #{status}: #{errors}#{output}" unless status.success?
      [output, errors]
    end

    def needed(program)
      ran("readelf", "-d", program).first.scan(/NEEDED.*\[(.*)\]/).flatten
    end

    # Only Init_…, of all that is in the archive.
    def names
      all = ran("nm", "-D", "--defined-only", RUBY).first.lines.map { |it| it.split.last }
      plain = ran("nm", "-D", "--defined-only", PLAIN).first.lines.map { |it| it.split.last }
      more = all - plain - %w[__wrap_Init_ext]
      others = more.reject { |it| it.start_with?("Init_datadog_") }
      raise "also #{others.first(5).join(", ")}" unless others.empty?
      raise "none at all" if more.empty?
      "#{more.size}, all `Init_datadog_…`"
    end

    def program(ruby, *options)
      output, = ran(ruby, *options, "#{__dir__}/program.rb")
      seen = output.lines.to_h { |it| it.chomp.split(": ", 2) }
      raise output unless seen.values_at("supported", "here", "in a child") == %w[true true true]
      opened = seen["opened"].to_s.split.size
      raise "#{opened} files opened" unless opened == (ruby == RUBY ? 0 : 3)
      "works; #{opened}"
    end

    def record(script, method)
      file = "#{@scratch}/#{script}.pb.gz"
      ran(RUBY, DDPROFRB, "record", "-q", "-o", file, "--", RUBY, "#{ROOT}/ruby/examples/#{script}")
      report, = ran(RUBY, DDPROFRB, "report", "--limit", "0", "--sample-type", "cpu-time", *Dir["#{@scratch}/#{script}*.pb.gz"])
      share = report[/^ *\S+ +\S+ +\S+ +\S+ +([\d.]+)% +#{method} /, 1] # with all that it calls
      raise "no #{method} in it" unless share.to_f > 5
      "works"
    end

    def with_agent(**options)
      agent = Support::AgentStub.new(**options)
      yield agent
    ensure
      agent.close
    end

    def send_reports(url, env)
      File.write("#{@scratch}/sent.rb", SENT)
      ran(RUBY, DDPROFRB, "exec", RUBY, "#{@scratch}/sent.rb",
          env: env.merge("DD_PROFILING_ENABLED" => "true", "DD_TRACE_AGENT_URL" => url))
    end

    def reports(agent, url, env = {})
      pids = send_reports(url, env).first.split
      seen = agent.reports
      raise "reports of #{seen.map { |it| it.tags["process_id"] }} instead of #{pids}" unless seen.map { |it| it.tags["process_id"] }.sort == pids.sort
      raise "empty ones" unless seen.all? { |it| it.parts.values.all? { |part| part.bytesize > 100 } }
      "#{seen.size} came"
    end

    def refused(url, env)
      _, errors = send_reports(url, env)
      errors.match?(/certificate/i) ? "refused" : raise("not refused: #{errors}")
    end

    # Its own words for what went wrong, which nothing else in a Ruby says.
    def linked_libcurl?
      File.binread(RUBY).include?("SSL peer certificate or SSH remote key was not OK")
    end
  end
end

StaticRubyCheck.run
