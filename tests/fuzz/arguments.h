// Arguments for the library, made of the fuzzer's bytes: texts that lie where a sampler's would, and where a
// careless cache would be fooled.
#pragma once

#include <datadog/profiling.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/fuzz/input.h"
#include "tests/fuzz/model.h"

namespace fuzz {

class Arguments {
public:
  explicit Arguments(Input *input) : input_(input) {}
  ~Arguments() { EndCall(); }
  Arguments(const Arguments &) = delete;
  Arguments &operator=(const Arguments &) = delete;

  // After each call of the library: what was passed is overwritten and freed.
  void EndCall() {
    for (auto &[block, size] : blocks_) {
      memset(block, 0xDD, size);
      free(block);
    }
    blocks_.clear();
    taken_[0] = taken_[1] = false;
  }

  // Constant texts at constant addresses, two buffers that are used again with other bytes, or memory of its
  // own.
  ddog_CharSlice Text(std::string *bytes) {
    static const char *const kConstant[] = {
        "",
        "local root span id",
        "trace endpoint",
        "span id",
        "end_timestamp_ns",
        "a",
        "b",
        "thread id",
        "rails.rb",
        "render",
        "Controller#show",
        "\xC3\xA9t\xC3\xA9",
        "c",
        "/usr/lib/ruby/3.1.0/net/http.rb",
        "wall",
        "block in run",
    };
    uint8_t kind = input_->Byte();
    if (kind < 0x90) {
      *bytes = kConstant[kind % 16];
      return {kConstant[kind % 16], bytes->size()};
    }
    if (kind < 0x98) {
      bytes->clear();
      return {nullptr, 0};
    }
    *bytes = kind >= 0xF8 ? std::string(1u << (kind % 8 + 4), static_cast<char>(input_->Byte()))
                          : input_->Bytes(kind % 8);
    int slot = kind % 2;
    if (kind < 0xC0 && !taken_[slot] && bytes->size() <= sizeof slots_[slot]) {
      taken_[slot] = true;
      memcpy(slots_[slot], bytes->data(), bytes->size());
      return {slots_[slot], bytes->size()};
    }
    return Own(*bytes);
  }

  ddog_prof_Sample Sample(size_t n_types, ModelSample *model) {
    size_t n = input_->Byte() % 8;
    for (size_t i = 0; i < n; i++) model->locations.push_back(ModelLocation());
    auto *locations = Array<ddog_prof_Location>(n);
    for (size_t i = 0; i < n; i++) locations[i] = Location(&model->locations[i]);
    if (n && input_->OneIn(32)) { // a deep one
      size_t deep = n + (1u << (input_->Byte() % 10));
      auto *more = Array<ddog_prof_Location>(deep);
      for (size_t i = 0; i < deep; i++) more[i] = locations[i % n];
      for (size_t i = n; i < deep; i++) model->locations.push_back(model->locations[i % n]);
      locations = more;
    }
    size_t n_values = input_->OneIn(64) ? input_->Byte() % 8 : n_types;
    auto *values = Array<int64_t>(n_values);
    for (size_t i = 0; i < n_values; i++) model->values.push_back(values[i] = input_->Number());
    size_t n_labels = input_->Byte() % 8;
    auto *labels = Array<ddog_prof_Label>(n_labels);
    for (size_t i = 0; i < n_labels; i++) {
      ModelLabel l;
      labels[i].key = Text(&l.key);
      labels[i].str = input_->Byte() % 2 ? Text(&l.str) : ddog_CharSlice{nullptr, 0};
      labels[i].num = l.num = input_->Number();
      labels[i].num_unit = input_->OneIn(4) ? Text(&l.num_unit) : ddog_CharSlice{nullptr, 0};
      model->labels.push_back(l);
    }
    return {{locations, model->locations.size()}, {values, n_values}, {labels, n_labels}};
  }

  ddog_prof_Slice_Usize Offsets(size_t n_types, std::vector<uintptr_t> *model) {
    size_t n = input_->Byte() % 4;
    auto *offsets = Array<uintptr_t>(n);
    for (size_t i = 0; i < n; i++) {
      uint8_t byte = input_->Byte();
      offsets[i] = byte == 255 ? UINTPTR_MAX : byte % (n_types + (byte > 240));
      model->push_back(offsets[i]);
    }
    return {offsets, n};
  }

  // Exactly as long as needed.
  template <typename T> T *Array(size_t n) { return n ? static_cast<T *>(Block(n * sizeof(T))) : nullptr; }

private:
  void *Block(size_t size) {
    void *block = malloc(size);
    memset(block, 0, size);
    blocks_.emplace_back(block, size);
    return block;
  }

  ddog_CharSlice Own(const std::string &bytes) {
    if (bytes.empty()) return {"not empty", 0};
    char *copy = static_cast<char *>(Block(bytes.size()));
    memcpy(copy, bytes.data(), bytes.size());
    return {copy, bytes.size()};
  }

  ddog_prof_Location Location(ModelLocation *model) {
    ddog_prof_Location l = {};
    uint8_t parts = input_->Byte();
    if (parts < 0xC0) parts = 1; // name, file and line, as from an interpreter
    l.function.name = Text(&model->name);
    l.function.filename = Text(&model->filename);
    if (parts & 1) l.line = model->line = input_->Number();
    if (parts & 2) l.function.system_name = Text(&model->system_name);
    if (parts & 4) l.function.start_line = model->start_line = input_->Number();
    if (parts & 8) l.address = model->address = static_cast<uint64_t>(input_->Number());
    if (parts & 16) {
      l.mapping.memory_start = model->mapping[0] = static_cast<uint64_t>(input_->Number());
      l.mapping.memory_limit = model->mapping[1] = static_cast<uint64_t>(input_->Number());
      l.mapping.file_offset = model->mapping[2] = static_cast<uint64_t>(input_->Number());
    }
    if (parts & 32) {
      l.mapping.filename = Text(&model->mapping_filename);
      l.mapping.build_id = Text(&model->build_id);
    }
    return l;
  }

  Input *input_;
  std::vector<std::pair<void *, size_t>> blocks_;
  char slots_[2][16];
  bool taken_[2] = {};
};

} // namespace fuzz
