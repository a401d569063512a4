/* ddog_Vec_Tag and the older, opaque endpoints. */
#include "exporter/abi/translate.h"
#include "exporter/endpoint.h"

#include <datadog/common.h>

#include <stdlib.h>

/* A ddog_Vec_Tag without storage points somewhere, but nowhere to be read. */
#define NOWHERE ((struct ddog_Tag *)_Alignof(max_align_t))

nf_tags nf_exporter_abi_tags(ddog_Vec_Tag vec) {
  if (!vec.ptr || vec.capacity == 0) return (nf_tags){0};
  return (nf_tags){.items = (nf_tag *)(uintptr_t)vec.ptr, .len = vec.len, .capacity = vec.capacity};
}

static ddog_Vec_Tag to_vec(const nf_tags *tags) {
  return (ddog_Vec_Tag){.ptr = tags->items ? (struct ddog_Tag *)tags->items : NOWHERE,
                        .len = tags->len,
                        .capacity = tags->capacity};
}

struct ddog_Vec_Tag ddog_Vec_Tag_new(void) {
  return to_vec(&(nf_tags){0});
}

void ddog_Vec_Tag_drop(struct ddog_Vec_Tag vec) {
  nf_tags tags = nf_exporter_abi_tags(vec);
  nf_tags_deinit(&tags);
}

struct ddog_Vec_Tag_PushResult ddog_Vec_Tag_push(struct ddog_Vec_Tag *vec, ddog_CharSlice key,
                                                 ddog_CharSlice value) {
  nf_error error = {0};
  bool ok;
  if (vec) {
    nf_tags tags = nf_exporter_abi_tags(*vec);
    ok = nf_tags_push_pair(&tags, nf_exporter_abi_text(key), nf_exporter_abi_text(value), &error);
    *vec = to_vec(&tags);
  } else {
    ok = nf_error_set(&error, "vector of tags was null");
  }
  if (ok) return (ddog_Vec_Tag_PushResult){.tag = DDOG_VEC_TAG_PUSH_RESULT_OK};
  return (ddog_Vec_Tag_PushResult){.tag = DDOG_VEC_TAG_PUSH_RESULT_ERR, .err = nf_abi_take_error(&error)};
}

/* On the heap, since the interface asks for it. ddog_Error_drop frees the text, nothing frees these 24
 * bytes. */
static ddog_Error *box(nf_error *error) {
  ddog_Error *boxed = malloc(sizeof *boxed);
  static ddog_Error no_memory; /* reads as an empty message */
  if (boxed)
    *boxed = nf_abi_take_error(error);
  else
    nf_error_deinit(error);
  return boxed ? boxed : &no_memory;
}

struct ddog_Vec_Tag_ParseResult ddog_Vec_Tag_parse(ddog_CharSlice string) {
  nf_error error = {0};
  nf_tags tags = {0};
  bool ok = nf_tags_parse(&tags, nf_exporter_abi_text(string), &error);
  return (ddog_Vec_Tag_ParseResult){.tags = to_vec(&tags), .error_message = ok ? NULL : box(&error)};
}

static ddog_Endpoint *to_heap(nf_endpoint *endpoint) {
  nf_endpoint *heap = malloc(sizeof *heap);
  if (heap)
    *heap = *endpoint;
  else
    nf_endpoint_deinit(endpoint);
  return (ddog_Endpoint *)heap;
}

struct ddog_Endpoint *ddog_endpoint_from_url(ddog_CharSlice url) {
  nf_error error = {0};
  nf_endpoint endpoint;
  if (nf_endpoint_init_agent(&endpoint, nf_exporter_abi_text(url), &error)) return to_heap(&endpoint);
  nf_error_deinit(&error);
  return NULL;
}

static bool init_from_key(nf_endpoint *endpoint, ddog_CharSlice api_key, nf_text site, nf_error *error) {
  nf_buffer key = {.secret = true};
  nf_text_append_lossy(&key, nf_exporter_abi_text(api_key));
  bool ok = key.failed ? nf_error_set_no_memory(error)
                       : nf_endpoint_init_agentless(endpoint, site, (nf_text){key.data, key.len}, error);
  nf_buffer_deinit(&key);
  return ok;
}

struct ddog_Endpoint *ddog_endpoint_from_api_key(ddog_CharSlice api_key) {
  nf_error error = {0};
  nf_endpoint endpoint;
  if (init_from_key(&endpoint, api_key, nf_text_of("datadoghq.com"), &error)) return to_heap(&endpoint);
  nf_error_deinit(&error);
  return NULL;
}

struct ddog_Error *ddog_endpoint_from_api_key_and_site(ddog_CharSlice api_key, ddog_CharSlice site,
                                                       struct ddog_Endpoint **endpoint) {
  nf_error error = {0};
  nf_endpoint made;
  struct ddog_Endpoint *heap = NULL;
  if (!endpoint)
    nf_error_set(&error, "endpoint pointer was null");
  else if (init_from_key(&made, api_key, nf_exporter_abi_text(site), &error) && !(heap = to_heap(&made)))
    nf_error_set_no_memory(&error);
  if (!heap) return box(&error);
  *endpoint = heap;
  return NULL;
}

void ddog_endpoint_drop(struct ddog_Endpoint *endpoint) {
  if (!endpoint) return;
  nf_endpoint_deinit((nf_endpoint *)endpoint);
  free(endpoint);
}
