# frozen_string_literal: true

module Datadog
  module Profiling
    module Ext
      # Before 3.4, Ruby takes it for the end of a folder when a signal interrupts the reading (bug 20586),
      # and the program then misses files. So none of ours arrives while a folder is read; it waits until that
      # is over.
      module DirInterruption
        SINGLETON_METHODS = %i[[] children each_child empty? entries exist? foreach glob].freeze
        INSTANCE_METHODS = %i[children each each_child read].freeze

        @applied = false

        class << self
          def apply!
            return if @applied

            @applied = true
            ::Dir.singleton_class.send(:prepend, guarding(SINGLETON_METHODS & ::Dir.singleton_methods))
            ::Dir.send(:prepend, guarding(INSTANCE_METHODS & ::Dir.instance_methods(false)))
          end

          # Whoever is called meanwhile is the program itself, and may be sampled.
          def without_signals
            return yield(nil) if NativeExtension._native_block_sigprof(true) # already, and not by us

            begin
              yield(lambda { |work, arguments|
                NativeExtension._native_block_sigprof(false)
                begin
                  work.call(*arguments)
                ensure
                  NativeExtension._native_block_sigprof(true)
                end
              })
            ensure
              NativeExtension._native_block_sigprof(false)
            end
          end

          private

          def guarding(methods)
            Module.new do
              methods.each do |name|
                define_method(name) do |*arguments, &block|
                  DirInterruption.without_signals do |program|
                    if block && program
                      super(*arguments) { |*given| program.call(block, given) }
                    else
                      super(*arguments, &block)
                    end
                  end
                end
                ruby2_keywords(name) if respond_to?(:ruby2_keywords, true)
              end
            end
          end
        end
      end
    end
  end
end
