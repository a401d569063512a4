# frozen_string_literal: true

require_relative "../clock"
require_relative "environment"
require_relative "notes"
require_relative "target"

module Datadog
  module Profiling
    # The recording of one process from its beginning to its end: one session, one file. Children are recorded
    # too, each in a file of its own, as is whatever runs in this process after an exec.
    module Recording
      # No more than this is waited for the profiler when signals ask a process to end.
      PATIENCE_SECONDS = 5

      # Threads in a profile that are not the program's: the worker and its idle helper.
      PROFILER_THREADS = 2

      @recording = @first = false
      @pid = @session = @notes = @earlier_image = nil

      class << self
        def begin_process
          @file = Environment["NF_RECORD_FILE"]
          @notes = Notes.new(Environment["NF_RECORD_FOLDER"])
          pid, earlier = Environment["NF_RECORD_IMAGE"].to_s.split(":", 2)
          @earlier_image = earlier if pid == ::Process.pid.to_s
          @first = @notes.claim("first")
          return if failed?(reason_against)

          start
          # The first to be set is the last to run. A signal may end one of them before it has begun, and then
          # the next one runs.
          3.times { at_exit { end_process } }
          require_relative "hooks"
          Hooks.install
        rescue Exception => e # rubocop:disable Lint/RescueException
          raise if e.is_a?(SignalException)

          failed?("#{first_line(e)} (#{e.class})")
        end

        # Writes the profile. Once for each process: there is nothing to do for those who come later.
        def end_process
          finish if @recording && ::Process.pid == @pid
        rescue SignalException
          raise
        rescue Exception # rubocop:disable Lint/RescueException
          nil # a Ractor other than the main one cannot even look
        end

        # Before this process becomes another program, or its own child.
        def leave(how = nil)
          @notes.add(how) if how && @session
          end_process
          ENV["NF_RECORD_IMAGE"] = "#{::Process.pid}:".b << @earlier_image.b if @earlier_image
        rescue SignalException
          raise
        rescue Exception # rubocop:disable Lint/RescueException
          nil
        end

        # It did not.
        def stay
          apart { start } if !@recording && @pid == ::Process.pid
        rescue SignalException
          raise
        rescue Exception # rubocop:disable Lint/RescueException
          nil
        end

        # In the child: drops what is the parent's, and starts a recording of its own.
        def after_fork
          return if @pid.nil? || @pid == ::Process.pid

          @pid = ::Process.pid
          @first = false
          @earlier_image = nil
          @recording = false
          @ending = Mutex.new # may be in the hands of a thread that only the parent has
          apart { start_in_child }
        rescue SignalException
          raise
        rescue Exception # rubocop:disable Lint/RescueException
          nil
        end

        private

        # nil if this process can be profiled.
        def reason_against
          gem = %w[datadog ddtrace].find { |name| defined?(::Gem) && ::Gem.loaded_specs.key?(name) }
          gem ||= "datadog" if defined?(::Datadog::VERSION)
          gem ||= "ddtrace" if defined?(::DDTrace)
          return "the profiler of the gem #{gem} is in the same program, and there can be only one" if gem

          require_relative "../../profiling"
          Profiling.unsupported_reason
        end

        # Those of Session.new that `ddprofrb record` has options for.
        def options
          Environment["NF_RECORD_OPTIONS"].to_s.split(" ").each_with_object({}) do |option, options|
            name, value = option.split("=", 2)
            case name
            when "interval" then options[:interval] = value.to_f
            when "max_frames" then options[:max_frames] = value.to_i
            when "gc", "timeline", "heap" then options[name.to_sym] = true
            when "alloc" then options[:allocations] = true
            end
          end
        end

        # Without what this Ruby does not bear; the rest is recorded.
        def possible(options)
          refused = {}
          refused[:heap] = RubyRules.heap_refused if options[:heap]
          refused[:allocations] = RubyRules.allocation_refused if options[:allocations] || options[:heap]
          refused.compact!
          refused.each_value { |reason| @notes.add(:incomplete, reason) }
          options = options.merge(allocations: true) if options[:heap]
          options.delete(:heap) if refused.any?
          options.delete(:allocations) if refused.key?(:allocations)
          options
        end

        # What the profiles of this Ruby lack, if anything: once for all processes of the run.
        def note_limits
          limits = Capabilities.limits
          @notes.add(:limited, limits) if limits && @notes.claim("limited", again: false)
        end

        # Without what Ruby's helpers for programmers add.
        def first_line(error)
          error.message.to_s.b.lines.first.to_s.strip
        end

        # Notes a reason, if it is one. The first process of a run to have one says so on the spot.
        def failed?(reason)
          return false unless reason

          reason = reason.to_s.b.tr("\n", " ")
          noted = @notes.add(:fail, reason)
          if !noted || @notes.claim("warned", again: false)
            say("process #{::Process.pid} is not profiled: ".b << reason)
          end
          true
        end

        def start
          note_limits
          session = Session.new(**possible(options))
          session.start
          @pid = ::Process.pid
          @helper_threads = Thread.current == Thread.main ? 0 : 1
          @session = session
          @ending = Mutex.new
          @recording = true
          @notes.add(:start)
        end

        def start_in_child
          return start unless @session

          @session.reset_after_fork
          @helper_threads = 1
          @recording = true
          @notes.add(:start)
        rescue Exception => e # rubocop:disable Lint/RescueException
          @session = nil
          failed?("#{first_line(e)} (#{e.class})")
        end

        # Whoever comes second waits for the first.
        def finish
          apart do
            @ending.synchronize do
              save if @session
              @session = nil
              @recording = false
            end
          end
        end

        def save
          @helper_threads += 1 unless Thread.current == Thread.main
          profile = @session.stop
          write(profile) if profile
        rescue Exception => e # rubocop:disable Lint/RescueException
          lost(first_line(e))
        end

        def write(profile)
          device = Target.device?(@file)
          path = @first || device ? @file : Target.variant(@file, ::Process.pid.to_s)
          move_earlier_image(path) if @first && @earlier_image && !device
          written = Target.new(path, replace: @first).write(profile.bytes)
          @earlier_image = written
          threads = [profile.thread_count - PROFILER_THREADS - @helper_threads, 1].max
          @notes.add(:end, written, profile.sample_count, threads, profile.duration)
          @notes.add(:incomplete, profile.failure.message) if profile.failure
        rescue SystemCallError => e
          lost("#{path}: #{e.class.new.message}")
        end

        # The name is for what runs in the first process at last: `bundle exec` becomes the program.
        def move_earlier_image(path)
          return unless @earlier_image.b == path.b && ::File.exist?(path)

          aside = Target.variant(path, ::Process.pid.to_s)
          number = 1
          until link(path, aside)
            number += 1
            aside = Target.variant(path, "#{::Process.pid}.#{number}")
          end
          @notes.add(:moved, path, aside)
        end

        def link(from, to)
          ::File.link(from, to)
          true
        rescue Errno::EEXIST
          false
        rescue SystemCallError
          return false if ::File.exist?(to)

          ::File.rename(from, to)
          true
        end

        def lost(reason)
          say("no profile of process #{::Process.pid}: ".b << reason.b) unless @notes.add(:lost, reason)
        end

        # To the user of the program: what `ddprofrb record` cannot say itself, or would say too late.
        def say(text)
          # Not binmode: the stream is the program's.
          line = "ddprofrb: ".b << text.tr("\n", " ") << "\n".b
          stat = ::STDERR.stat
          ::STDERR.syswrite(line) unless stat.file? && !Limit.allows?(stat.size + line.bytesize)
        rescue SystemCallError, IOError
          nil
        end

        # On a thread of its own: there a signal that arrives meanwhile, or a trap handler that we are called
        # from, cannot cut things short. The signal is then passed on.
        def apart(&work)
          thread = late = nil
          deadline = Clock.monotonic + PATIENCE_SECONDS
          begin
            thread ||= new_thread(&work)
            thread.join if thread
          rescue Exception => e # rubocop:disable Lint/RescueException
            late ||= e
            retry if Clock.monotonic < deadline
          end
          raise late if late
        end

        # nil if there are no more threads, and all is done then.
        def new_thread(&work)
          Thread.new(&work)
        rescue ThreadError
          work.call
          nil
        end
      end
    end
  end
end
