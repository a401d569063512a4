# frozen_string_literal: true

module Datadog
  module Profiling
    # One report, ready to be sent. `pprof_codec` is how `pprof_data` is compressed, one of
    # StackRecorder::CODECS.
    Flush = Struct.new(
      :start, :finish, :pprof_file_name, :pprof_data, :pprof_codec, :code_provenance_file_name,
      :code_provenance_data, :tags_as_array, :internal_metadata_json, :info_json, keyword_init: true
    )
  end
end
