# frozen_string_literal: true

require "rbconfig"

module Datadog
  module Profiling
    # The native extensions: inside of this Ruby, if they were linked into it, otherwise files beside ours.
    module Extensions
      SUFFIX = "#{RUBY_VERSION}_#{RUBY_PLATFORM}"
      FOLDER = File.expand_path("../..", __dir__)

      class << self
        def path_of(name)
          "#{FOLDER}/#{name}.#{SUFFIX}.#{RbConfig::CONFIG["DLEXT"]}"
        end

        def load(name)
          load_linked(name) || require(path_of(name))
        end

        # Whether the extension is linked into this Ruby: then it is loaded now. Ruby knows it by its bare name, and
        # tells of it only when asked to load it.
        def load_linked(name)
          feature = "#{name}.so"
          return true if $LOADED_FEATURES.include?(feature)
          return false if file_on_load_path?(feature)

          require_here(feature)
          true
        rescue LoadError => e
          raise unless e.path == feature
          false
        end

        private

        # A file of that name is none of ours.
        def file_on_load_path?(feature)
          _kind, path = $LOAD_PATH.resolve_feature_path(feature)
          !path.nil? && path != feature
        rescue LoadError # how Ruby 2.7 and 3.0 say that there is none
          false
        end

        # RubyGems would go through all gems for what is not there.
        def require_here(feature)
          respond_to?(:gem_original_require, true) ? gem_original_require(feature) : require(feature)
        end
      end
    end
  end
end
