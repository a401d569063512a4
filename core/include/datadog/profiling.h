/* datadog/profiling.h - making profiles and sending them: the functions of the C interface, version 6.
 *
 * The types, and what holds for every function (text, ownership, errors, threads, fork, signals), are in
 * <datadog/common.h>.
 *
 *     ddog_prof_ValueType cpu = {DDOG_CHARSLICE_C("cpu-time"), DDOG_CHARSLICE_C("nanoseconds")};
 *     ddog_prof_Slice_ValueType types = {&cpu, 1};
 *     ddog_prof_Profile_NewResult made = ddog_prof_Profile_new(types, NULL, NULL);
 *     if (made.tag == DDOG_PROF_PROFILE_NEW_RESULT_ERR) { ... ddog_Error_drop(&made.err); }
 *
 *     ddog_prof_Profile_add(&made.ok, sample, 0);                as often as there are samples
 *     ddog_prof_Profile_serialize(&made.ok, NULL, NULL, NULL);   a compressed pprof; empties the profile
 *     ddog_prof_Profile_drop(&made.ok);
 */
#ifndef DDOG_PROFILING_H
#define DDOG_PROFILING_H

#pragma once

#include "common.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* ------------------------------------------------------------------------------------------
 *  Profile: life
 * ------------------------------------------------------------------------------------------
 *  A profile is used by one thread at a time; different profiles are independent. It holds no lock, no thread
 * and no file descriptor, so a forked child may go on with (or drop) the profiles of its parent.
 *
 *  Errors about the handle itself are `<function> failed: profile pointer was null` and `<function> failed:
 * profile's inner pointer was null (indicates use-after-free)`. */

/* Makes an empty profile.
 *
 *   sample_types  what the values of each sample count, in order; may be empty
 *   period        how often samples are taken; NULL: not stated
 *   start_time    when the profile begins; NULL: now
 *
 * A type or unit that is not UTF-8 becomes empty.
 *
 * Ok: a handle, for ddog_prof_Profile_drop.
 * Err: out of memory; more sample types than DDOG_PROF_MAX_SAMPLE_TYPES. */
DDOG_CHECK_RETURN
struct ddog_prof_Profile_NewResult ddog_prof_Profile_new(struct ddog_prof_Slice_ValueType sample_types,
                                                         const struct ddog_prof_Period *period,
                                                         const struct ddog_Timespec *start_time);

/* Frees the profile and makes the handle null. NULL, and a handle that is null already, are fine. */
void ddog_prof_Profile_drop(struct ddog_prof_Profile *profile);

/* Empties the profile: samples, names, endpoints, rules and counts go, as does the memory that they took.
 * Sample types, period and budget stay.
 *
 *   start_time    when the profile begins; NULL: now
 *
 * Err: a null handle; out of memory, and then the profile is as it was. */
DDOG_CHECK_RETURN
struct ddog_prof_Profile_Result ddog_prof_Profile_reset(struct ddog_prof_Profile *profile,
                                                        const struct ddog_Timespec *start_time);

/* ------------------------------------------------------------------------------------------
 *  Profile: adding
 * ------------------------------------------------------------------------------------------ */

/* Adds a sample.
 *
 *   sample        locations may be empty; values must be as many as the sample types
 *   timestamp     0: values are added to those of earlier samples with the same stack and labels (in two's
 *                 complement: what overflows wraps around).
 *                 Anything else: when the sample was taken, in nanoseconds since the epoch. The sample is
 *                 kept apart, and gets a numeric label `end_timestamp_ns`.
 *
 * The order of the labels does not matter. `local root span id` must be a number other than 0;
 * `end_timestamp_ns` cannot be given as a label.
 *
 * Err, all beginning with `ddog_prof_Profile_add failed: `, the first that applies: a null handle; more
 * frames or labels than the limits; a text that is too long or not UTF-8 (`invalid utf-8 sequence of N
 * bytes from index I`, `incomplete utf-8 byte sequence from index I`); the wrong number of values; a bad
 * label; a new row that the budget does not allow; out of memory.
 *
 * A sample whose frames, labels and stack are known allocates nothing. */
DDOG_CHECK_RETURN
struct ddog_prof_Profile_Result ddog_prof_Profile_add(struct ddog_prof_Profile *profile,
                                                      struct ddog_prof_Sample sample, int64_t timestamp);

/* Names the endpoint (say, `UsersController#show`) of a local root span: when the profile is serialized,
 * every sample whose label `local root span id` is this number gets a label `trace endpoint`, whether it was
 * added before or after. The last name for a number counts. Lossy. Err: a null handle, a name beyond the
 * limits, out of memory. */
