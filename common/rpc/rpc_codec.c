/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes messages without copying tensors: walks the protobuf encoding, leaves the one large
 * bytes field (the bulk) where gRPC received it, and gives protobuf-c the rest. */
#include "rpc/rpc_codec.h"

#include <stdlib.h>
#include <string.h>

#include "base/recycle.h"

#define UNPACK_BYTES_BASE ((size_t)8 << 20) /* default limit of an unpacked body: this … */
#define UNPACK_FACTOR 4                     /* … and so many times its wire bytes */
#define HEAD_INLINE_BYTES 512

/* ---- writing ---- */

size_t rpc_varint_bytes(uint64_t value)
{
    size_t n = 1;
    while (value >= 0x80) {
        value >>= 7;
        n++;
    }
    return n;
}

size_t rpc_varint_write(unsigned char *out, uint64_t value)
{
    size_t n = 0;
    while (value >= 0x80) {
        out[n++] = (unsigned char)(value | 0x80);
        value >>= 7;
    }
    out[n++] = (unsigned char)value;
    return n;
}

static uint64_t bulk_tag(uint32_t field)
{
    return (uint64_t)field << 3 | 2;
}

size_t rpc_head_bytes(const ProtobufCMessage *msg, uint32_t bulk_field, size_t blob_bytes)
{
    size_t n = protobuf_c_message_get_packed_size(msg);
    if (blob_bytes > 0) {
        n += rpc_varint_bytes(bulk_tag(bulk_field)) + rpc_varint_bytes(blob_bytes);
    }
    return n;
}

void rpc_head_write(const ProtobufCMessage *msg, uint32_t bulk_field, size_t blob_bytes,
                    unsigned char *out)
{
    size_t n = protobuf_c_message_pack(msg, out);
    if (blob_bytes > 0) {
        n += rpc_varint_write(out + n, bulk_tag(bulk_field));
        rpc_varint_write(out + n, blob_bytes);
    }
}

/* ---- reading ---- */

struct message {
    struct rpc_msg msg; /* first: a rpc_msg is a message */
    atomic_size_t refs;
    struct rpc_spans spans;
    struct rpc_frame frame;
    struct rpc_arena arena;
    struct rpc_account *account;
    size_t accounted;
};

static struct recycler messages = RECYCLER(sizeof(struct message), 1024);

struct rpc_msg *rpc_msg_ref(struct rpc_msg *msg)
{
    struct message *m = (struct message *)msg;
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    return msg;
}

static void frame_release(struct rpc_frame *frame)
{
    if (frame->release) {
        frame->release(frame->ctx);
    }
    *frame = (struct rpc_frame){0};
}

void rpc_msg_unref(struct rpc_msg *msg)
{
    struct message *m = (struct message *)msg;
    if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    frame_release(&m->frame);
    rpc_arena_release(&m->arena);
    if (m->account) {
        rpc_msg_uncount(msg);
        rpc_account_unref(m->account);
    }
    recycler_give(&messages, m);
}

void rpc_msg_uncount(struct rpc_msg *msg)
{
    struct message *m = (struct message *)msg;
    if (m->account) {
        atomic_fetch_sub_explicit(&m->account->bytes, m->accounted + m->arena.charged,
                                  memory_order_relaxed);
        m->accounted = 0;
        m->arena.charged = 0;
    }
}

/* The part of the message that is not the bulk field, and where the bulk field lies. */
struct split {
    unsigned char *head;
    size_t head_bytes;
    size_t head_capacity;
    unsigned char inline_head[HEAD_INLINE_BYTES];
    size_t bulk_offset;
    size_t bulk_bytes;
};

static bool head_add(struct split *out, struct rpc_spans *in, size_t bytes)
{
    if (bytes > out->head_capacity - out->head_bytes) {
        size_t capacity = (out->head_bytes + bytes) * 2;
        unsigned char *grown =
            out->head == out->inline_head ? malloc(capacity) : realloc(out->head, capacity);
        if (!grown) {
            return false;
        }
        if (out->head == out->inline_head) {
            memcpy(grown, out->inline_head, out->head_bytes);
        }
        out->head = grown;
        out->head_capacity = capacity;
    }
    bool ok = rpc_spans_read(in, out->head + out->head_bytes, bytes);
    out->head_bytes += bytes;
    return ok;
}

static bool varint_read(struct rpc_spans *in, uint64_t *value)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        unsigned char byte = 0;
        if (!rpc_spans_read(in, &byte, 1)) {
            return false;
        }
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = v;
            return true;
        }
    }
    return false;
}

/* The number of bytes of the value of a field whose tag was just read; the cursor is back at its
 * start. False: it is no protobuf. */
static bool value_bytes(struct rpc_spans *in, unsigned wire_type, size_t *bytes)
{
    struct rpc_spans start = *in;
    uint64_t v = 0;
    switch (wire_type) {
    case 0:
        if (!varint_read(in, &v)) {
            return false;
        }
        *bytes = start.left - in->left;
        break;
    case 1:
        *bytes = 8;
        break;
    case 2:
        if (!varint_read(in, &v) || v > in->left) {
            return false;
        }
        *bytes = start.left - in->left + (size_t)v;
        break;
    case 5:
        *bytes = 4;
        break;
    default: /* groups, which proto3 does not have, and reserved types */
        return false;
    }
    *in = start;
    return *bytes <= in->left;
}

