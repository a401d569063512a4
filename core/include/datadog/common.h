/* datadog/common.h - the types of the profiling library's C interface, version 6, and errors.
 *
 * This interface is binary compatible with libdatadog 6.0.0: a program that was compiled against its
 * headers runs with this library, and the other way round. Functions on profiles are in
 * <datadog/profiling.h>, which includes this file.
 *
 * ------------------------------------------------------------------------------------------
 *  What holds for every function
 * ------------------------------------------------------------------------------------------
 *
 *  Text        is UTF-8, passed as pointer and length in bytes; no NUL ends it, NULs inside are data.
 *              {NULL, 0} is a valid empty slice. Each function says what it does with bytes that are not
 *              UTF-8: it fails, or it puts U+FFFD (the replacement character) in their place ("lossy").
 *
 *  Borrowing   What you pass in is only read during the call, and copied if it is needed later, unless a
 *              function says that it takes or keeps something.
 *
 *  Ownership   What you get back is yours: each result says which function frees it. Every `*_drop`
 *              accepts NULL.
 *
 *  Results     are tagged unions: read `tag` first, then the one member that it names. An `err` must be
 *              given to ddog_Error_drop.
 *
 *  Failure     A call that fails changes nothing. Bad arguments, limits and lack of memory are errors: no
 *              function aborts. (A pointer that is neither NULL nor valid cannot be recognised.)
 *
 *  Threads     There is no global state. Different objects may be used by different threads at once; one
 *              object by one thread at a time, unless its function says otherwise.
 *
 *  Fork        Objects may be used in a forked child, independently of the parent, if no call on them was
 *              running in another thread at the moment of the fork.
 *
 *  Signals     No function may be called from a signal handler, unless it says otherwise.
 */
#ifndef DDOG_COMMON_H
#define DDOG_COMMON_H

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ------------------------------------------------------------------------------------------
 *  Macros
 * ------------------------------------------------------------------------------------------ */

/* DDOG_CHARSLICE_C("text"): a ddog_CharSlice of a string literal. Does not compile for anything but a
 * literal. */
#if defined(_MSC_VER)
#define DDOG_CHARSLICE_C(string)                                                                             \
  { .ptr = "" string, .len = sizeof(string) - 1 }
#elif defined(__cplusplus)
#define DDOG_CHARSLICE_C(string) (ddog_CharSlice{"" string, sizeof(string) - 1})
#else
#define DDOG_CHARSLICE_C(string) ((ddog_CharSlice){.ptr = "" string, .len = sizeof(string) - 1})
#endif

#if defined(__GNUC__)
#define DDOG_GNUC_VERSION(major) (__GNUC__ >= (major))
#else
#define DDOG_GNUC_VERSION(major) (0)
#endif

#if defined(__has_attribute)
#define DDOG_HAS_ATTRIBUTE(attribute, major) __has_attribute(attribute)
#else
#define DDOG_HAS_ATTRIBUTE(attribute, major) DDOG_GNUC_VERSION(major)
#endif

/* On functions whose result must not be ignored: it may carry an error that has to be freed. */
#if defined(__cplusplus) && (__cplusplus >= 201703L)
#define DDOG_CHECK_RETURN [[nodiscard]]
#elif defined(_Check_return_) /* SAL */
#define DDOG_CHECK_RETURN _Check_return_
#elif DDOG_HAS_ATTRIBUTE(warn_unused_result, 4)
#define DDOG_CHECK_RETURN __attribute__((__warn_unused_result__))
#else
#define DDOG_CHECK_RETURN
#endif

/* Unnamed members of a result are older than the standard that has them: quiet for pedantic compilers. */
#if defined(__GNUC__)
#define DDOG_UNNAMED __extension__
#else
#define DDOG_UNNAMED
#endif

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* ------------------------------------------------------------------------------------------
 *  Slices: borrowed arrays. `ptr` may be NULL if `len` is 0; `len` counts elements.
 * ------------------------------------------------------------------------------------------ */

typedef struct ddog_Slice_CChar {
  const char *ptr;
  uintptr_t len;
} ddog_Slice_CChar;

/* Text, in UTF-8. */
typedef struct ddog_Slice_CChar ddog_CharSlice;

typedef struct ddog_Slice_U8 {
  const uint8_t *ptr;
  uintptr_t len;
} ddog_Slice_U8;

/* Bytes of any kind. */
typedef struct ddog_Slice_U8 ddog_ByteSlice;

typedef struct ddog_Slice_I64 {
  const int64_t *ptr;
  uintptr_t len;
} ddog_Slice_I64;

typedef struct ddog_prof_Slice_Usize {
  const uintptr_t *ptr;
  uintptr_t len;
} ddog_prof_Slice_Usize;