DDOG_CHECK_RETURN
struct ddog_prof_Profile_Result ddog_prof_Profile_set_endpoint(struct ddog_prof_Profile *profile,
                                                               uint64_t local_root_span_id,
                                                               ddog_CharSlice endpoint);

/* Adds to the count of an endpoint, which travels beside the profile (EncodedProfile.endpoints_stats), not in
 * it. Lossy; the name may be empty; sums wrap around. Err: as ddog_prof_Profile_set_endpoint. */
DDOG_CHECK_RETURN
struct ddog_prof_Profile_Result ddog_prof_Profile_add_endpoint_count(struct ddog_prof_Profile *profile,
                                                                     ddog_CharSlice endpoint, int64_t value);

/* ------------------------------------------------------------------------------------------
 *  Profile: upscaling
 * ------------------------------------------------------------------------------------------
 *  A rule says that the values at some offsets (0 = the first sample type) stand for more than was seen, and
 * is applied when the profile is serialized. With a label name or value it concerns the samples with that
 * label ("by label"); with neither, every sample ("by value"). A value is multiplied as a double, rounded
 * half away from zero, and kept within int64_t.
 *
 *  Rules for one sample follow the order of its labels, by-value rules last; each works on what the one
 * before it left. Rules that could meet on one value are refused: two of one label name and value with a
 * common offset, and a by-value rule with a common offset with any by-label rule. An empty list of offsets is
 * allowed. Names and values are lossy.
 *
 *  Err: a null handle, a parameter that is 0, an offset that is not below the number of sample types, a
 * collision, out of memory. */

/* For samples taken on average once in `sampling_distance` units: the scale is 1 / (1 - exp(-average /
 * sampling_distance)), where the average is value[sum_value_offset] / value[count_value_offset]; 1 where
 * either is 0. */
DDOG_CHECK_RETURN
struct ddog_prof_Profile_Result ddog_prof_Profile_add_upscaling_rule_poisson(
    struct ddog_prof_Profile *profile, struct ddog_prof_Slice_Usize offset_values, ddog_CharSlice label_name,
    ddog_CharSlice label_value, uintptr_t sum_value_offset, uintptr_t count_value_offset,
    uint64_t sampling_distance);

/* For `total_sampled` samples taken out of `total_real`: the scale is total_real / total_sampled. */
DDOG_CHECK_RETURN
struct ddog_prof_Profile_Result ddog_prof_Profile_add_upscaling_rule_proportional(
    struct ddog_prof_Profile *profile, struct ddog_prof_Slice_Usize offset_values, ddog_CharSlice label_name,
    ddog_CharSlice label_value, uint64_t total_sampled, uint64_t total_real);

/* ------------------------------------------------------------------------------------------
 *  Profile: serializing
 * ------------------------------------------------------------------------------------------ */

/* Encodes the profile as pprof in one LZ4 frame, and empties it as ddog_prof_Profile_reset does.
 *
 *   end_time        when the profile ends; NULL: now
 *   duration_nanos  how long it took; NULL or negative: from its start to its end, 0 if that is negative
 *   start_time      when the next profile begins; NULL: now
 *
 * Equal input gives equal bytes: samples with a timestamp in the order in which they were added, then the
 * others in the order in which they were first seen.
 *
 * Memory: what the profile holds, the encoded bytes, and less than 1 MiB.
 *
 * Ok: for ddog_prof_EncodedProfile_drop.
 * Err: a null handle; out of memory, and then the profile is as it was. */
DDOG_CHECK_RETURN
struct ddog_prof_Profile_SerializeResult ddog_prof_Profile_serialize(struct ddog_prof_Profile *profile,
                                                                     const struct ddog_Timespec *end_time,
                                                                     const int64_t *duration_nanos,
                                                                     const struct ddog_Timespec *start_time);

/* Frees what an encoded profile holds and makes it all zeros, so that twice is harmless. The struct itself is
 * the caller's. */
void ddog_prof_EncodedProfile_drop(struct ddog_prof_EncodedProfile *profile);

/* Borrowed view of owned bytes, e.g. of EncodedProfile.buffer. Empty for NULL. */
DDOG_CHECK_RETURN struct ddog_Slice_U8 ddog_Vec_U8_as_slice(const struct ddog_Vec_U8 *vec);

/* ------------------------------------------------------------------------------------------
 *  Exporter, requests, cancellation: functions
 * ------------------------------------------------------------------------------------------ */

/* An agent's URL:
 *
 *   http://host[:port][/path]   the report goes to /path/profiling/v1/input; also https://
 *   unix:///path/of/socket      any bytes but NUL, at most 107; a relative path after unix:// too
 *   file:///folder              each report becomes a file in that folder (beyond version 6)
 *
 * Traffic to an agent never goes through a proxy. Nothing is checked here. */
