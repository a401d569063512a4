// Plays the same sequences of API calls on two libraries and compares what comes out.
//
//   conformance --ours SO [--oracle SO] [--sequences N] [--seed S] [--only SEED] [--no-directed | --directed
//   NAME] [--jobs N]
//   conformance --ours SO --write FOLDER [--sequences N] [--seed S]
//   conformance --ours SO --digests [--sequences N] [--seed S]
//
// Each sequence runs in a child process, so that a crash or a hang is a failure like any other. A failure is
// shrunk and printed as calls. Exit status: 0 all equal (or skipped, with the reason), 1 a difference, 2
// wrong usage.
#include <pwd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/reader.h"
#include "tests/conformance/differences.h"
#include "tests/conformance/digest.h"
#include "tests/conformance/generate.h"
#include "tests/conformance/play.h"
#include "tests/conformance/shrink.h"

namespace conformance {

namespace {

constexpr unsigned kSecondsPerSequence = 120;
constexpr int kShrinkTries = 4000;

struct Options {
  std::string oracle, ours;
  uint64_t sequences = 20000;
  uint64_t seed = 1;
  bool only = false;
  bool directed = true;
  int jobs = 2;
  int max_failures = 5;
  bool same_bytes = true;
  bool digests = false;
  std::string named; // only those directed ones
  std::string write_to;
};

// The strict rules on everything that was serialised.
std::string CheckStrictly(const Library &library, const Outcome &outcome) {
  for (size_t i = 0; i < outcome.size(); i++) {
    if (!outcome[i].serialized) continue;
    const std::string &raw = outcome[i].serialized->profile.raw;
    Pprof__Profile *profile = nullptr;
    nf_error error = {};
    bool ok = nf_reader_unpack(reinterpret_cast<const uint8_t *>(raw.data()), raw.size(), SIZE_MAX, &profile,
                               &error) &&
              nf_reader_check(profile, NF_READER_RULES_OURS, &error);
    std::string text = ok ? "" : error.text ? error.text : "out of memory";
    nf_reader_drop(profile);
    nf_error_deinit(&error);
    if (!ok)
      return "call " + std::to_string(i) + ": the profile of " + library.name + " breaks a rule: " + text;
  }
  return "";
}

// Equal input gives equal bytes, wherever it lies.
std::string CheckSame(const Sequence &sequence, const Outcome &once, const Outcome &again) {
  for (size_t i = 0; i < once.size(); i++) {
    if (once[i].ok != again[i].ok) return "call " + std::to_string(i) + ": another result the second time";
    if (once[i].message != again[i].message &&
        sequence[i].kind != Kind::kSerialize) // another function's name
      return "call " + std::to_string(i) + ": another message the second time";
    if (!once[i].serialized || !again[i].serialized) continue;
    const SerializeOutcome &a = *once[i].serialized, &b = *again[i].serialized;
    if (a.start_is_now || a.duration_is_theirs) continue;
    if (a.profile.raw != b.profile.raw) return "call " + std::to_string(i) + ": other bytes the second time";
  }
  return "";
}

class Driver {
public:
  explicit Driver(const Options &options) : options_(options) {}

  // Writes what a library serialises into files, for other tools to read.
  int Write() {
    std::string why = ours_.Open("ours", options_.ours);
    if (!why.empty()) {
      fprintf(stderr, "%s\n", why.c_str());
      return 2;
    }
    size_t files = 0;
    for (uint64_t seed = options_.seed; seed < options_.seed + options_.sequences; seed++) {
      PlayOptions play;
      const bool gzip = ours_.ddog_prof_Profile_serialize_as != nullptr;
      if (gzip) play.codec = DDOG_PROF_CODEC_GZIP;
      Outcome outcome = Play(ours_, Generate(seed), play);
      for (size_t call = 0; call < outcome.size(); call++) {
        if (!outcome[call].serialized) continue;
        std::string path =
            options_.write_to + "/" + std::to_string(seed) + "-" + std::to_string(call) + ".pb";
        if (gzip) path += ".gz";
        const SerializeOutcome &serialized = *outcome[call].serialized;
        const std::string &bytes = gzip ? serialized.file : serialized.profile.raw;
        FILE *file = fopen(path.c_str(), "wb");
        bool ok = file && fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
        if (file && fclose(file)) ok = false;
        if (!ok) {
          perror(path.c_str());
          return 2;
        }
        files++;
      }
    }
    printf("%zu profiles in %s\n", files, options_.write_to.c_str());
    return 0;
  }

