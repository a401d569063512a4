require "cli_helper"
require "pprof_writer"
require "socket"

RSpec.describe "ddprofrb report" do
  CPU = %w[cpu-time nanoseconds].freeze
  WALL = %w[wall-time nanoseconds].freeze
  COUNT = %w[samples count].freeze

  def write(name, writer)
    File.binwrite(in_folder(name), writer.is_a?(String) ? writer : writer.gzip)
    name
  end

  def report(*arguments, **options)
    ddprofrb("report", *arguments, **options)
  end

  # The rows of the table: {function => [flat, flat%, sum%, cum, cum%]}, in the order shown.
  def rows(*arguments)
    outcome = report(*arguments)
    raise outcome.to_s unless outcome.exit_status == 0 && outcome.stderr.empty?

    table = outcome.stdout.lines(chomp: true).drop_while { |line| !line.match?(/\A\s*flat\s+flat%/) }.drop(1)
    table.grep_v(/\A\(/).to_h do |line|
      *figures, name = line.strip.split(/ +/, 6)
      [name.sub(/  .*/, ""), figures]
    end
  end

  let(:milli) { 1_000_000 }

  # 600 ms in all: hot 400 (alone), outer 100 + all that it calls, other 100.
  let(:simple) do
    PprofWriter.new(COUNT, CPU)
      .sample([["hot", "a.rb"], ["outer", "a.rb"], ["<main>", "a.rb"]], [4, 400 * milli])
      .sample([["outer", "a.rb"], ["<main>", "a.rb"]], [1, 100 * milli])
      .sample([["other", "b.rb"], ["<main>", "a.rb"]], [1, 100 * milli])
  end

  it "adds up flat and cumulative time" do
    write("p", simple)
    expect(rows("p")).to eq(
      "hot" => ["400ms", "66.67%", "66.67%", "400ms", "66.67%"],
      "outer" => ["100ms", "16.67%", "83.33%", "500ms", "83.33%"],
      "other" => ["100ms", "16.67%", "100%", "100ms", "16.67%"],
      "<main>" => ["0", "0%", "100%", "600ms", "100%"]
    )
    expect(rows("p", "--sample-type", "samples")).to include("hot" => ["4", "66.67%", "66.67%", "4", "66.67%"])
  end

  it "counts recursion once" do
    write("p", PprofWriter.new(CPU).sample(%w[f f g f main], 3 * milli).sample(%w[g f], 1 * milli))
    expect(rows("p")).to eq(
      "f" => ["3ms", "75.00%", "75.00%", "4ms", "100%"], "g" => ["1ms", "25.00%", "100%", "4ms", "100%"],
      "main" => ["0", "0%", "100%", "3ms", "75.00%"]
    )
  end

  it "knows inlined functions" do
    write("p", PprofWriter.new(CPU).sample([[["inner", "a"], ["middle", "a"]], "main"], 2 * milli))
    expect(rows("p").transform_values(&:first)).to eq("inner" => "2ms", "main" => "0", "middle" => "0")
  end

  it "merges files" do
    write("a", simple)
    write("b", PprofWriter.new(CPU).sample(["hot"], 600 * milli)) # another order of types
    expect(rows("a", "b")).to include("hot" => ["1000ms", "83.33%", "83.33%", "1000ms", "83.33%"], "<main>" => ["0", "0%", "100%", "600ms", "50.00%"])
    expect(rows("a", "a", "a")).to include("other" => ["300ms", "16.67%", "100%", "300ms", "16.67%"])
    write("c", PprofWriter.new(WALL).sample(["hot"], 1))
    expect(report("a", "c").stderr).to match(/\Addprofrb: [^\n]*no sample type in common\n\z/)
  end

  it "shows CPU time first, and any other type on demand" do
    write("p", PprofWriter.new(CPU, WALL).sample(["f"], [1 * milli, 5 * milli]))
    expect(report("p").stdout).to include("cpu-time", "wall-time")
    expect(rows("p").fetch("f").first).to eq("1ms")
    expect(rows("--sample-type=wall-time", "p").fetch("f").first).to eq("5ms")
    outcome = report("p", "--sample-type", "heap")
    expect(outcome.stderr).to match(/\Addprofrb: no sample type "heap" \(there are: cpu-time, wall-time\)[^\n]*\n\z/)
    expect(outcome.exit_status).to eq(2)
    other = PprofWriter.new(COUNT, WALL)
    other.default_sample_type = "samples"
    write("q", other.sample(["f"], [7, 5]))
    expect(rows("q").fetch("f").first).to eq("7")
    write("r", PprofWriter.new(COUNT, WALL).sample(["f"], [7, 5]))
    expect(rows("r").fetch("f").first).to eq("5ns")
  end

  it "limits the table" do
    writer = PprofWriter.new(CPU)
    40.times { |i| writer.sample(["f#{i}"], (i + 1) * milli) }
    write("p", writer)
    expect(rows("p").size).to eq(30)
    expect(rows("p").keys.first).to eq("f39")
    expect(rows("p", "--limit", "3").keys).to eq(%w[f39 f38 f37])
    expect(rows("p", "--limit", "0").size).to eq(40)
    expect(report("p", "--limit", "3").stdout).to include("37 more")
  end

  it "picks the samples of a thread" do
    writer = PprofWriter.new(CPU)
    writer.sample(["f"], 1 * milli, "thread name" => "worker 1", "thread id" => "12 (34)").sample(["g"], 2 * milli, "thread name" => "main")
    write("p", writer)
    expect(rows("p", "--thread", "worker 1").keys).to eq(["f"])
    expect(rows("p", "--thread", "12").keys).to eq(["f"])
    expect(rows("p", "--thread", "main").keys).to eq(["g"])
  end

  it "shows profiles without samples" do
    write("p", PprofWriter.new(CPU))
    expect(rows("p")).to eq({})
    write("q", PprofWriter.new(CPU).sample(["f"], 0))
    expect(report("q").exit_status).to eq(0)
  end

  it "lets no name in a profile write to the terminal" do
    write("p", PprofWriter.new(CPU).sample([["\e[2Jevil\nname\r\0x", "f\e.rb"], "größe"], milli))
    outcome = report("p", env: { "LANG" => "C", "LC_ALL" => "C" })
    expect(outcome.exit_status).to eq(0)
    expect(outcome.stdout.delete("\n")).not_to match(/[[:cntrl:]]/)
    expect(outcome.stdout.b).to include("größe".b, "evil")
  end

  it "reads what is compressed in any way, or not at all" do
    bytes = simple.raw
    write("gzip", Zlib.gzip(bytes))
    write("none", bytes)
    expect(rows("none")).to eq(rows("gzip"))
    %w[lz4 zstd].each do |tool|
      next unless system("which", tool, out: File::NULL)

      system(tool, "-q", in_folder("none"), in_folder("#{tool}ed"), exception: true) if tool == "lz4"
      system(tool, "-q", in_folder("none"), "-o", in_folder("#{tool}ed"), exception: true) if tool == "zstd"
      expect(rows("#{tool}ed")).to eq(rows("gzip"))
    end
  end

  it "prints the same in every encoding, with frozen literals and warnings" do
    write("p", PprofWriter.new(CPU).sample(["größe"], milli))
    plain = report("p").stdout.b
    [{ "RUBYOPT" => "--enable=frozen-string-literal -w" }, { "LANG" => "C", "LC_ALL" => "C" }, { "RUBYOPT" => "-Ku" },
     { "RUBYOPT" => "-EISO-8859-1:UTF-8" }, { "RUBYOPT" => "-r./utf16", "RUBYLIB" => folder }].each do |env|
      File.write(in_folder("utf16.rb"), "Encoding.default_internal = 'UTF-16LE'")
      outcome = report("p", env: env)
      expect([env, outcome.stderr, outcome.stdout.b]).to eq([env, "", plain])
    end
  end

  describe "refuses" do
    def refused(name, pattern)
      outcome = report(name)
      expect(outcome.stderr).to match(/\Addprofrb: #{Regexp.escape(name)}: [^\n]+\n\z/)
      expect(outcome.stderr).to match(pattern)
      expect(outcome.stdout).to eq("")
      expect(outcome.exit_status).to eq(1)
    end

    it "what is not there, or no file" do
      refused("missing", /no such file/i)
      Dir.mkdir(in_folder("folder"))
      refused("folder", /directory/)
      File.mkfifo(in_folder("fifo"))
      refused("fifo", /FIFO/)
      UNIXServer.open(in_folder("socket")) { refused("socket", /socket/) }
      refused("/dev/zero", /device|character/i)
      write("file", simple)
      refused("file/x", /not a directory/i)
    end

    it "what the user may not read" do
      File.chmod(0o600, in_folder(write("secret", simple)))
      outcome = as_nobody(CLIHelper.program, "report", "secret")
      expect([outcome.stderr, outcome.exit_status]).to eq(["ddprofrb: secret: permission denied\n", 1])
    end

    it "what is empty, cut short or no profile" do
      refused(write("empty", ""), /empty/)
      gzip = simple.gzip
      [1, 2, 10, 18, gzip.size / 2, gzip.size - 1].each { |size| refused(write("short", gzip[0, size]), /./) }
      refused(write("text", "this is no profile, but a text\n" * 20), /./)
      refused(write("random", Random.new(1).bytes(5000)), /./)
      refused(write("zeros", "\0" * 100), /./)
      raw = simple.raw
      (1...raw.size).step(7) do |size|
        outcome = report(write("cut", raw[0, size]))
        expect([0, 1]).to include(outcome.exit_status)
        expect(outcome.stderr.lines.size).to eq(outcome.exit_status)
      end
    end

    it "one bad file among good ones" do
      write("good", simple)
      write("bad", "x")
      outcome = report("good", "bad")
      expect(outcome.stderr).to start_with("ddprofrb: bad: ")
      expect([outcome.stdout, outcome.exit_status]).to eq(["", 1])
    end

    it "a file that is larger than any profile" do
      File.open(in_folder("huge"), "wb") { |file| file.truncate(40 << 30) } # takes no room on the disk
      refused("huge", /too large: 42949672960 bytes/)
    end

    it "a small file that would take all memory" do
      write("bomb", Zlib.gzip("\0" * (600 << 20), level: 1)) if ENV["NF_SOAK"]
      refused("bomb", /large|limit|bytes/) if ENV["NF_SOAK"]
      write("deep", PprofWriter.new(CPU).sample(Array.new(100_000) { |i| "f#{i % 5}" }, milli))
      expect(rows("deep").size).to eq(5)
    end
  end

  it "ends quietly when nobody reads on, and says when it cannot write" do
    writer = PprofWriter.new(CPU)
    2000.times { |i| writer.sample(["function number #{i} with a long name" * 5], milli) }
    write("p", writer)
    outcome = run_program("bash", "-c", "set -o pipefail; '#{CLIHelper.program}' report --limit 0 p | head -n 2; echo ${PIPESTATUS[0]}")
    expect(outcome.stderr).to eq("")
    expect(outcome.stdout.lines.last).to eq("141\n") # SIGPIPE, like any other tool
    outcome = run_program("sh", "-c", "'#{CLIHelper.program}' report p >/dev/full")
    expect(outcome.stderr).to match(/\Addprofrb: [^\n]*No space left on device[^\n]*\n\z/)
    expect(outcome.exit_status).to eq(1)
    # Ruby puts a pipe that nobody reads in the place of a closed stream.
    expect(run_program("sh", "-c", "'#{CLIHelper.program}' report p >&-").exit_status).to eq(141)
  end

  # The tool that everybody has, on what we have recorded ourselves.
  it "agrees with pprof to the digit" do
    pprof = [File.join(ENV["NF_CACHE"].to_s, "pprof"), File.expand_path("~/.cache/nonferrous/pprof")].find { |it| File.executable?(it) }
    skip "the pprof tool is not in NF_CACHE (tests/conformance/fetch_oracle gets it)" unless pprof

    script = "def a(n); n.zero? ? (1..3000).map(&:to_s).sort.size : a(n - 1); end; t = Thread.new { sleep 0.4 }; " \
             "#{busy("b", 0.3)} 60.times { a(3) }; t.join; fork { #{busy("c")} }; Process.wait"
    expect(ddprofrb("record", "-q", "-o", "p.gz", "ruby", "-e", script).exit_status).to eq(0)
    write("huge", PprofWriter.new(CPU).sample(%w[f g], 3 * 3600 * 1000 * milli).sample(%w[g], 700 * 1000 * milli).sample(%w[h], 1))
    write("tiny", PprofWriter.new(CPU).sample(%w[f g], 3).sample(%w[g], 700).sample(%w[h i], 123_456))
    all = files - %w[huge tiny]
    expect(all.size).to eq(2)
    [["cpu-time", all.first(1)], ["wall-time", all.first(1)], ["cpu-samples", all], ["cpu-time", all], ["wall-time", all],
     ["cpu-time", ["huge"]], ["cpu-time", ["tiny"]]].each do |type, names|
      theirs = run_program(pprof, "-top", "-sample_index=#{type}", *names, env: { "PPROF_TMPDIR" => folder })
      table = theirs.stdout.lines(chomp: true).drop_while { |line| !line.match?(/\A\s*flat\s+flat%/) }.drop(1)
      expect(table.size).to be >= 2
      ours = rows("--limit", "0", "--sample-type", type, *names)
      table.each do |line|
        flat, flat_percent, _, cum, cum_percent, name = line.strip.split(/ +/, 6)
        next if name == "<unknown>" # has a name with us

        found = ours.fetch(name).values_at(0, 1, 3, 4)
        expect([type, name, *found]).to eq([type, name, flat, flat_percent, cum, cum_percent])
      end
    end
  end

  it "takes options on either side of the files, and behind -- files of any name" do
    %w[-n --thread].each { |name| write(name, simple) }
    write("plain", simple)
    outcome = report("plain", "--limit", "1", "--", "-n", "--thread")
    expect([outcome.stderr, outcome.exit_status]).to eq(["", 0])
    expect(outcome.stdout).to start_with("3 files: ")
  end
end
