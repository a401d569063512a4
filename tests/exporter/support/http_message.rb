# One captured request, taken apart byte by byte as RFC 9112 and RFC 7578 say.
class HttpMessage
  Part = Struct.new(:headers, :data, keyword_init: true) do
    def name = headers.to_h["content-disposition"][/; name="([^"]*)"/, 1]
    def filename = headers.to_h["content-disposition"][/; filename="([^"]*)"/, 1]
  end

  attr_reader :raw, :request_line, :headers, :body

  def initialize(raw)
    @raw = raw.b
    head, rest = @raw.split("\r\n\r\n", 2)
    raise ArgumentError, "no end of headers in #{@raw[0, 200].inspect}" unless rest

    @request_line, *lines = head.split("\r\n", -1)
    @headers = lines.map { |line| split_header(line) }
    @body = chunked? ? self.class.dechunk(rest) : rest
  end

  def [](name) = @headers.assoc(name)&.last
  def chunked? = self["transfer-encoding"] == "chunked"
  def boundary = self["content-type"][/\Amultipart\/form-data; boundary=(.+)\z/, 1]

  # Request line and headers as they were sent, with the boundary, which is random, masked.
  def head = @raw.split("\r\n\r\n", 2).first.gsub(boundary, "BOUNDARY")

  def parts
    return @parts if @parts

    delimiter = "--#{boundary}".b
    raise ArgumentError, "body does not start with its boundary" unless @body.start_with?("#{delimiter}\r\n")
    raise ArgumentError,
          "body does not end with its boundary" unless @body.end_with?("\r\n#{delimiter}--\r\n")

    inner = @body["#{delimiter}\r\n".bytesize...-"\r\n#{delimiter}--\r\n".bytesize]
    @parts = inner.split("\r\n#{delimiter}\r\n".b, -1).map do |text|
      head, data = text.split("\r\n\r\n", 2)
      Part.new(headers: head.split("\r\n", -1).map { |line| split_header(line) }, data: data)
    end
  end

  def part(name) = parts.find { |part| part.name == name }
  def event_text = parts.first.data.dup.force_encoding("UTF-8")

  # The body after its chunks are joined; raises unless it ends exactly with the last chunk.
  def self.dechunk(bytes)
    out = +"".b
    at = 0
    loop do
      line_end = bytes.index("\r\n", at) or raise ArgumentError, "chunk size missing at #{at}"
      size = Integer(bytes[at...line_end], 16)
      at = line_end + 2
      out << bytes.byteslice(at, size)
      raise ArgumentError, "chunk cut short" unless bytes.byteslice(at + size, 2) == "\r\n"

      at += size + 2
      break if size.zero?
    end
    raise ArgumentError, "bytes after the last chunk" unless at == bytes.bytesize

    out
  end

  private

  def split_header(line)
    name, value = line.split(": ", 2)
    raise ArgumentError, "not a header: #{line.inspect}" unless value && name.match?(/\A[!-9;-~]+\z/n)

    [name, value]
  end
end