  // A line for each sequence: what this machine makes of it, to be compared with another machine's.
  int PrintDigests() {
    std::string why = ours_.Open("ours", options_.ours);
    if (!why.empty()) {
      fprintf(stderr, "%s\n", why.c_str());
      return 2;
    }
    if (options_.directed) directed_ = DirectedSequences();
    for (uint64_t item = 0; item < directed_.size() + options_.sequences; item++) {
      Outcome outcome = Play(ours_, SequenceOf(item));
      std::string broken = CheckStrictly(ours_, outcome);
      printf("%016llx %s%s%s\n", static_cast<unsigned long long>(Digest(outcome)), NameOf(item).c_str(),
             broken.empty() ? "" : ": ", broken.c_str());
    }
    return 0;
  }

  int Run() {
    std::string why = oracle_.Open("oracle", options_.oracle);
    if (!why.empty()) {
      // The runner of the tests looks for this word at the start of a line.
      printf("skipped: the original library is not there (tests/conformance/fetch_oracle gets it): %s\n",
             why.c_str());
      return 0;
    }
    why = ours_.Open("ours", options_.ours);
    if (!why.empty()) {
      fprintf(stderr, "%s\n", why.c_str());
      return 2;
    }
    struct stat a, b;
    same_library_ =
        !stat(options_.oracle.c_str(), &a) && !stat(options_.ours.c_str(), &b) && a.st_ino == b.st_ino;
    printf("oracle %s\nours   %s%s\n", options_.oracle.c_str(), options_.ours.c_str(),
           same_library_ ? " (the same file: a test of this test)" : "");
    if (options_.directed && !options_.only)
      for (Directed &directed : DirectedSequences())
        if (directed.name.find(options_.named) != std::string::npos) directed_.push_back(std::move(directed));
    printf("%zu directed and %llu generated sequences, seeds %llu to %llu\n", directed_.size(),
           static_cast<unsigned long long>(options_.sequences),
           static_cast<unsigned long long>(options_.seed),
           static_cast<unsigned long long>(options_.seed + options_.sequences - 1));
    fflush(stdout);
    if (options_.only) printf("%s", Print(Generate(options_.seed)).c_str());

    shared_ = static_cast<Shared *>(
        mmap(nullptr, sizeof(Shared) * 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    if (shared_ == MAP_FAILED) {
      perror("mmap");
      return 2;
    }
    const uint64_t total = directed_.size() + options_.sequences;
    std::vector<pid_t> workers(static_cast<size_t>(options_.jobs));
    for (size_t w = 0; w < workers.size(); w++) workers[w] = StartWorker(w, w, total);
    int failures = 0;
    for (size_t running = workers.size(); running > 0;) {
      int status;
      pid_t ended = wait(&status);
      if (ended < 0) break;
      for (size_t w = 0; w < workers.size(); w++) {
        if (workers[w] != ended) continue;
        running--;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
        uint64_t item = shared_[w].item;
        failures++;
        Report(item);
        if (failures < options_.max_failures) {
          workers[w] = StartWorker(w, item + workers.size(), total);
          running++;
        } else {
          for (size_t other = 0; other < workers.size(); other++)
            if (other != w) kill(workers[other], SIGTERM);
        }
      }
      if (failures >= options_.max_failures) break;
    }
    uint64_t calls = 0, refused = 0, samples = 0;
    for (size_t w = 0; w < workers.size(); w++) {
      calls += shared_[w].calls;
      refused += shared_[w].refused;
      samples += shared_[w].samples;
    }
    printf("%llu calls, of which %llu were refused; %llu samples in the profiles; %d failures%s\n",
           static_cast<unsigned long long>(calls), static_cast<unsigned long long>(refused),
           static_cast<unsigned long long>(samples), failures,
           failures >= options_.max_failures ? " (stopped there)" : "");
    return failures ? 1 : 0;
  }

private:
  struct Shared {
    uint64_t item, calls, refused, samples;
  };

  std::string NameOf(uint64_t item) const {
    if (item < directed_.size()) return directed_[item].name;
    return "seed " + std::to_string(options_.seed + item - directed_.size()) + " (--only " +
           std::to_string(options_.seed + item - directed_.size()) + ")";
  }
  Sequence SequenceOf(uint64_t item) const {
    if (item < directed_.size()) return directed_[item].sequence;
    return Generate(options_.seed + item - directed_.size());
  }

  std::string Check(const Sequence &sequence, Shared *shared = nullptr) const {
    Outcome expected = Play(oracle_, sequence), actual = Play(ours_, sequence);
    if (shared) {
      for (const CallOutcome &call : expected) {
        shared->calls++;
        shared->refused += !call.ok;
        if (call.serialized) {
          auto found = call.serialized->profile.messages.find(kSample);
          if (found != call.serialized->profile.messages.end()) shared->samples += found->second.size();
        }
      }
    }
    std::string difference = Compare(sequence, oracle_, expected, ours_, actual);
    if (difference.empty()) difference = CheckStrictly(ours_, actual);
    if (difference.empty() && options_.same_bytes && !same_library_)
      difference = CheckAgain(sequence, actual);
    return difference;
  }

  // Once more with the texts in other places, and in one of the other codecs.
  std::string CheckAgain(const Sequence &sequence, const Outcome &outcome) const {
    PlayOptions other;
    other.places = false;
    if (ours_.ddog_prof_Profile_serialize_as) {
      static const ddog_prof_Codec codecs[] = {DDOG_PROF_CODEC_LZ4_FRAME, DDOG_PROF_CODEC_GZIP,
                                               DDOG_PROF_CODEC_ZSTD, DDOG_PROF_CODEC_NONE};
      other.codec = codecs[sequence.size() % 4];
    }
    return CheckSame(sequence, outcome, Play(ours_, sequence, other));
  }

  pid_t StartWorker(size_t which, uint64_t first, uint64_t total) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid != 0) return pid;
    for (uint64_t item = first; item < total; item += static_cast<uint64_t>(options_.jobs)) {
      shared_[which].item = item;
      alarm(kSecondsPerSequence);
      if (!Check(SequenceOf(item), &shared_[which]).empty()) exit(1);
    }
    exit(0); // not _exit: what a coverage build counted would be lost
  }

