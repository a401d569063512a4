require "openssl"
require "tempfile"

# Certificate authorities and server certificates made on the spot.
class Certificates
  DAY = 86_400

  def initialize(name = "Test CA")
    @key = OpenSSL::PKey::EC.generate("prime256v1")
    @certificate = make(name, @key, nil, -DAY, 30 * DAY, ["basicConstraints", "CA:TRUE", true],
                        ["keyUsage", "keyCertSign, cRLSign", true])
  end

  # The authority as a PEM file, for SSL_CERT_FILE.
  def file
    @file ||= Tempfile.new(["ca", ".pem"]).tap { |file| file.write(@certificate.to_pem) && file.flush }
    @file.path
  end

  # What a server shows and signs with: [certificate, key].
  def issue(*names, from: -DAY, to: 30 * DAY)
    key = OpenSSL::PKey::EC.generate("prime256v1")
    alternatives = names.map { |name| "#{name.match?(/\A[\d.]+\z|:/) ? "IP" : "DNS"}:#{name}" }.join(",")
    [make(names.first, key, self, from, to, ["basicConstraints", "CA:FALSE", true],
          ["subjectAltName", alternatives, false], ["extendedKeyUsage", "serverAuth", false]), key]
  end

  def context(*names, min: nil, max: nil, **dates)
    OpenSSL::SSL::SSLContext.new.tap do |context|
      context.cert, context.key = issue(*names, **dates)
      context.min_version = min if min
      context.max_version = max if max
      context.security_level = 0 if max
      context.session_cache_mode = OpenSSL::SSL::SSLContext::SESSION_CACHE_OFF
    end
  end

  def sign(certificate) = certificate.sign(@key, "SHA256")
  def subject = @certificate.subject

  private

  def make(name, key, issuer, from, to, *extensions)
    OpenSSL::X509::Certificate.new.tap do |made|
      made.version = 2
      made.serial = rand(1 << 62)
      made.subject = OpenSSL::X509::Name.new([["CN", name[0, 60]]])
      made.issuer = issuer ? issuer.subject : made.subject
      made.public_key = key
      made.not_before = Time.now + from
      made.not_after = Time.now + to
      factory = OpenSSL::X509::ExtensionFactory.new
      factory.subject_certificate = made
      extensions.each { |extension| made.add_extension(factory.create_extension(*extension)) }
      issuer ? issuer.sign(made) : made.sign(key, "SHA256")
    end
  end
end