/* ------------------------------------------------------------------------------------------
 *  Owned bytes and errors
 * ------------------------------------------------------------------------------------------ */

/* Bytes that this library allocated. Read `ptr` and `len`; leave the rest, and never free it yourself. */
typedef struct ddog_Vec_U8 {
  const uint8_t *ptr;
  uintptr_t len;
  uintptr_t capacity;
} ddog_Vec_U8;

/* Why something failed. Opaque: use the two functions below. */
typedef struct ddog_Error {
  struct ddog_Vec_U8 message;
} ddog_Error;

/* The text of an error, for people: UTF-8, not NUL-terminated, borrowed until the error is dropped. An empty
 * slice (with a pointer that is not NULL) for NULL and for an error that was dropped. May be called by
 * several threads at once. */
ddog_CharSlice ddog_Error_message(const struct ddog_Error *error);

/* Frees the text of the error and leaves an empty error; the struct itself is the caller's. NULL and an error
 * that was dropped before are fine. */
void ddog_Error_drop(struct ddog_Error *error);

/* ------------------------------------------------------------------------------------------
 *  Time
 * ------------------------------------------------------------------------------------------ */

/* Time since 1970-01-01 00:00 UTC. Negative seconds are before it; the nanoseconds always count forward. 1
 * 000 000 000 and more nanoseconds are carried into the seconds. */
typedef struct ddog_Timespec {
  int64_t seconds;
  uint32_t nanoseconds;
} ddog_Timespec;

/* ------------------------------------------------------------------------------------------
 *  Profiles: what goes in
 * ------------------------------------------------------------------------------------------ */

/* A profile. A handle: copies of it name the same profile, which has one owner. Do not touch `inner`. */
typedef struct ddog_prof_Profile {
  struct ddog_prof_Profile *inner;
} ddog_prof_Profile;

/* What a value of a sample counts, e.g. "cpu-time" in "nanoseconds". */
typedef struct ddog_prof_ValueType {
  ddog_CharSlice type_;
  ddog_CharSlice unit;
} ddog_prof_ValueType;

typedef struct ddog_prof_Slice_ValueType {
  const struct ddog_prof_ValueType *ptr;
  uintptr_t len;
} ddog_prof_Slice_ValueType;

/* How often samples are taken: every `value` units of `type_`. */
typedef struct ddog_prof_Period {
  struct ddog_prof_ValueType type_;
  int64_t value;
} ddog_prof_Period;

/* A range of memory into which a file is mapped. All zero where that means nothing. */
typedef struct ddog_prof_Mapping {
  uint64_t memory_start;
  uint64_t memory_limit;
  uint64_t file_offset;    /* of the first mapped address */
  ddog_CharSlice filename; /* on disk, or a name such as "[vdso]" */
  ddog_CharSlice build_id; /* names one build of the file, e.g. its .note.gnu.build-id in hex */
} ddog_prof_Mapping;

typedef struct ddog_prof_Function {
  ddog_CharSlice name;        /* for people */
  ddog_CharSlice system_name; /* as the system has it, e.g. mangled; may be empty */
  ddog_CharSlice filename;    /* of the source */
  int64_t start_line;         /* 0: unknown */
} ddog_prof_Function;

/* One frame of a stack: a place in a function. */
typedef struct ddog_prof_Location {
  struct ddog_prof_Mapping mapping;
  struct ddog_prof_Function function;
  uint64_t address; /* of the instruction; 0: unknown */
  int64_t line;     /* in function.filename */
} ddog_prof_Location;

typedef struct ddog_prof_Slice_Location {
  const struct ddog_prof_Location *ptr;
  uintptr_t len;
} ddog_prof_Slice_Location;

/* A name with a text or a number. If `str` is not empty, the label is a text and `num` and `num_unit` are
 * ignored. Otherwise it is the number `num` (0 too) in `num_unit` (may be empty). */
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
  struct ddog_prof_Slice_Location locations; /* the leaf first; may be empty */
  struct ddog_Slice_I64 values;              /* one for each sample type, in the order of Profile_new */
  struct ddog_prof_Slice_Label labels;       /* in any order; no key twice */
} ddog_prof_Sample;

/* ------------------------------------------------------------------------------------------
 *  Profiles: what comes out
 * ------------------------------------------------------------------------------------------ */

/* How many units of work each endpoint did: ddog_prof_Profile_add_endpoint_count. Opaque. */
typedef struct ddog_prof_ProfiledEndpointsStats ddog_prof_ProfiledEndpointsStats;

/* A profile in the pprof format, compressed. Free it with ddog_prof_EncodedProfile_drop. */
typedef struct ddog_prof_EncodedProfile {
  struct ddog_Timespec start;
  struct ddog_Timespec end;
  struct ddog_Vec_U8 buffer; /* the encoded bytes */
  struct ddog_prof_ProfiledEndpointsStats
      *endpoints_stats; /* never NULL until dropped; owned by this struct */
} ddog_prof_EncodedProfile;

