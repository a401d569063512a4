#include "heap_sizes.h"

// Exported by Ruby for its objspace library, in no public header.
size_t rb_obj_memsize_of(VALUE object);
void rb_objspace_each_objects(int (*each)(void *start, void *end, size_t stride, void *data), void *data);

bool nf_heap_object_is(VALUE object, unsigned type) { return (unsigned)RB_BUILTIN_TYPE(object) == type; }

static VALUE size_of(VALUE data) {
  VALUE *call = (VALUE *)data; // the object, then its size
  call[1] = (VALUE)rb_obj_memsize_of(call[0]);
  return Qnil;
}

size_t nf_heap_object_size(VALUE object) {
  switch (RB_BUILTIN_TYPE(object)) { // the VM's function ends the process for types that it does not know
  case T_OBJECT:
  case T_MODULE:
  case T_CLASS:
  case T_STRING:
  case T_ARRAY:
  case T_HASH:
  case T_REGEXP:
  case T_MATCH:
  case T_FILE:
  case T_RATIONAL:
  case T_COMPLEX:
  case T_FLOAT:
  case T_SYMBOL:
  case T_BIGNUM:
  case T_STRUCT:
    return rb_obj_memsize_of(object);
  case T_DATA: {
    VALUE call[2] = {object, 0}, error = rb_errinfo();
    int raised = 0;
    rb_protect(size_of, (VALUE)call, &raised);
    if (raised) rb_set_errinfo(error);
    return raised ? 0 : (size_t)call[1];
  }
  default:
    return 0;
  }
}

bool nf_heap_collecting(void) {
  static VALUE state, none;
  if (state == 0) {
    state = ID2SYM(rb_intern("state"));
    none = ID2SYM(rb_intern("none"));
  }
  return rb_gc_latest_gc_info(state) != none;
}

void nf_heap_each_page(int (*each)(void *start, void *end, size_t stride, void *data), void *data) {
  rb_objspace_each_objects(each, data);
}
