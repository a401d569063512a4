require "resolv"
require "socket"
require "tempfile"
require "tmpdir"

# The tests run in a network and mount namespace of their own, so that they can say what names mean and use
# any port,
# and so that nothing ever leaves the machine.
module Namespace
  INSIDE = "NF_TEST_NAMESPACE"

  module_function

  # Starts this program again inside; where the system does not allow that, goes on outside.
  def enter(program, arguments)
    return if ENV[INSIDE]

    [%w[unshare --mount --net], %w[unshare --map-root-user --mount --net]].each do |command|
      next unless system(*command, "true", out: File::NULL, err: File::NULL)

      exec({ INSIDE => "yes" }, *command, RbConfig.ruby, program, *arguments)
    end
    ENV[INSIDE] = "no"
  end

  def inside? = ENV[INSIDE] == "yes"
  def missing = "this system lets no test have a network and mount namespace of its own"

  # The loopback device of a new namespace is down.
  def raise_loopback
    get_flags, set_flags, up = 0x8913, 0x8914, 1
    Socket.open(:INET, :DGRAM) do |socket|
      request = ["lo", 0].pack("a16s@40")
      socket.ioctl(get_flags, request)
      socket.ioctl(set_flags, ["lo", request[16, 2].unpack1("s") | up].pack("a16s@40"))
    end
  end

  # A bare system may lack files that the tests put others in the place of: inside, /etc is then a copy that has them.
  def complete_etc
    lacking = %w[hosts resolv.conf].reject { |name| File.exist?("/etc/#{name}") }
    return if lacking.empty?

    copy = Dir.mktmpdir("etc")
    at_exit { FileUtils.rm_rf(copy) }
    system("cp", "-a", "/etc/.", copy, exception: true)
    lacking.each { |name| File.write("#{copy}/#{name}", "") }
    system("mount", "--bind", copy, "/etc", exception: true)
  end

  # For the time of the block, `path` has this content for all processes of these tests.
  def with_file(path, content)
    file = Tempfile.new("bound")
    file.write(content)
    file.flush
    File.chmod(0o644, file.path)
    system("mount", "--bind", file.path, path, exception: true)
    yield
  ensure
    system("umount", "-l", path)
    file&.close!
  end

  def with_hosts(*lines, &block)
    with_file("/etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost\n#{lines.map do |line|
                                                                                   "#{line}\n"
                                                                                 end.join}",
              &block)
  end

  # A name server on the loopback device that says what the block returns for each question (raw bytes, or
  # nil: nothing).
  def with_name_server(responder)
    socket = UDPSocket.new
    socket.bind("127.0.0.1", 53)
    thread = Thread.new do
      loop do
        question, (_, port, host) = socket.recvfrom(4096)
        answer = responder.call(question)
        socket.send(answer, 0, host, port) if answer
      end
    end
    with_file("/etc/resolv.conf", "nameserver 127.0.0.1\n") { yield }
  ensure
    thread&.kill
    socket&.close
  end

  # Address records for one question; other types get an empty answer.
  def dns_answer(question, address: nil, code: 0)
    query = Resolv::DNS::Message.decode(question)
    reply = Resolv::DNS::Message.new(query.id)
    reply.qr = reply.rd = reply.ra = 1
    reply.rcode = code
    query.each_question do |name, type|
      reply.add_question(name, type)
      next unless address && type == Resolv::DNS::Resource::IN::A

      reply.add_answer(name, 1, Resolv::DNS::Resource::IN::A.new(address))
    end
    reply.encode
  end
end
