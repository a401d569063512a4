#include "exporter/tags.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void nf_tags_deinit(nf_tags *tags) {
  for (size_t i = 0; i < tags->len; i++) free(tags->items[i].text);
  free(tags->items);
  *tags = (nf_tags){0};
}

static bool no_memory(nf_error *error) { return nf_error_set_no_memory(error); }

static bool check(nf_text tag, nf_error *error) {
  if (tag.len == 0) return nf_error_set(error, "tag is empty");
  int len = tag.len > INT32_MAX ? INT32_MAX : (int)tag.len;
  if (tag.ptr[0] == ':') return nf_error_set(error, "tag '%.*s' begins with a colon", len, tag.ptr);
  if (tag.ptr[tag.len - 1] == ':') return nf_error_set(error, "tag '%.*s' ends with a colon", len, tag.ptr);
  return true;
}

static bool append(nf_tags *tags, nf_text tag, nf_error *error) {
  if (tags->len == tags->capacity) {
    size_t capacity = tags->capacity ? tags->capacity * 2 : 4;
    if (capacity > SIZE_MAX / sizeof *tags->items) return no_memory(error);
    nf_tag *items = nf_zeroed(capacity, sizeof *items); /* its reason goes for realloc too */
    if (!items) return no_memory(error);
    if (tags->len) memcpy(items, tags->items, tags->len * sizeof *items);
    free(tags->items);
    tags->items = items;
    tags->capacity = capacity;
  }
  char *text = malloc(tag.len ? tag.len : 1);
  if (!text) return no_memory(error);
  if (tag.len) memcpy(text, tag.ptr, tag.len);
  tags->items[tags->len++] = (nf_tag){text, tag.len};
  return true;
}

static bool push(nf_tags *tags, nf_buffer *tag, nf_error *error) {
  nf_text text = {tag->data, tag->len};
  bool ok = tag->failed ? no_memory(error) : check(text, error) && append(tags, text, error);
  nf_buffer_deinit(tag);
  return ok;
}

bool nf_tags_push(nf_tags *tags, nf_text tag, nf_error *error) {
  nf_buffer text = {0};
  nf_text_append_lossy(&text, tag);
  return push(tags, &text, error);
}

bool nf_tags_push_pair(nf_tags *tags, nf_text key, nf_text value, nf_error *error) {
  nf_buffer text = {0};
  nf_text_append_lossy(&text, key);
  nf_buffer_append_char(&text, ':');
  nf_text_append_lossy(&text, value);
  return push(tags, &text, error);
}

bool nf_tags_parse(nf_tags *tags, nf_text list, nf_error *error) {
  nf_buffer clean = {0}, why = {0};
  nf_text_append_lossy(&clean, list);
  size_t begin = 0;
  for (size_t i = 0; i <= clean.len && !clean.failed; i++) {
    if (i < clean.len && clean.data[i] != ',' && clean.data[i] != ' ') continue;
    if (i > begin) {
      nf_error one = {0};
      if (!nf_tags_push(tags, (nf_text){clean.data + begin, i - begin}, &one)) {
        nf_buffer_append_text(&why, why.len ? ", " : "Errors while parsing tags: ");
        if (one.text)
          nf_buffer_append(&why, one.text, one.len);
        else
          why.failed = true;
      }
      nf_error_deinit(&one);
    }
    begin = i + 1;
  }
  bool ok = !clean.failed && !why.failed && why.len == 0;
  if (clean.failed || why.failed)
    no_memory(error);
  else if (!ok)
    nf_error_set(error, "%.*s", why.len > INT32_MAX ? INT32_MAX : (int)why.len, why.data);
  nf_buffer_deinit(&clean);
  nf_buffer_deinit(&why);
  return ok;
}

bool nf_tags_copy(nf_tags *tags, const nf_tags *from, nf_error *error) {
  for (size_t i = 0; from && i < from->len; i++) {
    if (!append(tags, (nf_text){from->items[i].text, from->items[i].len}, error)) return false;
  }
  return true;
}

void nf_tags_join(const nf_tags *tags, nf_buffer *out, bool *first) {
  for (size_t i = 0; tags && i < tags->len; i++) {
    if (!*first) nf_buffer_append_char(out, ',');
    *first = false;
    nf_buffer_append(out, tags->items[i].text, tags->items[i].len);
  }
}
