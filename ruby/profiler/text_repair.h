#ifndef NF_TEXT_REPAIR_H
#define NF_TEXT_REPAIR_H

// A profile holds UTF-8 only; Ruby programs have names and paths in any encoding. Damaged text is shown with
// the replacement character, so that one odd file name costs neither its sample nor the profile.

#include <stdbool.h>
#include <stddef.h>

bool nf_text_valid(const char *text, size_t length);

// Room that nf_text_repair may need: each bad byte becomes three.
#define NF_TEXT_REPAIRED_MAX(length) ((length)*3)

// Copies the text with every ill-formed sequence replaced by U+FFFD (one per maximal part of a sequence).
// Returns the length written.
size_t nf_text_repair(const char *text, size_t length, char *out);

#endif
