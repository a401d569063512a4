// Upscaling against a model: a few rules, then samples whose labels meet them, then the values that come out.
// (The rest of the interface is api_fuzz's matter; with so few kinds of calls, this one gets deeper into the
// numbers.)
#include "tests/fuzz/check.h"
#include "tests/fuzz/player.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::Input input(data, size);
  fuzz::Arguments arguments(&input);
  fuzz::Player player(&input, &arguments);
  while (!input.empty()) {
    uint8_t call = input.Byte();
    if (call < 0x70)
      player.AddRule();
    else if (call < 0xE0)
      player.Add();
    else if (call < 0xF0)
      player.SetEndpoint();
    else
      player.Serialize();
  }
  player.Serialize();
  return 0;
}
