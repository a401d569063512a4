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
        # Bytes as they are, whatever encodings the program has chosen.
        def self.[](name)
          value = ENV[name]
          return unless value

          value = value.encode(Encoding.find("locale")) unless value.encoding.ascii_compatible?
          value.b
        end
      end
    end
  end
end
