#include "tests/conformance/sequence.h"

#include <cstdio>

namespace conformance {

namespace {

std::string Escape(unsigned char byte) {
  switch (byte) {
  case '\n':
    return "\\n";
  case '\t':
    return "\\t";
  case '\r':
    return "\\r";
  case '"':
    return "\\\"";
  case '\\':
    return "\\\\";
  }
  if (byte >= 0x20 && byte < 0x7f) return std::string(1, static_cast<char>(byte));
  char octal[8]; // unlike hexadecimal ones, octal escapes end after three digits
  snprintf(octal, sizeof octal, "\\%03o", byte);
  return octal;
}

std::string Show(const Text &text) {
  switch (text.place) {
  case Place::kOwn:
    return Quote(text.bytes);
  case Place::kPool:
    return Quote(text.bytes) + "@pool";
  case Place::kSlot0:
    return Quote(text.bytes) + "@slot0";
  case Place::kSlot1:
    return Quote(text.bytes) + "@slot1";
  case Place::kNull:
    return "{NULL, 0}";
  }
  return "?";
}

std::string Show(const ValueType &type) { return "{" + Show(type.type) + ", " + Show(type.unit) + "}"; }

std::string Show(const std::optional<Timespec> &time) {
  if (!time) return "NULL";
  return "&{" + std::to_string(time->seconds) + ", " + std::to_string(time->nanoseconds) + "}";
}

std::string Show(int64_t number) {
  if (number == INT64_MIN) return "INT64_MIN";
  if (number == INT64_MAX) return "INT64_MAX";
  return std::to_string(number);
}

std::string Show(uint64_t number) { return number == UINT64_MAX ? "UINT64_MAX" : std::to_string(number); }

std::string Show(const Mapping &m) {
  return "{" + Show(m.start) + ", " + Show(m.limit) + ", " + Show(m.offset) + ", " + Show(m.filename) + ", " +
         Show(m.build_id) + "}";
}

std::string Show(const Function &f) {
  return "{" + Show(f.name) + ", " + Show(f.system_name) + ", " + Show(f.filename) + ", " +
         Show(f.start_line) + "}";
}

std::string Show(const Location &l) {
  return "{mapping " + Show(l.mapping) + ", function " + Show(l.function) + ", " + Show(l.address) + ", " +
         Show(l.line) + "}";
}

std::string Show(const Label &l) {
  return "{" + Show(l.key) + ", str " + Show(l.str) + ", num " + Show(l.num) + ", unit " + Show(l.num_unit) +
         "}";
}

// Equal neighbours are shown once.
template <typename T> std::string Show(const std::vector<T> &list) {
  std::string out = "{";
  for (size_t i = 0; i < list.size();) {
    std::string item = Show(list[i]);
    size_t same = 1;
    while (i + same < list.size() && Show(list[i + same]) == item) same++;
    if (i) out += ", ";
    out += item;
    if (same > 1) out += " x " + std::to_string(same);
    i += same;
  }
  return out + "}";
}

std::string Show(Handle handle) {
  switch (handle) {
  case Handle::kProfile0:
    return "&p0";
  case Handle::kProfile1:
    return "&p1";
  case Handle::kNull:
    return "NULL";
  case Handle::kInnerNull:
    return "&{.inner = NULL}";
  }
  return "?";
}

} // namespace

std::string Quote(const std::string &bytes) {
  std::string out = "\"";
  bool open = true;
  for (size_t i = 0; i < bytes.size();) {
    size_t run = 1;
    while (i + run < bytes.size() && bytes[i + run] == bytes[i]) run++;
    std::string escaped = Escape(static_cast<unsigned char>(bytes[i]));
    if (run > 12) {
      out += std::string(open ? "\"" : "") + " REPEAT(\"" + escaped + "\", " + std::to_string(run) + ")";
      open = false;
    } else {
      if (!open) out += " \"";
      open = true;
      for (size_t n = 0; n < run; n++) out += escaped;
    }
    i += run;
    if (out.size() > 4000) return out + "... (" + std::to_string(bytes.size()) + " bytes in all)";
  }
  return open ? out + "\"" : out;
}

std::string Print(const Call &c) {
  const std::string handle = Show(c.handle);
  const std::vector<uint64_t> offsets(c.offsets.begin(), c.offsets.end());
  switch (c.kind) {
  case Kind::kNew:
    return handle.substr(1) + " = ddog_prof_Profile_new(" + Show(c.types) + ", period " +
           (c.period_type ? "&{" + Show(*c.period_type) + ", " + Show(c.period) + "}" : "NULL") + ", start " +
           Show(c.start) + ");";
  case Kind::kDrop:
    return "ddog_prof_Profile_drop(" + handle + ");";
  case Kind::kAdd:
    return "ddog_prof_Profile_add(" + handle + ", {" + Show(c.locations) + ", values " + Show(c.values) +
           ", labels " + Show(c.labels) + "}, timestamp " + Show(c.timestamp) + ");";
  case Kind::kSetEndpoint:
    return "ddog_prof_Profile_set_endpoint(" + handle + ", " + Show(c.root_span) + ", " + Show(c.endpoint) +
           ");";
  case Kind::kEndpointCount:
    return "ddog_prof_Profile_add_endpoint_count(" + handle + ", " + Show(c.endpoint) + ", " + Show(c.count) +
           ");";
  case Kind::kPoisson:
    return "ddog_prof_Profile_add_upscaling_rule_poisson(" + handle + ", " + Show(offsets) + ", " +
           Show(c.label_name) + ", " + Show(c.label_value) + ", sum " + Show(uint64_t{c.sum_offset}) +
           ", count " + Show(uint64_t{c.count_offset}) + ", distance " + Show(c.distance) + ");";
  case Kind::kProportional:
    return "ddog_prof_Profile_add_upscaling_rule_proportional(" + handle + ", " + Show(offsets) + ", " +
           Show(c.label_name) + ", " + Show(c.label_value) + ", sampled " + Show(c.sampled) + ", real " +
           Show(c.real) + ");";
  case Kind::kSerialize:
    return "ddog_prof_Profile_serialize(" + handle + ", end " + Show(c.end) + ", duration " +
           (c.duration ? "&" + Show(*c.duration) : "NULL") + ", next start " + Show(c.start) + ");";
  case Kind::kReset:
    return "ddog_prof_Profile_reset(" + handle + ", " + Show(c.start) + ");";
  }
  return "?";
}

std::string Print(const Sequence &sequence) {
  std::string out;
  for (const Call &call : sequence) out += "  " + Print(call) + "\n";
  return out;
}

} // namespace conformance
