// Runs a fuzz target without libFuzzer: on every file that is named or lies in a named folder, on each of its
// beginnings, and on a number of mutations of each, always the same ones.
//   replay [--mutations N] FILE-OR-FOLDER...
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

size_t runs;

void Run(const Bytes &bytes) {
  // Exactly as long as needed, for sanitizers and Valgrind.
  uint8_t *copy = static_cast<uint8_t *>(malloc(bytes.size() ? bytes.size() : 1));
  std::copy(bytes.begin(), bytes.end(), copy);
  LLVMFuzzerTestOneInput(copy, bytes.size());
  free(copy);
  runs++;
}

void Mutate(Bytes *bytes, const Bytes &other, std::mt19937_64 *random) {
  auto below = [random](size_t n) { return n ? (*random)() % n : 0; };
  for (size_t n = 1 + below(4); n > 0; n--) {
    size_t at = below(bytes->size());
    switch (below(6)) {
    case 0:
      if (!bytes->empty()) (*bytes)[at] ^= static_cast<uint8_t>(1u << below(8));
      break;
    case 1:
      if (!bytes->empty()) (*bytes)[at] = static_cast<uint8_t>(below(256));
      break;
    case 2:
      bytes->insert(bytes->begin() + static_cast<ptrdiff_t>(at), static_cast<uint8_t>(below(256)));
      break;
    case 3:
      if (!bytes->empty()) {
        size_t len = 1 + below(std::min<size_t>(bytes->size() - at, 16));
        bytes->erase(bytes->begin() + static_cast<ptrdiff_t>(at),
                     bytes->begin() + static_cast<ptrdiff_t>(at + len));
      }
      break;
    case 4:
      if (!other.empty()) {
        size_t from = below(other.size()), len = 1 + below(other.size() - from);
        bytes->insert(bytes->begin() + static_cast<ptrdiff_t>(at),
                      other.begin() + static_cast<ptrdiff_t>(from),
                      other.begin() + static_cast<ptrdiff_t>(from + len));
      }
      break;
    default:
      bytes->resize(below(bytes->size() + 1));
    }
  }
}

std::vector<std::string> FilesIn(const std::string &path) {
  if (!std::filesystem::exists(path)) {
    fprintf(stderr, "replay: there is no %s\n", path.c_str());
    exit(1);
  }
  std::vector<std::string> files;
  if (std::filesystem::is_directory(path)) {
    for (const auto &entry : std::filesystem::recursive_directory_iterator(path))
      if (!entry.is_directory()) files.push_back(entry.path());
  } else
    files.push_back(path);
  std::sort(files.begin(), files.end());
  return files;
}

Bytes Read(const std::string &file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    fprintf(stderr, "replay: cannot read %s\n", file.c_str());
    exit(1);
  }
  return Bytes(std::istreambuf_iterator<char>(stream), {});
}

} // namespace

int main(int argc, char **argv) {
  int mutations = 0;
  std::vector<Bytes> seeds;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--mutations") && i + 1 < argc) {
      mutations = atoi(argv[++i]);
      continue;
    }
    for (const std::string &file : FilesIn(argv[i])) {
      seeds.push_back(Read(file));
      printf("%s\n", file.c_str()); // before it runs: the last one printed is the culprit
      fflush(stdout);
      Run(seeds.back());
    }
  }
  if (seeds.empty()) {
    fprintf(stderr, "replay: no seeds\n");
    return 1;
  }
  std::mt19937_64 random(1);
  Run({});
  for (size_t s = 0; s < seeds.size(); s++) {
    size_t step = seeds[s].size() / 64 + 1;
    for (size_t len = 0; len < seeds[s].size(); len += step)
      Run(Bytes(seeds[s].begin(), seeds[s].begin() + static_cast<ptrdiff_t>(len)));
    for (int i = 0; i < mutations; i++) {
      Bytes bytes = seeds[s];
      Mutate(&bytes, seeds[random() % seeds.size()], &random);
      Run(bytes);
    }
  }
  printf("%zu seeds, %zu runs\n", seeds.size(), runs);
  return 0;
}
