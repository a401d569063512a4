// Where we differ from the original on purpose. The generator keeps away from the inputs marked "avoided";
// "tolerated" ones are generated and the difference is forgiven here, and nowhere else.
#pragma once

#include <string>

namespace conformance {

struct Difference {
  const char *input;
  const char *original;
  const char *ours;
  const char *handled;
};

inline constexpr Difference kDifferences[] = {
    {"timespec out of range (nanoseconds >= 1e9, |seconds| > 8.2e12)", "aborts the process", "normalised",
     "avoided: regressions_test.cc runs ours alone"},
    {"{NULL, n > 0}", "undefined behaviour", "undefined", "avoided"},
    {"rules on a profile of more than 32 sample types", "offsets collide modulo 32", "checked exactly",
     "avoided: rules only with up to 32 types"},
    {"EncodedProfile_drop twice", "double free", "second call does nothing", "avoided: regressions_test.cc"},
    {"offset repeated in one rule", "scaled twice", "scaled once", "avoided"},
    {"numeric label with an empty key, and a by-value rule", "rule applied twice", "applied once", "avoided"},
    {"unprintable character from U+00A0 on in a label that an error shows", "\\u{...}",
     "the character itself", "tolerated: SameMessage"},
    {"order of aggregated samples", "random in each process", "order of insertion",
     "tolerated: compared as a set"},
    {"compressed bytes", "64 KiB blocks of the Rust compressor", "liblz4",
     "tolerated: compared uncompressed"},
};

// For messages that show labels in Rust's debug form: what that form escapes from U+00A0 on depends on its
// tables of Unicode, which are not worth having for an error text. This gives the character back.
std::string WithoutUnicodeEscapes(const std::string &message);

inline bool SameMessage(const std::string &original, const std::string &ours) {
  return original == ours || WithoutUnicodeEscapes(original) == ours;
}

} // namespace conformance
