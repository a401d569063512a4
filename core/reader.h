/* Reading pprof profiles: ours, and those of other tools.
 *
 * A file goes through three stages, each of which can be called alone:
 *   decompress   gzip, LZ4 frame, zstd or none, told apart by the first bytes
 *   unpack       protobuf -> Pprof__Profile, every string checked to be UTF-8
 *   check        ids, references and counts: after it nothing in the profile points anywhere that does not
 * exist
 *
 * Input is hostile until checked. No stage crashes, recurses without bound or takes memory beyond a bound
 * that the caller set; each says in `error` what is wrong and where. Samples, strings, labels and lines are
 * counted from 0; mappings, functions and locations are named by their ids.
 *
 * Nothing here keeps state: any number of threads may read at once. */
#ifndef NF_CORE_READER_H
#define NF_CORE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "proto/profile.pb-c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nf_reader_rules {
  /* What every pprof tool must be able to rely on: string 0 is empty, ids are unique and not 0, whatever is
   * referred to exists (mapping 0 = none), each sample has one value for each sample type. */
  NF_READER_RULES_PPROF,
  /* What our own writer promises beyond that: no string twice, ids 1..n in this order, exactly one line in
   * each location, no key twice among the labels of a sample, no label that is both text and number, none of
   * the fields that we never write. */
  NF_READER_RULES_OURS,
} nf_reader_rules;

/* All stages, with NF_READER_RULES_PPROF. `max_uncompressed` bounds the uncompressed size in bytes; unpacking
 * may take NF_READER_MEMORY_FACTOR times as much and 1 MiB. On success *profile is owned by the caller:
 * nf_reader_drop. Otherwise it is NULL. */
bool nf_reader_read(const uint8_t *data, size_t len, size_t max_uncompressed, Pprof__Profile **profile,
                    nf_error *error);
void nf_reader_drop(Pprof__Profile *profile);

#define NF_READER_MEMORY_FACTOR 16

/* Several gzip members, LZ4 frames or zstd frames in a row are one file, as their own tools have it.
 * On success *out is owned by the caller: nf_free(); never NULL, even if *out_len is 0. */
bool nf_reader_decompress(const uint8_t *data, size_t len, size_t max_uncompressed, uint8_t **out,
                          size_t *out_len, nf_error *error);

/* C strings cannot hold a NUL, names in a profile can: each NUL becomes U+2400 (SYMBOL FOR NULL), so that no
 * name is cut short and no two names become one. */
bool nf_reader_unpack(const uint8_t *raw, size_t len, size_t max_memory, Pprof__Profile **profile,
                      nf_error *error);

bool nf_reader_check(const Pprof__Profile *profile, nf_reader_rules rules, nf_error *error);

#ifdef __cplusplus
}
#endif

#endif
