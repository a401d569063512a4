/* datadog/profiling.h - building and encoding pprof profiles.
 *
 * A profile is made for a list of sample types, collects samples, and is encoded now and then:
 *
 *   ddog_prof_Profile_NewResult made = ddog_prof_Profile_new(types, NULL, NULL);
 *   ... ddog_prof_Profile_add(&made.ok, sample, 0);                          // as often as something is sampled
 *   ... ddog_prof_Profile_serialize(&made.ok, NULL, NULL, NULL);             // once a minute; empties the profile
 *   ... ddog_prof_EncodedProfile_drop(&serialized.ok);
 *   ... ddog_prof_Profile_drop(&made.ok);
 *
 * The general rules (borrowed slices, results, threads, fork, signals, memory) are at the top of datadog/common.h.
 */
#ifndef DDOG_PROFILING_H
#define DDOG_PROFILING_H

#pragma once

#include "common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Members of a result that need no name of their own (C11 has them, older standards as an extension). */
#if defined(__GNUC__)
#define DDOG_ANONYMOUS __extension__
#else
#define DDOG_ANONYMOUS
#endif

/* ---- What a profile measures -------------------------------------------------------------------------------------- */

/* One kind of value, e.g. {"wall-time", "nanoseconds"}. Text that is not UTF-8 counts as empty. */
typedef struct ddog_prof_ValueType {
  ddog_CharSlice type_;
  ddog_CharSlice unit;
} ddog_prof_ValueType;

typedef struct ddog_prof_Slice_ValueType {
  const struct ddog_prof_ValueType *ptr;
  uintptr_t len;
} ddog_prof_Slice_ValueType;

/* How far apart samples are, e.g. every {"cpu-time", "nanoseconds"}, 10000000. */
typedef struct ddog_prof_Period {
  struct ddog_prof_ValueType type_;
  int64_t value;
} ddog_prof_Period;

/* ---- What a sample is made of ------------------------------------------------------------------------------------- */

/* A part of the address space and the file that is mapped there. All zero: unknown, which counts as a mapping too. */
typedef struct ddog_prof_Mapping {
  uint64_t memory_start;
  uint64_t memory_limit;
  uint64_t file_offset;
  ddog_CharSlice filename;
  ddog_CharSlice build_id;
} ddog_prof_Mapping;

typedef struct ddog_prof_Function {
  ddog_CharSlice name;        /* as a person would write it */
  ddog_CharSlice system_name; /* as the system knows it (mangled), or empty */
  ddog_CharSlice filename;
  int64_t start_line; /* 0: unknown */
} ddog_prof_Function;

/* One frame of a stack. */
typedef struct ddog_prof_Location {
  struct ddog_prof_Mapping mapping;
  struct ddog_prof_Function function;
  uint64_t address; /* 0: unknown */
  int64_t line;     /* 0: unknown */
} ddog_prof_Location;

typedef struct ddog_prof_Slice_Location {
  const struct ddog_prof_Location *ptr;
  uintptr_t len;
} ddog_prof_Slice_Location;

/* A string label if str is not empty (num and num_unit are then ignored), otherwise a number with an optional unit. */
typedef struct ddog_prof_Label {
  ddog_CharSlice key;
  ddog_CharSlice str;
  int64_t num;
  ddog_CharSlice num_unit;
} ddog_prof_Label;

typedef struct ddog_prof_Slice_Label {
  const struct ddog_prof_Label *ptr;
  uintptr_t len;
} ddog_prof_Slice_Label;

typedef struct ddog_prof_Sample {
  struct ddog_prof_Slice_Location locations; /* leaf first; may be empty */
  struct ddog_Slice_I64 values;              /* one for each sample type, in their order */
  struct ddog_prof_Slice_Label labels;       /* no key twice; the order does not matter */
} ddog_prof_Sample;

typedef struct ddog_prof_Slice_Usize {
  const uintptr_t *ptr;
  uintptr_t len;
} ddog_prof_Slice_Usize;

/* ---- Results ------------------------------------------------------------------------------------------------------ */