/* One field from @in: into the head, or remembered as the bulk. The last bulk field wins, as the
 * encoding demands. */
static int split_field(struct split *out, struct rpc_spans *in, uint32_t bulk_field,
                       struct err *err)
{
    size_t total = rpc_spans_bytes(in);
    struct rpc_spans start = *in;
    uint64_t tag = 0;
    size_t bytes = 0;
    if (!varint_read(in, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff ||
        !value_bytes(in, tag & 7, &bytes)) {
        return err_set(err, ERR_INVALID, "malformed field at byte %zu of %zu", total - start.left,
                       total);
    }
    if (tag == bulk_tag(bulk_field)) {
        uint64_t length = 0;
        varint_read(in, &length);
        out->bulk_offset = total - in->left;
        out->bulk_bytes = (size_t)length;
        rpc_spans_skip(in, (size_t)length);
        return 0;
    }
    bytes += start.left - in->left;
    *in = start;
    if (!head_add(out, in, bytes)) {
        return err_set(err, ERR_EXHAUSTED, "no memory for a message of %zu bytes", total);
    }
    return 0;
}

static int split_message(struct split *out, const struct rpc_frame *frame, uint32_t bulk_field,
                         struct err *err)
{
    struct rpc_spans in;
    rpc_spans_init(&in, frame->pieces, frame->piece_count, 0, frame->bytes);
    out->head = out->inline_head;
    out->head_capacity = sizeof(out->inline_head);
    out->head_bytes = out->bulk_offset = out->bulk_bytes = 0;
    if (bulk_field == 0) {
        if (!head_add(out, &in, frame->bytes)) {
            return err_set(err, ERR_EXHAUSTED, "no memory for a message of %zu bytes",
                           frame->bytes);
        }
        return 0;
    }
    while (rpc_spans_left(&in) > 0) {
        int rc = split_field(out, &in, bulk_field, err);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int unpack(struct message *m, const struct rpc_decoding *how, size_t bytes,
                  const unsigned char *data, struct err *err)
{
    size_t limit = how->unpack_bytes_max;
    if (limit == 0) {
        limit = UNPACK_BYTES_BASE + UNPACK_FACTOR * bytes;
    }
    rpc_arena_init(&m->arena, limit, how->account);
    ProtobufCAllocator allocator = rpc_arena_allocator(&m->arena);
    m->msg.body = protobuf_c_message_unpack(how->type, &allocator, bytes, data);
    if (m->msg.body) {
        return 0;
    }
    if (m->arena.account_full) {
        return err_set(err, ERR_EXHAUSTED,
                       "%zu bytes in flight, and %zu bytes of %s need %zu and more when unpacked: "
                       "over the limit of %zu bytes",
                       atomic_load(&how->account->bytes), bytes, how->type->name, m->arena.used,
                       how->account->bytes_max);
    }
    if (m->arena.exceeded) {
        return err_set(err, ERR_EXHAUSTED, "%zu bytes of %s need more than %zu bytes of memory",
                       bytes, how->type->name, limit);
    }
    return err_set(err, ERR_INVALID, "%zu bytes are not a %s", bytes, how->type->name);
}

static int decode(struct message *m, const struct rpc_decoding *how, struct err *err)
{
    if (how->bulk_field == 0 && m->frame.piece_count == 1) {
        return unpack(m, how, m->frame.bytes, m->frame.pieces[0].data, err);
    }
    struct split split;
    int rc = split_message(&split, &m->frame, how->bulk_field, err);
    if (rc == 0) {
        rc = unpack(m, how, split.head_bytes, split.head, err);
    }
    if (split.head != split.inline_head) {
        free(split.head);
    }
    if (rc == 0 && how->bulk_field != 0) {
        rpc_spans_init(&m->spans, m->frame.pieces, m->frame.piece_count, split.bulk_offset,
                       split.bulk_bytes);
        m->msg.bulk = &m->spans;
    }
    return rc;
}

struct rpc_msg *rpc_msg_decode(const struct rpc_decoding *how, const struct rpc_frame *frame,
                               struct err *err)
{
    struct message *m = recycler_take(&messages);
    *m = (struct message){.msg = {.wire_bytes = frame->bytes}, .frame = *frame};
    atomic_init(&m->refs, 1);
    if (how->account) {
        if (!rpc_account_add(how->account, frame->bytes)) {
            err_set(err, ERR_EXHAUSTED,
                    "%zu bytes in flight and %zu more would be over the limit of %zu bytes",
                    atomic_load(&how->account->bytes), frame->bytes, how->account->bytes_max);
            rpc_msg_unref(&m->msg);
            return NULL;
        }
        m->account = rpc_account_ref(how->account);
        m->accounted = frame->bytes;
    }
    if (decode(m, how, err) != 0) {
        rpc_msg_unref(&m->msg);
        return NULL;
    }
    if (!m->msg.bulk || m->spans.total == 0) {
        frame_release(&m->frame); /* everything was copied */
    }
    return &m->msg;
}
