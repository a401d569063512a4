#include "core/reader.h"

#include <string.h>

#include "core/alloc.h"
#include "core/utf8.h"

/* ---- Protobuf as it lies there ----
 * protobuf-c says only "no" to bad input, does not look at the bytes of strings and loses their length. So
 * the outer level is walked first: this finds out where the trouble is, and keeps what the strings need. */

typedef struct wire {
  const uint8_t *bytes;
  size_t len;
  size_t at;
} wire;

typedef struct field {
  size_t at; /* where it begins */
  uint64_t number;
  unsigned type;
  const uint8_t *payload; /* of a length-delimited one */
  size_t payload_len;
} field;

enum { WIRE_VARINT = 0, WIRE_64BIT = 1, WIRE_BYTES = 2, WIRE_32BIT = 5 };

static bool ends_early(const field *field, nf_error *error) {
  return nf_error_set(error, "the profile is truncated: it ends in the middle of the field at byte %zu",
                      field->at);
}

static bool not_pprof(const field *field, const char *why, nf_error *error) {
  return nf_error_set(error, "not a pprof profile: %s at byte %zu", why, field->at);
}

static bool read_varint(wire *wire, const field *field, uint64_t *value, nf_error *error) {
  *value = 0;
  for (unsigned i = 0; i < 10; i++) {
    if (wire->at == wire->len) return ends_early(field, error);
    uint8_t byte = wire->bytes[wire->at++];
    *value |= (uint64_t)(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return true;
  }
  return not_pprof(field, "a number of more than 10 bytes", error);
}

static bool read_field(wire *wire, field *field, nf_error *error) {
  uint64_t key, length;
  memset(field, 0, sizeof *field);
  field->at = wire->at;
  if (!read_varint(wire, field, &key, error)) return false;
  field->number = key >> 3;
  field->type = key & 7;
  if (field->number == 0) return not_pprof(field, "a field with number 0", error);
  switch (field->type) {
  case WIRE_VARINT:
    return read_varint(wire, field, &length, error);
  case WIRE_BYTES:
    if (!read_varint(wire, field, &length, error)) return false;
    break;
  case WIRE_64BIT:
    length = 8;
    break;
  case WIRE_32BIT:
    length = 4;
    break;
  default:
    return not_pprof(field, "no protobuf field", error);
  }
  if (length > wire->len - wire->at) return ends_early(field, error);
  field->payload = wire->bytes + wire->at;
  field->payload_len = (size_t)length;
  wire->at += (size_t)length;
  return true;
}

/* The schema's name for what it expects of this field: a message or string, a number, or either (packed or
 * not). */
static bool has_schema_type(const field *field) {
  switch (field->number) {
  case 1:
  case 2:
  case 3:
  case 4:
  case 5:
  case 6:
  case 11:
    return field->type == WIRE_BYTES;
  case 7:
  case 8:
  case 9:
  case 10:
  case 12:
  case 14:
    return field->type == WIRE_VARINT;
  case 13:
    return field->type == WIRE_VARINT || field->type == WIRE_BYTES;
  default:
    return true; /* unknown fields are skipped, as protobuf has it */
  }
}

enum { FIELD_STRING_TABLE = 6 };

/* Also counts the strings that hold a NUL: protobuf-c will cut them short. */
static bool scan(const uint8_t *raw, size_t len, size_t *strings_with_nul, nf_error *error) {
  wire wire = {raw, len, 0};
  field field;
  size_t strings = 0;
  *strings_with_nul = 0;
  while (wire.at < wire.len) {
    if (!read_field(&wire, &field, error)) return false;
    if (!has_schema_type(&field)) return not_pprof(&field, "a field of the wrong type", error);
    if (field.number != FIELD_STRING_TABLE) continue;
    nf_utf8_fault fault;
    if (!nf_utf8_valid((const char *)field.payload, field.payload_len, &fault))
      return nf_error_set(error, "string %zu is not UTF-8 (byte %zu of it)", strings, fault.index);
    if (memchr(field.payload, 0, field.payload_len)) ++*strings_with_nul;
    strings++;
  }
  if (strings == 0) return nf_error_set(error, "not a pprof profile: it has no string table");
  return true;
}

/* ---- Unpacking ---- */

/* Two bytes of input can ask for a message of a hundred: what protobuf-c takes is counted, and refused above
 * a bound. */
typedef struct budget {
  size_t left;
  bool exhausted;
} budget;

static void *budget_alloc(void *data, size_t size) {
  budget *budget = data;
  const size_t overhead = 16; /* of malloc, so that many small blocks count for what they cost */
  if (size > budget->left || budget->left - size < overhead) {
    budget->exhausted = true;
    return NULL;
  }
  budget->left -= size + overhead;
  return nf_alloc(size);
}

static void budget_free(void *data, void *pointer) {
  (void)data;
  nf_free(pointer);
}

static const char NUL_SYMBOL[] = "\xE2\x90\x80"; /* U+2400 */

static char *with_nul_symbols(const uint8_t *bytes, size_t len) {
  const size_t symbol = sizeof NUL_SYMBOL - 1;
  size_t nuls = 0;
  for (size_t i = 0; i < len; i++) nuls += bytes[i] == 0;
  char *text = nf_alloc(len + nuls * (symbol - 1) + 1), *end = text;
  if (!text) return NULL;
  for (size_t i = 0; i < len; i++) {
    if (bytes[i]) {
      *end++ = (char)bytes[i];
    } else {
      memcpy(end, NUL_SYMBOL, symbol);
      end += symbol;
    }
  }
  *end = 0;
  return text;
}

static bool restore_nuls(const uint8_t *raw, size_t len, Pprof__Profile *profile, nf_error *error) {
  wire wire = {raw, len, 0};
  field field;
  size_t index = 0;
  while (wire.at < wire.len && read_field(&wire, &field, error)) {
    if (field.number != FIELD_STRING_TABLE) continue;
    if (index < profile->n_string_table && memchr(field.payload, 0, field.payload_len)) {
      char *text = with_nul_symbols(field.payload, field.payload_len);
      if (!text) return nf_error_set(error, "out of memory for string %zu", index);
      nf_free(profile->string_table[index]);
      profile->string_table[index] = text;
    }
    index++;
  }
  return true;
}

bool nf_reader_unpack(const uint8_t *raw, size_t len, size_t max_memory, Pprof__Profile **profile,
                      nf_error *error) {
  *profile = NULL;
  size_t strings_with_nul;
  if (!scan(raw, len, &strings_with_nul, error)) return false;
  budget budget = {max_memory, false};
  ProtobufCAllocator allocator = {budget_alloc, budget_free, &budget};
  Pprof__Profile *unpacked = pprof__profile__unpack(&allocator, len, raw);
  if (!unpacked) {
    if (budget.exhausted)
      return nf_error_set(error, "the profile needs more than %zu bytes of memory, which is the limit",
                          max_memory);
    return nf_error_set(error, "not a pprof profile: protobuf cannot unpack one of its messages");
  }
  if (strings_with_nul && !restore_nuls(raw, len, unpacked, error)) {
    nf_reader_drop(unpacked);
    return false;
  }
  *profile = unpacked;
  return true;
}

void nf_reader_drop(Pprof__Profile *profile) {
  ProtobufCAllocator allocator = {budget_alloc, budget_free, NULL};
  if (profile) pprof__profile__free_unpacked(profile, &allocator);
}

bool nf_reader_read(const uint8_t *data, size_t len, size_t max_uncompressed, Pprof__Profile **profile,
                    nf_error *error) {
  *profile = NULL;
  uint8_t *raw;
  size_t raw_len;
  if (!nf_reader_decompress(data, len, max_uncompressed, &raw, &raw_len, error)) return false;
  const size_t base = 1 << 20;
  size_t memory = max_uncompressed > (SIZE_MAX - base) / NF_READER_MEMORY_FACTOR
                      ? SIZE_MAX
                      : max_uncompressed * NF_READER_MEMORY_FACTOR + base;
  Pprof__Profile *unpacked;
  bool ok = nf_reader_unpack(raw, raw_len, memory, &unpacked, error);
  nf_free(raw);
  if (!ok) return false;
  if (!nf_reader_check(unpacked, NF_READER_RULES_PPROF, error)) {
    nf_reader_drop(unpacked);
    return false;
  }
  *profile = unpacked;
  return true;
}