typedef enum ddog_prof_Profile_Result_Tag {
  DDOG_PROF_PROFILE_RESULT_OK,
  DDOG_PROF_PROFILE_RESULT_ERR
} ddog_prof_Profile_Result_Tag;

typedef struct ddog_prof_Profile_Result {
  ddog_prof_Profile_Result_Tag tag;
  DDOG_UNNAMED union {
    DDOG_UNNAMED struct { bool ok; /* true, and nothing to free */ };
    DDOG_UNNAMED struct { struct ddog_Error err; };
  };
} ddog_prof_Profile_Result;

typedef enum ddog_prof_Profile_NewResult_Tag {
  DDOG_PROF_PROFILE_NEW_RESULT_OK,
  DDOG_PROF_PROFILE_NEW_RESULT_ERR
} ddog_prof_Profile_NewResult_Tag;

typedef struct ddog_prof_Profile_NewResult {
  ddog_prof_Profile_NewResult_Tag tag;
  DDOG_UNNAMED union {
    DDOG_UNNAMED struct { struct ddog_prof_Profile ok; /* free with ddog_prof_Profile_drop */ };
    DDOG_UNNAMED struct { struct ddog_Error err; };
  };
} ddog_prof_Profile_NewResult;

typedef enum ddog_prof_Profile_SerializeResult_Tag {
  DDOG_PROF_PROFILE_SERIALIZE_RESULT_OK,
  DDOG_PROF_PROFILE_SERIALIZE_RESULT_ERR
} ddog_prof_Profile_SerializeResult_Tag;

typedef struct ddog_prof_Profile_SerializeResult {
  ddog_prof_Profile_SerializeResult_Tag tag;
  DDOG_UNNAMED union {
    DDOG_UNNAMED struct { struct ddog_prof_EncodedProfile ok; /* free with ddog_prof_EncodedProfile_drop */ };
    DDOG_UNNAMED struct { struct ddog_Error err; };
  };
} ddog_prof_Profile_SerializeResult;

/* ------------------------------------------------------------------------------------------
 *  Tags
 * ------------------------------------------------------------------------------------------ */

typedef struct ddog_Tag ddog_Tag;

/* Tags, "key:value" each. Read `len`; the elements are opaque. */
typedef struct ddog_Vec_Tag {
  const struct ddog_Tag *ptr;
  uintptr_t len;
  uintptr_t capacity;
} ddog_Vec_Tag;

typedef enum ddog_Vec_Tag_PushResult_Tag {
  DDOG_VEC_TAG_PUSH_RESULT_OK,
  DDOG_VEC_TAG_PUSH_RESULT_ERR
} ddog_Vec_Tag_PushResult_Tag;

typedef struct ddog_Vec_Tag_PushResult {
  ddog_Vec_Tag_PushResult_Tag tag;
  DDOG_UNNAMED union {
    DDOG_UNNAMED struct { struct ddog_Error err; };
  };
} ddog_Vec_Tag_PushResult;

typedef struct ddog_Vec_Tag_ParseResult {
  struct ddog_Vec_Tag tags;         /* yours, in any case */
  struct ddog_Error *error_message; /* NULL: every part was a tag */
} ddog_Vec_Tag_ParseResult;

/* No tags; allocates nothing. */
DDOG_CHECK_RETURN struct ddog_Vec_Tag ddog_Vec_Tag_new(void);

/* Frees the tags. By value: the caller's copy is stale afterwards, so do it once. All zeros are fine. */
void ddog_Vec_Tag_drop(struct ddog_Vec_Tag vec);

/* Appends a copy of key:value. Lossy. Err, leaving the tags as they were: NULL; a tag that begins or
 * ends with a colon (an empty key or value); out of memory. Nothing else is refused or changed:
 * blanks, commas, length, case. */
DDOG_CHECK_RETURN
struct ddog_Vec_Tag_PushResult ddog_Vec_Tag_push(struct ddog_Vec_Tag *vec, ddog_CharSlice key,
                                                 ddog_CharSlice value);

/* Tags from a list separated by commas and blanks; empty parts are skipped. Lossy. `tags` has the
 * valid ones, whether or not there were others; `error_message` names the others. ddog_Error_drop
 * frees its text; the struct itself (24 bytes) has no function that frees it, as in libdatadog 6.0.0. */
DDOG_CHECK_RETURN struct ddog_Vec_Tag_ParseResult ddog_Vec_Tag_parse(ddog_CharSlice string);

/* ------------------------------------------------------------------------------------------
 *  Endpoints, exporter, requests, cancellation: types
 * ------------------------------------------------------------------------------------------ */

