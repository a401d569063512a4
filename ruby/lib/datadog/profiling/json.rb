# frozen_string_literal: true

module Datadog
  module Profiling
    # Writes JSON. Ruby's own library is changed by many programs (oj, ActiveSupport), and then writes
    # something else; nothing here is open to that.
    module JSONText
      ESCAPES = {
        "\"" => "\\\"", "\\" => "\\\\", "\b" => "\\b", "\f" => "\\f", "\n" => "\\n", "\r" => "\\r", "\t" => "\\t"
      }.freeze
      DEEPEST = 100

      class << self
        def generate(value)
          write(value, String.new(encoding: Encoding::UTF_8), 0)
        end

        # UTF-8, whatever it was.
        def utf8(text)
          text = text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace) unless bytes?(text)
          text = text.dup.force_encoding(Encoding::UTF_8) unless text.encoding == Encoding::UTF_8
          text.valid_encoding? ? text : text.scrub
        rescue EncodingError
          ""
        end

        private

        def bytes?(text)
          [Encoding::UTF_8, Encoding::BINARY, Encoding::US_ASCII].include?(text.encoding)
        end

        def write(value, out, depth)
          raise ArgumentError, "nested too deeply" if depth > DEEPEST

          case value
          when nil then out << "null"
          when true, false, Integer then out << value.to_s
          when Float then out << (value.finite? ? value.to_s : "null")
          when String then string(value, out)
          when Symbol then string(value.to_s, out)
          when Hash then object(value, out, depth)
          when Array then list(value, out, depth)
          else string(value.to_s, out)
          end
          out
        end

        def string(text, out)
          out << "\"" << utf8(text).gsub(/["\\\x00-\x1f\x7f\u2028\u2029]/) do |char|
            ESCAPES[char] || format("\\u%04x", char.ord)
          end << "\""
        end

        def object(hash, out, depth)
          out << "{"
          hash.each_with_index do |(key, value), index|
            out << "," if index > 0
            string(key.to_s, out)
            out << ":"
            write(value, out, depth + 1)
          end
          out << "}"
        end

        def list(values, out, depth)
          out << "["
          values.each_with_index do |value, index|
            out << "," if index > 0
            write(value, out, depth + 1)
          end
          out << "]"
        end
      end
    end
  end
end
