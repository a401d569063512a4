/* Borrowed bytes. */
#ifndef NF_CORE_BYTES_H
#define NF_CORE_BYTES_H

#include <stddef.h>
#include <stdint.h>

typedef struct nf_bytes {
  const uint8_t *ptr;
  size_t len;
} nf_bytes;

#endif
