require "spec_helper"
require "tmpdir"

RSpec.describe Datadog::Profiling::NativeExtension do
  let(:doors) { described_class::Testing }

  describe "native_working?" do
    it "is true on this Ruby, from any thread" do
      expect(described_class.send(:native_working?)).to be true
      expect(Thread.new { described_class.send(:native_working?) }.value).to be true
      expect(Fiber.new { described_class.send(:native_working?) }.resume).to be true
    end

    it "is private" do
      expect(described_class).not_to respond_to(:native_working?)
    end

    it "still is while threads come and go, deep in a stack, and in a forked child" do
      stop = false
      churn = Thread.new { Thread.new {}.join until stop }
      deep = ->(depth) { depth.zero? ? described_class.send(:native_working?) : [1].each { return deep[depth - 1] } }
      20.times { expect(described_class.send(:native_working?)).to be true }
      expect(deep.call(100)).to be true
      expect(in_child { described_class.send(:native_working?) }).to be true
    ensure
      stop = true
      churn&.join
    end
  end

  describe "Profiling.supported?" do
    it "says yes, without a reason against it" do
      expect(Datadog::Profiling.supported?).to be true
      expect(Datadog::Profiling.unsupported_reason).to be_nil
    end

    it "says no, and why, when the self-test fails" do
      script = <<~'RUBY'
        require "standalone"
        Datadog::Profiling.instance_variable_set(:@self_test_passed, nil)
        def (Datadog::Profiling::NativeExtension).native_working?
          raise("self-test failed: on purpose")
        end
        p Datadog::Profiling.supported?
        puts Datadog::Profiling.unsupported_reason
        begin
          Datadog::Profiling::Session.new
        rescue Datadog::Profiling::Unsupported => e
          puts e.message
        end
      RUBY
      answer, *reasons = run_ruby!(script).lines(chomp: true)
      expect(answer).to eq("false")
      expect(reasons.size).to eq(2)
      expect(reasons).to all(include("self-test failed: on purpose"))
    end

    # Files, where Bazel has links to files.
    def copy(*from, to)
      system("cp", "-rL", *from, to, exception: true)
      system("chmod", "-R", "u+w", to, exception: true)
    end

    it "says no, and why, when the extension is missing" do
      Dir.mktmpdir do |folder|
        copy(File.join(Support.extension_folder, "datadog"), folder)
        script = <<~'RUBY'
          $LOAD_PATH.unshift(ARGV.first)
          require "datadog/profiling"
          p Datadog::Profiling.supported?
          puts Datadog::Profiling.unsupported_reason
        RUBY
        answer, *reason = run_ruby!(script, folder).lines(chomp: true)
        expect(answer).to eq("false")
        expect(reason.join).to include("datadog_profiling_loader").and include(RUBY_VERSION)

        copy(*Dir[File.join(Support.extension_folder, "datadog_profiling_loader.*")], folder)
        answer, *reason = run_ruby!(script, folder).lines(chomp: true)
        expect(answer).to eq("false")
        expect(reason.join).to include("datadog_profiling_native_extension").and include("No such file")
      end
    end

    describe "where the build has left word" do
      around { |example| Dir.mktmpdir { |it| (@folder = it) && example.run } }

      before { copy(*Dir[File.join(Support.extension_folder, "*")], @folder) }

      def file
        File.join(@folder, "datadog/profiling/skipped_reason.txt")
      end

      def reason(encodings = "nil")
        script = "#{encodings}; #{<<~'RUBY'}"
          $LOAD_PATH.unshift(ARGV.first)
          require "datadog/profiling"
          STDOUT.binmode.write(Datadog::Profiling.unsupported_reason.inspect.encode("UTF-8"))
        RUBY
        run_ruby!(script, @folder, options: ["-W0"]).force_encoding("UTF-8")
      end

      it "says no, and why it left the extension out" do
        File.write(file, "the moon is full.\n")
        expect(reason).to include("the moon is full.")
      end

      it "says so in any encoding" do
        File.binwrite(file, " no compiler in /gr\u00f6\u00dfe, or \xff\n".b)
        ["nil", "Encoding.default_external = 'US-ASCII'", "Encoding.default_internal = 'UTF-16LE'"].each do |encodings|
          expect(reason(encodings)).to include("no compiler in /gr", "or ")
        end
      end

      it "says yes when that is nothing, or cannot be read" do
        ["", " \n\t\n"].each do |text|
          File.write(file, text)
          expect(reason).to eq("nil")
        end
        File.delete(file)
        Dir.mkdir(file)
        expect(reason).to eq("nil")
        Dir.rmdir(file)
        File.symlink(file, file)
        expect(reason).to eq("nil")
      end
    end
  end

  describe "the version that the private header is for" do
    it "is this Ruby's" do
      # That is the first part of the self-test: a library for another Ruby would fail it.
      name = Dir[File.join(Datadog::Profiling::Extensions::FOLDER, "datadog_profiling_native_extension.*")]
      expect(name.map { |it| File.basename(it) }).to include(
        "datadog_profiling_native_extension.#{RUBY_VERSION}_#{RUBY_PLATFORM}.#{RbConfig::CONFIG["DLEXT"]}"
      )
    end
  end

  describe "holding the GVL" do
    it "is seen by a thread that runs Ruby", needs: :gvl_owner do
      expect(doors._native_is_current_thread_holding_the_gvl).to be true
      expect(Thread.new { doors._native_is_current_thread_holding_the_gvl }.value).to be true
      expect(Fiber.new { doors._native_is_current_thread_holding_the_gvl }.resume).to be true
    end

    it "is denied by a thread that has released it" do
      expect(doors._native_release_gvl_and_call_is_current_thread_holding_the_gvl).to be false
      expect(Thread.new { doors._native_release_gvl_and_call_is_current_thread_holding_the_gvl }.value).to be false
    end

    it "is denied by a thread that Ruby does not know" do
      expect(doors._native_is_native_thread_holding_the_gvl).to be false
    end

    it "is right again after it was given away and taken back", needs: :gvl_owner do
      50.times do
        doors._native_release_gvl_and_call_is_current_thread_holding_the_gvl
        Thread.pass
        expect(doors._native_is_current_thread_holding_the_gvl).to be true
      end
    end

    it "is right in a forked child", needs: :gvl_owner do
      expect(in_child { doors._native_is_current_thread_holding_the_gvl }).to be true
    end

    it "is denied by a thread of a forked child that has released it" do
      expect(in_child { doors._native_release_gvl_and_call_is_current_thread_holding_the_gvl }).to be false
    end

    it "is told apart in a signal handler, where Ruby's own answer is wrong", needs: :gvl_owner do
      # A thread that was pre-empted, or waits for the GVL, gets signals too: our handler must not believe that it may go on.
      worker = Datadog::Profiling::Session.new
      stop = false
      busy = Array.new(3) { Thread.new { nil until stop } }
      worker.start
      deadline = monotonic + 0.5
      busy.cycle { |thread| monotonic > deadline ? break : doors._native_signal_thread(thread) }
      stats = worker.stats
      expect(stats[:signal_handler_wrong_thread]).to be > 0
      expect(stats[:signal_handler_enqueued_sample]).to be > 0
    ensure
      stop = true
      busy&.each(&:join)
      worker&.stop
    end
  end

  describe "the main Ractor" do
    it "is where we are" do
      expect(doors._native_ractor_main_p).to be true
      expect(Thread.new { doors._native_ractor_main_p }.value).to be true
    end

    # A Ractor changes the VM for good, so it gets a process of its own.
    it "is not where another Ractor is", :ractors do
      script = <<~'RUBY'
        require "standalone"
        doors = Datadog::Profiling::NativeExtension::Testing
        print Ractor.new { Datadog::Profiling::NativeExtension::Testing.then { :reached } }.take
        begin
          print Ractor.new { Datadog::Profiling::NativeExtension::Testing._native_ractor_main_p }.take
        rescue Ractor::RemoteError => e
          print e.cause.class # not made for other Ractors: Ruby refuses the call
        end
        print doors._native_ractor_main_p
      RUBY
      expect(run_ruby!(script, options: ["-W0"])).to eq("reachedRactor::UnsafeErrortrue").or(eq("reachedfalsetrue"))
    end
  end

  describe "raising from code that runs without the GVL" do
    let(:error_class) { Class.new(StandardError) }

    it "raises that class with the formatted text" do
      expect { doors._native_grab_gvl_and_raise(error_class, "the number is ", 123, true) }
        .to raise_error(error_class, "the number is 123")
    end

    it "cuts the text to 255 characters" do
      expect { doors._native_grab_gvl_and_raise(error_class, "a" * 254, 99, true) }
        .to raise_error(error_class) { |error| expect(error.message).to eq("#{"a" * 254}9") }
      expect { doors._native_grab_gvl_and_raise(error_class, "a" * 10_000, 1, true) }
        .to raise_error(error_class) { |error| expect(error.message).to eq("a" * 255) }
    end

    it "is refused when the GVL is held" do
      expect { doors._native_grab_gvl_and_raise(error_class, "text", 1, false) }
        .to raise_error(RuntimeError, /by a thread that holds the global VM lock/)
    end

    it "raises the Errno class of a number" do
      expect { doors._native_grab_gvl_and_raise_syserr(Errno::EINTR::Errno, "here ", 4, true) }
        .to raise_error(Errno::EINTR, /here 4/)
      expect { doors._native_grab_gvl_and_raise_syserr(Errno::ENOENT::Errno, "b" * 300, 4, true) }
        .to raise_error(Errno::ENOENT) { |error| expect(error.message.count("b")).to be_between(250, 255) }
    end

    it "is refused for Errno classes too when the GVL is held" do
      expect { doors._native_grab_gvl_and_raise_syserr(Errno::EINTR::Errno, "text", 1, false) }
        .to raise_error(RuntimeError, /by a thread that holds the global VM lock/)
    end

    it "can be rescued, and leaves the thread able to work" do
      100.times { doors._native_grab_gvl_and_raise(error_class, "again", 1, true) rescue nil } # rubocop:disable Style/RescueModifier
      expect(Thread.new { [1, 2].sum }.value).to eq(3)
      Timeout.timeout(1) { Thread.pass }
    end

    it "leaves the thread with the GVL", needs: :gvl_owner do
      100.times { doors._native_grab_gvl_and_raise(error_class, "again", 1, true) rescue nil } # rubocop:disable Style/RescueModifier
      expect(doors._native_is_current_thread_holding_the_gvl).to be true
    end
  end

  describe "checking system calls" do
    it "passes success" do
      expect { doors._native_enforce_success(0) }.not_to raise_error
    end

    it "raises the Errno class of a failure" do
      expect { doors._native_enforce_success(Errno::EAGAIN::Errno) }.to raise_error(Errno::EAGAIN)
      expect { doors._native_enforce_success(Errno::EINVAL::Errno) }.to raise_error(Errno::EINVAL)
    end
  end

  describe "type errors" do
    it "show the value, its name, what was expected, and where" do
      expect { new_recorder(cpu_time_enabled: "surely") }.to raise_error(TypeError) { |error|
        expect(error.message).to include("\"surely\"").and include("cpu_time_enabled").and include("true or false")
        expect(error.message).to match(/\.c:\d+:in `\w+'/)
      }
    end

    it "bear values that cannot be shown" do
      silent = Class.new(BasicObject).new
      broken = Object.new
      def broken.inspect
        raise("on purpose")
      end
      [silent, broken].each do |value|
        expect { new_recorder(cpu_time_enabled: value) }.to raise_error(TypeError, /cpu_time_enabled/)
      end
      expect($!).to be_nil # rubocop:disable Style/SpecialGlobalVars
    end
  end

  describe "repairing text" do
    # Ruby itself says what the right answer is: String#scrub replaces each maximal ill-formed part, too.
    random = Random.new(20_240)
    interesting = ["", "abc", "größe 日本 😀", "\xff", "a\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xed\xa0\x80", "\xc0\x80",
                   "\xf4\x90\x80\x80", "\xe2\x28\xa1", "\x80\x80", "\xf8\x88\x80\x80\x80", "x\xe6\x97y", "\u0000\xff\u0000"]
    interesting += Array.new(500) { random.bytes(random.rand(1..40)) }
    interesting += Array.new(500) do
      text = "aé日😀".chars.sample(4, random: random).join.b
      text.setbyte(random.rand(text.bytesize), random.rand(256))
      text
    end

    it "gives what String#scrub gives, for #{interesting.size} texts" do
      interesting.each do |bytes|
        text = bytes.dup.force_encoding(Encoding::UTF_8)
        valid, repaired = doors._native_repair_utf8(text)
        expect([text.b, valid]).to eq([text.b, text.valid_encoding?])
        expect([text.b, repaired]).to eq([text.b, text.scrub("\uFFFD")])
      end
    end
  end

  describe "names of compiled templates" do
    def trimmed(name, file)
      doors._native_template_name(name, file)
    end

    it "lose the numbers that differ in each process" do
      expect(trimmed("_app_views_x_html_erb___1234_5678", "/srv/app/views/x.html.erb")).to eq("_app_views_x_html_erb")
      expect(trimmed("_app_views_layouts_explore_html_haml__2304485752546535910_211320", "/srv/app/views/layouts/explore.html.haml"))
        .to eq("_app_views_layouts_explore_html_haml")
    end

    it "lose the number that Tilt gives them" do
      expect(trimmed("__tilt_1480", "/srv/views/x.erb")).to eq("__tilt")
      expect(trimmed("__tilt_1480", "(__TEMPLATE__)")).to eq("__tilt")
      %w[__tilt_ __tilt_1a __tilt_a1 __tilt1 __tilt_1_2 _tilt_1 __tilt].each do |name|
        expect(trimmed(name, "/srv/views/x.erb")).to eq(name)
      end
      expect(trimmed("__tilt_1480", "/srv/lib/mine.rb")).to eq("__tilt_1480")
    end

    it "stay as they are when the file says something else" do
      ["/srv/app/models/x.rb", "", "x", "/srv/app/views/y.html.erb"].each do |file|
        name = "_app_views_x_html_erb___1234_5678"
        expect(trimmed(name, file)).to eq(name)
      end
    end

    it "stay as they are when they are no templates" do
      %w[perform _call _app_views_x_html_erb _a__1_2 retry_1_2 x_html_erb___1_2 _1_2 __1_2 _].each do |name|
        expect(trimmed(name, "/srv/app/views/x.html.erb")).to eq(name)
      end
    end
  end
end
