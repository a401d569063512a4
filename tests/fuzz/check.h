// What a fuzz target calls when the code under test is wrong: libFuzzer and the replay both see the abort.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(condition, ...)                                                                                \
  do {                                                                                                       \
    if (!(condition)) {                                                                                      \
      fprintf(stderr, "%s:%d: %s", __FILE__, __LINE__, #condition);                                          \
      fprintf(stderr, " " __VA_ARGS__);                                                                      \
      fputc('\n', stderr);                                                                                   \
      abort();                                                                                               \
    }                                                                                                        \
  } while (0)
