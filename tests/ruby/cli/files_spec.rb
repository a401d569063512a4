require "cli_helper"

RSpec.describe "the file of ddprofrb record" do
  def record(name, script = "exit 3", **options)
    ddprofrb("record", "-o", name, "ruby", "-e", script, **options)
  end

  # Refused before the command runs: it would leave a file.
  def refused(name, message, **options)
    outcome = record(name, "File.write('it-ran', '')", **options)
    expect(outcome.stderr).to match(/\Addprofrb: cannot write #{Regexp.escape(name)}: [^\n]*#{Regexp.escape(message)}[^\n]*\n\z/)
    expect(outcome.stdout).to eq("")
    expect(outcome.exit_status).to eq(1)
    expect(files).not_to include("it-ran")
  end


  it "cannot be in a folder that does not exist, or is none" do
    refused("missing/x.pb.gz", "there is no folder missing")
    File.write(in_folder("file"), "")
    refused("file/x.pb.gz", "there is no folder file")
    expect(files).to eq(["file"])
  end

  it "cannot be a folder, a FIFO or a socket" do
    Dir.mkdir(in_folder("folder"))
    refused("folder", "directory")
    refused("folder/", "directory")
    refused(".", "directory")
    refused("new/", "directory")
    File.mkfifo(in_folder("fifo"))
    refused("fifo", "fifo")
  end

  it "cannot have too long a name" do
    refused("a" * 256, "too long")
    refused("#{"a/" * 3000}b", "no folder")
  end

  it "can have the longest name there is, children included" do
    name = "#{"a" * 249}.pprof"
    expect(name.bytesize).to eq(255)
    outcome = record(name, "fork {}; Process.wait")
    expect(outcome.stderr).to start_with("ddprofrb: 2 files")
    expect(files.size).to eq(2)
    expect(files).to include(name)
  end

  it "cannot be where the user may not write" do
    File.write(in_folder("mine"), "old")
    File.chmod(0o644, in_folder("mine"))
    %w[mine new].each do |name|
      outcome = as_nobody(CLIHelper.program, "record", "-o", name, "true")
      expect(outcome.stderr).to eq("ddprofrb: cannot write #{name}: Permission denied\n")
      expect(outcome.exit_status).to eq(1)
    end
    expect(File.read(in_folder("mine"))).to eq("old")
  end

  it "is refused on a full device, and may be thrown away" do
    refused("/dev/full", "No space left on device")
    outcome = record("/dev/null", "fork { exit! }; Process.wait; exit 3")
    expect(outcome.exit_status).to eq(3)
    expect(outcome.stderr).to start_with("ddprofrb: 1 file")
    expect(File.chardev?("/dev/null")).to be true
    expect(Dir.glob("/dev/null*")).to eq(["/dev/null"])
    expect(files).to eq([])
  end

  it "replaces an older one as a whole" do
    File.write(in_folder("x.pb.gz"), "old" * 100_000)
    expect(record("x.pb.gz").exit_status).to eq(3)
    expect(profile("x.pb.gz").samples).not_to be_empty
    expect(files).to eq(["x.pb.gz"])
  end

  it "goes where a link points to" do
    File.symlink("real.pb.gz", in_folder("link.pb.gz"))
    2.times { record("link.pb.gz") }
    expect(files).to eq(["link.pb.gz", "real.pb.gz"])
    expect(File.symlink?(in_folder("link.pb.gz"))).to be true
    profile("real.pb.gz")
  end

  it "has the rights that the program gives to its files" do
    record("x.pb.gz", "File.umask(0o027)")
    expect(File.stat(in_folder("x.pb.gz")).mode & 0o777).to eq(0o640)
  end

  it "is there under any umask, with those of children" do
    Dir.mkdir(in_folder("open"))
    File.chmod(0o777, in_folder("open"))
    outcome = as_nobody("bash", "-c", "umask 777; exec '#{CLIHelper.program}' record -o open/x.pb.gz -- ruby -e 'fork { }; Process.wait; exit 3'")
    expect(outcome.stderr).to start_with("ddprofrb: 2 files")
    expect([outcome.stdout, outcome.exit_status]).to eq(["", 3])
    expect(File.stat(in_folder("open/x.pb.gz")).mode & 0o777).to eq(0)
  end

  it "does not depend on where the program goes" do
    expect(record("x.pb.gz", "Dir.chdir('/'); fork { Dir.chdir('/tmp') }; Process.wait").stderr).to start_with("ddprofrb: 2 files")
    expect(files.size).to eq(2)
  end

  it "can have any name" do
    ["a b.pb.gz", "é'\"$HOME.pb.gz", "-x", "x", ".hidden", ".gz", "\xFF\xFE.pb.gz".b, "a\nb.gz", "%41 %.gz"].each do |name|
      outcome = ddprofrb("record", "-q", "-o", "./#{name}", "ruby", "-e", "fork {}; Process.wait", env: { "LANG" => "C", "LC_ALL" => "C" })
      expect(outcome.stderr).to eq("")
      found = Dir.children(folder.b).map(&:b)
      expect(found).to include(name.b)
      expect(found.size).to eq(2)
      found.each { |it| File.unlink(File.join(folder.b, it)) }
    end
  end

  it "of a child never takes the place of another file" do
    script = "r, w = IO.pipe; pid = fork { w.write(1); sleep }; r.read(1); File.write(\"x.\#{pid}.pb.gz\", 'mine'); Process.kill(:TERM, pid); Process.wait"
    expect(record("x.pb.gz", script).stderr).to start_with("ddprofrb: 2 files")
    expect(files.size).to eq(3)
    expect(files.map { |it| File.binread(in_folder(it)) }).to include("mine")
  end

  it "that does not fit on the disk leaves the older one, the program's status, and one line" do
    skip "only root can mount a small disk here" unless Process.uid.zero?
    Dir.mkdir(in_folder("disk"))
    mounted = system("mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", in_folder("disk"), err: File::NULL)
    skip "cannot mount a small disk here" unless mounted
    begin
      File.write(in_folder("disk/x.pb.gz"), "old")
      outcome = record("disk/x.pb.gz", "File.write('disk/fill', 'x' * 100_000) rescue 1; exit 4")
      expect(outcome.exit_status).to eq(4)
      expect(outcome.stderr).to match(%r{\Addprofrb: no profile of process \d+: .*/disk/x.pb.gz: No space left on device\nddprofrb: no profile: [^\n]+\n\z})
      expect(Dir.children(in_folder("disk")).sort).to eq(["fill", "x.pb.gz"])
      expect(File.read(in_folder("disk/x.pb.gz"))).to eq("old")
      refused("disk/x.pb.gz", "No space left on device")
    ensure
      system("umount", in_folder("disk"))
    end
  end

  it "that is beyond a limit ends nobody" do
    File.write(in_folder("x.pb.gz"), "old")
    outcome = record("x.pb.gz", "Process.setrlimit(:FSIZE, 0); exit 3")
    expect(outcome.exit_status).to eq(3)
    expect(outcome.stderr.lines.first).to match(/\Addprofrb: no profile of process \d+: .*: File too large\n\z/)
    expect(File.read(in_folder("x.pb.gz"))).to eq("old")
    expect(files).to eq(["x.pb.gz"])

    outcome = run_program("sh", "-c", "ulimit -f 0; exec \"$@\"", "sh", CLIHelper.program, "record", "-o", "y", "true")
    expect(outcome.stderr).to eq("ddprofrb: cannot write y: File too large\n")
    expect(outcome.exit_status).to eq(1)
  end

  it "whose folder has gone is missed in one line" do
    outcome = record("x.pb.gz", "Dir.mkdir('sub'); Dir.rmdir('sub'); exit 3")
    expect(outcome.exit_status).to eq(3)
    Dir.mkdir(in_folder("sub"))
    outcome = record("sub/x.pb.gz", "Dir.rmdir('sub'); exit 3")
    expect(outcome.exit_status).to eq(3)
    expect(outcome.stderr.lines.first).to match(%r{\Addprofrb: no profile of process \d+: .*sub/x.pb.gz: No such file or directory\n\z})
  end

  it "is said by processes that cannot leave word for ddprofrb" do
    as_nobody("true")
    outcome = record("x.pb.gz", "Process::UID.change_privilege(65534); exit 3")
    expect(outcome.exit_status).to eq(3)
    expect(outcome.stderr.lines.first).to match(/\Addprofrb: no profile of process \d+: .*x.pb.gz: Permission denied\n\z/)
    expect(files).to eq([])
  end

  it "needs no folder for temporary files" do
    outcome = record("x.pb.gz", "exit 3", env: { "TMPDIR" => "/nonexistent" })
    expect(outcome.exit_status).to eq(3)
    expect(files).to eq(["x.pb.gz"])
  end
end