struct ddog_Endpoint ddog_Endpoint_agent(ddog_CharSlice base_url);

/* Without an agent: https://intake.profile.<site>/api/v2/profile with the key. HTTPS_PROXY and
 * NO_PROXY (or in lower case) apply, as they are when the exporter is made. */
struct ddog_Endpoint ddog_Endpoint_agentless(ddog_CharSlice site, ddog_CharSlice api_key);

/* Who sends (names and version are lossy), with which tags (may be NULL), and where to. Copies
 * everything; opens nothing. TLS needs version 1.2 and a certificate for the host's name, issued by a
 * root in the system's bundle or in the file that SSL_CERT_FILE names. Err: `empty string`, `invalid
 * format`, `invalid uri character`, `invalid authority`, `uri too long`, `scheme too long` for the URL
 * or the site; not UTF-8; an unknown kind of endpoint; out of memory. */
DDOG_CHECK_RETURN
struct ddog_prof_Exporter_NewResult
ddog_prof_Exporter_new(ddog_CharSlice profiling_library_name, ddog_CharSlice profiling_library_version,
                       ddog_CharSlice family, const struct ddog_Vec_Tag *tags, struct ddog_Endpoint endpoint);

/* Overwrites the API key, then frees. */
void ddog_prof_Exporter_drop(struct ddog_prof_Exporter *exporter);

/* No files. */
DDOG_CHECK_RETURN struct ddog_prof_Exporter_Slice_File ddog_prof_Exporter_Slice_File_empty(void);

/* A report, complete: all of it is copied. Files to compress become one LZ4 frame each; what
 * ddog_prof_Profile_serialize gave is compressed already and goes with those to export unmodified. The
 * tags, the endpoints' counts (of an EncodedProfile) and the two JSON texts may be NULL. The JSON may
 * be any value; it is sent with sorted keys and without blanks, integers of 64 bits kept exactly.
 * timeout_ms is for the whole of sending, from looking up the name to the end of the response's
 * headers; 0 is no limit.
 *
 * Err, in this order: `exporter was null`; JSON that is not UTF-8 or not JSON, internal before info; a
 * time that no calendar reaches; a control character in a name, the version or the key (`failed to
 * parse header value`); out of memory. */
DDOG_CHECK_RETURN
struct ddog_prof_Exporter_Request_BuildResult ddog_prof_Exporter_Request_build(
    struct ddog_prof_Exporter *exporter, struct ddog_Timespec start, struct ddog_Timespec end,
    struct ddog_prof_Exporter_Slice_File files_to_compress_and_export,
    struct ddog_prof_Exporter_Slice_File files_to_export_unmodified,
    const struct ddog_Vec_Tag *optional_additional_tags,
    const struct ddog_prof_ProfiledEndpointsStats *optional_endpoints_stats,
    const ddog_CharSlice *optional_internal_metadata_json, const ddog_CharSlice *optional_info_json,
    uint64_t timeout_ms);

/* For a request that will not be sent; sets it to NULL. */
void ddog_prof_Exporter_Request_drop(struct ddog_prof_Exporter_Request **request);

/* Sends the report and waits for the answer. Takes the request: it is NULL afterwards, whatever
 * happens. The token may be NULL. Ok: the status of the final response, whatever it is; redirects are
 * not followed, nothing is repeated, the response's body is not read. Err, all beginning with `failed
 * ddog_prof_Exporter_send: `: `operation timed out`, `operation cancelled by user`, `error trying to
 * connect: ...` and others. No error holds the API key.
 *
 * Threads: makes none, raises no SIGPIPE, touches no signal's disposition; several may send at once,
 * also with one exporter. Fork: at any moment, also while other threads send; the child can send at
 * once. */
DDOG_CHECK_RETURN
struct ddog_prof_Exporter_SendResult ddog_prof_Exporter_send(struct ddog_prof_Exporter *exporter,
                                                             struct ddog_prof_Exporter_Request **request,
                                                             const struct ddog_CancellationToken *cancel);

/* Cancels sends, from any thread, once. NULL only when out of memory. */
DDOG_CHECK_RETURN struct ddog_CancellationToken *ddog_CancellationToken_new(void);

/* Another handle on the same token, to be dropped like the first. NULL for NULL. */
DDOG_CHECK_RETURN
struct ddog_CancellationToken *ddog_CancellationToken_clone(const struct ddog_CancellationToken *token);

/* Every send with this token or a clone of it, running or later, ends with `operation cancelled by
 * user`. True for the one call that did it, false if it was cancelled before or is NULL. Any thread. */
bool ddog_CancellationToken_cancel(const struct ddog_CancellationToken *cancel);

