# frozen_string_literal: true

require_relative "../log"
require_relative "../recording/target"

module Datadog
  module Profiling
    module Output
      # Each profile becomes a pprof file in a folder: profile.<start in UTC>.<process id>.pb.gz. Files appear
      # whole or not at all. Of all such files in the folder, the oldest are removed when there are more than
      # `keep`.
      class Files
        OURS = /\Aprofile\.\d{8}T\d{6}Z\.\d+(?:\.\d+)?\.pb(?:\.gz)?\z/n.freeze
        FILE = ::File # the program may put something else in the place of these
        DIR = ::Dir
        private_constant :FILE, :DIR

        # Relative to where the process is now, wherever it goes.
        def initialize(folder:, keep:)
          raise ArgumentError, "the folder for profiles has no name" if folder.to_s.empty?

          @folder = FILE.expand_path(folder)
          @keep = keep
        end

        def export(flush)
          bytes, ending = packed(flush)
          make_folder
          stamp = flush.start.utc.strftime("%Y%m%dT%H%M%SZ")
          path = FILE.join(@folder, "profile.#{stamp}.#{::Process.pid}#{ending}")
          Recording::Target.new(path, replace: false).write(bytes)
          remove_oldest
          true
        rescue SystemCallError => e
          Log.error("No profile was written to #{@folder}: #{e.class.new.message}")
          false
        end

        def shown
          "the folder #{@folder}"
        end

        def local?
          true
        end

        def inspect
          "#<#{self.class} #{@folder}>"
        end

        private

        # Other transports may need the bare message; then it is we who compress.
        def packed(flush)
          case flush.pprof_codec
          when :gzip then [flush.pprof_data, ".pb.gz"]
          when :none then [gzip(flush.pprof_data), ".pb.gz"]
          else raise ArgumentError, "no pprof file is compressed with #{flush.pprof_codec}"
          end
        rescue LoadError # no zlib: all pprof tools read this too
          [flush.pprof_data, ".pb"]
        end

        def gzip(bytes)
          require "zlib"
          Zlib.gzip(bytes, level: 1)
        end

        # All that it needs is here already: a program may be in a root folder without any of Ruby's files.
        def make_folder(path = @folder)
          DIR.mkdir(path)
        rescue Errno::EEXIST
          nil
        rescue Errno::ENOENT
          parent = FILE.dirname(path)
          raise if parent == path || FILE.directory?(parent)

          make_folder(parent)
          begin
            DIR.mkdir(path)
          rescue Errno::EEXIST # another process was faster
            nil
          end
        end

        # Other processes may do the same at the same time.
        def remove_oldest
          all = DIR.children(@folder, encoding: Encoding::BINARY) # whatever encodings the program has chosen
          ours = all.select { |name| OURS.match?(name) }.sort_by { |name| order(name) }
          ours.first([ours.size - @keep, 0].max).each do |name|
            FILE.unlink(FILE.join(@folder, name))
          rescue Errno::ENOENT
            nil
          end
        end

        # By time, then in the order in which they came: a.pb.gz, a.2.pb.gz, a.10.pb.gz.
        def order(name)
          name.scan(/\d+/).map(&:to_i)
        end
      end
    end
  end
end
