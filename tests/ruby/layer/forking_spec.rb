require "layer_helper"

RSpec.describe Datadog::Profiling::Ext::Forking do
  # In a fresh process: the patches stay.
  def forks(script)
    run_ruby!(<<~RUBY)
      require "datadog/profiling"
      $stdout.sync = true
      forking = Datadog::Profiling::Ext::Forking
      forking.apply!
      forking.apply!
      $parent = Process.pid
      forking.at_fork(:child) { print "C" if Process.pid != $parent }
      #{script}
    RUBY
  end

  {
    "fork { }" => 'Process.wait(fork { print "b" })',
    "fork" => 'if (pid = fork) then Process.wait(pid) else print "b"; exit!(0) end',
    "Process.fork" => 'Process.wait(Process.fork { print "b" })',
    "Kernel.fork" => 'Process.wait(Kernel.fork { print "b" })',
    "fork in an object" => 'Process.wait(Class.new { def go; fork { print "b" }; end }.new.go)',
    "fork where Kernel was included by hand" => 'Process.wait(Class.new(BasicObject) { include ::Kernel; def go; fork { ::Kernel.print "b" }; end }.new.go)'
  }.each do |name, script|
    it "calls back before the child of #{name} goes on" do
      skip "needs Process._fork" if name.include?("by hand") && !Process.respond_to?(:_fork)
      expect(forks(script)).to eq("Cb")
    end
  end

  it "follows the child of IO.popen('-'), and leaves others of IO.popen alone" do
    expect(forks('io = IO.popen("-"); io ? print(io.read) : print("b")')).to eq("Cb")
    expect(forks('IO.popen("-") { |io| io ? print(io.read) : print("b") }; print "p"')).to eq("Cbp")
    expect(forks('IO.popen({ "A" => "1" }, "-", mode: "r+") { |io| io ? print(io.read) : print("b") }')).to eq("Cb")
    expect(forks('print IO.popen({ "A" => "2" }, ["printenv", "A"], &:read), IO.popen("echo -", external_encoding: "utf-8").read'))
      .to eq("2\n-\n")
  end

  it "follows forks in forks" do
    script = 'Process.wait(fork { $parent = Process.pid; print "1"; Process.wait(fork { print "2" }) })'
    expect(forks(script)).to eq("C1C2")
  end

  it "leaves other ways of starting programs alone" do
    expect(forks('system("echo", "x"); print `echo y`; Process.wait(spawn("echo", "z")); Process.wait(fork { exec("echo", "e") })'))
      .to eq("x\ny\nz\nCe\n")
  end

  it "returns what fork returns, and passes the daemon's arguments on" do
    reader, writer = IO.pipe
    pid = fork do
      reader.close
      described_class.apply!
      described_class.at_fork(:child) { writer.write("C") }
      result = Process.daemon(true, true)
      writer.write("#{result}#{Dir.pwd}")
      exit!(0)
    end
    writer.close
    Process.wait(pid)
    expect(reader.read).to eq("C0#{Dir.pwd}")
    expect(forks('pid = fork { exit!(0) }; Process.wait(pid); print pid.class')).to end_with("Integer")
  end

  it "knows one stage only" do
    expect { described_class.at_fork(:parent) {} }.to raise_error(ArgumentError, /parent/)
    expect { described_class.at_fork(:child) }.to raise_error(ArgumentError)
  end

  it "keeps a callback's trouble from the program" do
    expect(forks('forking.at_fork(:child) { raise "no" }; forking.at_fork(:child) { print "D" }; Process.wait(fork { print "b" })'))
      .to eq("CDb")
  end
end

