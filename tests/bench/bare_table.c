#include "tests/bench/bare_table.h"

#include <stdlib.h>

#include "tests/bench/measure.h"

void table_grow(table *t) {
  table old = *t;
  t->mask = old.mask ? old.mask * 2 + 1 : 1023;
  t->slots = calloc(t->mask + 1ul, sizeof *t->slots);
  if (!t->slots) DIE("out of memory");
  for (uint32_t i = 0; old.slots && i <= old.mask; i++) {
    if (!old.slots[i].used) continue;
    uint32_t k = (uint32_t)old.slots[i].h.a & t->mask;
    while (t->slots[k].used) k = (k + 1) & t->mask;
    t->slots[k] = old.slots[i];
  }
  free(old.slots);
}

void table_deinit(table *t) {
  free(t->slots);
  *t = (table){0};
}

void buffer_grow(buffer *b, size_t n) {
  b->cap = (b->len + n) * 3 / 2 + 4096;
  b->p = realloc(b->p, b->cap);
  if (!b->p) DIE("out of memory");
}

void buffer_deinit(buffer *b) {
  free(b->p);
  *b = (buffer){0};
}
