/* One LZ4 frame of linked 64 KiB blocks: what the v6 ABI promises.
 *
 * liblz4 compresses the blocks. The frame around them (three headers of a few bytes) is written here, as
 * liblz4's own functions for frames keep a copy of what they are given, which takes memory and time. */
#include "core/codec.h"

#include <lz4.h>
#include <string.h>

/* Magic number; version 01, linked blocks, no checksums; blocks of 64 KiB; a checksum of the two bytes
 * before. */
static const uint8_t header[] = {0x04, 0x22, 0x4d, 0x18, 0x40, 0x40, 0xc0};

/* Before each block: its length, least significant byte first. 0 is the end. */
enum { BLOCK_HEADER = 4 };
#define NOT_COMPRESSED 0x80000000u

static void put_block_header(nf_codec *codec, uint32_t value) {
  uint8_t *out = codec->output.data + codec->output.len;
  for (int i = 0; i < BLOCK_HEADER; i++) out[i] = (uint8_t)(value >> 8 * i);
  codec->output.len += BLOCK_HEADER;
}

static void drop(void *state) { LZ4_freeStream(state); }

static void *begin(nf_codec *codec) {
  LZ4_stream_t *stream = LZ4_createStream();
  uint8_t *room = stream ? nf_codec_room(codec, sizeof header) : NULL;
  if (!room) {
    LZ4_freeStream(stream);
    return NULL;
  }
  memcpy(room, header, sizeof header);
  codec->output.len += sizeof header;
  return stream;
}

static bool feed(nf_codec *codec, uint8_t *bytes, size_t len) {
  uint8_t *room = nf_codec_room(codec, BLOCK_HEADER + len);
  if (!room) return false;
  room += BLOCK_HEADER;
  /* A block that would not become smaller stays as it is. */
  int size = LZ4_compress_fast_continue(codec->state, (char *)bytes, (char *)room, (int)len, (int)len - 1,
                                        codec->haste);
  put_block_header(codec, size ? (uint32_t)size : (uint32_t)len | NOT_COMPRESSED);
  if (!size) memcpy(room, bytes, len);
  codec->output.len += size ? (size_t)size : len;
  /* Right before the next block, this one is found faster than anywhere else. */
  if (len == NF_CODEC_PIECE) LZ4_saveDict(codec->state, (char *)bytes - NF_CODEC_HISTORY, NF_CODEC_HISTORY);
  return true;
}

static bool end(nf_codec *codec) {
  if (!nf_codec_room(codec, BLOCK_HEADER)) return false;
  put_block_header(codec, 0);
  return true;
}

static size_t bound(size_t len) { return sizeof header + len + (len / NF_CODEC_PIECE + 2) * BLOCK_HEADER; }

const nf_codec_ops nf_codec_lz4 = {begin, feed, end, drop, bound};
