# frozen_string_literal: true

require "json"
require "socket"

# The programs of scenarios_spec.rb, each with an agent of its own. All run beside each other from the first time that
# one is asked for, so that they take together hardly longer than the longest: an upload comes after 60 s only.
module Scenarios
  LIMIT = 1500 # seconds; the machine may be busy
  WEB_SECONDS = 90
  ALL_ON = { "DD_PROFILING_ALLOCATION_ENABLED" => "true", "DD_PROFILING_EXPERIMENTAL_HEAP_ENABLED" => "true",
             "DD_PROFILING_FORCE_ENABLE_GC" => "true" }.freeze

  # arrivals: what the agent got; facts: what the scenario itself has seen
  Result = Struct.new(:outcome, :arrivals, :broken, :host, :install, :facts) do
    # Each report checked byte by byte.
    def reports
      @reports ||= arrivals.select(&:profile?).map do |it|
        StrictReport.new(it.raw, host: host, version: Installs::DATADOG_VERSION)
      end
    end

    def view
      @view ||= ProfileView.new(reports, install)
    end

    # Requests other than profiles.
    def others
      arrivals.reject(&:profile?).map(&:request_line).uniq
    end
  end

  class << self
    def result(name, variant)
      start
      value = @threads.fetch([name, variant]).value
      value.is_a?(Exception) ? raise(value) : value
    end

    private

    def start
      @threads ||= Variants::ALL.keys.each { |it| Variants[it] }.flat_map do |variant|
        # Waiting ones at once; those that compute one after the other, so that none starves.
        computing = Queue.new.tap { |it| it << :turn }
        names.map { |name| [[name, variant], in_thread(name, variant, computing)] }
      end.to_h
    end

    def names
      private_methods(false).grep(/\Aplay_/).map { |it| it.to_s.delete_prefix("play_").to_sym }.sort
    end

    def in_thread(name, variant, turns)
      Thread.new do
        turn = turns.pop unless %i[web slow_agent jobs].include?(name)
        send("play_#{name}", Variants[variant])
      rescue StandardError => e
        e
      ensure
        turns << turn if turn
      end
    end

    def with_agent(install, **options)
      answer = options.delete(:answer)
      agent = Agent.new(**options, &answer)
      outcome, facts = yield(agent)
      Result.new(outcome, agent.arrivals, agent.broken, agent.host, install, facts)
    ensure
      agent&.close
    end

    # At its end the gem gives a report one second and then gives it up, which a busy machine may not keep.
    def until_reported(install, **options, &block)
      result = nil
      4.times do
        result = with_agent(install, **options, &block)
        break if result.arrivals.any?(&:profile?)
      end
      result
    end

    def run(install, agent, *command, **options)
      Program.profiled(install, agent.address, "ruby", *command, **options).outcome(LIMIT)
    end

    def play_cpu_bound(install)
      until_reported(install) { |agent| run(install, agent, "cpu_bound.rb", SOAK ? "50" : "6") }
    end

    def play_everything(install)
      until_reported(install) { |agent| run(install, agent, "everything.rb", SOAK ? "100" : "8", env: ALL_ON) }
    end

    def play_jobs(install)
      with_agent(install) { |agent| run(install, agent, "jobs.rb", "3", "100000", "3") }
    end

    def play_many_jobs(install)
      with_agent(install) { |agent| run(install, agent, "jobs.rb", SOAK ? "2000" : "100", "1", "2") }
    end

    def play_unix_socket(install)
      Dir.mktmpdir("nf-", "/tmp") do |folder|
        until_reported(install, unix: File.join(folder, "agent.sock")) { |agent| run(install, agent, "cpu_bound.rb", "2") }
      end
    end

    def play_agent_down(install)
      free = TCPServer.open("127.0.0.1", 0) { |it| it.addr[1] }
      outcome = Program.profiled(install, "http://127.0.0.1:#{free}", "ruby", "cpu_bound.rb", "2").outcome(LIMIT)
      Result.new(outcome, [], 0, nil, install, nil)
    end

    # Takes each report and answers seconds later.
    def play_slow_agent(install)
      answered = []
      answer = lambda do |connection|
        sleep 5
        connection.answer(200)
        answered << Time.now
      end
      with_agent(install, answer: answer) { |agent| [run(install, agent, "ticker.rb", "75"), answered] }
    end

    def play_web(install)
      Dir.mktmpdir("nf-", "/tmp") do |folder|
        with_agent(install) do |agent|
          socket = File.join(folder, "web.sock")
          puma = Program.profiled(install, agent.address, "puma", "-C", "puma.rb", "config.ru",
                                  env: { "SHOP_SOCKET" => socket })
          facts = load(socket, puma)
          puma.signal(:TERM)
          [puma.outcome(LIMIT), facts]
        end
      end
    end

    # Asks now and then, for as long as a scenario takes.
    def load(socket, puma)
      finish = clock + LIMIT
      sleep 0.1 until (File.socket?(socket) && get(socket, "/page").first == 200) || clock > finish || !puma.running?
      answers = Hash.new(0)
      finish = clock + WEB_SECONDS
      while clock < finish
        %w[/report /page].each { |path| answers[get(socket, path)] += 1 }
        sleep 0.05
      end
      answers
    end

    # [status, pid of the worker]
    def get(socket, path)
      UNIXSocket.open(socket) do |connection|
        connection.write("GET #{path} HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n")
        answer = connection.read
        [answer[%r{\AHTTP/1.1 (\d+)}, 1].to_i, answer[/\r\n\r\n(\d+)/, 1].to_i]
      end
    rescue SystemCallError => e
      [e.class, 0]
    end

    def clock
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
