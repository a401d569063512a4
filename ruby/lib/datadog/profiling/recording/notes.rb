# frozen_string_literal: true

require_relative "limit"

module Datadog
  module Profiling
    module Recording
      # How recorded processes tell `ddprofrb record` what they did: lines in a file, appended by whole lines.
      # Nothing here fails; where the folder is gone, `ddprofrb` has ended before and nobody wants to know.
      #
      #   start PID                 the process is being profiled
      #   end PID FILE SAMPLES THREADS SECONDS
      #   moved PID FROM TO         the profile of what ran in the process before an exec has another name now
      #   daemon PID                the process ends, its child goes on in the background
      #   fail PID REASON           the process is not profiled
      #   lost PID REASON           it was, but there is no file
      #   incomplete PID REASON     there is, but something is missing in it
      #   limited PID REASON        no profile of this Ruby has everything
      class Notes
        FILE = ::File # the program may put something else in the place of the constant
        private_constant :FILE

        def self.escape(text)
          text.to_s.b.gsub(/[\x00-\x20%\x7f]/n) { |char| format("%%%02X", char.ord) }
        end

        def self.unescape(text)
          text.b.gsub(/%(\h\h)/n) { $1.hex.chr } # rubocop:disable Style/PerlBackrefs
        end

        # The lines of a finished run: arrays of kind, process id and texts (UTF-8 if they are).
        def self.read(folder)
          FILE.binread(FILE.join(folder, "notes")).split("\n").map do |line|
            kind, pid, *rest = line.split(" ")
            [kind.to_sym, pid.to_i, *rest.map { |text| unescape(text).force_encoding(Encoding::UTF_8) }]
          end
        end

        # Makes an empty folder ready.
        def self.prepare(folder)
          notes = FILE.join(folder, "notes")
          FILE.binwrite(notes, "")
          FILE.chmod(0o600, notes) # whatever the umask
        end

        def initialize(folder)
          @folder = folder
        end

        def add(kind, *texts)
          return false unless @folder

          line = [kind, ::Process.pid, *texts].map { |text| self.class.escape(text) }.join(" ") << "\n"
          flags = FILE::WRONLY | FILE::APPEND | FILE::BINARY
          FILE.open(FILE.join(@folder, "notes"), flags) { |file| Limit.append(file, line) }
          true
        rescue SystemCallError
          false
        end

        # True for exactly one process of a run: whoever asks first; `again`: as often as it does, also after
        # an exec.
        def claim(what, again: true)
          return false unless @folder

          path = FILE.join(@folder, what)
          begin
            FILE.open(path, FILE::WRONLY | FILE::CREAT | FILE::EXCL | FILE::BINARY, 0o600) do |file|
              file.chmod(0o600)
              Limit.append(file, ::Process.pid.to_s)
            end
            true
          rescue Errno::EEXIST
            again && FILE.binread(path).to_i == ::Process.pid
          end
        rescue SystemCallError
          false
        end
      end
    end
  end
end
