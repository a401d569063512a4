#include "exporter/token.h"

#include "exporter/buffer.h"
#include "exporter/fork_guard.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

struct nf_token {
  atomic_uint references;
  atomic_bool cancelled;
  pthread_mutex_t lock; /* of the list; only ever held inside the fork guard */
  nf_token_waiter *waiters;
};

nf_token *nf_token_new(void) {
  if (!nf_fork_guard_prepare()) return NULL;
  nf_token *token = nf_zeroed(1, sizeof *token);
  if (!token) return NULL;
  atomic_init(&token->references, 1);
  atomic_init(&token->cancelled, false);
  pthread_mutex_init(&token->lock, NULL);
  return token;
}

nf_token *nf_token_acquire(nf_token *token) {
  atomic_fetch_add_explicit(&token->references, 1, memory_order_relaxed);
  return token;
}

void nf_token_drop(nf_token *token) {
  if (!token || atomic_fetch_sub_explicit(&token->references, 1, memory_order_acq_rel) != 1) return;
  pthread_mutex_destroy(&token->lock);
  free(token);
}

bool nf_token_is_cancelled(const nf_token *token) {
  return token && atomic_load_explicit(&token->cancelled, memory_order_acquire);
}

static void wake(const nf_token_waiter *waiter) {
  uint64_t one = 1;
  while (write(waiter->wake, &one, sizeof one) < 0 && errno == EINTR) continue;
}

static void lock(nf_token *token) {
  nf_fork_guard_enter();
  pthread_mutex_lock(&token->lock);
}

static void unlock(nf_token *token) {
  pthread_mutex_unlock(&token->lock);
  nf_fork_guard_leave();
}

bool nf_token_cancel(nf_token *token) {
  if (!token || atomic_exchange_explicit(&token->cancelled, true, memory_order_acq_rel)) return false;
  lock(token);
  for (const nf_token_waiter *w = token->waiters; w; w = w->next) wake(w);
  unlock(token);
  return true;
}

void nf_token_attach(nf_token *token, nf_token_waiter *waiter) {
  lock(token);
  waiter->previous = NULL;
  waiter->next = token->waiters;
  if (token->waiters) token->waiters->previous = waiter;
  token->waiters = waiter;
  bool late = nf_token_is_cancelled(token);
  unlock(token);
  if (late) wake(waiter);
}

void nf_token_detach(nf_token *token, nf_token_waiter *waiter) {
  lock(token);
  if (waiter->previous)
    waiter->previous->next = waiter->next;
  else if (token->waiters == waiter)
    token->waiters = waiter->next;
  if (waiter->next) waiter->next->previous = waiter->previous;
  unlock(token);
}
