/* What the driver is asked to do, as its arguments say. */
#ifndef NF_TESTS_EXPORTER_OPTIONS_H
#define NF_TESTS_EXPORTER_OPTIONS_H

#include <datadog/profiling.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_ITEMS = 64 };

typedef struct bytes {
  char *ptr; /* on the heap, NUL-terminated */
  size_t len;
} bytes;

typedef struct options {
  /* the report */
  bytes url, site, key, name, version, family;
  bytes tags[MAX_ITEMS], request_tags[MAX_ITEMS]; /* "key=value" */
  size_t tag_count, request_tag_count;
  ddog_prof_Exporter_File compress[MAX_ITEMS], plain[MAX_ITEMS];
  size_t compress_count, plain_count;
  bytes stats[MAX_ITEMS]; /* "name=count" */
  size_t stat_count;
  bytes internal, info;
  bool agentless, with_stats, with_internal, with_info, null_tags, null_request_tags;
  uint64_t timeout_ms;
  ddog_Timespec start, end;
  /* how it is sent */
  bool token, cancel_first, quiet, reuse;
  long cancel_after_ms, repeat, pause_ms, linger_ms;
  /* under which circumstances */
  bool storm, spawn_storm, secrets, nulls, shared_token;
  bool warm; /* one report before the storm */
  long threads, forks, children, chain, descriptors, open, probe_after_ms, sigprof_hz;
  long stack_kb, reload;
  long torture_from, torture_to, torture_step;
} options;

void die(const char *what, const char *detail);

void parse_options(options *o, int argc, char **argv);

#endif
