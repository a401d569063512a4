#ifndef NF_SIGNAL_SETUP_H
#define NF_SIGNAL_SETUP_H

// Who owns SIGPROF. We take it only if nobody has it, and when we are done we leave an empty handler: a
// signal that is still on its way would end the process if the default came back.

#include "ruby_helpers.h"

#include <signal.h>
#include <stdbool.h>

typedef void (*nf_signal_handler)(int signal, siginfo_t *info, void *context);

typedef enum nf_signal_owner {
  NF_SIGNAL_OWNER_NOBODY,    // default or ignored
  NF_SIGNAL_OWNER_PROFILING, // `handler`
  NF_SIGNAL_OWNER_EMPTY,     // what we leave behind
  NF_SIGNAL_OWNER_OTHER,
  NF_SIGNAL_OWNER_UNKNOWN, // could not be asked
} nf_signal_owner;

nf_signal_owner nf_signal_current_owner(nf_signal_handler handler);

// Installs the handler with SA_RESTART | SA_SIGINFO and an empty mask. Does not touch a handler of somebody
// else: then, and when the system refuses, false.
bool nf_signal_install(nf_signal_handler handler, nf_failure *failure);

// Puts the empty handler in the place of `handler`; anything else is left alone.
void nf_signal_leave_empty(nf_signal_handler handler);

// For good, when nobody sends signals any more: nothing of ours stays, so that another profiler can have it.
void nf_signal_give_back(nf_signal_handler handler);

// Blocks or unblocks SIGPROF for the calling thread, and tells what it was before.
bool nf_signal_set_blocked(bool blocked);
bool nf_signal_blocked(void);

#endif
