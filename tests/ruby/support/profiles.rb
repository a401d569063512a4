require "stringio"
require "zlib"

module Support
  # The one place where specs look into profiles.
  module Profiles
    Frame = Struct.new(:name, :path, :line) do
      def to_s
        "#{path}:#{line}:in `#{name}'"
      end
    end

    # values: {"cpu-time" => 1, …}; labels: {"thread id" => "…", "profiler overhead" => 1}; frames: innermost first
    Sample = Struct.new(:values, :labels, :frames) do
      def cpu
        values.fetch("cpu-time", 0)
      end

      def wall
        values.fetch("wall-time")
      end

      def count
        values.fetch("cpu-samples")
      end

      def thread_name
        labels["thread name"]
      end

      def overhead?
        labels.key?("profiler overhead")
      end

      def names
        frames.map(&:name)
      end
    end

    Profile = Struct.new(:types, :samples, :mappings, :time_nanos, :duration_nanos) do
      # Of one thread, without what the profiler itself has cost it.
      def of_thread(thread)
        id = Profiles.thread_id(thread)
        # Before Ruby 3.1 the specs do not know the kernel ids of threads that began in C.
        same = Threads.kernel_id(thread) ? id.method(:==) : ->(other) { other.end_with?(id) }
        samples.select { |it| same.call(it.labels["thread id"]) && !it.overhead? }
      end

      def total(type)
        samples.sum { |it| it.values.fetch(type) }
      end
    end

    # How the profiler names a thread.
    def self.thread_id(thread)
      "#{Threads.kernel_id(thread)} (#{thread.object_id})"
    end

    def thread_id(thread)
      Profiles.thread_id(thread)
    end

    # Of any codec.
    def decode(bytes)
      read = Datadog::Profiling::PprofReader.parse(bytes)
      functions = read.fetch(:functions)
      locations = read.fetch(:locations).transform_values do |lines, _address|
        raise "a location has #{lines.size} lines" unless lines.size == 1
        function, line = lines.first
        Frame.new(*functions.fetch(function).first(2), line)
      end
      types = read.fetch(:sample_types)
      samples = read.fetch(:samples).map do |ids, values, labels|
        raise "a label is there twice: #{labels}" unless labels.uniq(&:first).size == labels.size
        # An empty text and the number 0 look the same in a profile. Ours has no number that may be 0.
        labels = labels.to_h { |key, value| [key, value == 0 ? "" : value] }
        Sample.new(types.map(&:first).zip(values).to_h, labels, ids.map { |id| locations.fetch(id) })
      end
      Profile.new(types, samples, nil, read.fetch(:time_nanos), read.fetch(:duration_nanos))
    end

    # What a reader that shares no code with ours makes of it; gzip and none.
    def decode_independently(bytes)
      Wire.profile(Profiles.uncompress(bytes))
    end

    # A recorder with the value types of CPU and wall time profiles.
    def new_recorder(**options)
      Datadog::Profiling::StackRecorder.new(
        cpu_time_enabled: true, alloc_samples_enabled: false, heap_samples_enabled: false, heap_size_enabled: false,
        heap_sample_every: 1, timeline_enabled: false, **options
      )
    end

    # One sample of a thread's stack, straight into the recorder.
    def record_stack(
      recorder, thread = Thread.current, values: {}, labels: {}, numeric_labels: {}, max_frames: 400, in_gc: false
    )
      Datadog::Profiling::Collectors::Stack::Testing._native_sample(
        thread, recorder, { "cpu-time" => 0, "cpu-samples" => 1, "wall-time" => 0 }.merge(values),
        { "state" => "unknown" }.merge(labels).compact.to_a, numeric_labels.to_a, max_frames, in_gc
      )
    end

    # Empties the recorder.
    def serialize(recorder)
      decode(recorder.serialize!(codec: :none))
    end

    def self.uncompress(bytes)
      return Zlib::GzipReader.new(StringIO.new(bytes)).read if bytes.start_with?("\x1f\x8b".b)
      bytes
    end

    # Reads the pprof message (proto/profile.proto) field by field, and refuses what is not well-formed.
    module Wire
      module_function

      # Yields [field number, Integer or String] for each field.
      def each_field(bytes)
        at = 0
        while at < bytes.bytesize
          key, at = varint(bytes, at)
          case key & 7
          when 0
            value, at = varint(bytes, at)
          when 2
            length, at = varint(bytes, at)
            raise "field #{key >> 3} is cut off" if at + length > bytes.bytesize
            value = bytes.byteslice(at, length)
            at += length
          else
            raise "wire type #{key & 7} is not part of a profile"
          end
          yield key >> 3, value
        end
      end

      def varint(bytes, at)
        value = shift = 0
        loop do
          byte = bytes.getbyte(at) or raise "a number is cut off"
          at += 1
          value |= (byte & 0x7f) << shift
          return value, at if byte < 0x80
          shift += 7
          raise "a number is too long" if shift > 63
        end
      end

      def signed(value)
        value >= 1 << 63 ? value - (1 << 64) : value
      end

      # {field number => [values]}
      def fields(bytes)
        found = Hash.new { |hash, key| hash[key] = [] }
        each_field(bytes) { |number, value| found[number] << value }
        found
      end

      # Packed, one by one, or both.
      def numbers(values)
        values.flat_map do |value|
          next [value] if value.is_a?(Integer)
          list = []
          at = 0
          while at < value.bytesize
            number, at = varint(value, at)
            list << number
          end
          list
        end
      end

      def profile(bytes)
        raw = fields(bytes)
        strings = raw[6].map { |it| it.dup.force_encoding(Encoding::UTF_8) }
        raise "string 0 is not empty" unless strings.first == ""
        bad = strings.reject(&:valid_encoding?)
        raise "not UTF-8: #{bad.inspect}" if bad.any?
        text = ->(index) { strings.fetch(index || 0) }

        types = raw[1].map { |it| fields(it) }.map { |it| [text[it[1].last], text[it[2].last]] }
        functions = by_id(raw[5]) { |it| [text[it[2].last], text[it[4].last]] }
        mappings = by_id(raw[3]) { |it| it }
        locations = by_id(raw[4]) do |it|
          raise "a location has #{it[4].size} lines" unless it[4].size == 1
          mappings.fetch(it[2].last) if it[2].any?
          line = fields(it[4].first)
          Frame.new(*functions.fetch(line[1].last), signed(line[2].last || 0))
        end
        samples = raw[2].map { |it| sample(fields(it), types, locations, text) }
        Profile.new(types, samples, mappings.size, signed(raw[9].last || 0), signed(raw[10].last || 0))
      end

      def by_id(messages)
        messages.each_with_object({}) do |message, all|
          it = fields(message)
          id = it[1].last or raise "an id is 0"
          raise "id #{id} is there twice" if all.key?(id)
          all[id] = yield it
        end
      end

      def sample(it, types, locations, text)
        values = numbers(it[2]).map { |value| signed(value) }
        raise "#{values.size} values for #{types.size} types" unless values.size == types.size
        labels = it[3].map { |label| fields(label) }.map do |label|
          [text[label[1].last], label[3].any? ? signed(label[3].last) : text[label[2].last]]
        end
        raise "a label is there twice: #{labels}" unless labels.uniq(&:first).size == labels.size
        Sample.new(types.map(&:first).zip(values).to_h, labels.to_h, numbers(it[1]).map { |id| locations.fetch(id) })
      end
    end
  end
end
