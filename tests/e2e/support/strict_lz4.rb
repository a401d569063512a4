# frozen_string_literal: true

require "tests/exporter/support/lz4_frame"
require_relative "strict"

# The forms of LZ4 frame that a report may have: blocks of at most 64 KiB, independent of each other as the original
# library writes them or linked as ours does, without checksums and size.
module StrictLz4
  # The last byte of each is the checksum of the two before it.
  HEADERS = { "\x04\x22\x4d\x18\x60\x40\x82".b => :independent, "\x04\x22\x4d\x18\x40\x40\xc0".b => :linked }.freeze
  HEADER_SIZE = 7
  BLOCK = 64 << 10
  WINDOW = 64 << 10

  module_function

  def decode(bytes)
    bytes = bytes.b
    header = bytes.byteslice(0, HEADER_SIZE)
    kind = HEADERS.fetch(header) { raise Strict::Violation, "the LZ4 frame's header is #{header.inspect}" }
    at = HEADER_SIZE
    out = (+"").b
    sizes = []
    loop do
      size = bytes.byteslice(at, 4).to_s.unpack1("V") or raise Strict::Violation, "the LZ4 frame has no end mark"
      at += 4
      break if size.zero?

      length = size & 0x7fff_ffff
      block = bytes.byteslice(at, length).to_s
      Strict.same("the length of LZ4 block #{sizes.size}", length, block.bytesize)
      at += length
      content = size.anybits?(0x8000_0000) ? block : unpack(block, kind == :linked ? out : "")
      Strict.check(content.bytesize.between?(1, BLOCK), "LZ4 block #{sizes.size} holds #{content.bytesize} bytes")
      sizes << content.bytesize
      out << content
    end
    Strict.same("bytes after the LZ4 frame", 0, bytes.bytesize - at)
    Strict.check(sizes[0..-2].all?(BLOCK), "LZ4 blocks that are not the last hold #{sizes} bytes")
    out
  end

  # A reference to what lies before `window` is an error.
  def unpack(block, window)
    window = window.byteslice(-WINDOW, WINDOW) || window
    plain = (+"").b << window
    Lz4Frame.decode_block(block, plain)
    plain.byteslice(window.bytesize..-1)
  rescue ArgumentError, NoMethodError, TypeError => e
    raise Strict::Violation, "a broken LZ4 block: #{e.message}"
  end
end
