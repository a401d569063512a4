# frozen_string_literal: true

module Datadog
  module Profiling
    # Writes a profile so that, whatever goes wrong, an older file of the same name is either untouched or wholly replaced.
    # Uses nothing but Ruby's core: it runs inside programs that choose their own libraries.
    module ProfileFile
      class << self
        # Raises SystemCallError.
        def write(path, bytes)
          path = File.realpath(path) if File.symlink?(path) && File.exist?(path) # what a link points to, not the link
          if File.exist?(path) && !File.file?(path)
            File.open(path, File::WRONLY | File::BINARY) { |file| file.write(bytes) } # a device or a FIFO
          else
            replace(path, bytes)
          end
          path
        end

        # Why a file of this name could not be written later, as a SystemCallError; nil if nothing speaks against it.
        def obstacle(path)
          folder = File.dirname(path)
          return Errno::EISDIR.new(path) if File.directory?(path)
          return Errno::ENOENT.new(folder) unless File.exist?(folder)
          return Errno::ENOTDIR.new(folder) unless File.directory?(folder)

          writable = File.exist?(path) && !File.file?(path) ? path : folder
          Errno::EACCES.new(writable) unless File.writable?(writable)
        rescue SystemCallError => e
          e
        end

        # "No space left on device", without what Ruby adds about where it happened.
        def reason(error)
          error.is_a?(SystemCallError) ? error.class.new.message : error.message
        end

        private

        def replace(path, bytes)
          temporary = "#{File.dirname(path)}/.#{File.basename(path)[0, 200]}.#{Process.pid}.part"
          flags = File::WRONLY | File::CREAT | File::EXCL | File::BINARY
          File.open(temporary, flags, 0o666) do |file|
            file.write(bytes)
            file.fsync
          end
          File.rename(temporary, path)
          sync_folder(File.dirname(path))
        rescue SystemCallError
          remove(temporary)
          raise
        end

        def remove(temporary)
          File.unlink(temporary) if temporary && File.exist?(temporary)
        rescue SystemCallError
          nil
        end

        # So that the new name, too, survives a power cut; some file systems cannot.
        def sync_folder(folder)
          File.open(folder, File::RDONLY, &:fsync)
        rescue SystemCallError
          nil
        end
      end
    end
  end
end
