#include "tests/conformance/encoded.h"

#include <lz4frame.h>

#include <memory>

#include "core/alloc.h"
#include "core/reader.h"
#include "tests/conformance/sequence.h"

namespace conformance {

namespace {

struct Reader {
  const std::string &bytes;
  size_t at = 0;
  bool ok = true;

  bool Done() const { return !ok || at == bytes.size(); }
  uint64_t Varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      if (at == bytes.size()) break;
      uint8_t byte = static_cast<uint8_t>(bytes[at++]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    ok = false;
    return 0;
  }
  std::string Bytes(uint64_t len) {
    if (len > bytes.size() - at) {
      ok = false;
      return "";
    }
    at += len;
    return bytes.substr(at - len, len);
  }
};

std::string Decompress(const uint8_t *data, size_t len, std::string *error) {
  LZ4F_dctx *decoder = nullptr;
  if (LZ4F_isError(LZ4F_createDecompressionContext(&decoder, LZ4F_VERSION))) abort();
  std::unique_ptr<LZ4F_dctx, decltype(&LZ4F_freeDecompressionContext)> owner(decoder,
                                                                             LZ4F_freeDecompressionContext);
  std::string out;
  std::vector<char> window(1 << 18);
  size_t at = 0;
  for (;;) {
    size_t room = window.size(), given = len - at;
    size_t hint = LZ4F_decompress(decoder, window.data(), &room, data + at, &given, nullptr);
    if (LZ4F_isError(hint)) {
      *error = std::string("LZ4: ") + LZ4F_getErrorName(hint);
      return "";
    }
    out.append(window.data(), room);
    at += given;
    if (hint == 0) break;
    if (room == 0 && given == 0) {
      *error = "LZ4: the frame has no end";
      return "";
    }
  }
  if (at != len) *error = "LZ4: " + std::to_string(len - at) + " bytes follow the frame";
  return out;
}

} // namespace

Encoded Encoded::FromRaw(const std::string &raw) {
  Encoded e;
  e.raw = raw;
  Reader in{e.raw};
  while (!in.Done()) {
    size_t start = in.at;
    uint64_t key = in.Varint();
    unsigned field = static_cast<unsigned>(key >> 3);
    std::string payload;
    if ((key & 7) == 2) {
      payload = in.Bytes(in.Varint());
    } else if ((key & 7) == 0) {
      size_t number = in.at;
      in.Varint();
      payload = e.raw.substr(number, in.at - number);
    } else {
      in.ok = false;
    }
    if (!in.ok) {
      e.error = "protobuf: bad field at byte " + std::to_string(start);
      return e;
    }
    e.messages[field].push_back(payload);
    if (e.field_order.empty() || e.field_order.back() != field) e.field_order.push_back(field);
  }
  return e;
}

namespace {

Encoded FromRawOr(const std::string &raw, const std::string &error) {
  if (error.empty()) return Encoded::FromRaw(raw);
  Encoded e;
  e.error = error;
  return e;
}

const uint8_t *Data(const std::string &bytes) { return reinterpret_cast<const uint8_t *>(bytes.data()); }

} // namespace

Encoded Encoded::FromLz4(const std::string &file) {
  std::string error, raw = Decompress(Data(file), file.size(), &error);
  return FromRawOr(raw, error);
}

Encoded Encoded::FromAny(const std::string &file) {
  uint8_t *bytes = nullptr;
  size_t len = 0;
  nf_error why = {};
  std::string error, raw;
  if (nf_reader_decompress(Data(file), file.size(), SIZE_MAX, &bytes, &len, &why))
    raw.assign(reinterpret_cast<char *>(bytes), len);
  else
    error = nf_error_text(&why);
  nf_free(bytes);
  nf_error_deinit(&why);
  return FromRawOr(raw, error);
}

int64_t Encoded::Number(unsigned field) const {
  auto found = messages.find(field);
  if (found == messages.end()) return 0;
  Reader in{found->second.front()};
  return static_cast<int64_t>(in.Varint());
}

std::string Describe(const std::string &message) {
  Reader in{message};
  std::string out;
  while (!in.Done()) {
    uint64_t key = in.Varint();
    out += (out.empty() ? "" : ", ") + std::to_string(key >> 3) + ": ";
    if ((key & 7) == 0) {
      out += std::to_string(static_cast<int64_t>(in.Varint()));
    } else if ((key & 7) == 2) {
      std::string payload = in.Bytes(in.Varint());
      Reader list{payload};
      std::string numbers;
      while (!list.Done() && numbers.size() < 1000)
        numbers += (numbers.empty() ? "" : " ") + std::to_string(static_cast<int64_t>(list.Varint()));
      out += "[" + numbers + "]";
    } else {
      in.ok = false;
    }
  }
  return in.ok ? "{" + out + "}" : Quote(message);
}

} // namespace conformance
