# frozen_string_literal: true

require_relative "extensions"

module Datadog
  module Profiling
    # Sends the reports that an exporter with a file:///folder URL has left in that folder.
    module FolderUploader
      # Why nothing can be sent, in a sentence for people.
      class Error < StandardError; end

      # accepted (and removed), rejected (by the server, the last one with status last_rejection), damaged (no whole report),
      # left (not tried, because of `error`, which is nil if nothing went wrong).
      Result = Struct.new(:error, :accepted, :rejected, :damaged, :left, :last_rejection)

      class << self
        # To an agent, or to the intake of a site. timeout: seconds for each report; 0 is no limit.
        def upload(folder, timeout:, agent: nil, site: nil, api_key: nil)
          load_native
          Result.new(*_native_upload(folder, agent, site, api_key, (timeout * 1000).round))
        end

        private

        def load_native
          return if respond_to?(:_native_upload)

          Extensions.load("datadog_folder_uploader")
        rescue LoadError => e
          raise Error, "the uploader for Ruby #{RUBY_VERSION} (#{RUBY_PLATFORM}) cannot be loaded: #{e.message}"
        end
      end
    end
  end
end
