# frozen_string_literal: true

require_relative "strict"

# Reads a profile by nothing but the protobuf wire format and profile.proto, and refuses what pprof's own CheckValid
# refuses and, beyond that, whatever this kind of profile never has: a field out of order, an id that is not dense, a
# string that comes twice.
class StrictPprof
  # values and labels by name; frames innermost first, as [name, file, line]
  Sample = Struct.new(:values, :labels, :frames)

  FIELDS = { # profile.proto: number => name; the wire order that libdatadog 6 keeps
    2 => :sample, 1 => :sample_type, 3 => :mapping, 4 => :location, 5 => :function, 6 => :string, 9 => :time,
    10 => :duration
  }.freeze
  FIRST_STRINGS = ["", "local root span id", "trace endpoint", "end_timestamp_ns"].freeze

  attr_reader :types, :samples, :time, :duration

  def initialize(bytes)
    @raw = Hash.new { |hash, key| hash[key] = [] }
    split(bytes.b).each { |number, value| @raw[FIELDS.fetch(number)] << value }
    read_strings
    read_header
    read_tables
    @samples = @raw[:sample].each_with_index.map { |it, i| read_sample(it, i) }
    Strict.same("locations that no sample refers to", [], @locations.keys - @used[:locations].keys)
    Strict.same("functions that no location refers to", [], @functions.keys - @used[:functions].keys)
  end

  private

  # The whole message: [field number, value] in order.
  def split(bytes)
    fields = message("profile", bytes)
    order = FIELDS.keys
    positions = fields.map do |number, _|
      order.index(number) or raise Strict::Violation, "the profile has field #{number}, which it should not"
    end
    seen = positions.chunk_while { |a, b| a == b }.map(&:first)
    Strict.same("the order of the profile's fields", order.values_at(*seen.sort.uniq), order.values_at(*seen))
    fields
  end

  def read_strings
    @strings = @raw[:string].map { |it| it.dup.force_encoding(Encoding::UTF_8) }
    @strings.each_with_index { |it, i| Strict.check(it.valid_encoding?, "string #{i} is not UTF-8: #{it.inspect}") }
    Strict.same("the first strings", FIRST_STRINGS, @strings.first(4))
    Strict.same("strings that come twice", [], @strings.tally.select { |_, count| count > 1 }.keys)
  end

  def read_header
    @types = @raw[:sample_type].each_with_index.map do |bytes, i|
      fields = fields_of("sample type #{i}", bytes, 1 => :integer, 2 => :integer)
      [string("sample type #{i}", fields[1]), string("the unit of sample type #{i}", fields[2])]
    end
    Strict.check(@types.any?, "the profile has no sample types")
    %i[time duration].each { |it| Strict.same("how often #{it} is there", 1, @raw[it].size) }
    @time = signed(@raw[:time].first)
    @duration = signed(@raw[:duration].first)
    Strict.check(@time.positive? && @duration.positive?, "time #{@time}, duration #{@duration}")
  end

  def read_tables
    @used = { functions: {}, locations: {} }
    Strict.same("mappings", [[[1, 1]]], @raw[:mapping].map { |it| message("mapping", it) })
    @functions = table(:function, 1 => :integer, 2 => :integer, 4 => :integer) do |what, fields|
      [string("the name of #{what}", fields.fetch(2, 0)), string("the file of #{what}", fields.fetch(4, 0))]
    end
    @locations = table(:location, 1 => :integer, 2 => :integer, 4 => :bytes) do |what, fields|
      Strict.same("the mapping of #{what}", 1, fields[2])
      line = fields_of("the line of #{what}", fields.fetch(4) { raise Strict::Violation, "#{what} has no line" },
                       1 => :integer, 2 => :integer)
      function = @functions.fetch(line[1]) { raise Strict::Violation, "#{what}: no function #{line[1].inspect}" }
      @used[:functions][line[1]] = true
      [*function, signed(line.fetch(2, 0))]
    end
  end

  # {id => what the block makes of it}; ids must be 1, 2, 3…
  def table(kind, allowed)
    @raw[kind].each_with_index.to_h do |bytes, i|
      what = "#{kind} #{i + 1}"
      fields = fields_of(what, bytes, allowed)
      Strict.same("the id of #{what}", i + 1, fields[1])
      [i + 1, yield(what, fields)]
    end
  end

  def read_sample(bytes, index)
    what = "sample #{index}"
    fields = message(what, bytes)
    Strict.same("fields of #{what}", [], fields.map(&:first) - [1, 2, 3])
    ids, values, labels = [1, 2, 3].map { |number| fields.select { |it, _| it == number }.map(&:last) }
    Strict.check(ids.size <= 1 && values.size == 1, "#{what}: ids or values are not packed into one field")
    values = packed(values.first).map { |it| signed(it) }
    Strict.same("how many values #{what} has", @types.size, values.size)
    frames = packed(ids.first || "".b).map do |id|
      @used[:locations][id] = true
      @locations.fetch(id) { raise Strict::Violation, "#{what}: no location #{id}" }
    end
    Sample.new(@types.map(&:first).zip(values).to_h, read_labels(what, labels), frames)
  end

  def read_labels(what, labels)
    pairs = labels.map do |bytes|
      fields = fields_of("a label of #{what}", bytes, 1 => :integer, 2 => :integer, 3 => :integer)
      key = string("a label's key in #{what}", fields.fetch(1, 0))
      Strict.check(!key.empty?, "#{what} has a label without a key")
      Strict.check(!(fields.key?(2) && fields.key?(3)), "#{what}: label #{key} is text and number")
      [key, fields.key?(3) ? signed(fields[3]) : string("label #{key} of #{what}", fields.fetch(2, 0))]
    end
    Strict.same("labels that #{what} has twice", [], pairs.map(&:first).tally.select { |_, count| count > 1 }.keys)
    pairs.to_h
  end

  def string(what, index)
    Strict.check(index && index < @strings.size, "#{what}: there is no string #{index.inspect}")
    @strings[index]
  end

  # ---- protobuf's wire format

  # Fields that come once each: {number => value}
  def fields_of(what, bytes, allowed)
    fields = message(what, bytes)
    fields.each do |number, value|
      kind = allowed.fetch(number) { raise Strict::Violation, "#{what} has field #{number}, which it should not" }
      Strict.same("the kind of field #{number} of #{what}", kind, value.is_a?(Integer) ? :integer : :bytes)
    end
    Strict.check(fields.map(&:first).uniq.size == fields.size, "#{what} has a field twice")
    fields.to_h
  end

  def message(what, bytes)
    fields = []
    at = 0
    while at < bytes.bytesize
      tag, at = varint(what, bytes, at)
      case tag & 7
      when 0 then value, at = varint(what, bytes, at)
      when 2
        length, at = varint(what, bytes, at)
        Strict.check(at + length <= bytes.bytesize, "#{what}: a field is cut short")
        value = bytes.byteslice(at, length)
        at += length
      else raise Strict::Violation, "#{what} has wire type #{tag & 7}"
      end
      fields << [tag >> 3, value]
    end
    fields
  end

  def packed(bytes)
    values = []
    at = 0
    while at < bytes.bytesize
      value, at = varint("a packed field", bytes, at)
      values << value
    end
    values
  end

  def varint(what, bytes, at)
    value = shift = 0
    loop do
      byte = bytes.getbyte(at) or raise Strict::Violation, "#{what}: a number is cut short"
      at += 1
      value |= (byte & 0x7f) << shift
      shift += 7
      return [value, at] if byte < 0x80
      raise Strict::Violation, "#{what}: a number of more than 64 bits" if shift > 63
    end
  end

  def signed(value)
    value >= 1 << 63 ? value - (1 << 64) : value
  end
end
