# Decodes MessagePack, from the format's description; strings must be UTF-8, binaries are binary.
module MessagePack
  module_function

  def decode(bytes)
    value, at = read(bytes.b, 0)
    raise ArgumentError, "#{bytes.bytesize - at} bytes too many" unless at == bytes.bytesize

    value
  end

  def read(bytes, at)
    first = bytes.getbyte(at) or raise ArgumentError, "cut short"
    at += 1
    case first
    when 0x00..0x7f then [first, at]
    when 0x80..0x8f then map(bytes, at, first & 15)
    when 0x90..0x9f then array(bytes, at, first & 15)
    when 0xa0..0xbf then text(bytes, at, first & 31)
    when 0xc0 then [nil, at]
    when 0xc2, 0xc3 then [first == 0xc3, at]
    when 0xc4..0xc6 then take(bytes, *number(bytes, at, first - 0xc4).reverse)
    when 0xcc..0xcf then number(bytes, at, first - 0xcc)
    when 0xd9..0xdb then text(bytes, *number(bytes, at, first - 0xd9).reverse)
    when 0xdc, 0xdd then array(bytes, *number(bytes, at, first - 0xdb).reverse)
    when 0xde, 0xdf then map(bytes, *number(bytes, at, first - 0xdd).reverse)
    else raise ArgumentError, format("byte %#x is not expected in a report", first)
    end
  end

  # An unsigned number of 1, 2, 4 or 8 bytes.
  def number(bytes, at, log)
    [bytes.byteslice(at, 1 << log).unpack1(%w[C n N Q>][log]), at + (1 << log)]
  end

  def take(bytes, at, length)
    data = bytes.byteslice(at, length)
    raise ArgumentError, "cut short" unless data&.bytesize == length

    [data, at + length]
  end

  def text(bytes, at, length)
    data, at = take(bytes, at, length)
    data = data.dup.force_encoding("UTF-8")
    raise ArgumentError, "a string that is not UTF-8" unless data.valid_encoding?

    [data, at]
  end

  def array(bytes, at, count)
    items = Array.new(count) do
      item, at = read(bytes, at)
      item
    end
    [items, at]
  end

  def map(bytes, at, count)
    pairs = Array.new(count) do
      key, at = read(bytes, at)
      value, at = read(bytes, at)
      [key, value]
    end
    [pairs.to_h, at]
  end
end
