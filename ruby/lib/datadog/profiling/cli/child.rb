# frozen_string_literal: true

require_relative "../extensions"

module Datadog
  module Profiling
    module CLI
      # Signals, as only a native extension can pass them on (ruby/signal_relay/signal_relay.c).
      module Relay
        def self.load
          Extensions.load("datadog_signal_relay")
        rescue LoadError => e
          raise Failure, "a part of ddprofrb cannot be loaded: #{e.message}"
        end
      end

      # A command that runs as if it had been started without us: same terminal, same files, same signals,
      # same end.
      class Child
        # The Process::Status of the ended command. Failure with status 127 or 126 if there is no such
        # command. `environment`: changes to it.
        def self.run(environment, command)
          Relay.load
          Relay._native_install
          name = command.first
          pid = translating_errors(name) do
            Process.spawn(environment, [name, name], *command.drop(1), close_others: false)
          end
          Relay._native_set_command(pid)
          status = wait(pid)
          Relay._native_set_command(nil)
          status
        end

        # What makes every Ruby process load a file of ours first. RUBYOPT cannot hold a path with a blank in
        # it, so the path goes into RUBYLIB. What the user has there stays.
        def self.loading(feature, lib)
          if lib.include?(File::PATH_SEPARATOR)
            raise Failure, "a folder with a colon in its name cannot be passed on to Ruby: #{lib}"
          end

          {
            "RUBYLIB" => [lib, *ENV["RUBYLIB"]].join(File::PATH_SEPARATOR),
            "RUBYOPT" => [*ENV["RUBYOPT"], "-r#{feature}"].join(" ")
          }
        end

        # Exit statuses as a shell has them for a command that it cannot run.
        def self.translating_errors(name)
          yield
        rescue Errno::ENOENT => e
          name = "''" if name.empty?
          raise Failure.new("#{name}: command not found (#{e.class.new.message})", status: 127)
        rescue SystemCallError => e # EACCES, ENOEXEC, EISDIR …
          raise Failure.new("#{name}: cannot be run (#{e.class.new.message})", status: 126)
        rescue ArgumentError => e # a NUL in a word
          raise Failure.new("#{name.inspect}: cannot be run (#{e.message})", status: 126)
        end

        # Ends this process as the command ended.
        def self.end_like(status)
          exit!(status.exitstatus) unless status.signaled?

          Recording.end_process if defined?(Recording.end_process) # a recording of ourselves
          Relay._native_end_by(status.termsig)
          sleep 1
          exit!(128 + status.termsig) # a signal whose default is to be ignored
        end

        # A command that is stopped stops us too, so that the shell sees it. Whoever lets only us go on (kill
        # -CONT) means the command, and the other way round.
        def self.wait(pid)
          _, status = Process.wait2(pid, Process::WUNTRACED)
          while status.stopped?
            following(pid) { Relay._native_stop_by(status.stopsig) }
            sleep 0.02 # a signal to the whole group gets to the command, too
            _, status = Process.wait2(pid, Process::WUNTRACED | Process::WNOHANG)
            next if status # it has gone on by itself, and was stopped again, or has ended

            Process.kill(:CONT, pid) if stopped?(pid)
            _, status = Process.wait2(pid, Process::WUNTRACED)
          end
          status
        end
        private_class_method :wait

        # Only another process can see, while this one is stopped, that the command goes on.
        def self.following(pid)
          us = Process.pid
          follower = Process.fork do
            Relay._native_set_command(nil)
            while Process.ppid == us
              sleep 0.05
              Process.kill(:CONT, us) if !stopped?(pid) && stopped?(us)
            end
            exit!
          end
          yield
        ensure
          Process.kill(:KILL, follower) && Process.wait(follower) if follower
        end
        private_class_method :following

        def self.stopped?(pid)
          File.binread("/proc/#{pid}/stat")[/\)\s+(\S)/n, 1] == "T"
        rescue SystemCallError
          false
        end
        private_class_method :stopped?
      end
    end
  end
end
