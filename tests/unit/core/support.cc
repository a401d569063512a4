#include "tests/unit/core/support.h"

#include <cstdlib>
#include <ostream>

namespace support {

std::ostream &operator<<(std::ostream &out, const Sample &sample) {
  for (const auto &frame : sample.stack) out << "[" << frame << "]";
  for (int64_t value : sample.values) out << " " << value;
  for (const auto &label : sample.labels) out << " {" << label << "}";
  return out;
}

std::string TextOf(ddog_Error *error) {
  ddog_CharSlice message = ddog_Error_message(error);
  std::string text(message.ptr, message.len);
  ddog_Error_drop(error);
  return text;
}

std::string TextOf(ddog_prof_Profile_Result result) {
  return result.tag == DDOG_PROF_PROFILE_RESULT_OK ? "" : TextOf(&result.err);
}

Decoded::Decoded(const uint8_t *data, size_t len) {
  nf_error error = {nullptr, 0};
  uint8_t *raw = nullptr;
  size_t raw_len = 0;
  Pprof__Profile *message = nullptr;
  if (!nf_reader_decompress(data, len, size_t{1} << 30, &raw, &raw_len, &error) ||
      !nf_reader_unpack(raw, raw_len, SIZE_MAX, &message, &error) ||
      !nf_reader_check(message, NF_READER_RULES_OURS, &error)) {
    ADD_FAILURE() << nf_error_text(&error);
    nf_error_deinit(&error);
    if (message) nf_reader_drop(message);
    message = nullptr;
  }
  if (raw) raw_.assign(reinterpret_cast<char *>(raw), raw_len);
  std::free(raw);
  if (message) message_.reset(message, nf_reader_drop);
}

std::vector<std::string> Decoded::strings() const {
  return {message_->string_table, message_->string_table + message_->n_string_table};
}

std::vector<Sample> Decoded::samples() const {
  std::vector<Sample> all;
  char **strings = message_->string_table;
  for (size_t i = 0; i < message_->n_sample; i++) {
    const Pprof__Sample *from = message_->sample[i];
    Sample to;
    for (size_t k = 0; k < from->n_location_id; k++) {
      const Pprof__Line *line = message_->location[from->location_id[k] - 1]->line[0];
      const Pprof__Function *function = message_->function[line->function_id - 1];
      to.stack.push_back(std::string(strings[function->name]) + " " + strings[function->filename] + ":" +
                         std::to_string(line->line));
    }
    to.values.assign(from->value, from->value + from->n_value);
    for (size_t k = 0; k < from->n_label; k++) {
      const Pprof__Label *label = from->label[k];
      std::string text = std::string(strings[label->key]) + "=";
      if (label->str)
        text += strings[label->str];
      else
        text += "#" + std::to_string(label->num) +
                (label->num_unit ? std::string(" ") + strings[label->num_unit] : "");
      to.labels.push_back(text);
    }
    all.push_back(to);
  }
  return all;
}

Profile::Profile(Types types, ddog_Timespec start) {
  std::vector<ddog_prof_ValueType> value_types;
  for (const auto &type : types) value_types.push_back({Slice(type.first), Slice(type.second)});
  ddog_prof_Profile_NewResult made =
      ddog_prof_Profile_new({value_types.data(), value_types.size()}, nullptr, &start);
  if (made.tag != DDOG_PROF_PROFILE_NEW_RESULT_OK) {
    ADD_FAILURE() << TextOf(&made.err);
    std::abort();
  }
  handle_ = made.ok;
}

std::string Profile::Add(const std::vector<Frame> &frames, const std::vector<int64_t> &values,
                         const std::vector<Label> &labels, int64_t timestamp) {
  std::vector<ddog_prof_Location> locations;
  for (const Frame &f : frames) {
    ddog_prof_Location location = {};
    location.mapping = {f.memory_start, f.memory_limit, f.file_offset, Slice(f.mapping_filename),
                        Slice(f.build_id)};
    location.function = {Slice(f.name), Slice(f.system_name), Slice(f.filename), f.start_line};
    location.address = f.address;
    location.line = f.line;
    locations.push_back(location);
  }
  std::vector<ddog_prof_Label> list;
  for (const Label &l : labels) list.push_back({Slice(l.key), Slice(l.str), l.num, Slice(l.unit)});
  ddog_prof_Sample sample = {
      {locations.data(), locations.size()}, {values.data(), values.size()}, {list.data(), list.size()}};
  return TextOf(ddog_prof_Profile_add(&handle_, sample, timestamp));
}

std::string Profile::SetEndpoint(uint64_t id, const std::string &name) {
  return TextOf(ddog_prof_Profile_set_endpoint(&handle_, id, Slice(name)));
}

std::string Profile::CountEndpoint(const std::string &name, int64_t value) {
  return TextOf(ddog_prof_Profile_add_endpoint_count(&handle_, Slice(name), value));
}

std::string Profile::Poisson(const std::vector<uintptr_t> &offsets, const std::string &name,
                             const std::string &value, uintptr_t sum, uintptr_t count, uint64_t distance) {
  return TextOf(ddog_prof_Profile_add_upscaling_rule_poisson(
      &handle_, {offsets.data(), offsets.size()}, Slice(name), Slice(value), sum, count, distance));
}

std::string Profile::Proportional(const std::vector<uintptr_t> &offsets, const std::string &name,
                                  const std::string &value, uint64_t sampled, uint64_t real) {
  return TextOf(ddog_prof_Profile_add_upscaling_rule_proportional(&handle_, {offsets.data(), offsets.size()},
                                                                  Slice(name), Slice(value), sampled, real));
}

ddog_prof_EncodedProfile Profile::Serialize(ddog_prof_Codec codec) {
  ddog_Timespec end = {1700000060, 0};
  ddog_prof_Profile_SerializeResult result =
      ddog_prof_Profile_serialize_as(&handle_, &end, nullptr, nullptr, codec);
  if (result.tag != DDOG_PROF_PROFILE_SERIALIZE_RESULT_OK) {
    ADD_FAILURE() << TextOf(&result.err);
    return {};
  }
  return result.ok;
}

Decoded Profile::Decode(ddog_prof_Codec codec) {
  ddog_prof_EncodedProfile encoded = Serialize(codec);
  Decoded decoded(encoded.buffer.ptr, encoded.buffer.len);
  ddog_prof_EncodedProfile_drop(&encoded);
  return decoded;
}

} // namespace support
