#include "tests/unit/reader/support.h"

#include <gtest/gtest.h>
#include <lz4frame.h>
#include <zlib.h>
#include <zstd.h>

#include "core/alloc.h"

namespace reader_test {

Bytes Varint(uint64_t value) {
  Bytes out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

Bytes Tag(unsigned field, unsigned wire_type) { return Varint(uint64_t{field} << 3 | wire_type); }

Bytes Field(unsigned field, const Bytes &payload) { return Tag(field, 2) + Varint(payload.size()) + payload; }

namespace {

Bytes Number(unsigned field, uint64_t value) { return value ? Tag(field, 0) + Varint(value) : ""; }

template <typename T> Bytes Packed(unsigned field, const std::vector<T> &values) {
  Bytes payload;
  for (T value : values) payload += Varint(static_cast<uint64_t>(value));
  return values.empty() ? "" : Field(field, payload);
}

Bytes PackValueType(const Profile::ValueType &type) { return Number(1, type.type) + Number(2, type.unit); }

} // namespace

Bytes Profile::Pack() const {
  Bytes out;
  for (const ValueType &type : sample_types) out += Field(1, PackValueType(type));
  for (const Sample &sample : samples) {
    Bytes packed = Packed(1, sample.locations) + Packed(2, sample.values);
    for (const Label &label : sample.labels)
      packed += Field(3, Number(1, label.key) + Number(2, label.str) + Number(3, label.num) +
                             Number(4, label.num_unit));
    out += Field(2, packed);
  }
  for (const Mapping &m : mappings)
    out += Field(3, Number(1, m.id) + Number(5, m.filename) + Number(6, m.build_id) +
                        Number(7, m.has_functions));
  for (const Location &location : locations) {
    Bytes packed = Number(1, location.id) + Number(2, location.mapping);
    for (const Line &line : location.lines)
      packed += Field(4, Number(1, line.function) + Number(2, line.line));
    out += Field(4, packed + Number(5, location.is_folded));
  }
  for (const Function &f : functions)
    out += Field(5, Number(1, f.id) + Number(2, f.name) + Number(3, f.system_name) + Number(4, f.filename));
  for (const std::string &string : strings) out += Field(6, string);
  out += Number(7, drop_frames) + Number(8, keep_frames);
  if (has_period_type) out += Field(11, PackValueType(period_type));
  out += Packed(13, comments) + Number(14, default_sample_type);
  return out;
}

Profile Good() {
  Profile p;
  p.strings = {"",     "cpu-time", "nanoseconds", "cpu-samples", "count",
               "main", "app.rb",   "thread id",   "bytes",       "1 (2)"};
  p.sample_types = {{1, 2}, {3, 4}};
  p.samples = {{{1, 2}, {10, 1}, {{7, 9, 0, 0}, {8, 0, 5, 8}}}, {{2}, {0, 0}, {}}};
  p.mappings = {{1, 0, 0, false}, {2, 6, 9, false}};
  p.functions = {{1, 5, 0, 6}, {2, 6, 5, 6}};
  p.locations = {{1, 1, {{1, 7}}, false}, {2, 2, {{2, 8}}, false}};
  p.has_period_type = true;
  p.period_type = {1, 2};
  return p;
}

Bytes Gzip(const Bytes &plain) {
  z_stream stream = {};
  EXPECT_EQ(Z_OK, deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY));
  Bytes out(deflateBound(&stream, plain.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef *>(&out[0]);
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(Z_STREAM_END, deflate(&stream, Z_FINISH));
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

Bytes Lz4(const Bytes &plain) {
  Bytes out(LZ4F_compressFrameBound(plain.size(), nullptr), '\0');
  size_t size = LZ4F_compressFrame(&out[0], out.size(), plain.data(), plain.size(), nullptr);
  EXPECT_FALSE(LZ4F_isError(size));
  out.resize(size);
  return out;
}

Bytes Zstd(const Bytes &plain) {
  Bytes out(ZSTD_compressBound(plain.size()), '\0');
  size_t size = ZSTD_compress(&out[0], out.size(), plain.data(), plain.size(), 1);
  EXPECT_FALSE(ZSTD_isError(size));
  out.resize(size);
  return out;
}

namespace {

const uint8_t *Data(const Bytes &bytes) { return reinterpret_cast<const uint8_t *>(bytes.data()); }

// A buffer of exactly this size on the heap, so that sanitizers see a read beyond its end.
std::vector<uint8_t> Exact(const Bytes &bytes) { return std::vector<uint8_t>(bytes.begin(), bytes.end()); }

std::string Take(nf_error *error) {
  std::string text = error->text ? error->text : "(no text)";
  nf_error_deinit(error);
  return text;
}

} // namespace

std::string ReadError(const Bytes &file, size_t limit) {
  std::vector<uint8_t> exact = Exact(file);
  Pprof__Profile *profile = nullptr;
  nf_error error = {};
  if (nf_reader_read(exact.data(), exact.size(), limit, &profile, &error)) {
    EXPECT_NE(nullptr, profile);
    nf_reader_drop(profile);
    nf_error_deinit(&error);
    return "";
  }
  EXPECT_EQ(nullptr, profile);
  std::string text = Take(&error);
  EXPECT_NE("", text);
  return text;
}

std::string CheckError(const Profile &profile, nf_reader_rules rules) {
  Bytes packed = profile.Pack();
  Pprof__Profile *unpacked = nullptr;
  nf_error error = {};
  if (!nf_reader_unpack(Data(packed), packed.size(), kLimit, &unpacked, &error))
    return "unpack: " + Take(&error);
  bool ok = nf_reader_check(unpacked, rules, &error);
  nf_reader_drop(unpacked);
  return ok ? "" : Take(&error);
}

std::string Decompress(const Bytes &file, size_t limit) {
  std::vector<uint8_t> exact = Exact(file);
  uint8_t *out = nullptr;
  size_t len = 0;
  nf_error error = {};
  if (!nf_reader_decompress(exact.data(), exact.size(), limit, &out, &len, &error)) {
    EXPECT_EQ(nullptr, out);
    return "error: " + Take(&error);
  }
  EXPECT_NE(nullptr, out);
  Bytes plain(reinterpret_cast<char *>(out), len);
  nf_free(out);
  return plain;
}

void WithProfile(const Bytes &file, const std::function<void(const Pprof__Profile &)> &look) {
  Pprof__Profile *profile = nullptr;
  nf_error error = {};
  ASSERT_TRUE(nf_reader_read(Data(file), file.size(), kLimit, &profile, &error)) << Take(&error);
  look(*profile);
  nf_reader_drop(profile);
}

} // namespace reader_test
