#include "signal_setup.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static void empty_handler(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)info;
  (void)context;
}

static nf_signal_owner owner_of(const struct sigaction *action, nf_signal_handler handler) {
  if (!(action->sa_flags & SA_SIGINFO)) {
    return action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN ? NF_SIGNAL_OWNER_NOBODY
                                                                          : NF_SIGNAL_OWNER_OTHER;
  }
  if (action->sa_sigaction == handler) return NF_SIGNAL_OWNER_PROFILING;
  if (action->sa_sigaction == empty_handler) return NF_SIGNAL_OWNER_EMPTY;
  if (action->sa_sigaction == NULL) return NF_SIGNAL_OWNER_NOBODY; // the default, set with that flag
  return NF_SIGNAL_OWNER_OTHER;
}

nf_signal_owner nf_signal_current_owner(nf_signal_handler handler) {
  struct sigaction current;
  if (sigaction(SIGPROF, NULL, &current) != 0) return NF_SIGNAL_OWNER_UNKNOWN;
  return owner_of(&current, handler);
}

static bool set_handler(nf_signal_handler handler) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  action.sa_sigaction = handler;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGPROF, &action, NULL) == 0;
}

bool nf_signal_install(nf_signal_handler handler, nf_failure *failure) {
  switch (nf_signal_current_owner(handler)) {
  case NF_SIGNAL_OWNER_OTHER:
    return nf_failure_set(
        failure,
        "a pre-existing SIGPROF signal handler was found: another profiler or library in this process "
        "uses that signal. It was left as it is; profiling can run beside it only without signals");
  case NF_SIGNAL_OWNER_UNKNOWN:
    return nf_failure_set(failure, "the SIGPROF signal handler cannot be read: %s", strerror(errno));
  default:
    break;
  }
  if (!set_handler(handler)) {
    return nf_failure_set(failure, "the SIGPROF signal handler cannot be installed: %s", strerror(errno));
  }
  return true;
}

void nf_signal_leave_empty(nf_signal_handler handler) {
  if (nf_signal_current_owner(handler) == NF_SIGNAL_OWNER_PROFILING) set_handler(empty_handler);
}

void nf_signal_give_back(nf_signal_handler handler) {
  nf_signal_owner owner = nf_signal_current_owner(handler);
  if (owner != NF_SIGNAL_OWNER_PROFILING && owner != NF_SIGNAL_OWNER_EMPTY) return;
  signal(SIGPROF, SIG_IGN); // the system drops what is on its way
  signal(SIGPROF, SIG_DFL);
}

bool nf_signal_set_blocked(bool blocked) {
  sigset_t only_sigprof, before;
  sigemptyset(&only_sigprof);
  sigaddset(&only_sigprof, SIGPROF);
  if (pthread_sigmask(blocked ? SIG_BLOCK : SIG_UNBLOCK, &only_sigprof, &before) != 0) return false;
  return sigismember(&before, SIGPROF) == 1;
}

bool nf_signal_blocked(void) {
  sigset_t now;
  if (pthread_sigmask(SIG_SETMASK, NULL, &now) != 0) return false;
  return sigismember(&now, SIGPROF) == 1;
}
