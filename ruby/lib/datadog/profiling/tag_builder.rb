# frozen_string_literal: true

require_relative "identity"
require_relative "recording/environment"
require_relative "version"

module Datadog
  module Profiling
    # What a report says about the process that it is from.
    module TagBuilder
      class << self
        # A Hash of UTF-8 Strings. What we know ourselves goes before what users have set.
        def call(settings:, profile_seq: nil)
          tags = settings.tags.merge(
            "host" => Identity.hostname,
            "language" => "ruby",
            "process_id" => Process.pid,
            "profiler_version" => VERSION,
            "runtime" => "ruby",
            "runtime_engine" => RUBY_ENGINE,
            "runtime-id" => Identity.runtime_id,
            "runtime_platform" => RUBY_PLATFORM,
            "runtime_version" => RUBY_VERSION
          ).merge(optional(settings, profile_seq))
          tags.to_h { |key, value| [utf8(key), utf8(value)] }
        end

        # https://user:password@host/path -> https://host/path
        def without_credentials(url)
          url.sub(%r{\A([a-z][a-z0-9+.-]*://)[^/]*@}i, "\\1")
        end

        private

        def optional(settings, profile_seq)
          url = Recording::Environment["DD_GIT_REPOSITORY_URL"].to_s
          {
            "env" => settings.env,
            "service" => settings.service,
            "version" => settings.version,
            "git.repository_url" => without_credentials(url),
            "git.commit.sha" => Recording::Environment["DD_GIT_COMMIT_SHA"],
            "profile_seq" => profile_seq
          }.reject { |_, value| value.nil? || value.to_s.empty? }
        end

        # Bytes that are no text in their own encoding make the whole text useless: empty.
        def utf8(value)
          text = value.to_s
          if [Encoding::BINARY, Encoding::US_ASCII].include?(text.encoding)
            text = text.dup.force_encoding(Encoding::UTF_8)
          end
          text.valid_encoding? ? text.encode(Encoding::UTF_8) : ""
        rescue EncodingError
          ""
        end
      end
    end
  end
end
