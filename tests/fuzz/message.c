/* SPDX-License-Identifier: Apache-2.0 */
/* Changes messages field by field, by their descriptors. */
#include "fuzz/message.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX 40
#define LIST_MAX 64
#define DEPTH_MAX 4

/* ---- random numbers, and memory for one change ---- */

struct chunk {
    struct chunk *next;
    max_align_t data[];
};

struct change {
    uint64_t state;
    const char *const *words;
    struct chunk *chunks;
};

static uint64_t draw(struct change *c, uint64_t bound)
{
    c->state = c->state * 6364136223846793005U + 1442695040888963407U;
    return (c->state >> 33) % bound;
}

static void *room(void *ctx, size_t n)
{
    struct change *c = ctx;
    struct chunk *chunk = calloc(1, sizeof *chunk + n);
    fuzz_require(chunk != NULL, "there is memory for a change");
    chunk->next = c->chunks;
    c->chunks = chunk;
    return chunk->data;
}

static void leave(void *ctx, void *p)
{
    (void)ctx;
    (void)p; /* all at once, at the end */
}

static void release(struct change *c)
{
    for (struct chunk *p = c->chunks; p != NULL;) {
        struct chunk *next = p->next;
        free(p);
        p = next;
    }
}

/* ---- values ---- */

static uint64_t number(struct change *c, uint64_t present)
{
    static const uint64_t some[] = {0,    1,     2,         3,          4,         7,
                                    8,    15,    16,        127,        128,       255,
                                    1000, 65535, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX};
    switch (draw(c, 5)) {
    case 0:
        return present + 1;
    case 1:
        return present - 1;
    case 2:
        return draw(c, 16);
    case 3:
        return present ^ (UINT64_C(1) << draw(c, 64));
    default:
        return some[draw(c, sizeof some / sizeof some[0])];
    }
}

static double real(struct change *c)
{
    static const double some[] = {
        0, 1, -1, 0.5, 2, 1e30, -1e300, __builtin_nan(""), __builtin_inf()};
    return some[draw(c, sizeof some / sizeof some[0])];
}

static char *text(struct change *c, const char *present)
{
    size_t count = 0;
    while (c->words[count] != NULL) {
        count++;
    }
    const char *from = count > 0 && draw(c, 4) > 0 ? c->words[draw(c, count)]
                       : present == NULL           ? ""
                                                   : present;
    size_t n = strlen(from);
    char *out = room(c, n + TEXT_BYTES_MAX + 1);
    memcpy(out, from, n);
    if (draw(c, 4) == 0) {
        n = LLVMFuzzerMutate((uint8_t *)out, n, n + TEXT_BYTES_MAX);
        out[n] = '\0';
    }
    return out;
}

static ProtobufCBinaryData bytes(struct change *c, const ProtobufCBinaryData *present)
{
    size_t n = draw(c, 3) == 0 ? 16 : draw(c, 3) == 0 ? draw(c, TEXT_BYTES_MAX) : present->len;
    ProtobufCBinaryData out = {.len = n, .data = room(c, n + TEXT_BYTES_MAX)};
    if (present->data != NULL) {
        memcpy(out.data, present->data, n < present->len ? n : present->len);
    }
    if (draw(c, 2) == 0) {
        out.len = LLVMFuzzerMutate(out.data, n, n + TEXT_BYTES_MAX);
    }
    return out;
}

static void change_message(struct change *c, ProtobufCMessage *m, unsigned depth);

static ProtobufCMessage *message(struct change *c, const ProtobufCMessageDescriptor *type,
                                 ProtobufCMessage *present, unsigned depth)
{
    if (present == NULL) {
        present = room(c, type->sizeof_message);
        type->message_init(present);
    }
    if (depth < DEPTH_MAX) {
        change_message(c, present, depth + 1);
    }
    return present;
}

