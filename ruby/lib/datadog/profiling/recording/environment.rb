# frozen_string_literal: true

module Datadog
  module Profiling
    module Recording
      # What a recorded process is told by the one that started it:
      #   NF_RECORD_FILE    where the first Ruby process writes its profile; others make their names from it
      #   NF_RECORD_FOLDER  where processes leave word of what they did (see Notes) while `ddprofrb` runs
      #   NF_RECORD_OPTIONS "interval=0.01 max_frames=400", both optional
      #   NF_RECORD_IMAGE   "PID:FILE" after an exec: the profile of what ran before in this very process
      module Environment
        # Bytes as they are, whatever encodings the program has chosen. If it wants texts in UTF-16, Ruby converts values
        # that are not ASCII, and only says so of those that are.
        def self.[](name)
          value = ENV[name]
          return unless value

          bytes = value.b
          return bytes if value.encoding.ascii_compatible? || (bytes.ascii_only? && !bytes.include?("\0"))

          value.encode(Encoding.find("locale")).b
        end
      end
    end
  end
end
