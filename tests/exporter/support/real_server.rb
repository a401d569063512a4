# What specs with a server share that was not written for them (Nginx, Caddy).
module RealServer
  SITE = "nf-intake.example".freeze
  HOST = "intake.profile.#{SITE}".freeze # where agentless reports to the site go

  # The program, installed or where fetch_servers has put it; nil: nowhere.
  def self.find(path) = [path, "#{Driver::CACHE}/servers#{path}"].find { |place| File.executable?(place) }
end

RSpec.shared_context "with a real server" do |kind|
  before do
    unless kind::BINARY
      reason = "no #{kind.name.downcase}"
      puts "skipped: #{reason}; tests/exporter/fetch_servers gets it"
      skip reason
    end
  end

  let(:authority) { Certificates.new }
  let(:body) { Random.new(5).bytes(3_000_000) }
  let(:file) { "x.pprof=#{file_of(body)}" }

  define_method(:plain_server) { |**options| keep(kind.new(**options)) }

  # With a certificate of the authority for these names.
  def secure_server(*names, dates: {}, **options)
    certificate, key = authority.issue(*names, **dates)
    plain_server(certificate: certificate, key: key, **options)
  end

  # Sends a report to the site, whose name leads here.
  def send_to(port, env: {}, **options)
    Namespace.with_hosts("127.0.0.1 #{RealServer::HOST}") do
      Driver.run(agentless: "#{RealServer::SITE}:#{port}", key: "k" * 32, timeout: 20_000,
                 env: { "SSL_CERT_FILE" => authority.file }.merge(env), **options)
            .tap { |result| expect_untouched(result) }
    end
  end
end
