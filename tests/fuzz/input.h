// The bytes of a fuzzer as a source of decisions. Bytes that are not there are zeros, so every input means
// something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace fuzz {

class Input {
public:
  Input(const uint8_t *data, size_t size) : data_(data), left_(size) {}

  bool empty() const { return left_ == 0; }

  uint8_t Byte() {
    if (left_ == 0) return 0;
    left_--;
    return *data_++;
  }

  bool OneIn(unsigned n) { return Byte() % n == 1; } // never when the bytes are used up

  uint32_t Below(uint32_t n) { return n <= 256 ? Byte() % n : (Byte() << 8 | Byte()) % n; }

  uint64_t Bits64() {
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++) bits = bits << 8 | Byte();
    return bits;
  }

  // Small ones, ends of ranges, powers of two, and any.
  int64_t Number() {
    uint8_t kind = Byte();
    if (kind < 0x80) return kind % 16;
    if (kind < 0x90) return -static_cast<int64_t>(kind % 16);
    if (kind < 0xB0) return static_cast<int64_t>(UINT64_C(1) << (Byte() % 64));
    if (kind < 0xC0) return static_cast<int64_t>((UINT64_C(1) << (Byte() % 64)) - 1);
    if (kind < 0xD0) return INT64_MAX - kind % 4;
    if (kind < 0xE0) return INT64_MIN + kind % 4;
    return static_cast<int64_t>(Bits64());
  }

  std::string Bytes(size_t n) {
    size_t take = n < left_ ? n : left_;
    std::string bytes(reinterpret_cast<const char *>(data_), take);
    data_ += take;
    left_ -= take;
    return bytes;
  }

  std::string Rest() { return Bytes(left_); }

private:
  const uint8_t *data_;
  size_t left_;
};

// Bytes in memory of exactly their size, so that a sanitizer sees a read beyond either end.
class Exact {
public:
  explicit Exact(const std::string &bytes)
      : size_(bytes.size()), data_(static_cast<char *>(malloc(size_ ? size_ : 1))) {
    if (size_) memcpy(data_, bytes.data(), size_);
  }
  ~Exact() { free(data_); }
  Exact(const Exact &) = delete;
  Exact &operator=(const Exact &) = delete;

  const char *data() const { return data_; }
  size_t size() const { return size_; }

private:
  size_t size_;
  char *data_;
};

} // namespace fuzz
