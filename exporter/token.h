/* A cancellation token: one bit that goes from unset to set once, and wakes at that moment whoever waits
 * in poll().
 *
 * A waiter brings its own descriptor (an eventfd): nothing is shared between sends, or with the child of a
 * fork. */
#ifndef NF_EXPORTER_TOKEN_H
#define NF_EXPORTER_TOKEN_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_token nf_token;

typedef struct nf_token_waiter {
  struct nf_token_waiter *next, *previous;
  int wake; /* an eventfd, owned by the waiter */
} nf_token_waiter;

nf_token *nf_token_new(void);                /* NULL when out of memory */
nf_token *nf_token_acquire(nf_token *token); /* one more reference to the same token */
void nf_token_drop(nf_token *token);

/* True for the one call that set it. */
bool nf_token_cancel(nf_token *token);
bool nf_token_is_cancelled(const nf_token *token);

/* From attach to detach, cancelling makes waiter->wake readable; also when it was cancelled before. */
void nf_token_attach(nf_token *token, nf_token_waiter *waiter);
void nf_token_detach(nf_token *token, nf_token_waiter *waiter);

#ifdef __cplusplus
}
#endif

#endif
