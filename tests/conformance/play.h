// Plays a sequence on a library and says what came of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/conformance/encoded.h"
#include "tests/conformance/library.h"
#include "tests/conformance/sequence.h"

namespace conformance {

struct SerializeOutcome {
  ddog_Timespec start, end;
  bool start_is_now, end_is_now; // no time was passed: the clock's, checked when it was played
  bool duration_is_theirs;       // duration_nanos follows from the clock: as above
  size_t timestamped;            // that many of the samples, the first ones, carry a timestamp
  std::string endpoint_counts;   // JSON; "" if the library cannot tell
  std::string file;              // as the library gave it
  Encoded profile;
};

struct CallOutcome {
  bool ok = true;
  std::string message; // of an error
  std::optional<SerializeOutcome> serialized;
  // What is wrong by itself, without another library to compare with.
  std::string violation;
};

using Outcome = std::vector<CallOutcome>;

struct PlayOptions {
  bool places = true;                   // false: texts lie anywhere, each in memory of its own
  std::optional<ddog_prof_Codec> codec; // serialize with serialize_as
};

Outcome Play(const Library &library, const Sequence &sequence, const PlayOptions &options = {});

// "" if both are equal in all that must be equal, otherwise the first difference.
std::string Compare(const Sequence &sequence, const Library &expected_library, const Outcome &expected,
                    const Library &actual_library, const Outcome &actual);

} // namespace conformance
