// Sequences of calls on two profiles by turns, with memory that fails now and then, against a model.
#include <memory>

#include "tests/fuzz/check.h"
#include "tests/fuzz/player.h"

namespace {

void ExpectHandleError(ddog_prof_Profile_Result r) {
  CHECK(r.tag == DDOG_PROF_PROFILE_RESULT_ERR);
  ddog_Error_drop(&r.err);
}

void CallWithoutProfile(ddog_prof_Profile *none) {
  ExpectHandleError(ddog_prof_Profile_add(none, {}, 0));
  ExpectHandleError(ddog_prof_Profile_set_endpoint(none, 1, {}));
  ExpectHandleError(ddog_prof_Profile_add_endpoint_count(none, {}, 1));
  ExpectHandleError(ddog_prof_Profile_add_upscaling_rule_poisson(none, {}, {}, {}, 0, 0, 1));
  ExpectHandleError(ddog_prof_Profile_add_upscaling_rule_proportional(none, {}, {}, {}, 1, 1));
  ExpectHandleError(ddog_prof_Profile_reset(none, nullptr));
  ExpectHandleError(ddog_prof_Profile_set_budget(none, 1));
  ddog_prof_Profile_SerializeResult r = ddog_prof_Profile_serialize(none, nullptr, nullptr, nullptr);
  CHECK(r.tag == DDOG_PROF_PROFILE_SERIALIZE_RESULT_ERR);
  ddog_Error_drop(&r.err);
  CHECK(ddog_prof_Profile_stats(none).memory_bytes == 0);
  ddog_prof_Profile_drop(none);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::Input input(data, size);
  fuzz::Arguments arguments(&input);
  std::unique_ptr<fuzz::Player> players[2];
  for (auto &player : players) player = std::make_unique<fuzz::Player>(&input, &arguments);
  while (!input.empty()) {
    uint8_t call = input.Byte();
    auto &player = players[call >> 7];
    switch (call % 32) {
    case 0:
      player->Reset();
      break;
    case 1:
      player = std::make_unique<fuzz::Player>(&input, &arguments);
      break;
    case 2:
      player->SetBudget();
      break;
    case 3:
    case 4:
      player->SetEndpoint();
      break;
    case 5:
      player->AddEndpointCount();
      break;
    case 6:
    case 7:
      player->AddRule();
      break;
    case 8:
    case 9:
    case 10:
      player->Serialize();
      break;
    case 11: {
      CallWithoutProfile(nullptr);
      ddog_prof_Profile inner_null = {nullptr};
      CallWithoutProfile(&inner_null);
      break;
    }
    default:
      player->Add();
    }
  }
  for (auto &player : players) player->Serialize();
  return 0;
}
