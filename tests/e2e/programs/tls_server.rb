# frozen_string_literal: true

# WEBrick with TLS, and a client that asks it so many times; prints what came back.
require "digest"
require "net/http"
require "openssl"
require "webrick"
require "webrick/https"

COUNT = Integer(ARGV.fetch(0))

key = OpenSSL::PKey::EC.generate("prime256v1")
certificate = OpenSSL::X509::Certificate.new.tap do |it|
  it.version = 2
  it.serial = 1
  it.subject = it.issuer = OpenSSL::X509::Name.new([%w[CN localhost]])
  it.public_key = key
  it.not_before = Time.now - 60
  it.not_after = Time.now + 3600
  it.sign(key, "SHA256")
end

class Digests < WEBrick::HTTPServlet::AbstractServlet
  def do_GET(request, response)
    response.body = "#{request.path} #{(1..300).reduce("") { |text, it| Digest::SHA256.hexdigest("#{text}#{it}") }}"
  end
end

server = WEBrick::HTTPServer.new(
  BindAddress: "127.0.0.1", Port: 0, SSLEnable: true, SSLCertificate: certificate, SSLPrivateKey: key,
  Logger: WEBrick::Log.new(File::NULL), AccessLog: []
)
server.mount("/", Digests)
thread = Thread.new { server.start }

answers = Array.new(COUNT) do |number|
  http = Net::HTTP.new("127.0.0.1", server.config[:Port])
  http.use_ssl = true
  http.verify_mode = OpenSSL::SSL::VERIFY_NONE
  http.request_get("/#{number % 3}").body
end
server.shutdown
thread.join
answers.tally.sort.each { |answer, count| puts "#{count} #{answer}" }
