require_relative "support/message_pack"
require "zlib"

# Reports that go into a folder instead of to a server: file:///folder.
RSpec.describe "A report to a folder" do
  let(:folder) { File.join(scratch, "spool") }
  let(:url) { "file://#{folder}" }

  def names = Dir.children(folder).sort
  def reports = names.select { |name| name.end_with?(".ddprof") }
  def read(name) = MessagePack.decode(File.binread(File.join(folder, name)))
  def file(bytes, name = "x.pprof") = "#{name}=#{file_of(bytes)}"

  def write(**options)
    result = Driver.run(url: url, **options)
    expect_untouched(result)
    result
  end

  # With a file system of its own, of so many kB, in place of the folder.
  def on_small_disk(kilobytes)
    namespace!
    Dir.mkdir(folder)
    system("mount", "-t", "tmpfs", "-o", "size=#{kilobytes}k", "none", folder, exception: true)
    yield
  ensure
    system("umount", "-l", folder, err: File::NULL)
  end

  it "is what a server gets, without what belongs to the connection" do
    options = { tag: ["service=web"], request_tag: ["a=b"], internal: '{"x":[1,2.5]}', info: '{"é":null}',
                compress: file("text " * 40_000, "a.json"), file: file(Random.new(1).bytes(70_000)) }
    server = serve
    Driver.run(url: server.url, **options)
    sent = server.requests.first
    expect(write(**options).outcome).to eq(200)
    expect(reports.size).to eq(1)
    report = read(reports.first)
    expect(report.keys).to eq(%w[format version path headers event files crc32])
    expect(report.values_at("format", "version", "path")).to eq(["ddprof-report", 1, "/profiling/v1/input"])
    kept = sent.headers.reject { |name, _| %w[connection host content-type transfer-encoding].include?(name) }
    expect(report["headers"].to_a).to eq(kept)
    expect(report["event"]).to eq(sent.parts.first.data)
    files = report["files"].map { |part| part.values_at("name", "compressed", "data") }
    expect(files).to eq([["a.json", true, sent.part("a.json").data],
                         ["x.pprof", false, sent.part("x.pprof").data]])
  end

  it "carries the right checksum" do
    write(file: file("abc"))
    bytes = File.binread(File.join(folder, reports.first))
    checksum = read(reports.first)["crc32"]
    expect(Zlib.crc32(bytes[0...-"\xa5crc32\xce....".bytesize])).to eq(checksum)
  end

  it "belongs to its writer alone, and is complete when it has its name" do
    result = write(file: file("x"), repeat: 5)
    expect(result.outcomes).to eq([200] * 5)
    expect(names).to eq(reports)
    expect(reports.size).to eq(5)
    expect(names.map { |name| File.stat(File.join(folder, name)).mode & 0o7777 }.uniq).to eq([0o600])
    expect(File.stat(folder).mode & 0o077).to eq(0)
  end

  it "has a name that sorts by time" do
    5.times { |i| write(request_tag: ["n=#{i}"]) }
    tags = reports.map { |name| JSON.parse(read(name)["event"])["tags_profiler"] }
    expect(tags).to eq(%w[n:0 n:1 n:2 n:3 n:4])
  end

  ["with space", "%20", "é日本"].each do |name|
    it "goes to a folder named #{name.inspect}" do
      path = File.join(scratch, name)
      encoded = name.gsub(/[^A-Za-z0-9]/) { |c| c.bytes.map { |byte| format("%%%02X", byte) }.join }
      result = Driver.run(url: "file://#{scratch}/#{encoded}")
      expect(result.outcome).to eq(200)
      expect(Dir.children(path).size).to eq(1)
    end
  end

  it "says so when the disk is full, leaves nothing half, and loses nothing older" do
    on_small_disk(1000) do
      noise = file(Random.new(2).bytes(300_000))
      outcomes = Array.new(5) { write(file: noise).outcome }
      expect(outcomes.first(3)).to eq([200] * 3)
      expect(outcomes.drop(3)).to all(match(/No space left on device \(os error 28\)/))
      expect(names).to eq(reports)
      expect(reports.size).to eq(3)
      reports.each { |name| expect(read(name)["files"].first["data"].bytesize).to eq(300_000) }
    end
  end

  it "says so where writing is forbidden" do
    on_small_disk(1000) do
      system("mount", "-o", "remount,ro", folder, exception: true)
      expect(write.outcome).to match(/failed ddog_prof_Exporter_send: .*Read-only file system/)
    end
  end

  it "says so when a file may not be so large, and the process lives" do
    noise = file(Random.new(3).bytes(300_000))
    result = write(file: noise, spawn: { rlimit_fsize: 100_000 })
    expect(result.outcome).to match(/failed ddog_prof_Exporter_send: .*File too large/)
    expect(names).to eq([])
  end

  it "says so when the folder is a file, a link, or has no parent" do
    File.write(folder, "")
    expect(write.outcome).to match(/Not a directory/)
    File.unlink(folder)
    elsewhere = File.join(scratch, "elsewhere")
    Dir.mkdir(elsewhere)
    File.symlink(elsewhere, folder)
    expect(write.outcome).to match(/Not a directory|symbolic links/)
    expect(Dir.children(elsewhere)).to eq([])
    File.unlink(folder)
    expect(Driver.run(url: "#{url}/deeper").outcome).to match(/No such file or directory/)
  end

  it "says so however few descriptors are left" do
    outcomes = (3..8).map { |limit| write(descriptors: limit).outcome }
    expect(outcomes.first).to match(/Too many open files/)
    expect(outcomes.last).to eq(200)
    expect(outcomes).to all(eq(200).or(match(/Too many open files/)))
    expect(names).to eq(reports)
  end

  it "says so when it is already cancelled, and writes nothing" do
    expect(write(cancel_first: true).outcome).to match(/operation cancelled by user/)
    expect(Dir.exist?(folder) ? names : []).to eq([])
  end

  it "is there whole or not at all when the writer is killed" do
    noise = file(Random.new(4).bytes(8_000_000))
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    expect(Driver.run(url: url, file: noise).outcome).to eq(200)
    takes = Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
    12.times do |i|
      before = names.size
      running = Driver.start(url: url, file: noise, repeat: 50, quiet: true)
      1000.times { names.size > before ? break : sleep(0.005) }
      sleep i * takes / 6
      Process.kill(:KILL, running.pid)
      running.finish(10)
    end
    expect(reports.size).to be > 1
    reports.each { |name| expect(read(name)["files"].first["data"].bytesize).to eq(8_000_000) }
  end

  it "keeps its place beside those of other threads and of forked children, who inherit nothing" do
    result = write(threads: 4, forks: 60, request_tag: ["a=b"], quiet: true)
    expect(result.exit).to be_success, result.inspect
    expect(result.all("inherited").flatten.tally).to eq({})
    tags = reports.map { |name| JSON.parse(read(name)["event"])["tags_profiler"] }
    expect(tags.filter_map { |text| text[/child:(\d+)/, 1]&.to_i }.sort).to eq((0...60).to_a)
    expect(names).to eq(reports)
  end

  it "survives failing allocations" do
    result = Driver.run(url: url, file: file("x" * 5000), preload: true, torture_from: 1, torture_to: 10_000,
                        env: { "NF_PRELOAD_CALLERS" => "1" })
    expect(result.exit).to be_exited
    expect(result.number("torture_end")).to be > 10
    expect(result.all("leak")).to eq([])
    expect(names).to eq(reports)
    expect(reports.map { |name| read(name)["files"].first["data"] }.uniq).to eq(["x" * 5000])
  end
end
