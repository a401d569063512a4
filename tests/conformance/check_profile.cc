// check_profile [--ours] FILE...
//
// Reads each file as a pprof profile and prints "FILE: OK, N samples, ..." or "FILE: what is wrong". With
// --ours by the strict rules that our own writer keeps. Exit status 0 only if all files are right.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "core/alloc.h"
#include "core/reader.h"

namespace {

constexpr size_t kMaxUncompressed = size_t{1} << 30;

bool ReadFile(const char *path, std::string *bytes, std::string *why) {
  FILE *file = fopen(path, "rb");
  if (file) {
    char buffer[1 << 16];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, file)) > 0;) bytes->append(buffer, n);
  }
  if (!file || ferror(file)) *why = strerror(errno);
  if (file) fclose(file);
  return why->empty();
}

bool Check(const char *path, nf_reader_rules rules) {
  std::string bytes, why;
  Pprof__Profile *profile = nullptr;
  nf_error error = {};
  if (ReadFile(path, &bytes, &why)) {
    const auto *data = reinterpret_cast<const uint8_t *>(bytes.data());
    // Our rules allow a profile without sample types, which pprof does not; so the stages are called one by
    // one.
    uint8_t *raw = nullptr;
    size_t raw_len = 0;
    bool ok = nf_reader_decompress(data, bytes.size(), kMaxUncompressed, &raw, &raw_len, &error) &&
              nf_reader_unpack(raw, raw_len, kMaxUncompressed * 2, &profile, &error) &&
              nf_reader_check(profile, rules, &error);
    nf_free(raw);
    if (!ok) why = error.text ? error.text : "out of memory";
  }
  if (why.empty())
    printf("%s: OK, %zu samples, %zu locations, %zu functions, %zu mappings, %zu strings\n", path,
           profile->n_sample, profile->n_location, profile->n_function, profile->n_mapping,
           profile->n_string_table);
  else
    printf("%s: %s\n", path, why.c_str());
  nf_reader_drop(profile);
  nf_error_deinit(&error);
  return why.empty();
}

} // namespace

int main(int argc, char **argv) {
  nf_reader_rules rules = NF_READER_RULES_PPROF;
  int first = 1;
  if (argc > 1 && strcmp(argv[1], "--ours") == 0) {
    rules = NF_READER_RULES_OURS;
    first = 2;
  }
  if (first >= argc) {
    fprintf(stderr, "usage: check_profile [--ours] FILE...\n");
    return 2;
  }
  bool ok = true;
  for (int i = first; i < argc; i++) ok &= Check(argv[i], rules);
  return ok ? 0 : 1;
}
