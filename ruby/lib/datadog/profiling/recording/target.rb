# frozen_string_literal: true

require_relative "../clock"
require_relative "limit"

module Datadog
  module Profiling
    module Recording
      # Where a profile goes. Files appear whole or not at all: they are written under another name in the
      # same folder, brought to the disk, and renamed.
      class Target
        FILE = ::File
        private_constant :FILE

        ENDINGS = [".pb.gz", ".pprof.gz", ".pprof", ".pb", ".gz"].map(&:b).freeze
        LONGEST_NAME = 255

        # "out.pb.gz", "12" -> "out.12.pb.gz"
        def self.variant(path, mark)
          folder, name = FILE.split(path.b)
          ending = ENDINGS.find { |it| name.end_with?(it) && name.bytesize > it.bytesize }
          ending ||= FILE.extname(name)
          stem = name.byteslice(0, name.bytesize - ending.bytesize)
          stem = stem.byteslice(0, [LONGEST_NAME - ending.bytesize - mark.bytesize - 1, 1].max)
          FILE.join(folder, "#{stem}.#{mark}#{ending}".b)
        end

        # /dev/null and the like: written to as they are.
        def self.device?(path)
          FILE.chardev?(path)
        rescue SystemCallError
          false
        end

        # `replace`: a file of that name is an older profile, to be replaced. Otherwise it is left alone, and
        # ours gets another name.
        def initialize(path, replace:)
          @path = path.b
          @replace = replace
        end

        # Whether writing would work, as far as that can be known: raises SystemCallError.
        def try
          return write("\0") if self.class.device?(@path)

          name_fits
          temporary(4096) do |file|
            file.write("\0" * 4096)
            file.fsync
          end
        end

        # The path that the bytes are under in the end. Raises SystemCallError, and leaves nothing behind
        # then.
        def write(bytes)
          if self.class.device?(@path)
            flags = FILE::WRONLY | FILE::BINARY | FILE::NOCTTY
            FILE.open(@path, flags) { |device| device.binmode.syswrite(bytes) }
            return @path
          end
          result = nil
          temporary(bytes.bytesize) do |file, name|
            file.write(bytes)
            file.fsync
            result = place(name)
          end
          result
        end

        private

        def name_fits
          FILE.lstat(@path)
        rescue Errno::ENOENT
          nil
        end

        def temporary(size)
          raise Errno::EFBIG, @path unless Limit.allows?(size)

          unique = Clock.monotonic_ns.to_s(36)
          name = FILE.join(FILE.dirname(@path), ".ddprofrb-#{::Process.pid}-#{unique}".b)
          FILE.open(name, FILE::WRONLY | FILE::CREAT | FILE::EXCL | FILE::BINARY, 0o666) do |file|
            begin
              file.binmode # whatever encodings the program has chosen
              file.sync = true
              yield file, name
            ensure
              remove(name)
            end
          end
        end

        def remove(name)
          FILE.unlink(name)
        rescue SystemCallError
          nil # renamed, or moved by others
        end

        def place(name)
          if @replace
            FILE.rename(name, @path)
            return @path
          end
          number = 1
          path = @path
          until give(name, path)
            number += 1
            path = self.class.variant(@path, number.to_s)
          end
          path
        end

        # False if something of that name exists.
        def give(name, path)
          FILE.link(name, path)
          true
        rescue Errno::EEXIST
          false
        rescue SystemCallError # no hard links here
          return false if FILE.exist?(path) || FILE.symlink?(path)

          FILE.rename(name, path)
          true
        end
      end
    end
  end
end
