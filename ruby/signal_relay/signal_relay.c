/* Datadog::Profiling::CLI::Relay: the signals of a program that stands between a caller and a command.
 *
 * The command shall get what it would get without us: a signal that somebody sends to our process is sent on.
 * What the terminal sends (^C, ^Z, hang-up) goes to every process of the group, so the command has it
 * already. Only siginfo tells these apart, and Ruby's trap does not show it. */
#include <errno.h>
#include <ruby.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LAST_SIGNAL 64

static volatile sig_atomic_t command;                  /* process id; 0: not known yet; -1: it has ended */
static volatile sig_atomic_t waiting[LAST_SIGNAL + 1]; /* what came before there was a command */

/* Async-signal-safe. */
static void on_signal(int number, siginfo_t *info, void *context) {
  (void)context;
  int before = errno;
  if (info->si_code <= 0 && info->si_pid != command) {
    if (command > 0)
      kill(command, number);
    else if (command == 0 && number <= LAST_SIGNAL)
      waiting[number] = 1;
  }
  errno = before;
}

/* Signals that say something of this process alone, or that nobody can handle. */
static int is_private(int number) {
  switch (number) {
  case SIGKILL:
  case SIGSTOP:
  case SIGCHLD:
  case SIGCONT:
  case SIGSEGV:
  case SIGBUS:
  case SIGILL:
  case SIGFPE:
  case SIGTRAP:
  case SIGABRT:
  case SIGSYS:
  case SIGPIPE:
  case SIGTTOU:
    return 1;
  default:
    return 0;
  }
}

static void handle(int number) {
  struct sigaction now;
  if (is_private(number) || sigaction(number, NULL, &now) != 0) return;  /* or one of the C library's own */
  if (!(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_IGN) return; /* the command inherits that */
  if (number == SIGPROF && (now.sa_flags & SA_SIGINFO || now.sa_handler != SIG_DFL))
    return; /* we are profiled */
  struct sigaction ours = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigemptyset(&ours.sa_mask);
  sigaction(number, &ours, NULL);
}

static void by_default(int number) {
  struct sigaction action = {.sa_handler = SIG_DFL};
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, NULL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* From now on; what comes before `command =` is kept for it. */
static VALUE native_install(VALUE self) {
  for (int number = 1; number <= LAST_SIGNAL; number++) handle(number);
  return self;
}

static VALUE native_set_command(VALUE self, VALUE pid) {
  (void)self;
  command = NIL_P(pid) ? -1 : NUM2PIDT(pid);
  for (int number = 1; command > 0 && number <= LAST_SIGNAL; number++) {
    if (!waiting[number]) continue;
    waiting[number] = 0;
    kill(command, number);
  }
  return pid;
}

/* The command was stopped by this signal: so are we, until somebody lets us go on. */
static VALUE native_stop_by(VALUE self, VALUE number) {
  int it = NUM2INT(number);
  if (it != SIGSTOP) by_default(it);
  kill(getpid(), it);
  if (it != SIGSTOP) handle(it);
  return self;
}

/* Ends this process as the signal has ended the command, but for a second core file. */
static VALUE native_end_by(VALUE self, VALUE number) {
  int it = NUM2INT(number);
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  if (it != SIGKILL && it != SIGSTOP) by_default(it);
  kill(getpid(), it);
  return self; /* a signal that ends nobody: the caller has another way */
}

__attribute__((visibility("default"))) void Init_datadog_signal_relay(void) {
  VALUE relay = rb_path2class("Datadog::Profiling::CLI::Relay");
  rb_define_singleton_method(relay, "_native_install", native_install, 0);
  rb_define_singleton_method(relay, "_native_set_command", native_set_command, 1);
  rb_define_singleton_method(relay, "_native_stop_by", native_stop_by, 1);
  rb_define_singleton_method(relay, "_native_end_by", native_end_by, 1);
}
