#ifndef NF_RANDOM_H
#define NF_RANDOM_H

// Numbers for choosing samples, so that nothing a program does in step is always met or always missed. For
// nothing that must not be foreseen.

#include <stdint.h>

// `state` is anything but 0 at first.
static inline uint32_t nf_random_next(uint32_t *state) {
  uint32_t random = *state; // xorshift
  random ^= random << 13;
  random ^= random >> 17;
  random ^= random << 5;
  return *state = random;
}

#endif