  // In a child of its own; a crash is a difference too.
  std::string CheckIsolated(const Sequence &sequence, unsigned seconds) const {
    int pipe_ends[2];
    if (pipe(pipe_ends)) return "pipe failed";
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
      close(pipe_ends[0]);
      int null = open_null();
      dup2(null, 2); // what a crash prints would come once for each try
      alarm(seconds);
      std::string difference = Check(sequence);
      if (difference.size() > 60000) difference.resize(60000);
      ssize_t written = write(pipe_ends[1], difference.data(), difference.size());
      _exit(written < 0);
    }
    close(pipe_ends[1]);
    std::string difference;
    char buffer[4096];
    for (ssize_t n; (n = read(pipe_ends[0], buffer, sizeof buffer)) > 0;)
      difference.append(buffer, static_cast<size_t>(n));
    close(pipe_ends[0]);
    int status = 0;
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status)) return std::string("the process dies: ") + strsignal(WTERMSIG(status));
    if (status != 0) return "the process exits with " + std::to_string(WEXITSTATUS(status));
    return difference;
  }

  static int open_null() {
    FILE *null = fopen("/dev/null", "w");
    return null ? fileno(null) : 1;
  }

  void Report(uint64_t item) {
    Sequence sequence = SequenceOf(item);
    printf("\nFAILED: %s, %zu calls\n", NameOf(item).c_str(), sequence.size());
    std::string first = CheckIsolated(sequence, kSecondsPerSequence);
    if (first.empty()) {
      printf("  but not when it runs alone: what came before it matters\n");
      return;
    }
    // Keep to the kind of the failure: a difference must not turn into a crash of the original, say.
    bool died = first.find("the process") == 0;
    std::string last = first;
    Sequence small = Shrink(
        sequence,
        [&](const Sequence &candidate) {
          std::string now = CheckIsolated(candidate, 10);
          if (now.empty() || (now.find("the process") == 0) != died) return false;
          last = now;
          return true;
        },
        kShrinkTries);
    printf("  %s\n%s", last.c_str(), Print(small).c_str());
    fflush(stdout);
  }

  const Options options_;
  Library oracle_, ours_;
  bool same_library_ = false;
  std::vector<Directed> directed_;
  Shared *shared_ = nullptr;
};

