/* datadog/common.h - the types and functions that all parts of the library share.
 *
 * This is the C interface of libdatadog, version 6: same names, same layouts, same values. A program that was built for
 * that library works with this one unchanged.
 *
 * Rules that hold for every function, unless it says otherwise:
 *
 *   Strings and bytes   are slices: a pointer and a length, not NUL-terminated. {NULL, 0} is an empty one. What a caller
 *                       passes in is only borrowed for the call; it may be freed or changed afterwards.
 *   Text                is UTF-8.
 *   Results             are tagged unions by value. The error in an *_ERR result belongs to the caller, who releases it
 *                       with ddog_Error_drop; releasing it twice is harmless.
 *   Times               are ddog_Timespec: seconds and nanoseconds since 1970-01-01T00:00:00Z.
 *   Threads             there are no locks and no shared state: any number of threads may use different objects at once,
 *                       one object is for one thread at a time.
 *   fork                objects may be used in a forked child as they were at the moment of the fork.
 *   Signals             nothing here may be called from a signal handler, or from one that longjmps.
 *   Failure             no function aborts, exits, prints, or changes signal handlers or the environment. Out of memory
 *                       is an error result, and what was there before the call stays.
 */
#ifndef DDOG_COMMON_H
#define DDOG_COMMON_H

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Macros ------------------------------------------------------------------------------------------------------ */

#if defined(__GNUC__)
#define DDOG_GNUC_VERSION(n) (__GNUC__ >= (n))
#else
#define DDOG_GNUC_VERSION(n) 0
#endif

#if defined(__has_attribute)
#define DDOG_HAS_ATTRIBUTE(attribute, gnuc_version) __has_attribute(attribute)
#else
#define DDOG_HAS_ATTRIBUTE(attribute, gnuc_version) DDOG_GNUC_VERSION(gnuc_version)
#endif

/* On functions whose result must be looked at: it says whether the call worked, or owns memory. */
#if defined(__cplusplus) && __cplusplus >= 201703L
#define DDOG_CHECK_RETURN [[nodiscard]]
#elif defined(_Check_return_)
#define DDOG_CHECK_RETURN _Check_return_
#elif DDOG_HAS_ATTRIBUTE(warn_unused_result, 4)
#define DDOG_CHECK_RETURN __attribute__((__warn_unused_result__))
#else
#define DDOG_CHECK_RETURN
#endif

/* On functions that a shared library exports; nothing else is visible in it. */
#if DDOG_HAS_ATTRIBUTE(visibility, 4)
#define DDOG_EXPORT __attribute__((__visibility__("default")))
#else
#define DDOG_EXPORT
#endif

/* A slice of a string literal, without its NUL. Refuses anything but a literal at compile time. */
#ifdef _MSC_VER
#define DDOG_CHARSLICE_C(string) {("" string), sizeof("" string) - 1}
#else
#define DDOG_CHARSLICE_C(string) ((ddog_CharSlice){("" string), sizeof("" string) - 1})
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Slices: borrowed memory ------------------------------------------------------------------------------------- */

typedef struct ddog_Slice_CChar {
  const char *ptr;
  uintptr_t len; /* bytes */
} ddog_Slice_CChar;

typedef struct ddog_Slice_CChar ddog_CharSlice;

typedef struct ddog_Slice_U8 {
  const uint8_t *ptr;
  uintptr_t len; /* bytes */
} ddog_Slice_U8;

typedef struct ddog_Slice_U8 ddog_ByteSlice;

typedef struct ddog_Slice_I64 {
  const int64_t *ptr;
  uintptr_t len; /* elements */
} ddog_Slice_I64;

/* ---- Vectors: memory that the library owns ------------------------------------------------------------------------ */

typedef struct ddog_Vec_U8 {
  const uint8_t *ptr;
  uintptr_t len;
  uintptr_t capacity; /* private */
} ddog_Vec_U8;

/* The bytes of a vector, borrowed for as long as the vector lives unchanged. NULL gives an empty slice. */
DDOG_CHECK_RETURN DDOG_EXPORT struct ddog_Slice_U8 ddog_Vec_U8_as_slice(const struct ddog_Vec_U8 *vec);

/* ---- Errors ------------------------------------------------------------------------------------------------------- */

/* What went wrong, as text. Passed by value in results; its memory belongs to who received it. */
typedef struct ddog_Error {
  struct ddog_Vec_U8 message; /* private: use ddog_Error_message */
} ddog_Error;

/* The text of an error: UTF-8, not NUL-terminated, valid until the error is dropped. Never {NULL, n}: for NULL, and for
 * an error that was dropped, it is an empty slice with a pointer that is not NULL. */
DDOG_EXPORT ddog_CharSlice ddog_Error_message(const struct ddog_Error *error);

/* Frees the text, not the struct, and leaves an empty error behind: a second drop does nothing. NULL is fine. */
DDOG_EXPORT void ddog_Error_drop(struct ddog_Error *error);

/* ---- Time --------------------------------------------------------------------------------------------------------- */

/* A moment. Nanoseconds of 10^9 and more are carried over into the seconds; a moment that no int64_t of nanoseconds can
 * hold saturates wherever nanoseconds are written. */
typedef struct ddog_Timespec {
  int64_t seconds; /* since 1970-01-01T00:00:00Z; may be negative */
  uint32_t nanoseconds;
} ddog_Timespec;

#ifdef __cplusplus
}
#endif

#endif /* DDOG_COMMON_H */