typedef enum ddog_Endpoint_Tag {
  DDOG_ENDPOINT_AGENT,
  DDOG_ENDPOINT_AGENTLESS
} ddog_Endpoint_Tag;

typedef struct ddog_Endpoint_ddog_prof_Agentless_Body {
  ddog_CharSlice _0; /* site */
  ddog_CharSlice _1; /* API key */
} ddog_Endpoint_ddog_prof_Agentless_Body;

/* Where reports go. Made by ddog_Endpoint_agent or ddog_Endpoint_agentless; borrows what it was made
 * of until ddog_prof_Exporter_new has returned. */
typedef struct ddog_Endpoint {
  ddog_Endpoint_Tag tag;
  DDOG_UNNAMED union {
    DDOG_UNNAMED struct { ddog_CharSlice agent; };
    ddog_Endpoint_ddog_prof_Agentless_Body AGENTLESS;
  };
} ddog_Endpoint;

/* Opaque. */
typedef struct ddog_prof_Exporter ddog_prof_Exporter;
typedef struct ddog_prof_Exporter_Request ddog_prof_Exporter_Request;
typedef struct ddog_CancellationToken ddog_CancellationToken;

typedef struct ddog_prof_Exporter_File {
  ddog_CharSlice name;
  ddog_ByteSlice file;
} ddog_prof_Exporter_File;

typedef struct ddog_prof_Exporter_Slice_File {
  const struct ddog_prof_Exporter_File *ptr;
  uintptr_t len;
} ddog_prof_Exporter_Slice_File;

typedef struct ddog_HttpStatus {
  uint16_t code;
} ddog_HttpStatus;

typedef enum ddog_prof_Exporter_NewResult_Tag {
  DDOG_PROF_EXPORTER_NEW_RESULT_OK,
  DDOG_PROF_EXPORTER_NEW_RESULT_ERR
} ddog_prof_Exporter_NewResult_Tag;

typedef struct ddog_prof_Exporter_NewResult {
  ddog_prof_Exporter_NewResult_Tag tag;
  DDOG_UNNAMED union {
    DDOG_UNNAMED struct { struct ddog_prof_Exporter *ok; /* free with ddog_prof_Exporter_drop */ };
    DDOG_UNNAMED struct { struct ddog_Error err; };
  };
} ddog_prof_Exporter_NewResult;

typedef enum ddog_prof_Exporter_Request_BuildResult_Tag {
  DDOG_PROF_EXPORTER_REQUEST_BUILD_RESULT_OK,
  DDOG_PROF_EXPORTER_REQUEST_BUILD_RESULT_ERR
} ddog_prof_Exporter_Request_BuildResult_Tag;

typedef struct ddog_prof_Exporter_Request_BuildResult {
  ddog_prof_Exporter_Request_BuildResult_Tag tag;
  DDOG_UNNAMED union {
    DDOG_UNNAMED struct { struct ddog_prof_Exporter_Request *ok; /* send it, or drop it */ };
    DDOG_UNNAMED struct { struct ddog_Error err; };
  };
} ddog_prof_Exporter_Request_BuildResult;

typedef enum ddog_prof_Exporter_SendResult_Tag {
  DDOG_PROF_EXPORTER_SEND_RESULT_HTTP_RESPONSE,
  DDOG_PROF_EXPORTER_SEND_RESULT_ERR
} ddog_prof_Exporter_SendResult_Tag;

typedef struct ddog_prof_Exporter_SendResult {
  ddog_prof_Exporter_SendResult_Tag tag;
  DDOG_UNNAMED union {
    DDOG_UNNAMED struct { struct ddog_HttpStatus http_response; };
    DDOG_UNNAMED struct { struct ddog_Error err; };
  };
} ddog_prof_Exporter_SendResult;

/* An older kind of endpoint, on the heap and opaque (what it points to is not the struct above). No
 * function of this library takes one; they are here for programs that make and drop them. NULL: not a
 * URL, or out of memory. */
DDOG_CHECK_RETURN struct ddog_Endpoint *ddog_endpoint_from_url(ddog_CharSlice url);
DDOG_CHECK_RETURN struct ddog_Endpoint *ddog_endpoint_from_api_key(ddog_CharSlice api_key);

/* NULL and *endpoint set; or an error and *endpoint as it was. As for ddog_Vec_Tag_parse, only the
 * error's text can be freed. */
DDOG_CHECK_RETURN
struct ddog_Error *ddog_endpoint_from_api_key_and_site(ddog_CharSlice api_key, ddog_CharSlice site,
                                                       struct ddog_Endpoint **endpoint);
void ddog_endpoint_drop(struct ddog_Endpoint *endpoint);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* DDOG_COMMON_H */
