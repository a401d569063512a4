// The codecs: what goes in comes out, in whatever pieces it is written; the output is what was reserved for
// it; equal input gives equal bytes; and the reader's bound on the uncompressed size is exact.
#include "core/alloc.h"
#include "core/reader.h"
#include "core/window.h"

#include "tests/fuzz/check.h"
#include "tests/fuzz/input.h"

namespace {

// Some runs and repetitions, so that there is something to compress, up to more than two pieces.
std::string Content(fuzz::Input *input) {
  std::string content;
  while (!input->empty() && content.size() < 160000) {
    uint8_t kind = input->Byte();
    if (kind < 0x80)
      content += input->Bytes(kind);
    else if (kind < 0xC0)
      content += std::string(static_cast<size_t>(kind - 0x7F) << (input->Byte() % 11),
                             static_cast<char>(input->Byte()));
    else if (!content.empty())
      content +=
          content.substr(content.size() - 1 -
                         input->Below(static_cast<uint32_t>(content.size() % 65536 + 1)) % content.size());
  }
  return content;
}

std::string Encode(nf_codec_kind kind, const std::string &content, size_t most, const std::string &pieces) {
  nf_codec codec;
  nf_error error = {};
  bool reserved = false;
  CHECK(nf_codec_begin(&codec, kind, most, &reserved, &error));
  CHECK(reserved);
  nf_window window;
  CHECK(nf_window_init(&window, &codec, most, &error));
  const uint8_t *room = codec.output.data;
  size_t capacity = codec.output.capacity;
  for (size_t at = 0, i = 0; at < content.size(); i++) {
    // As the encoder does it: pieces of any size, now and then many at once.
    size_t piece = pieces.empty() ? content.size() : static_cast<uint8_t>(pieces[i % pieces.size()]);
    if (piece > 0xE0) piece = (piece - 0xE0) << 12;
    if (piece == 0) piece = 1;
    if (piece > content.size() - at) piece = content.size() - at;
    fuzz::Exact bytes(content.substr(at, piece));
    nf_window_put(&window, bytes.data(), piece);
    at += piece;
  }
  nf_window_flush(&window);
  CHECK(!window.failed);
  nf_window_deinit(&window);
  CHECK(codec.output.len <= capacity);
  CHECK(codec.output.data == room && codec.output.capacity == capacity, "reserved in full, and yet it grew");
  nf_output output;
  CHECK(nf_codec_end(&codec, &output, &error));
  CHECK(output.len <= output.capacity);
  std::string encoded(reinterpret_cast<const char *>(output.data), output.len);
  nf_pages_free(output.data, output.capacity);
  nf_error_deinit(&error);
  return encoded;
}

void CheckDecodes(const std::string &encoded, const std::string &content) {
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(encoded.data());
  nf_error error = {};
  uint8_t *out = nullptr;
  size_t len = 0;
  CHECK(nf_reader_decompress(bytes, encoded.size(), content.size(), &out, &len, &error), "%s",
        nf_error_text(&error));
  CHECK(std::string(reinterpret_cast<const char *>(out), len) == content);
  nf_free(out);
  if (content.empty()) return;
  CHECK(!nf_reader_decompress(bytes, encoded.size(), content.size() - 1, &out, &len, &error));
  nf_error_deinit(&error);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::Input input(data, size);
  nf_codec_kind kind = static_cast<nf_codec_kind>(input.Byte() % NF_CODEC_COUNT);
  size_t spare = input.Byte();
  std::string pieces = input.Bytes(input.Byte() % 8);
  std::string content = Content(&input);

  std::string encoded = Encode(kind, content, content.size() + spare, pieces);
  CHECK(encoded == Encode(kind, content, content.size() + spare, pieces), "equal input, different bytes");
  // Bytes that are not compressed look like whatever they begin with.
  if (kind == NF_CODEC_NONE) {
    CHECK(encoded == content);
    return 0;
  }
  CheckDecodes(encoded, content);
  CheckDecodes(encoded + Encode(kind, content, content.size(), ""), content + content);

  // A codec that is dropped half way leaves nothing behind (the leak checker looks).
  nf_codec codec;
  nf_error error = {};
  bool reserved;
  if (!nf_codec_begin(&codec, kind, content.size(), &reserved, &error)) return 0;
  nf_window window;
  CHECK(nf_window_init(&window, &codec, content.size(), &error));
  nf_window_put(&window, content.data(), content.size() / 2);
  CHECK(!window.failed);
  nf_window_deinit(&window);
  nf_codec_drop(&codec);
  return 0;
}