/* A handle on a profile. It may be copied, but has one owner: who drops it. */
typedef struct ddog_prof_Profile {
  struct ddog_prof_Profile *inner; /* private */
} ddog_prof_Profile;

typedef enum ddog_prof_Profile_NewResult_Tag {
  DDOG_PROF_PROFILE_NEW_RESULT_OK,
  DDOG_PROF_PROFILE_NEW_RESULT_ERR
} ddog_prof_Profile_NewResult_Tag;

typedef struct ddog_prof_Profile_NewResult {
  ddog_prof_Profile_NewResult_Tag tag;
  DDOG_ANONYMOUS union {
    DDOG_ANONYMOUS struct {
      struct ddog_prof_Profile ok; /* for ddog_prof_Profile_drop */
    };
    DDOG_ANONYMOUS struct {
      struct ddog_Error err; /* for ddog_Error_drop */
    };
  };
} ddog_prof_Profile_NewResult;

/* Of functions that give nothing back but whether they worked. */
typedef enum ddog_prof_Profile_Result_Tag {
  DDOG_PROF_PROFILE_RESULT_OK,
  DDOG_PROF_PROFILE_RESULT_ERR
} ddog_prof_Profile_Result_Tag;

typedef struct ddog_prof_Profile_Result {
  ddog_prof_Profile_Result_Tag tag;
  DDOG_ANONYMOUS union {
    DDOG_ANONYMOUS struct {
      bool ok; /* true */
    };
    DDOG_ANONYMOUS struct {
      struct ddog_Error err; /* for ddog_Error_drop */
    };
  };
} ddog_prof_Profile_Result;

/* How often each endpoint was counted (ddog_prof_Profile_add_endpoint_count); opaque. */
typedef struct ddog_prof_ProfiledEndpointsStats ddog_prof_ProfiledEndpointsStats;

typedef struct ddog_prof_EncodedProfile {
  struct ddog_Timespec start;
  struct ddog_Timespec end;
  struct ddog_Vec_U8 buffer;                                 /* the compressed pprof profile */
  struct ddog_prof_ProfiledEndpointsStats *endpoints_stats; /* never NULL, empty where nothing was counted */
} ddog_prof_EncodedProfile;

typedef enum ddog_prof_Profile_SerializeResult_Tag {
  DDOG_PROF_PROFILE_SERIALIZE_RESULT_OK,
  DDOG_PROF_PROFILE_SERIALIZE_RESULT_ERR
} ddog_prof_Profile_SerializeResult_Tag;

typedef struct ddog_prof_Profile_SerializeResult {
  ddog_prof_Profile_SerializeResult_Tag tag;
  DDOG_ANONYMOUS union {
    DDOG_ANONYMOUS struct {
      struct ddog_prof_EncodedProfile ok; /* for ddog_prof_EncodedProfile_drop */
    };
    DDOG_ANONYMOUS struct {
      struct ddog_Error err; /* for ddog_Error_drop */
    };
  };
} ddog_prof_Profile_SerializeResult;

/* ---- Life of a profile -------------------------------------------------------------------------------------------- */

/* Makes an empty profile.
 *
 * sample_types  what each sample's values are, in their order; copied. None is allowed.
 * period        copied; NULL: the profile says nothing of a period
 * start         of the profile; NULL: now
 *
 * Errors: no memory; more sample types than a profile can hold (see Limits). */
DDOG_CHECK_RETURN DDOG_EXPORT struct ddog_prof_Profile_NewResult
ddog_prof_Profile_new(struct ddog_prof_Slice_ValueType sample_types, const struct ddog_prof_Period *period,
                      const struct ddog_Timespec *start);

/* Frees a profile and clears the handle, so that a second drop does nothing. NULL is fine. Other copies of the handle
 * must not be used any more. */
DDOG_EXPORT void ddog_prof_Profile_drop(struct ddog_prof_Profile *profile);