static size_t value_bytes(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

static void change_value(struct change *c, const ProtobufCFieldDescriptor *f, void *at,
                         unsigned depth)
{
    uint64_t n = 0;
    double d = real(c);
    ProtobufCBinaryData *data = at;
    char **string = at;
    ProtobufCMessage **sub = at;
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
        *string = text(c, *string);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        *data = bytes(c, data);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        *sub = message(c, f->descriptor, *sub, depth);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        memcpy(at, &d, sizeof d);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)at = *(protobuf_c_boolean *)at == 0;
        break;
    case PROTOBUF_C_TYPE_ENUM:
        n = draw(c, 8) == 0 ? number(c, 0) : draw(c, 8);
        memcpy(at, &n, 4);
        break;
    default:
        memcpy(&n, at, value_bytes(f));
        n = number(c, n);
        memcpy(at, &n, value_bytes(f));
        break;
    }
}

/* ---- fields ---- */

static void change_list(struct change *c, const ProtobufCFieldDescriptor *f, ProtobufCMessage *m,
                        unsigned depth)
{
    uint8_t *base = (uint8_t *)m;
    size_t *count = (size_t *)(void *)(base + f->quantifier_offset), size = value_bytes(f);
    void **list = (void **)(void *)(base + f->offset);
    uint64_t what = draw(c, 4);
    if (what == 0 && *count > 0) {
        (*count)--;
    } else if (what <= 2 && *count < LIST_MAX) { /* one more, sometimes like another one */
        uint8_t *grown = room(c, (*count + 1) * size);
        if (*count > 0) {
            memcpy(grown, *list, *count * size);
        }
        if (*count > 0 && draw(c, 2) == 0) {
            memcpy(grown + *count * size, grown + draw(c, *count) * size, size);
        } else {
            change_value(c, f, grown + *count * size, depth);
        }
        *list = grown;
        (*count)++;
    } else if (*count > 0) {
        change_value(c, f, (uint8_t *)*list + draw(c, *count) * size, depth);
    }
}

static void change_field(struct change *c, const ProtobufCFieldDescriptor *f, ProtobufCMessage *m,
                         unsigned depth)
{
    uint8_t *base = (uint8_t *)m;
    void *at = base + f->offset;
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        change_list(c, f, m, depth);
        return;
    }
    if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
        uint32_t *set = (uint32_t *)(void *)(base + f->quantifier_offset);
        if (*set != f->id) {
            memset(at, 0, value_bytes(f));
            *set = f->id;
        }
    }
    if (f->type == PROTOBUF_C_TYPE_MESSAGE && draw(c, 16) == 0 &&
        (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0) {
        *(void **)at = NULL;
        return;
    }
    change_value(c, f, at, depth);
}

static void change_message(struct change *c, ProtobufCMessage *m, unsigned depth)
{
    const ProtobufCMessageDescriptor *type = m->descriptor;
    uint64_t times = type->n_fields == 0 ? 0 : 1 + draw(c, 3);
    for (uint64_t i = 0; i < times; i++) {
        change_field(c, &type->fields[draw(c, type->n_fields)], m, depth);
    }
}

size_t fuzz_message_mutate(const ProtobufCMessageDescriptor *type, const char *const *words,
                           uint8_t *data, size_t n, size_t n_max, unsigned seed)
{
    struct change c = {.state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1, .words = words};
    ProtobufCAllocator allocator = {.alloc = room, .free = leave, .allocator_data = &c};
    if (draw(&c, 16) == 0) {
        return LLVMFuzzerMutate(data, n, n_max);
    }
    ProtobufCMessage *m = protobuf_c_message_unpack(type, &allocator, n, data);
    if (m == NULL) {
        m = room(&c, type->sizeof_message);
        type->message_init(m);
    }
    change_message(&c, m, 0);
    size_t packed = protobuf_c_message_get_packed_size(m);
    if (packed <= n_max) {
        n = protobuf_c_message_pack(m, data);
    }
    release(&c);
    return n;
}

/* ---- rows of calls ---- */

