# frozen_string_literal: true

module Nonferrous
  # Why the profiler is not compiled on a system, in the order in which it is asked. No row needs more than what
  # System tells, so the table can be tested without such systems. Runs on every Ruby that RubyGems installs for.
  #
  # More is possible here than with the datadog gem's profiler: any processor is fine, since nothing of ours is
  # prebuilt; the library is inside, so neither a libdatadog gem nor pkg-config can be missing.
  module SkipReasons
    # What of a system decides: engine, platform, windows, version (text), ruby_headers (found?), env (a Hash),
    # build_problem (nil, or why compiling did not work and what helps).
    System = Struct.new(:engine, :platform, :windows, :version, :ruby_headers, :env, :build_problem)
    Reason = Struct.new(:reason, :suggested)

    OLDEST = "2.7"
    GET_IN_TOUCH = ["If you would like to see it supported, please tell us."].freeze

    TABLE = [
      [->(s) { s.env["DD_PROFILING_NO_EXTENSION"].to_s.strip.downcase == "true" },
       ->(_) { Reason.new(["the variable DD_PROFILING_NO_EXTENSION is set to true"], ["Unset it to get the profiler. If you had to set it, please tell us why."]) }],
      [->(s) { s.engine == "jruby" }, ->(_) { Reason.new(["JRuby is not supported"], GET_IN_TOUCH) }],
      [->(s) { s.engine == "truffleruby" }, ->(_) { Reason.new(["TruffleRuby is not supported"], GET_IN_TOUCH) }],
      [->(s) { s.windows }, ->(_) { Reason.new(["Windows is not supported"], GET_IN_TOUCH) }],
      [->(s) { s.platform.include?("darwin") }, ->(_) { Reason.new(["macOS is not supported"], GET_IN_TOUCH) }],
      [->(s) { !s.platform.include?("linux") }, ->(s) { Reason.new(["the operating system (#{s.platform}) is not supported, only Linux is"], GET_IN_TOUCH) }],
      [->(s) { Gem::Version.new(s.version) < Gem::Version.new(OLDEST) },
       ->(s) { Reason.new(["Ruby #{s.version} is not supported, only #{OLDEST} and newer are"], ["Upgrade Ruby."]) }],
      [->(s) { !s.ruby_headers },
       ->(_) { Reason.new(["Ruby's headers were not found"], ["Install them (Debian: ruby-dev), then install this gem again."]) }],
      [->(s) { s.build_problem },
       ->(s) { Reason.new([s.build_problem.first], s.build_problem.drop(1)) }],
    ].freeze

    # nil, or the Reason of the first row that applies.
    def self.first_of(system)
      TABLE.each { |applies, explain| return explain.call(system) if applies.call(system) }
      nil
    end

    # For people who look at the installation's output.
    def self.box(reason)
      line = "+#{"-" * 78}+"
      paragraphs = ["The profiler is not compiled, because #{reason.reason.join(" ")}.",
                    "The gem is installed, but cannot profile.", reason.suggested.join(" ")]
      rows = paragraphs.reject(&:empty?).map { |text| wrap(text) + [""] }.flatten[0...-1]
      [line, *rows.map { |text| "| #{text.ljust(76)} |" }, line].join("\n")
    end

    def self.wrap(text)
      text.split(/\s+/).each_with_object([+""]) do |word, lines|
        lines << +"" if !lines.last.empty? && lines.last.size + word.size > 75
        lines.last << (lines.last.empty? ? "" : " ") << word
      end
    end
    private_class_method :wrap
  end
end
