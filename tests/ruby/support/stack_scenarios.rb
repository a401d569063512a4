module Support
  # Ways to get a stack of some kind: each calls the probe that it is given, somewhere.
  module StackScenarios
    ALL = {}

    def self.add(name, &scenario)
      ALL[name] = scenario
    end

    class Animal
      attr_accessor :probe

      def initialize(probe = nil)
        @probe = probe
        yield self if block_given?
      end

      def speak
        within { |inner| [1].each { inner.call } }
      end

      def within
        yield @probe
      end

      alias_method :talk, :speak

      define_method(:defined_by_block) { |*| @probe.call }
      define_method(:defined_by_lambda, ->(*) { @probe.call })
      define_method(:defined_by_method, instance_method(:speak))

      def method_missing(name, *arguments)
        name.start_with?("absent") ? @probe.call : super
      end

      def respond_to_missing?(name, *)
        name.start_with?("absent") || super
      end

      def <=>(_other)
        @probe.call
        0
      end
      include Comparable

      def to_s
        @probe.call
        "animal"
      end

      def each
        yield 1
        @probe.call
      end
      include Enumerable

      def protected_one
        @probe.call
      end
      protected :protected_one

      def ask(other)
        other.protected_one
      end

      def private_one(keyword:, optional: 1, **)
        @probe.call
      end
      private :private_one

      class << self
        def build(probe)
          new(probe).tap { |animal| animal.probe.call }
        end
      end

      def self.singleton(probe)
        probe.call
      end
    end

    class Dog < Animal
      def speak
        super
      end

      def within(&block)
        super(&block)
      end
    end

    module Loud
      def speak
        super()
      end
    end

    class LoudDog < Dog
      prepend Loud
    end

    module Refined
      refine String do
        def shout(probe)
          upcase.then { probe.call }
        end

        def upcase
          super
        end
      end
    end

    class Delegate < BasicObject
      def initialize(probe)
        @probe = probe
      end

      def method_missing(_name)
        @probe.call
      end
    end

    class Resource
      def initialize(probe)
        @probe = probe
      end

      def with_ensure
        yield
      ensure
        @probe.call
      end

      def with_rescue
        raise ArgumentError, "on purpose"
      rescue ArgumentError
        @probe.call
      end

      def with_retry(tries = 0)
        raise "on purpose" if tries.zero?
        @probe.call
      rescue RuntimeError
        tries += 1
        retry
      end

      def with_catch
        catch(:done) do
          @probe.call
          throw :done
        end
      end
    end

    def self.recurse(depth, probe)
      depth.zero? ? probe.call : recurse(depth - 1, probe)
    end

    def self.mutual_a(depth, probe)
      depth.zero? ? probe.call : mutual_b(depth - 1, probe)
    end

    def self.mutual_b(depth, probe)
      [depth].each { |it| mutual_a(it, probe) }
    end

    add("a plain call") { |probe| probe.call }
    add("a method with blocks in it") { |probe| Animal.new(probe).speak }
    add("an aliased method") { |probe| Animal.new(probe).talk }
    add("a method defined by a block") { |probe| Animal.new(probe).defined_by_block(1) }
    add("a method defined by a lambda") { |probe| Animal.new(probe).defined_by_lambda(1) }
    add("a method defined by another method") { |probe| Animal.new(probe).defined_by_method }
    add("super") { |probe| Dog.new(probe).speak }
    add("a prepended module") { |probe| LoudDog.new(probe).speak }
    add("method_missing") { |probe| Animal.new(probe).absent_method(1, 2) }
    add("method_missing of a BasicObject") { |probe| Delegate.new(probe).anything }
    add("a singleton method") { |probe| Animal.singleton(probe) }
    add("a method of the singleton class and tap") { |probe| Animal.build(probe) }
    add("a method that only this object has") do |probe|
      object = Object.new
      object.define_singleton_method(:only_here) { probe.call }
      def object.and_this(probe)
        probe.call
      end
      object.only_here
      object.and_this(probe)
    end
    add("a constructor with a block") { |probe| Animal.new(probe) { |animal| animal.probe.call } }
    add("send and public_send") { |probe| Animal.new(probe).public_send(:send, :private_one, keyword: 1, other: 2) }
    add("a protected method") { |probe| Animal.new.ask(Animal.new(probe)) }
    add("a Method object") { |probe| Animal.new(probe).method(:speak).call }
    add("an UnboundMethod") { |probe| Animal.instance_method(:speak).bind_call(Animal.new(probe)) }
    add("a Method turned into a block") { |probe| [1].each(&Animal.new(probe).method(:defined_by_block)) }
    add("a Symbol turned into a block") { |probe| [Animal.new(probe)].map(&:speak) }
    add("composed procs") { |probe| (->(it) { it } >> ->(_) { probe.call }).call(1) }
    add("a curried lambda") { |probe| ->(_, _) { probe.call }.curry[1][2] }
    add("a lambda in a lambda") { |probe| -> { -> { probe.call }.call }.() }
    add("a proc") { |probe| proc { |_| probe.call }.yield(1) }
    add("numbered block parameters") { |probe| [probe].each { _1.call } }
    add("blocks in blocks over several lines") do |probe|
      [1].each do |_|
        { a: 1 }.each_pair do |_, _|
          1.times do
            probe.call
          end
        end
      end
    end
    add("C functions that call back") { |probe| [2, 1].sort_by { |_| probe.call.hash }.inject { |a, _| a } }
    add("sort with a comparing block") { |probe| [2, 1].sort { |_, _| probe.call; 0 } }
    add("Hash.new with a block") { |probe| Hash.new { |_, _| probe.call }[:absent] }
    add("fetch with a block") { |probe| {}.fetch(:absent) { probe.call } }
    add("gsub with a block") { |probe| "aba".sub(/b/) { probe.call; "c" } }
    add("Comparable") { |probe| Animal.new(probe) == Animal.new(probe) && Animal.new(probe) < Animal.new(probe) }
    add("Enumerable over our each") { |probe| Animal.new(probe).first(2) }
    add("string interpolation") { |probe| "an #{Animal.new(probe)}" }
    add("Array#join") { |probe| [Animal.new(probe)].join }
    add("a lazy enumerator") { |probe| (1..3).lazy.map { |it| probe.call; it }.select(&:odd?).first }
    add("an external enumerator") { |probe| Enumerator.new { |out| out << 1; probe.call; out << 2 }.take(2) }
    add("an enumerator with next") { |probe| Enumerator.new { |out| probe.call; out << 1 }.next }
    add("each_with_index and with_object") { |probe| [1].each_with_index.with_object([]) { |_, _| probe.call } }
    add("loop") { |probe| loop { probe.call; break } }
    add("refinements") { |probe| Refinements.shout(probe) }
    add("eval") { |probe| eval("\nprobe.call") }
    add("eval with a binding") { |probe| eval("\n\nprobe.call", binding) }
    add("eval with a file and a line") { |probe| eval("\nprobe.call", binding, "/some/where/else.rb", 100) }
    add("eval with a file that is not there, of UTF-8") { |probe| eval("probe.call", binding, "/tmp/größe/日本.rb", 7) }
    add("eval in an eval") { |probe| eval("eval('probe.call', binding, 'inner.rb', 3)", binding, "outer.rb", 9) }
    add("eval that defines a method") do |probe|
      object = Object.new
      object.instance_eval("def of_eval(probe)\n  probe.call\nend", "methods.rb", 42)
      object.of_eval(probe)
    end
    add("a method with a name of UTF-8") do |probe|
      object = Object.new
      object.instance_eval("def größe?(probe) probe.call end", "größe.rb", 1)
      object.größe?(probe)
    end
    add("instance_eval with a block") { |probe| Object.new.instance_eval { probe.call } }
    add("instance_eval with text") do |probe|
      object = Object.new
      object.instance_variable_set(:@probe, probe)
      object.instance_eval("\n@probe.call")
      object.instance_eval("\n@probe.call", "given.rb", 77)
    end
    add("instance_exec") { |probe| Object.new.instance_exec(probe) { |it| it.call } }
    add("class_eval and class_exec") do |probe|
      Class.new.class_eval { probe.call }
      Class.new.class_exec(probe) { |it| it.call }
    end
    add("class_eval with text") do |probe|
      klass = Class.new
      klass.class_eval("def self.run(probe)\n\n probe.call\nend", "klass.rb", 5)
      klass.run(probe)
    end
    add("Class.new with a block") { |probe| Class.new { probe.call } }
    add("the body of a class") do |probe|
      Thread.current[:stack_scenario_probe] = probe
      eval("class Support::StackScenarios::Reopened\n  Thread.current[:stack_scenario_probe].call\nend", binding, "body.rb", 1)
      eval("module Support::StackScenarios::ReopenedModule; class << self; Thread.current[:stack_scenario_probe].call; end; end")
    end
    add("a loaded file") do |probe|
      Thread.current[:stack_scenario_probe] = probe
      load File.expand_path("top_level.rb", __dir__)
      load File.expand_path("top_level.rb", __dir__), true
    end
    add("TOPLEVEL_BINDING") { |probe| TOPLEVEL_BINDING.eval("->(it) { it.call }", "top.rb", 5).call(probe) }
    add("ensure") { |probe| Resource.new(probe).with_ensure { 1 } }
    add("ensure after an exception") do |probe|
      Resource.new(probe).with_ensure { raise ArgumentError, "on purpose" }
    rescue ArgumentError
      probe.call
    end
    add("rescue") { |probe| Resource.new(probe).with_rescue }
    add("retry") { |probe| Resource.new(probe).with_retry }
    add("catch") { |probe| Resource.new(probe).with_catch }
    add("a fiber") { |probe| Fiber.new { probe.call }.resume }
    add("a fiber in a fiber") { |probe| Fiber.new { Fiber.new { [1].each { probe.call } }.resume }.resume }
    add("a fiber that was resumed again") do |probe|
      fiber = Fiber.new { Fiber.yield; probe.call }
      fiber.resume
      fiber.resume
    end
    add("procs in a hash") { |probe| { a: proc { probe.call } }.each_value(&:call) }
    add("recursion") { |probe| recurse(50, probe) }
    add("mutual recursion through C") { |probe| mutual_a(40, probe) }
    add("Mutex#synchronize") { |probe| Mutex.new.synchronize { probe.call } }
    add("Timeout") { |probe| Timeout.timeout(5) { probe.call } }
    add("Struct with keyword_init and a method") do |probe|
      Struct.new(:probe, keyword_init: true) { def run; probe.call; end }.new(probe: probe).run
    end
    add("pattern matching with deconstruct_keys") do |probe|
      object = Object.new
      object.define_singleton_method(:deconstruct_keys) { |_| probe.call; { a: 1 } }
      case object
      in { a: 1 } then nil
      end
    end
    add("const_missing") do |probe|
      Class.new { define_singleton_method(:const_missing) { |_| probe.call } }.const_get(:Absent)
    end
    add("an inherited hook") { |probe| Class.new(Class.new { define_singleton_method(:inherited) { |_| probe.call } }) }
    add("a conversion that C calls") do |probe|
      object = Object.new
      object.define_singleton_method(:to_ary) { probe.call; [1, 2] }
      _a, _b = object
      [[object]].flatten
    end
    add("a default argument") do |probe|
      object = Object.new
      object.define_singleton_method(:run) { |argument = probe.call, keyword: probe.call| [argument, keyword] }
      object.run
    end
    add("an extension library") do |probe|
      require "zlib"
      require "stringio"
      sink = Object.new
      sink.define_singleton_method(:write) { |text| probe.call; text.bytesize }
      writer = Zlib::GzipWriter.new(sink)
      writer.write("x")
      writer.close
    end
  end
end

# Refinements work by file, so their user is here.
module Support
  module StackScenarios
    module Refinements
      using Refined

      def self.shout(probe)
        "a".shout(probe)
      end
    end
  end
end
