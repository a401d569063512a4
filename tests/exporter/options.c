#include "options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void die(const char *what, const char *detail) {
  fprintf(stderr, "driver: %s: %s\n", what, detail);
  exit(2);
}

static bytes decode(const char *text) {
  if (strncmp(text, "hex:", 4) != 0) return (bytes){strdup(text), strlen(text)};
  size_t len = strlen(text + 4) / 2;
  char *ptr = malloc(len + 1);
  for (size_t i = 0; i < len; i++) {
    unsigned value;
    if (sscanf(text + 4 + 2 * i, "%2x", &value) != 1) die("bad hex", text);
    ptr[i] = (char)value;
  }
  ptr[len] = 0;
  return (bytes){ptr, len};
}

/* "name=path": a file of that name with the contents of path; "name=": an empty one */
static ddog_prof_Exporter_File read_file(const char *argument) {
  const char *equals = strrchr(argument, '=');
  if (!equals) die("name=path expected", argument);
  char *name = strndup(argument, (size_t)(equals - argument));
  bytes decoded = decode(name);
  free(name);
  ddog_prof_Exporter_File file = {{decoded.ptr, decoded.len}, {(const uint8_t *)"", 0}};
  if (!equals[1]) return file;
  FILE *in = fopen(equals + 1, "rb");
  if (!in) die(equals + 1, strerror(errno));
  fseek(in, 0, SEEK_END);
  long size = ftell(in);
  rewind(in);
  uint8_t *data = malloc((size_t)size + 1);
  if (fread(data, 1, (size_t)size, in) != (size_t)size) die(equals + 1, "short read");
  fclose(in);
  file.file = (ddog_ByteSlice){data, (size_t)size};
  return file;
}

static ddog_Timespec read_time(const char *text) {
  ddog_Timespec t = {0, 0};
  if (sscanf(text, "%" SCNd64 ".%" SCNu32, &t.seconds, &t.nanoseconds) < 1) die("bad time", text);
  return t;
}

typedef struct named_flag {
  const char *name;
  bool *value;
} named_flag;

typedef struct named_number {
  const char *name;
  long *value;
} named_number;

typedef struct named_bytes {
  const char *name;
  bytes *value;
  bool *given;
} named_bytes;

typedef struct named_list {
  const char *name;
  bytes *items;
  size_t *count;
  bool *given;
} named_list;

#define EACH(table) (size_t i_ = 0; i_ < sizeof(table) / sizeof *(table); i_++)

static bool take_flag(options *o, const char *name) {
  const named_flag flags[] = {{"--null-tags", &o->null_tags},
                              {"--null-request-tags", &o->null_request_tags},
                              {"--token", &o->token},
                              {"--cancel-first", &o->cancel_first},
                              {"--quiet", &o->quiet},
                              {"--reuse", &o->reuse},
                              {"--stats-empty", &o->with_stats},
                              {"--setenv-storm", &o->storm},
                              {"--spawn-storm", &o->spawn_storm},
                              {"--warm", &o->warm},
                              {"--secrets", &o->secrets},
                              {"--nulls", &o->nulls},
                              {"--shared-token", &o->shared_token}};
  for
    EACH(flags) {
      if (strcmp(name, flags[i_].name) == 0) return *flags[i_].value = true;
    }
  return false;
}

static bool take_value(options *o, const char *name, const char *value) {
  const named_number numbers[] = {{"--cancel-after", &o->cancel_after_ms},
                                  {"--repeat", &o->repeat},
                                  {"--pause", &o->pause_ms},
                                  {"--linger", &o->linger_ms},
                                  {"--threads", &o->threads},
                                  {"--forks", &o->forks},
                                  {"--children", &o->children},
                                  {"--descriptors", &o->descriptors},
                                  {"--open", &o->open},
                                  {"--probe-after", &o->probe_after_ms},
                                  {"--chain", &o->chain},
                                  {"--sigprof", &o->sigprof_hz},
                                  {"--torture-from", &o->torture_from},
                                  {"--torture-to", &o->torture_to},
                                  {"--torture-step", &o->torture_step},
                                  {"--stack", &o->stack_kb},
                                  {"--reload", &o->reload}};
  const named_bytes texts[] = {{"--url", &o->url, NULL},
                               {"--agentless", &o->site, &o->agentless},
                               {"--key", &o->key, NULL},
                               {"--name", &o->name, NULL},
                               {"--version", &o->version, NULL},
                               {"--family", &o->family, NULL},
                               {"--internal", &o->internal, &o->with_internal},
                               {"--info", &o->info, &o->with_info}};
  const named_list lists[] = {{"--tag", o->tags, &o->tag_count, NULL},
                              {"--request-tag", o->request_tags, &o->request_tag_count, NULL},
                              {"--stats", o->stats, &o->stat_count, &o->with_stats}};
  for
    EACH(numbers) {
      if (strcmp(name, numbers[i_].name) == 0) return *numbers[i_].value = atol(value), true;
    }
  for
    EACH(texts) {
      if (strcmp(name, texts[i_].name) != 0) continue;
      *texts[i_].value = decode(value);
      if (texts[i_].given) *texts[i_].given = true;
      return true;
    }
  for
    EACH(lists) {
      if (strcmp(name, lists[i_].name) != 0) continue;
      if (*lists[i_].count >= MAX_ITEMS - 1) die("too many", name);
      lists[i_].items[(*lists[i_].count)++] = decode(value);
      if (lists[i_].given) *lists[i_].given = true;
      return true;
    }
  if (strcmp(name, "--compress") == 0 && o->compress_count < MAX_ITEMS)
    return o->compress[o->compress_count++] = read_file(value), true;
  if (strcmp(name, "--file") == 0 && o->plain_count < MAX_ITEMS)
    return o->plain[o->plain_count++] = read_file(value), true;
  if (strcmp(name, "--timeout") == 0) return o->timeout_ms = strtoull(value, NULL, 10), true;
  if (strcmp(name, "--start") == 0) return o->start = read_time(value), true;
  if (strcmp(name, "--end") == 0) return o->end = read_time(value), true;
  return false;
}

void parse_options(options *o, int argc, char **argv) {
  *o = (options){.name = decode("dd-trace-test"),
                 .version = decode("1.2.3"),
                 .family = decode("test"),
                 .cancel_after_ms = -1,
                 .repeat = 1,
                 .children = 1,
                 .torture_step = 1,
                 .timeout_ms = 10000,
                 .start = {1700000000, 123456789},
                 .end = {1700000060, 5}};
  for (int i = 2; i < argc; i++) {
    if (take_flag(o, argv[i])) continue;
    if (i + 1 >= argc) die("unknown option, or its value is missing", argv[i]);
    if (!take_value(o, argv[i], argv[i + 1])) die("unknown option", argv[i]);
    i++;
  }
}
