/* Tags: "key:value" texts, and the rules for what is a tag. */
#ifndef NF_EXPORTER_TAGS_H
#define NF_EXPORTER_TAGS_H

#include "core/error.h"
#include "exporter/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_tag {
  char *text; /* owned; UTF-8, not NUL-terminated */
  size_t len;
} nf_tag;

typedef struct nf_tags {
  nf_tag *items;
  size_t len, capacity;
} nf_tags;

void nf_tags_deinit(nf_tags *tags);

/* Appends one tag. Bad bytes become U+FFFD; then it must not be empty, begin or end with a colon. On an
 * error, out of memory included, the tags are as they were. */
bool nf_tags_push(nf_tags *tags, nf_text tag, nf_error *error);
bool nf_tags_push_pair(nf_tags *tags, nf_text key, nf_text value, nf_error *error);

/* Appends what is valid in a list separated by commas and blanks; false if something was not, and the
 * error names all. */
bool nf_tags_parse(nf_tags *tags, nf_text list, nf_error *error);

bool nf_tags_copy(nf_tags *tags, const nf_tags *from, nf_error *error);

/* Appends all tags, joined by commas. *first says whether nothing was appended yet. */
void nf_tags_join(const nf_tags *tags, nf_buffer *out, bool *first);

#ifdef __cplusplus
}
#endif

#endif
