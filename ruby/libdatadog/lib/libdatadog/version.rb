# frozen_string_literal: true

module Libdatadog
  # The version of the C interface, that of the original.
  LIB_VERSION = "6.0.0"

  GEM_MAJOR_VERSION = "2"
  GEM_MINOR_VERSION = "0"
  GEM_PRERELEASE_VERSION = ""
  private_constant :GEM_MAJOR_VERSION, :GEM_MINOR_VERSION, :GEM_PRERELEASE_VERSION

  # What `gem "datadog"` asks for.
  VERSION = "#{LIB_VERSION}.#{GEM_MAJOR_VERSION}.#{GEM_MINOR_VERSION}#{GEM_PRERELEASE_VERSION}"
end
