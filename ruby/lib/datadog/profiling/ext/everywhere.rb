# frozen_string_literal: true

module Datadog
  module Profiling
    module Ext
      # Puts a module's methods before those of the same name however they are called: `Process.exit!`,
      # `Kernel.exit!`, and `exit!` without a receiver, where it stays private.
      module Everywhere
        def self.prepend_to_all(hook)
          [::Process.singleton_class, ::Kernel.singleton_class].each { |it| it.send(:prepend, hook) }
          in_objects = hook.dup
          in_objects.send(:private, *hook.instance_methods(false))
          # Ruby before 3.0 does not see what is put before Kernel now.
          (RUBY_VERSION < "3.0" ? ::Object : ::Kernel).send(:prepend, in_objects)
        end
      end
    end
  end
end
