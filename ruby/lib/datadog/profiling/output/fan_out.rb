# frozen_string_literal: true

require_relative "../log"
require_relative "../own_thread"

module Datadog
  module Profiling
    module Output
      # Hands each report to several transports. One that fails, or hangs, does not keep the others from it.
      class FanOut
        def initialize(transports)
          @local, @remote = transports.partition(&:local?)
        end

        # True if all have accepted it.
        def export(flush)
          results = @local.map { |it| attempt(it, flush) }
          threads = @remote.drop(1).map do |transport|
            OwnThread.start("#{self.class} #{transport.shown}") { attempt(transport, flush) }
          end
          results << attempt(@remote.first, flush) unless @remote.empty?
          results.concat(threads.map { |it| OwnThread.value(it) }).all?
        ensure
          threads&.each { |thread| OwnThread.join(thread.kill) if thread.alive? } # we were interrupted
        end

        def local?
          @remote.empty?
        end

        def inspect
          "#<#{self.class} #{(@local + @remote).map(&:inspect).join(", ")}>"
        end

        private

        def attempt(transport, flush)
          transport.export(flush)
        rescue StandardError => e
          Log.error("A report was lost on its way to #{transport.shown}: #{e.message} (#{e.class})")
          false
        end
      end
    end
  end
end
