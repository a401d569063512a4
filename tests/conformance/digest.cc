#include "tests/conformance/digest.h"

namespace conformance {

namespace {

// FNV-1a with 64 bits. Lengths go in byte by byte too, so that neither word size nor byte order matters.
class Fnv {
public:
  void Byte(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001B3ull; }
  void Number(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) Byte(static_cast<uint8_t>(number >> shift));
  }
  void Text(const std::string &text) {
    Number(text.size());
    for (char c : text) Byte(static_cast<uint8_t>(c));
  }
  uint64_t value() const { return value_; }

private:
  uint64_t value_ = 0xCBF29CE484222325ull;
};

} // namespace

uint64_t Digest(const Outcome &outcome) {
  Fnv fnv;
  for (const CallOutcome &call : outcome) {
    fnv.Byte(call.ok);
    fnv.Text(call.message);
    fnv.Text(call.violation);
    if (!call.serialized) continue;
    const SerializeOutcome &serialized = *call.serialized;
    const bool by_clock = serialized.start_is_now || serialized.end_is_now || serialized.duration_is_theirs;
    fnv.Byte(by_clock);
    fnv.Text(serialized.endpoint_counts);
    fnv.Text(serialized.profile.error);
    if (!by_clock) fnv.Text(serialized.profile.raw);
    for (const auto &[field, messages] : serialized.profile.messages) {
      if (by_clock && (field == kTimeNanos || field == kDurationNanos)) continue;
      fnv.Number(field);
      for (const std::string &message : messages) fnv.Text(message);
    }
  }
  return fnv.value();
}

} // namespace conformance
