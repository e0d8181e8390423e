/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/data/tfrecord_rig.h"

#include <string.h>

#include "base/crc32c.h"

static void add_32(struct buf *out, uint32_t v)
{
    for (int i = 0; i < 4; i++) {
        buf_add_char(out, (char)(v >> (8 * i)));
    }
}

void tfrecord_add_frame(struct buf *out, const struct buf *bytes)
{
    char length[8] = {(char)bytes->len, (char)(bytes->len >> 8), (char)(bytes->len >> 16)};
    buf_add(out, length, sizeof length);
    add_32(out, crc32c_masked(length, sizeof length));
    buf_add(out, bytes->data, bytes->len);
    add_32(out, crc32c_masked(bytes->data, bytes->len));
}

static void add_varint(struct buf *out, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) {
        buf_add_char(out, (char)(v | 0x80));
    }
    buf_add_char(out, (char)v);
}

/* A field of bytes of a message. */
void example_add_bytes(struct buf *out, unsigned number, const void *data, size_t n)
{
    add_varint(out, number << 3 | 2);
    add_varint(out, n);
    buf_add(out, data, n);
}

static void add_message(struct buf *out, unsigned number, struct buf *message)
{
    example_add_bytes(out, number, buf_str(message), message->len);
    buf_release(message);
}

/* A map entry with the list of @kind (1 bytes, 2 floats, 3 int64) whose message is @list. */
static void add_feature(struct buf *features, const char *name, unsigned kind, struct buf *list)
{
    struct buf feature = {0}, entry = {0};
    add_message(&feature, kind, list);
    example_add_bytes(&entry, 1, name, strlen(name));
    add_message(&entry, 2, &feature);
    add_message(features, 1, &entry);
}

void example_add_ints(struct buf *features, const char *name, bool packed, const int64_t *values,
                      size_t count)
{
    struct buf list = {0}, numbers = {0};
    for (size_t i = 0; i < count; i++) {
        if (packed) {
            add_varint(&numbers, (uint64_t)values[i]);
        } else {
            add_varint(&list, 1 << 3 | 0);
            add_varint(&list, (uint64_t)values[i]);
        }
    }
    if (packed) {
        add_message(&list, 1, &numbers);
    }
    add_feature(features, name, 3, &list);
}

void example_add_floats(struct buf *features, const char *name, bool packed, const float *values,
                        size_t count)
{
    struct buf list = {0}, numbers = {0};
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        if (!packed) {
            add_varint(&list, 1 << 3 | 5);
        }
        add_32(packed ? &numbers : &list, bits);
    }
    if (packed) {
        add_message(&list, 1, &numbers);
    }
    add_feature(features, name, 2, &list);
}

void example_add_texts(struct buf *features, const char *name, const char *const *texts,
                       size_t count)
{
    struct buf list = {0};
    for (size_t i = 0; i < count; i++) {
        example_add_bytes(&list, 1, texts[i], strlen(texts[i]));
    }
    add_feature(features, name, 1, &list);
}

void tfrecord_add_example(struct buf *file, struct buf *features)
{
    struct buf example = {0};
    add_message(&example, 1, features);
    tfrecord_add_frame(file, &example);
    buf_release(&example);
}

/* Label y, number x, vector v of two, keys k, words w; @packed or not. */
