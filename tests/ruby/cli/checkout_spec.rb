require "cli_helper"

RSpec.describe "ddprofrb of a checkout" do
  def works(program, **options)
    outcome = ddprofrb("record", "-q", "-o", in_folder("p.gz"), "ruby", "-e", "print 40 + 2", program: program, **options)
    expect([outcome.stdout, outcome.stderr, outcome.exit_status]).to eq(["42", "", 0])
    expect(ddprofrb("report", in_folder("p.gz"), program: program, **options).exit_status).to eq(0)
    File.unlink(in_folder("p.gz"))
  end

  it "works from any folder, by any path to it" do
    works(CLIHelper.program, chdir: "/")
    works("./ddprofrb", chdir: File.dirname(CLIHelper.program))
    works("../bin/ddprofrb", chdir: File.dirname(CLIHelper.program))
    File.symlink(CLIHelper.program, in_folder("link"))
    File.symlink("link", in_folder("link to a link"))
    works("./link to a link")
    Dir.mkdir(in_folder("sub"))
    works("../link", chdir: in_folder("sub"))
    outcome = run_program("sh", "-c", "ddprofrb --version", env: { "PATH" => "#{File.dirname(CLIHelper.program)}:#{ENV["PATH"]}" })
    expect(outcome.stdout).to start_with("ddprofrb ")
  end

  it "works in folders with blanks and other letters" do
    program = CLIHelper.make_checkout(in_folder("a b/ü 'x' \"y\" $HOME"))
    works(program)
    works(program, env: { "LANG" => "C", "LC_ALL" => "C" })
    works(program, env: { "RUBYOPT" => "-w --enable=frozen-string-literal", "RUBYLIB" => "/nonexistent" })
  end

  it "says so where the way to it cannot be passed on" do
    program = CLIHelper.make_checkout(in_folder("a:b"))
    outcome = ddprofrb("record", "ruby", "-e", "1", program: program)
    expect(outcome.stderr).to match(/\Addprofrb: [^\n]*colon[^\n]*\n\z/)
    expect(outcome.exit_status).to eq(1)
    outcome = ddprofrb("exec", "ruby", "-e", "1", program: program)
    expect(outcome.stderr).to match(/\Addprofrb: [^\n]*colon[^\n]*\n\z/)
  end

  it "says what to type when nothing was built, and still helps" do
    program = CLIHelper.make_checkout(in_folder("x"), built: false)
    outcome = ddprofrb("record", "ruby", "-e", "1", program: program)
    expect(outcome.stderr).to match(%r{\Addprofrb: [^\n]*bazel build[^\n]*//ruby:extension\n\z})
    expect(outcome.exit_status).to eq(1)
    FileUtils.cp_r(Support.extension_folder + "/datadog", FileUtils.mkdir_p(in_folder("x/ruby/lib")).first)
    [["--help"], ["help"], ["--version"], ["record", "--help"], ["help", "report"]].each do |arguments|
      expect(ddprofrb(*arguments, program: program).exit_status).to eq(0)
    end
  end

  it "says when it was built for another Ruby" do
    program = CLIHelper.make_checkout(in_folder("x"))
    lib = in_folder("x/bazel-bin/ruby/extension/lib")
    Dir.children(lib).grep(/\.so\z/).each { |it| File.rename(File.join(lib, it), File.join(lib, it.sub(RUBY_VERSION, "9.9.9"))) }
    outcome = ddprofrb("record", "ruby", "-e", "1", program: program)
    expect(outcome.stderr).to match(%r{\Addprofrb: [^\n]*another Ruby[^\n]*bazel build[^\n]*//ruby:extension\n\z})
    expect(outcome.exit_status).to eq(1)
  end

  it "works under Bundler" do
    env = ENV.to_h.slice("GEM_PATH") # where this Ruby finds gems that are not its own
    skip "Bundler is not installed" unless run_program("bundle", "--version", env: env).exit_status == 0
    File.write(in_folder("Gemfile"), "# no gems\n")
    script = "#{busy("in_bundle")} print defined?(Bundler)"
    outcome = ddprofrb("record", "-o", "p.pb.gz", "bundle", "exec", "ruby", "-e", script, env: env)
    expect(outcome.stdout).to eq("constant")
    expect(names_in("p.pb.gz")).to include("in_bundle")
    command = [CLIHelper.program, "record", "-q", "-o", "q.pb.gz", "ruby", "-e", "print 1"]
    outcome = run_program("bundle", "exec", *command, env: env)
    expect(outcome.stdout).to eq("1")
    expect(files).to include("q.pb.gz")
  end
end
