/* How much a profile takes in. More is an error that says so. The public header states the same numbers. */
#ifndef NF_CORE_LIMITS_H
#define NF_CORE_LIMITS_H

#define NF_MAX_SAMPLE_TYPES 1024
#define NF_MAX_FRAMES_PER_SAMPLE ((size_t)1 << 20)
#define NF_MAX_LABELS_PER_SAMPLE ((size_t)1 << 20)
#define NF_MAX_STRING_BYTES ((size_t)1 << 26)

/* Bytes that one profile may hold, if it is not told otherwise. */
#define NF_DEFAULT_BUDGET ((size_t)256 << 20)

#endif