// As fetch_oracle has it. Bazel gives tests a HOME of their own, which is not meant.
std::string CacheFolder() {
  const char *cache = getenv("NF_CACHE"), *home = getenv("HOME"), *scratch = getenv("TEST_TMPDIR");
  if (cache && *cache) return cache;
  if (!home || !*home || (scratch && strcmp(home, scratch) == 0)) {
    struct passwd *user = getpwuid(getuid());
    home = user ? user->pw_dir : "/root";
  }
  return std::string(home) + "/.cache/nonferrous";
}

int Usage() {
  fprintf(
      stderr,
      "usage: conformance --ours SO [--oracle SO] [--sequences N] [--seed S] [--only SEED] [--no-directed | --directed NAME] "
      "[--jobs N] [--max-failures N] [--any-order] [--differences] [--write FOLDER | --digests]\n");
  return 2;
}

} // namespace

int Main(int argc, char **argv) {
  Options options;
  options.oracle = CacheFolder() + "/rust/lib/libdatadog_profiling.so";
  for (int i = 1; i < argc; i++) {
    std::string name = argv[i];
    if (name == "--no-directed") {
      options.directed = false;
      continue;
    }
    if (name == "--digests") {
      options.digests = true;
      continue;
    }
    if (name == "--any-order") { // for libraries whose order of samples is random
      options.same_bytes = false;
      continue;
    }
    if (name == "--differences") {
      for (const Difference &d : kDifferences)
        printf("%s\n  original: %s\n  ours:     %s\n  here:     %s\n", d.input, d.original, d.ours,
               d.handled);
      return 0;
    }
    if (i + 1 == argc) return Usage();
    std::string value = argv[++i];
    if (name == "--oracle")
      options.oracle = value;
    else if (name == "--ours")
      options.ours = value;
    else if (name == "--sequences")
      options.sequences = strtoull(value.c_str(), nullptr, 10);
    else if (name == "--seed")
      options.seed = strtoull(value.c_str(), nullptr, 10);
    else if (name == "--write")
      options.write_to = value;
    else if (name == "--directed")
      options.named = value;
    else if (name == "--jobs")
      options.jobs = atoi(value.c_str());
    else if (name == "--max-failures")
      options.max_failures = atoi(value.c_str());
    else if (name == "--only") {
      options.only = true;
      options.seed = strtoull(value.c_str(), nullptr, 10);
      options.sequences = 1;
      options.jobs = 1;
    } else
      return Usage();
  }
  if (options.ours.empty() || options.jobs < 1 || options.jobs > 64) return Usage();
  Driver driver(options);
  if (options.digests) return driver.PrintDigests();
  return options.write_to.empty() ? driver.Run() : driver.Write();
}

} // namespace conformance

int main(int argc, char **argv) { return conformance::Main(argc, argv); }
