# frozen_string_literal: true

module Datadog
  module Profiling
    module CLI
      # A command that runs as if it had been started without us: same terminal, same files, same signals, same end.
      class Child
        # Passed on to the command. Those that a terminal sends reach it by themselves, see `from_terminal?`.
        SIGNALS = %w[HUP INT QUIT TERM USR1 USR2 ALRM TSTP TTIN TTOU WINCH CONT].freeze
        FROM_TERMINAL = %w[INT QUIT TSTP WINCH HUP].freeze

        # Environment changes; the command and its arguments. Failure with status 127 or 126 if there is no such command.
        def self.run(environment, command)
          new(environment, command).run
        end

        # Exit statuses as a shell has them for a command that it cannot run.
        def self.translating_errors(name)
          yield
        rescue Errno::ENOENT => e
          raise Failure.new("#{name}: command not found (#{e.class.new.message})", status: 127)
        rescue SystemCallError => e # EACCES, ENOEXEC, EISDIR …
          raise Failure.new("#{name}: cannot be run (#{e.class.new.message})", status: 126)
        rescue ArgumentError => e # a NUL in a word
          raise Failure.new("#{name.inspect}: cannot be run (#{e.message})", status: 126)
        end

        def initialize(environment, command)
          @environment = environment
          @command = command
          @early = []
        end

        # The Process::Status of the ended command.
        def run
          pass_signals_on
          name = @command.first
          @pid = Child.translating_errors(name) do
            Process.spawn(@environment, [name, name], *@command.drop(1), close_others: false)
          end
          @early.each { |signal| forward(signal) }
          wait
        end

        # Ends this process as the command ended.
        def self.end_like(status)
          exit!(status.exitstatus) unless status.signaled?

          Process.setrlimit(Process::RLIMIT_CORE, 0) # one core file of this end is enough
          trap(status.termsig, "SYSTEM_DEFAULT") unless %w[KILL STOP].include?(Signal.signame(status.termsig))
          Process.kill(status.termsig, Process.pid)
          sleep 1
          exit!(128 + status.termsig) # a signal whose default is to be ignored, or that is blocked
        rescue ArgumentError, SystemCallError
          exit!(128 + status.termsig)
        end

        private

        # A signal that is ignored stays so, for the command too (nohup). Those that we catch are the default again there.
        def pass_signals_on
          SIGNALS.each do |signal|
            before = trap(signal) { @pid ? forward(signal) : @early << signal }
            trap(signal, "IGNORE") if before == "IGNORE"
          end
        end

        def forward(signal)
          Process.kill(signal, @pid) unless FROM_TERMINAL.include?(signal) && from_terminal?
        rescue Errno::ESRCH, Errno::EPERM
          nil
        end

        # True if we are in the foreground of a terminal: then its keys reach the command, too, as it is in our group.
        def from_terminal?
          File.open("/dev/tty") do |terminal|
            group = [0].pack("i")
            terminal.ioctl(0x540F, group) # TIOCGPGRP
            group.unpack1("i") == Process.getpgrp
          end
        rescue SystemCallError
          false
        end

        # A command that is stopped stops us too, so that the shell sees it; it goes on when we do.
        def wait
          loop do
            _, status = Process.wait2(@pid, Process::WUNTRACED)
            return status unless status.stopped?

            Process.kill("STOP", Process.pid)
            Process.kill("CONT", @pid)
          end
        end
      end
    end
  end
end
