# frozen_string_literal: true

module Datadog
  module Profiling
    module Recording
      # Beyond a limit on the size of files the system ends a program with SIGXFSZ; a profile is no reason for
      # that.
      module Limit
        def self.allows?(size)
          size <= ::Process.getrlimit(::Process::RLIMIT_FSIZE).first
        end

        # Appends to a file, or to whatever else `io` is. Raises SystemCallError.
        def self.append(io, bytes)
          stat = io.stat
          raise Errno::EFBIG if stat.file? && !allows?(stat.size + bytes.bytesize)

          io.binmode.syswrite(bytes)
        end
      end
    end
  end
end
