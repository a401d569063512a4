#include "tests/conformance/shrink.h"

#include <algorithm>

namespace conformance {

namespace {

class Shrinker {
public:
  Shrinker(Sequence sequence, const std::function<bool(const Sequence &)> &fails, int tries)
      : best_(std::move(sequence)), fails_(fails), tries_(tries) {}

  Sequence Run() {
    bool changed = true;
    while (changed && tries_ > 0) {
      changed = DropRuns([](Sequence *s) { return s; });
      for (size_t i = 0; i < best_.size() && tries_ > 0; i++) {
        changed |= DropRuns([i](Sequence *s) { return &(*s)[i].locations; });
        changed |= DropRuns([i](Sequence *s) { return &(*s)[i].labels; });
        changed |= DropRuns([i](Sequence *s) { return &(*s)[i].offsets; });
        changed |= Simplify(i);
      }
      changed |= DropTypes();
    }
    return best_;
  }

private:
  // Takes `candidate` if it still fails.
  bool Try(const Sequence &candidate) {
    if (tries_-- <= 0 || !fails_(candidate)) return false;
    best_ = candidate;
    return true;
  }

  // Leaves out runs of elements of a list within the sequence, long runs first.
  template <typename Of> bool DropRuns(Of of) {
    bool changed = false;
    for (size_t run = std::max<size_t>(of(&best_)->size() / 2, 1); run >= 1; run /= 2) {
      for (size_t at = 0; at + run <= of(&best_)->size() && tries_ > 0;) {
        Sequence candidate = best_;
        auto *list = of(&candidate);
        list->erase(list->begin() + static_cast<long>(at), list->begin() + static_cast<long>(at + run));
        if (Try(candidate))
          changed = true;
        else
          at += run;
      }
      if (run == 1) break;
    }
    return changed;
  }

  template <typename T> bool Set(T Call::*member, size_t call, const T &value) {
    Sequence candidate = best_;
    candidate[call].*member = value;
    return Try(candidate);
  }

  bool ShrinkNumber(size_t call, const std::function<int64_t *(Call *)> &of) {
    for (int64_t value : {int64_t{0}, int64_t{1}}) {
      if (*of(&best_[call]) == value) return false;
      Sequence candidate = best_;
      *of(&candidate[call]) = value;
      if (Try(candidate)) return true;
    }
    return false;
  }

  bool ShrinkText(size_t call, const std::function<Text *(Call *)> &of) {
    bool changed = false;
    auto attempt = [&](const Text &text) {
      Sequence candidate = best_;
      *of(&candidate[call]) = text;
      bool ok = Try(candidate);
      changed |= ok;
      return ok;
    };
    Text text = *of(&best_[call]);
    if (text.place == Place::kNull) return false;
    if (attempt({"", Place::kNull})) return true;
    if (text.place != Place::kOwn) attempt({text.bytes, Place::kOwn});
    for (size_t run = std::max<size_t>(text.bytes.size() / 2, 1); run >= 1 && tries_ > 0; run /= 2) {
      for (size_t at = 0; at + run <= of(&best_[call])->bytes.size() && tries_ > 0;) {
        Text shorter = *of(&best_[call]);
        shorter.bytes.erase(at, run);
        if (!attempt(shorter)) at += run;
      }
      if (run == 1) break;
    }
    return changed;
  }

  bool Simplify(size_t i) {
    bool changed = false;
    auto text = [&](const std::function<Text *(Call *)> &of) { changed |= ShrinkText(i, of); };
    auto number = [&](const std::function<int64_t *(Call *)> &of) { changed |= ShrinkNumber(i, of); };
    auto unsigned_number = [](uint64_t *value) { return reinterpret_cast<int64_t *>(value); };

    for (size_t k = 0; k < best_[i].locations.size() && tries_ > 0; k++) {
      auto location = [k](Call *c) -> Location & { return c->locations[k]; };
      text([=](Call *c) { return &location(c).mapping.filename; });
      text([=](Call *c) { return &location(c).mapping.build_id; });
      text([=](Call *c) { return &location(c).function.name; });
      text([=](Call *c) { return &location(c).function.system_name; });
      text([=](Call *c) { return &location(c).function.filename; });
      number([=](Call *c) { return &location(c).function.start_line; });
      number([=](Call *c) { return &location(c).line; });
      number([=](Call *c) { return unsigned_number(&location(c).address); });
      number([=](Call *c) { return unsigned_number(&location(c).mapping.start); });
      number([=](Call *c) { return unsigned_number(&location(c).mapping.limit); });
      number([=](Call *c) { return unsigned_number(&location(c).mapping.offset); });
    }
    for (size_t k = 0; k < best_[i].labels.size() && tries_ > 0; k++) {
      text([k](Call *c) { return &c->labels[k].key; });
      text([k](Call *c) { return &c->labels[k].str; });
      text([k](Call *c) { return &c->labels[k].num_unit; });
      number([k](Call *c) { return &c->labels[k].num; });
    }
    for (size_t k = 0; k < best_[i].values.size(); k++) number([k](Call *c) { return &c->values[k]; });
    for (size_t k = 0; k < best_[i].types.size(); k++) {
      text([k](Call *c) { return &c->types[k].type; });
      text([k](Call *c) { return &c->types[k].unit; });
    }
    text([](Call *c) { return &c->endpoint; });
    text([](Call *c) { return &c->label_name; });
    text([](Call *c) { return &c->label_value; });
    number([](Call *c) { return &c->timestamp; });
    number([](Call *c) { return &c->count; });
    number([=](Call *c) { return unsigned_number(&c->root_span); });
    if (best_[i].period_type) changed |= Set(&Call::period_type, i, std::optional<ValueType>());
    if (best_[i].duration) changed |= Set(&Call::duration, i, std::optional<int64_t>());
    for (auto member : {&Call::start, &Call::end}) {
      const std::optional<Timespec> &time = best_[i].*member;
      if (time && (time->seconds || time->nanoseconds))
        changed |= Set(member, i, std::optional<Timespec>(Timespec{}));
    }
    if (best_[i].handle == Handle::kProfile1) changed |= Set(&Call::handle, i, Handle::kProfile0);
    return changed;
  }

  // One sample type less, and the value that belongs to it.
  bool DropTypes() {
    bool changed = false;
    size_t most = 0;
    for (const Call &call : best_) most = std::max(most, call.types.size());
    for (size_t index = most; index-- > 0 && tries_ > 0;) {
      Sequence candidate = best_;
      for (Call &call : candidate) {
        if (index < call.types.size()) call.types.erase(call.types.begin() + static_cast<long>(index));
        if (index < call.values.size()) call.values.erase(call.values.begin() + static_cast<long>(index));
      }
      changed |= Try(candidate);
    }
    return changed;
  }

  Sequence best_;
  const std::function<bool(const Sequence &)> &fails_;
  int tries_;
};

} // namespace

Sequence Shrink(Sequence sequence, const std::function<bool(const Sequence &)> &fails, int tries) {
  return Shrinker(std::move(sequence), fails, tries).Run();
}

} // namespace conformance