RSpec.describe Datadog::Profiling::Tasks::Setup do
  def in_ruby(before)
    run_ruby(<<~RUBY)
      require "datadog/profiling"
      #{before}
      2.times { Datadog::Profiling::Tasks::Setup.run }
      Process.wait(fork { print "b" })
    RUBY
  end

  it "starts the profiler in each forked child, once" do
    outcome = in_ruby('Datadog::Profiling::Configuration.define_singleton_method(:start_if_enabled) { print "S" }')
    expect([outcome.stdout, outcome.stderr]).to eq(["Sb", ""])
  end

  it "warns where that fails, and the child goes on" do
    outcome = in_ruby('Datadog::Profiling::Configuration.define_singleton_method(:start_if_enabled) { raise "no way" }')
    expect(outcome.stdout).to eq("b")
    expect(outcome.stderr.scan("no way").size).to eq(1)
  end

  it "warns where forks cannot be followed" do
    outcome = in_ruby('Datadog::Profiling::Ext::Forking.define_singleton_method(:apply!) { raise "frozen" }')
    expect(outcome.stdout).to eq("b")
    expect(outcome.stderr.scan("frozen").size).to eq(1)
  end
end

RSpec.describe Datadog::Profiling::Ext::DirInterruption do
  # Each way of reading a folder, with the answers before and after.
  it "changes nothing but the signals" do
    Dir.mktmpdir do |folder|
      %w[a b c].each { |name| File.write(File.join(folder, name), "") }
      script = <<~'RUBY'
        require "datadog/profiling"
        folder = ARGV.first
        blocked = -> { Datadog::Profiling::NativeExtension._native_block_sigprof(true).tap { |it| Datadog::Profiling::NativeExtension._native_block_sigprof(it) } }
        ways = {
          "[]" => -> { Dir["#{folder}/*"].sort }, "[base]" => -> { Dir["*", base: folder].sort },
          "children" => -> { Dir.children(folder).sort }, "encoding" => -> { Dir.children(folder, encoding: "US-ASCII").map(&:encoding).uniq },
          "each_child" => -> { found = []; [Dir.each_child(folder) { |it| found << [it, blocked.call] }, found.sort] },
          "empty?" => -> { Dir.empty?(folder) }, "entries" => -> { Dir.entries(folder).sort }, "exist?" => -> { Dir.exist?(folder) },
          "foreach" => -> { Dir.foreach(folder).sort }, "foreach{}" => -> { found = []; [Dir.foreach(folder) { |it| found << it }, found.sort] },
          "glob" => -> { Dir.glob("#{folder}/*", File::FNM_DOTMATCH).sort }, "glob{}" => -> { found = []; [Dir.glob("*", base: folder) { |it| found << [it, blocked.call] }, found.sort] },
          "break" => -> { Dir.each_child(folder) { |it| break :out } }, "nested" => -> { Dir.each_child(folder).map { |it| Dir.empty?(folder) } },
          "#children" => -> { Dir.open(folder) { |dir| dir.children.sort } }, "#each" => -> { Dir.open(folder) { |dir| dir.each.to_a.sort } },
          "#each_child" => -> { Dir.open(folder) { |dir| found = []; dir.each_child { |it| found << it }; found.sort } },
          "#read" => -> { Dir.open(folder) { |dir| [dir.read, dir.read, dir.read].compact.size } },
          "next" => -> { Dir.new(folder).each_child.next.class },
          "error" => -> { begin; Dir.children("/nowhere"); rescue => e; e.message; end },
          "raise" => -> { begin; Dir.each_child(folder) { raise "x" }; rescue => e; e.message; end },
          "method" => -> { o = Object.new; def o.go(folder); Dir.each_child(folder) { |it| return 5 }; end; o.go(folder) }
        }
        before = ways.transform_values(&:call)
        Datadog::Profiling::Ext::DirInterruption.apply!
        ways.each { |name, way| after = way.call; puts "#{name}: #{before[name]} -> #{after}" if after != before[name]; puts "#{name}: still blocked" if blocked.call }
        seen = []
        Datadog::Profiling::NativeExtension.singleton_class.prepend(Module.new { define_method(:_native_block_sigprof) { |it| seen << it; super(it) } })
        Dir.children(folder)
        puts "not blocked meanwhile: #{seen}" unless seen == [true, false]
      RUBY
      expect(run_ruby!(script, folder)).to eq("")
    end
  end
end
