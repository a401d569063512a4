# frozen_string_literal: true

module Datadog
  module Profiling
    # Which process this is, among all others.
    module Identity
      # As Docker and others, ECS and Fargate, and Garden have them.
      CONTAINER = /([0-9a-f]{64}|[0-9a-f]{32}-\d+|\h{8}(?:[-_]?\h{4}){3}[-_]?\h{12})(?:\.scope)?\s*\z/.freeze
      private_constant :CONTAINER

      @runtime_id = nil
      @runtime_id_of = nil

      class << self
        # Anew in each forked child. Not from the program's random numbers: those are its own. Random.new also works where
        # nothing of the system can be read (any more), as after a chroot.
        def runtime_id
          return @runtime_id if @runtime_id_of == Process.pid

          bytes = Random.new.bytes(16).bytes
          bytes[6] = bytes[6] & 0x0f | 0x40
          bytes[8] = bytes[8] & 0x3f | 0x80
          text = bytes.map { |byte| format("%02x", byte) }.join
          @runtime_id_of = Process.pid
          @runtime_id = [text[0, 8], text[8, 4], text[12, 4], text[16, 4], text[20, 12]].join("-").freeze
        end

        def hostname
          uname.fetch(:nodename)
        end

        # Of the kernel: :nodename, :sysname, :release, :version. Empty texts where nobody knows.
        def uname
          @uname ||= begin
            require "etc"
            Etc.uname
          rescue LoadError, SystemCallError, NotImplementedError
            {}
          end
          { nodename: "", sysname: "", release: "", version: "" }.merge(@uname)
        end

        # nil outside of containers. Names of groups may be any bytes.
        def container_id(cgroup = "/proc/self/cgroup")
          File.foreach(cgroup, "\n", mode: "rb") do |line|
            found = line.split("/").last.to_s[CONTAINER, 1]
            return found.force_encoding(Encoding::UTF_8) if found
          end
          nil
        rescue SystemCallError
          nil
        end
      end
    end
  end
end
