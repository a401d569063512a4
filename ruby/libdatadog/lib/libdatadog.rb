# frozen_string_literal: true

require "rbconfig"
require "rubygems"

require_relative "libdatadog/version"

# Where the library is that the `datadog` gem builds its profiler against. LIBDATADOG_VENDOR_OVERRIDE names another folder.
module Libdatadog
  class << self
    # Platforms that there is a library for.
    def available_binaries
      Dir.children(vendor_folder).select { |name| File.directory?(File.join(vendor_folder, name)) }.sort
    rescue SystemCallError
      []
    end

    # The folder of this .pc file, for this platform; nil if there is none. Bundler does not compile gems that it takes
    # from a `path:`: then the library is compiled here, when it is first asked for.
    def pkgconfig_folder(pkgconfig_file_name = "datadog_profiling_with_rpath.pc")
      build_from_path if available_binaries.empty? && !overridden?
      return unless available_binaries.include?(current_platform)

      found = Dir.glob(File.join("**", pkgconfig_file_name), base: File.join(vendor_folder, current_platform)).min
      found && File.dirname(File.absolute_path(File.join(vendor_folder, current_platform, found)))
    end

    # Names as in the vendor folder: RubyGems', without "-gnu"; with "-musl" also where RubyGems is too old to see it.
    def current_platform
      normalize(Gem::Platform.local.to_s, RbConfig::CONFIG["arch"])
    end

    private

    def normalize(platform, arch)
      platform = arch if arch.include?("-musl") && !platform.include?("-musl")
      platform.sub(/-gnu\z/, "").sub(/\Aarm64-linux/, "aarch64-linux")
    end

    def overridden?
      !ENV["LIBDATADOG_VENDOR_OVERRIDE"].to_s.empty?
    end

    def vendor_folder
      return ENV["LIBDATADOG_VENDOR_OVERRIDE"] if overridden?

      File.expand_path("../vendor/libdatadog-#{LIB_VERSION}", __dir__)
    end

    def build_from_path
      require_relative "libdatadog/source_build"
      SourceBuild.new.run
    rescue SourceBuild::Failed => e
      warn(e.message)
    end
  end
end
