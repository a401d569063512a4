// A profile of the library and its model, side by side. Every call is made on both; what the library says is
// checked at once, what it wrote when it is serialized.
#pragma once

#include <datadog/profiling.h>

#include <string>

#include "tests/fuzz/arguments.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/model.h"

namespace fuzz {

class Player {
public:
  // With sample types (at most 7), and perhaps a period, out of the input.
  Player(Input *input, Arguments *arguments);
  ~Player();
  Player(const Player &) = delete;
  Player &operator=(const Player &) = delete;

  void Add();
  void SetEndpoint();
  void AddEndpointCount();
  void AddRule();
  void SetBudget();
  void Serialize();
  void Reset();

private:
  // Whether the call succeeded, which it must if `why_not` is empty; otherwise the error must begin with
  // that. `excused`: it may also be refused, for memory.
  bool Judge(ddog_prof_Profile_Result result, const std::string &why_not, bool excused);
  void CheckStats();

  Input *input_;
  Arguments *arguments_;
  ddog_prof_Profile profile_;
  Model model_;
  bool budget_ = false;
  uint64_t refused_ = 0;
};

} // namespace fuzz
