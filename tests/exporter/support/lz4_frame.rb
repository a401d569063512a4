# Decodes LZ4 frames (format 1.6.x, blocks without checksums), from the format's description.
module Lz4Frame
  module_function

  def decode(bytes)
    bytes = bytes.b
    raise ArgumentError, "not an LZ4 frame" unless bytes.start_with?("\x04\x22\x4d\x18".b)

    flags = bytes.getbyte(4)
    raise ArgumentError, "checksums or dictionary" if flags.anybits?(0b0001_0101)

    at = flags.anybits?(0b1000) ? 15 : 7 # the content's size may stand before the header's checksum
    out = +"".b
    loop do
      size = bytes.byteslice(at, 4).unpack1("V")
      at += 4
      break if size.zero?

      length = size & 0x7fff_ffff
      block = bytes.byteslice(at, length)
      raise ArgumentError, "block cut short" unless block.bytesize == length

      size.anybits?(0x8000_0000) ? out << block : decode_block(block, out)
      at += length
    end
    raise ArgumentError, "bytes after the frame" unless at == bytes.bytesize

    out
  end

  def decode_block(block, out)
    at = 0
    while at < block.bytesize
      token = block.getbyte(at)
      length, at = extend_length(block, token >> 4, at + 1)
      out << block.byteslice(at, length)
      at += length
      break if at >= block.bytesize

      offset = block.byteslice(at, 2).unpack1("v")
      length, at = extend_length(block, token & 15, at + 2)
      length += 4
      raise ArgumentError, "bad offset" if offset.zero? || offset > out.bytesize

      from = out.bytesize - offset
      if offset >= length
        out << out.byteslice(from, length)
      else
        pattern = out.byteslice(from, offset)
        out << (pattern * (length / offset + 1)).byteslice(0, length)
      end
    end
  end

  def extend_length(block, length, at)
    if length == 15
      loop do
        byte = block.getbyte(at)
        at += 1
        length += byte
        break if byte != 255
      end
    end
    [length, at]
  end
end