/* Adds a sample.
 *
 * timestamp  0: none; the values are added (wrapping) to those of an earlier sample with equal stack and labels, if there
 *            is one. Any other value, in nanoseconds since the epoch: the sample stays by itself, and gets the label
 *            `end_timestamp_ns`.
 *
 * A sample that is refused changes nothing. It is refused for (first reason that applies):
 *   - text that is not UTF-8, anywhere in it
 *   - another number of values than the profile has sample types
 *   - a label's key that occurs twice; `local root span id` as text or as 0; a label `end_timestamp_ns`
 *   - a limit of the profile (see Limits) or lack of memory
 * The text says which: `ddog_prof_Profile_add failed: ...`.
 *
 * Cost: a sample whose frames, labels and stack are known allocates nothing. */
DDOG_CHECK_RETURN DDOG_EXPORT struct ddog_prof_Profile_Result
ddog_prof_Profile_add(struct ddog_prof_Profile *profile, struct ddog_prof_Sample sample, int64_t timestamp);

/* Empties a profile, which keeps its sample types, its period and its limits.
 *
 * start  of what follows; NULL: now
 *
 * Errors: a NULL handle, a dropped one, no memory (the profile is then as it was). */
DDOG_CHECK_RETURN DDOG_EXPORT struct ddog_prof_Profile_Result ddog_prof_Profile_reset(struct ddog_prof_Profile *profile,
                                                                                      const struct ddog_Timespec *start);

/* ---- Endpoints ---------------------------------------------------------------------------------------------------- */

/* Names the endpoint of a trace: each sample of this period whose label `local root span id` has this value, added
 * before or after, gets the label `trace endpoint`. A later name for the same id replaces an earlier one. Bytes that are
 * not UTF-8 become U+FFFD.
 *
 * Errors: a NULL handle, a dropped one, a limit of the profile, no memory. */
DDOG_CHECK_RETURN DDOG_EXPORT struct ddog_prof_Profile_Result
ddog_prof_Profile_set_endpoint(struct ddog_prof_Profile *profile, uint64_t local_root_span_id, ddog_CharSlice endpoint);

/* ---- Encoding ----------------------------------------------------------------------------------------------------- */

/* Encodes a profile as pprof in one LZ4 frame, and empties it as ddog_prof_Profile_reset does.
 *
 * end          of the profile; NULL: now
 * duration_ns  what the profile says of its duration; NULL or negative: from its start to its end, never below 0
 * next_start   of what follows; NULL: now
 *
 * The profile is emptied also if encoding fails. Equal content, added in equal order, gives equal bytes: samples with a
 * timestamp in the order in which they were added, then the others in the order in which they were first seen.
 *
 * Errors: a NULL handle, a dropped one, no memory. */
DDOG_CHECK_RETURN DDOG_EXPORT struct ddog_prof_Profile_SerializeResult
ddog_prof_Profile_serialize(struct ddog_prof_Profile *profile, const struct ddog_Timespec *end,
                            const int64_t *duration_ns, const struct ddog_Timespec *next_start);

/* Frees what an encoded profile holds and clears it, so that a second drop does nothing. NULL is fine. */
DDOG_EXPORT void ddog_prof_EncodedProfile_drop(struct ddog_prof_EncodedProfile *profile);

/* ==== Beyond version 6 ============================================================================================= */
/* What follows is not in libdatadog's version 6; a program that must also run on that library does without. */

/* How the bytes of an encoded profile are compressed. */
typedef enum ddog_prof_Codec {
  DDOG_PROF_CODEC_LZ4_FRAME, /* what ddog_prof_Profile_serialize gives */
  DDOG_PROF_CODEC_GZIP,      /* what every pprof tool opens */
  DDOG_PROF_CODEC_ZSTD,
  DDOG_PROF_CODEC_NONE
} ddog_prof_Codec;

/* ddog_prof_Profile_serialize with a codec of the caller's choice. An unknown one is an error that leaves the profile as
 * it was. */
DDOG_CHECK_RETURN DDOG_EXPORT struct ddog_prof_Profile_SerializeResult
ddog_prof_Profile_serialize_as(struct ddog_prof_Profile *profile, const struct ddog_Timespec *end,
                               const int64_t *duration_ns, const struct ddog_Timespec *next_start, ddog_prof_Codec codec);

#ifdef __cplusplus
}
#endif

#endif /* DDOG_PROFILING_H */