/* Releases the handle and cancels nothing. */
void ddog_CancellationToken_drop(struct ddog_CancellationToken *token);

/* ==========================================================================================
 *  BEYOND VERSION 6
 *
 *  What follows is an extension of this library: libdatadog 6.0.0 does not have it. A program that must run
 * with both looks these functions up at run time.
 * ========================================================================================== */

#define DDOG_PROF_HAS_EXTENSIONS 1

/* How an encoded profile is compressed. */
typedef enum ddog_prof_Codec {
  DDOG_PROF_CODEC_LZ4_FRAME, /* the fastest; what ddog_prof_Profile_serialize gives */
  DDOG_PROF_CODEC_GZIP,      /* what every pprof tool opens: for files */
  DDOG_PROF_CODEC_ZSTD,      /* the smallest */
  DDOG_PROF_CODEC_NONE       /* the bare protobuf message */
} ddog_prof_Codec;

/* ddog_prof_Profile_serialize with a choice of compression. A codec that does not exist is an error, and
 * leaves the profile as it was. */
DDOG_CHECK_RETURN
struct ddog_prof_Profile_SerializeResult
ddog_prof_Profile_serialize_as(struct ddog_prof_Profile *profile, const struct ddog_Timespec *end_time,
                               const int64_t *duration_nanos, const struct ddog_Timespec *start_time,
                               ddog_prof_Codec codec);

/* Limits. More than these is an error that says so; the sample is not added. */
#define DDOG_PROF_MAX_SAMPLE_TYPES 1024
#define DDOG_PROF_MAX_FRAMES_PER_SAMPLE (1u << 20)
#define DDOG_PROF_MAX_LABELS_PER_SAMPLE (1u << 20)
#define DDOG_PROF_MAX_STRING_BYTES (1u << 26)

/* How much memory a profile may hold, unless ddog_prof_Profile_set_budget says otherwise. */
#define DDOG_PROF_DEFAULT_BUDGET_BYTES ((uint64_t)256 << 20)

/* Sets the budget of a profile: the bytes that it may hold. A sample that would need more is refused with an
 * error and counted, unless it repeats one that is there already: such samples are still added up. 0: no
 * budget. A budget below what the profile holds frees nothing. It stays through reset and serialize. Err: a
 * null handle. */
DDOG_CHECK_RETURN
struct ddog_prof_Profile_Result ddog_prof_Profile_set_budget(struct ddog_prof_Profile *profile,
                                                             uint64_t bytes);

/* What a profile holds. */
typedef struct ddog_prof_Profile_Stats {
  uint64_t memory_bytes;       /* taken from the system */
  uint64_t budget_bytes;       /* 0: none */
  uint64_t samples_refused;    /* by the budget, since the last reset or serialize */
  uint64_t samples_aggregated; /* distinct ones without a timestamp */
  uint64_t samples_timestamped;
} ddog_prof_Profile_Stats;

/* All zeros for a null handle. */
struct ddog_prof_Profile_Stats ddog_prof_Profile_stats(const struct ddog_prof_Profile *profile);

/* Reports as files, for networks that let nothing out: with ddog_Endpoint_agent("file:///folder"), sending
 * a report writes it into that folder instead and gives status 200. The folder is made if it is missing; a
 * file has mode 0600, appears when it is complete and on the disk, and holds no API key; symbolic links
 * are refused. When the folder's reports would need more than 1 GiB, the oldest are removed; the first
 * time, a line on stderr says so.
 *
 * This sends what a folder holds to an agent or an intake, the oldest first, each report within timeout_ms
 * (0: no limit), and removes what was accepted (a 2xx status). Whoever is killed on the way sends a report
 * again rather than never. The counts are right in any case; they and the token may be NULL. Err: a folder
 * that cannot be read, an endpoint as for ddog_prof_Exporter_new, a server that cannot be reached, a set
 * token, out of memory. */
typedef struct ddog_prof_Folder_UploadCounts {
  uint64_t accepted; /* and removed */
  uint64_t rejected; /* answered with another status: left there */
  uint64_t damaged;  /* not a whole report: left there */
  uint64_t left;     /* not tried, because of the error */
  struct ddog_HttpStatus last_rejection; /* 0: none */
} ddog_prof_Folder_UploadCounts;

DDOG_CHECK_RETURN
struct ddog_prof_Profile_Result ddog_prof_Folder_upload(ddog_CharSlice folder, struct ddog_Endpoint endpoint,
                                                        uint64_t timeout_ms,
                                                        const struct ddog_CancellationToken *cancel,
                                                        struct ddog_prof_Folder_UploadCounts *counts);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* DDOG_PROFILING_H */