size_t fuzz_calls(const uint8_t *data, size_t n, unsigned methods,
                  struct fuzz_call_bytes out[FUZZ_CALLS_MAX])
{
    size_t count = 0;
    while (n >= 3 && count < FUZZ_CALLS_MAX) {
        size_t bytes = data[1] | (size_t)data[2] << 8;
        bytes = bytes < n - 3 ? bytes : n - 3;
        out[count++] =
            (struct fuzz_call_bytes){.method = data[0] % methods, .data = data + 3, .n = bytes};
        data += 3 + bytes;
        n -= 3 + bytes;
    }
    return count;
}

/* Append a call; false when there is no room. */
static bool put(uint8_t *out, size_t *at, size_t n_max, unsigned method, const uint8_t *data,
                size_t n)
{
    if (n > UINT16_MAX || *at + 3 + n > n_max) {
        return false;
    }
    out[(*at)++] = (uint8_t)method;
    out[(*at)++] = (uint8_t)n;
    out[(*at)++] = (uint8_t)(n >> 8);
    if (n > 0) {
        memmove(out + *at, data, n);
    }
    *at += n;
    return true;
}

static size_t change_row(struct change *c, const ProtobufCMessageDescriptor *const *types,
                         unsigned type_count, const uint8_t *in, size_t n, uint8_t *out,
                         size_t n_max)
{
    struct fuzz_call_bytes calls[FUZZ_CALLS_MAX];
    size_t count = fuzz_calls(in, n, type_count, calls), at = 0;
    uint64_t which = draw(c, count + 1), what = draw(c, 8);
    for (size_t i = 0; i < count; i++) {
        const struct fuzz_call_bytes *call = &calls[i];
        if (i != which || what == 1) { /* 1: twice */
            (void)put(out, &at, n_max, call->method, call->data, call->n);
        }
        if (i == which && what == 2 && count > 1) {
            continue; /* not at all */
        }
        size_t begin = at;
        if (i == which && put(out, &at, n_max, call->method, call->data, call->n) && what != 1) {
            size_t left = n_max - begin - 3;
            size_t bytes = fuzz_message_mutate(types[call->method], c->words, out + begin + 3,
                                               call->n, left < UINT16_MAX ? left : UINT16_MAX,
                                               (unsigned)draw(c, UINT32_MAX));
            out[begin + 1] = (uint8_t)bytes;
            out[begin + 2] = (uint8_t)(bytes >> 8);
            at = begin + 3 + bytes;
        }
    }
    if (which == count) { /* one more */
        unsigned method = (unsigned)draw(c, type_count);
        size_t begin = at;
        if (put(out, &at, n_max, method, NULL, 0)) {
            size_t left = n_max - at;
            size_t bytes = fuzz_message_mutate(types[method], c->words, out + at, 0,
                                               left < UINT16_MAX ? left : UINT16_MAX,
                                               (unsigned)draw(c, UINT32_MAX));
            out[begin + 1] = (uint8_t)bytes;
            out[begin + 2] = (uint8_t)(bytes >> 8);
            at += bytes;
        }
    }
    return at;
}

size_t fuzz_calls_mutate(const ProtobufCMessageDescriptor *const *types, unsigned count,
                         const char *const *words, size_t keep, uint8_t *data, size_t n,
                         size_t n_max, unsigned seed)
{
    struct change c = {.state = seed, .words = words};
    if (n < keep || n_max <= keep || draw(&c, 16) == 0) {
        return LLVMFuzzerMutate(data, n, n_max);
    }
    if (keep > 0 && draw(&c, 8) == 0) {
        (void)LLVMFuzzerMutate(data, keep, keep);
    }
    uint8_t *out = calloc(1, n_max);
    fuzz_require(out != NULL, "there is memory for a change");
    memcpy(out, data, keep);
    size_t bytes = change_row(&c, types, count, data + keep, n - keep, out + keep, n_max - keep);
    memcpy(data, out, keep + bytes);
    free(out);
    return keep + bytes;
}
