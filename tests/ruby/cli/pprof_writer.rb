require "stringio"
require "zlib"

# Writes pprof profiles that are exactly as an example wants them, with code that shares nothing with the
# product.
class PprofWriter
  attr_accessor :default_sample_type

  # sample_types: [[type, unit], …]
  def initialize(*sample_types)
    @sample_types = sample_types
    @strings = [""]
    @functions = []
    @locations = []
    @samples = []
  end

  # frames: "name", or [name, file], or [name, file, line]; innermost first. A frame of several such arrays is
  # one location with inlined functions.
  def sample(frames, values, labels = {})
    @samples << [frames.map { |frame| location(frame) }, Array(values), labels]
    self
  end

  def raw
    out = +"".b
    @sample_types.each { |type, unit| out << bytes(1, int(1, id(type)) + int(2, id(unit))) }
    @samples.each do |locations, values, labels|
      out << bytes(2, packed(1, locations) + packed(2, values) + labels.map { |key, value| bytes(3, label(key, value)) }.join)
    end
    @locations.each_with_index do |lines, i|
      out << bytes(4, int(1, i + 1) + lines.map { |function, line| bytes(4, int(1, function) + int(2, line)) }.join)
    end
    @functions.each_with_index { |(name, file), i| out << bytes(5, int(1, i + 1) + int(2, id(name)) + int(4, id(file))) }
    tail = int(9, 1_700_000_000_000_000_000) + int(10, 2_500_000_000)
    tail << int(14, id(default_sample_type)) if default_sample_type
    @strings.each { |text| out << bytes(6, text.b) }
    out << tail
  end

  def gzip
    Zlib.gzip(raw)
  end

  private

  def location(frame)
    frames = frame.is_a?(Array) && frame.first.is_a?(Array) ? frame : [frame]
    lines = frames.map do |it|
      name, file, line = it
      [index(@functions, [name, file.to_s]), line || 1]
    end
    index(@locations, lines)
  end

  def label(key, value)
    int(1, id(key)) + (value.is_a?(Integer) ? int(3, value) : int(2, id(value)))
  end

  def index(table, row)
    (table.index(row) || (table << row).size - 1) + 1
  end

  def id(text)
    @strings.index(text) || (@strings << text).size - 1
  end

  def varint(value)
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = +"".b
    while value > 127
      out << (value & 127 | 128)
      value >>= 7
    end
    out << value
  end

  def int(field, value)
    varint(field << 3) + varint(value)
  end

  def bytes(field, content)
    varint(field << 3 | 2) + varint(content.bytesize) + content.b
  end

  def packed(field, values)
    bytes(field, values.map { |value| varint(value) }.join)
  end
end
