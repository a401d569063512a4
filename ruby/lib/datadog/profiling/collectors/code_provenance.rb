# frozen_string_literal: true

require "rbconfig"
require_relative "../json"

module Datadog
  module Profiling
    module Collectors
      # Which libraries the code of a profile is from. Libraries and files accumulate over the life of the
      # process.
      class CodeProvenance
        Library = Struct.new(:kind, :name, :version, :path) do
          def to_h
            { "kind" => kind, "name" => name, "version" => version, "paths" => [path] }
          end
        end

        def initialize(standard_library_path: RbConfig::CONFIG.fetch("rubylibdir"))
          @by_path = {}
          @seen_specs = {}
          @seen_files = {}
          @used = {}
          @paths = []
          add(Library.new("standard library", "stdlib", RUBY_VERSION, standard_library_path))
        end

        # Looks at what was loaded since the last time.
        def refresh(loaded_files: $LOADED_FEATURES, loaded_specs: defined?(::Gem) ? ::Gem.loaded_specs.values : [])
          loaded_specs.each { |spec| record_spec(spec) }
          loaded_files.dup.each { |file| record_file(file) }
          self
        end

        # Those with a file that was loaded.
        def libraries
          @used.keys
        end

        def generate_json
          JSONText.generate("v1" => libraries.map(&:to_h))
        end

        private

        def record_spec(spec)
          return if @seen_specs.key?(spec.name)

          @seen_specs[spec.name] = true
          add(Library.new("library", spec.name.to_s, spec.version.to_s, spec.gem_dir.to_s))
          # What was seen before may belong to this one.
          @seen_files.clear
        rescue StandardError
          nil # a spec that is no spec
        end

        def add(library)
          return if library.path.empty?

          @by_path[library.path.chomp("/")] = library
          @paths = @by_path.keys.sort_by { |path| -path.size } # the longest first: gems may lie inside of others
        end

        def record_file(file)
          return if @seen_files.key?(file)

          @seen_files[file] = true
          path = @paths.find { |it| file.start_with?(it) && file[it.size] == "/" }
          @used[@by_path.fetch(path)] = true if path
        end
      end
    end
  end
end
