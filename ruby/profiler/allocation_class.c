#include "allocation_class.h"

#include <string.h>

// Exported by Ruby 3.0 and later, in no public header. Static text.
const char *rb_imemo_name(int kind) __attribute__((weak));
#define IMEMO_KIND_MASK 15

typedef struct vm_type {
  const char *name;
  const char *class_name; // where the object does not tell; NULL: the VM's own, always named like this
} vm_type;

static vm_type type_of(VALUE object) {
  switch (RB_BUILTIN_TYPE(object)) {
  case T_OBJECT:
    return (vm_type){"T_OBJECT", "Object"};
  case T_CLASS:
    return (vm_type){"T_CLASS", "Class"};
  case T_MODULE:
    return (vm_type){"T_MODULE", "Module"};
  case T_FLOAT:
    return (vm_type){"T_FLOAT", "Float"};
  case T_STRING:
    return (vm_type){"T_STRING", "String"};
  case T_REGEXP:
    return (vm_type){"T_REGEXP", "Regexp"};
  case T_ARRAY:
    return (vm_type){"T_ARRAY", "Array"};
  case T_HASH:
    return (vm_type){"T_HASH", "Hash"};
  case T_STRUCT:
    return (vm_type){"T_STRUCT", "Struct"};
  case T_BIGNUM:
    return (vm_type){"T_BIGNUM", "Integer"};
  case T_FILE:
    return (vm_type){"T_FILE", "File"};
  case T_DATA:
    return (vm_type){"T_DATA", "(VM Internal, T_DATA)"};
  case T_MATCH:
    return (vm_type){"T_MATCH", "MatchData"};
  case T_COMPLEX:
    return (vm_type){"T_COMPLEX", "Complex"};
  case T_RATIONAL:
    return (vm_type){"T_RATIONAL", "Rational"};
  case T_SYMBOL:
    return (vm_type){"T_SYMBOL", "Symbol"};
  case T_IMEMO:
    return (vm_type){"T_IMEMO", NULL};
  case T_ICLASS:
    return (vm_type){"T_ICLASS", NULL};
  case T_NODE:
    return (vm_type){"T_NODE", NULL};
  default: // none that could have been allocated just now
    return (vm_type){"Unknown Type", NULL};
  }
}

static ddog_CharSlice slice(const char *text) { return nf_slice_of_text(text, strlen(text)); }

static const char *imemo_kind(VALUE object) {
  if (RB_BUILTIN_TYPE(object) != T_IMEMO || rb_imemo_name == NULL) return NULL;
  return rb_imemo_name((int)(RBASIC(object)->flags >> RUBY_FL_USHIFT) & IMEMO_KIND_MASK);
}

static ddog_CharSlice internal_name(VALUE object, const vm_type *type, char *buffer, size_t size) {
  const char *kind = imemo_kind(object);
  int length = kind != NULL ? snprintf(buffer, size, "(VM Internal, %s, %s)", type->name, kind)
                            : snprintf(buffer, size, "(VM Internal, %s)", type->name);
  return nf_slice_of_text(buffer, (size_t)length < size ? (size_t)length : size - 1);
}

void nf_allocation_class_of(VALUE object, nf_allocation_class *result) {
  vm_type type = type_of(object);
  result->vm_type = slice(type.name);
  result->internal = true;
  if (type.class_name == NULL) {
    result->name = internal_name(object, &type, result->buffer, sizeof(result->buffer));
    return;
  }
  result->name = slice(type.class_name);
  VALUE klass = RBASIC_CLASS(object);
  if (!klass) return; // hidden from Ruby code, for instance a temporary string
  result->internal = false;
  klass = rb_class_real(klass); // not a singleton class
  if (!klass) return;
  VALUE name = rb_mod_name(klass); // looks it up, makes none
  if (RB_TYPE_P(name, T_STRING)) {
    if (RSTRING_LEN(name) > 0) result->name = nf_slice_of(name);
  } else {
    int length =
        snprintf(result->buffer, sizeof(result->buffer), "#<Class:0x%016llx>", (unsigned long long)klass);
    result->name = nf_slice_of_text(result->buffer, (size_t)length);
  }
}
