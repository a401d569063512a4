// UTF-8 by its definition, a code point at a time, as slow and plain as it can be: what core/utf8 is compared
// with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fuzz {

struct Utf8Fault {
  bool found;
  size_t index;
  unsigned len; // 0: the text ends inside a character
};

// Whether these bytes are the beginning of (or all of) some character: U+0000 to U+10FFFF without surrogates,
// each in its shortest form. `whole` tells whether they are all of it.
inline bool BeginsCharacter(const uint8_t *p, size_t n, bool *whole) {
  size_t size = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 : p[0] >> 3 == 30 ? 4 : 0;
  if (size == 0 || n > size) return false;
  // The lowest and the highest code points that go on from these bytes.
  uint32_t low = size == 1 ? p[0] : p[0] & (0x7F >> size), high = low;
  for (size_t i = 1; i < size; i++) {
    if (i < n && p[i] >> 6 != 2) return false;
    low = low << 6 | (i < n ? p[i] & 63 : 0);
    high = high << 6 | (i < n ? p[i] & 63 : 63);
  }
  static const uint32_t first[] = {0, 0, 0x80, 0x800, 0x10000};
  if (low < first[size]) low = first[size];
  if (high > 0x10FFFF) high = 0x10FFFF;
  if (low >= 0xD800 && low <= 0xDFFF) low = 0xE000;
  if (high >= 0xD800 && high <= 0xDFFF) high = 0xD7FF;
  *whole = n == size;
  return low <= high;
}

inline Utf8Fault FirstFault(const std::string &text, size_t from = 0) {
  const uint8_t *p = reinterpret_cast<const uint8_t *>(text.data());
  for (size_t i = from; i < text.size();) {
    size_t n = 0; // the longest part here that begins a character
    bool whole = false;
    while (!whole && i + n < text.size() && BeginsCharacter(p + i, n + 1, &whole)) n++;
    if (!whole) {
      bool ends = i + n == text.size();
      return {true, i, ends ? 0 : static_cast<unsigned>(n ? n : 1)};
    }
    i += n;
  }
  return {false, 0, 0};
}

inline std::string Lossy(const std::string &text) {
  std::string out;
  for (size_t at = 0;;) {
    Utf8Fault fault = FirstFault(text, at);
    if (!fault.found) return out + text.substr(at);
    out += text.substr(at, fault.index - at) + "\xEF\xBF\xBD";
    if (fault.len == 0) return out;
    at = fault.index + fault.len;
  }
}

inline std::string FaultText(const Utf8Fault &fault) {
  std::string index = std::to_string(fault.index);
  if (fault.len == 0) return "incomplete utf-8 byte sequence from index " + index;
  return "invalid utf-8 sequence of " + std::to_string(fault.len) + " bytes from index " + index;
}

} // namespace fuzz
