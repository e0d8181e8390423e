/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to and from gRPC's byte buffers, without copying tensors. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/recycle.h"
#include "rpc/rpc_grpc.h"

/* Below this, one copy is cheaper than the bookkeeping of separate slices. */
#define FLAT_BYTES_MAX ((size_t)16 << 10)
#define PIECE_COPY_BYTES 512
#define SLICES_USUAL 16   /* slices of a message that is sent */
#define PIECES_USUAL 1024 /* pieces of a message that was received: gRPC reads 64 KiB at a time */

void rpc_blob_release(const struct rpc_blob *blob)
{
    if (blob && blob->release) {
        blob->release(blob->ctx);
    }
}

/* ---- out ---- */

/* The memory behind a blob, shared by its slices. */
struct lender {
    atomic_size_t refs;
    void (*release)(void *ctx);
    void *ctx;
};

static struct recycler lenders = RECYCLER(sizeof(struct lender), 1024);

static void lender_unref(void *p)
{
    struct lender *l = p;
    if (atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) == 1) {
        l->release(l->ctx);
        recycler_give(&lenders, l);
    }
}

static grpc_slice lend(struct lender *l, const struct rpc_piece *piece)
{
    atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
    union { /* gRPC only reads, but wants a pointer without const */
        const void *in;
        void *out;
    } data = {.in = piece->data};
    return grpc_slice_new_with_user_data(data.out, piece->bytes, lender_unref, l);
}

static void pieces_copy(unsigned char *out, const struct rpc_piece *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].bytes > 0) {
            memcpy(out, pieces[i].data, pieces[i].bytes);
            out += pieces[i].bytes;
        }
    }
}

static bool blob_bytes(const struct rpc_blob *blob, size_t *total)
{
    *total = 0;
    for (size_t i = 0; blob && i < blob->piece_count; i++) {
        if (blob->pieces[i].bytes > SIZE_MAX - *total) {
            return false;
        }
        *total += blob->pieces[i].bytes;
    }
    return true;
}

static grpc_byte_buffer *encode_flat(const ProtobufCMessage *msg, uint32_t bulk_field,
                                     const struct rpc_blob *blob, size_t head, size_t bulk)
{
    grpc_slice slice = grpc_slice_malloc(head + bulk);
    rpc_head_write(msg, bulk_field, bulk, GRPC_SLICE_START_PTR(slice));
    if (bulk > 0) {
        pieces_copy(GRPC_SLICE_START_PTR(slice) + head, blob->pieces, blob->piece_count);
    }
    rpc_blob_release(blob);
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return buffer;
}

/* A run of pieces too small to be worth a slice each, in one copied slice. */
static grpc_slice copy_run(const struct rpc_piece *pieces, size_t count, size_t *run)
{
    size_t n = 0;
    size_t bytes = 0;
    while (n < count && pieces[n].bytes < PIECE_COPY_BYTES) {
        bytes += pieces[n++].bytes;
    }
    grpc_slice slice = grpc_slice_malloc(bytes);
    pieces_copy(GRPC_SLICE_START_PTR(slice), pieces, n);
    *run = n;
    return slice;
}

static grpc_byte_buffer *encode_slices(const ProtobufCMessage *msg, uint32_t bulk_field,
                                       const struct rpc_blob *blob, size_t head, size_t bulk)
{
    struct lender *lender = recycler_take(&lenders);
    atomic_init(&lender->refs, 1); /* atomic, because gRPC's threads see no plain write to it */
    lender->release = blob->release;
    lender->ctx = blob->ctx;

    grpc_slice usual[SLICES_USUAL];
    grpc_slice *slices =
        blob->piece_count < SLICES_USUAL ? usual : mem_new(blob->piece_count + 1, sizeof(*slices));
    size_t count = 0;
    slices[count] = grpc_slice_malloc(head);
    rpc_head_write(msg, bulk_field, bulk, GRPC_SLICE_START_PTR(slices[count]));
    count++;
    for (size_t i = 0; i < blob->piece_count;) {
        size_t run = 1;
        slices[count++] = blob->pieces[i].bytes < PIECE_COPY_BYTES
                              ? copy_run(blob->pieces + i, blob->piece_count - i, &run)
                              : lend(lender, &blob->pieces[i]);
        i += run;
    }
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(slices, count);
    for (size_t i = 0; i < count; i++) {
        grpc_slice_unref(slices[i]);
    }
    if (slices != usual) {
        free(slices);
    }
    lender_unref(lender);
    return buffer;
}

grpc_byte_buffer *rpc_buffer_encode(const ProtobufCMessageDescriptor *type,
                                    const ProtobufCMessage *msg, uint32_t bulk_field,
                                    const struct rpc_blob *blob, size_t bytes_max, struct err *err)
{
    size_t bulk = 0;
    size_t head = 0;
    int rc = 0;
    if (msg->descriptor != type) {
        rc = err_set(err, ERR_INVALID, "a %s is sent where the proto says %s",
                     msg->descriptor->name, type->name);
    } else if (!blob_bytes(blob, &bulk) || bulk > bytes_max) {
        rc = err_set(err, ERR_EXHAUSTED, "bulk data is over the message limit of %zu bytes",
                     bytes_max);
    } else if (bulk > 0 && bulk_field == 0) {
        rc = err_set(err, ERR_INVALID, "%s is sent with bulk data, but has no bulk field here",
                     type->name);
    } else {
        head = rpc_head_bytes(msg, bulk_field, bulk);
        if (head > bytes_max - bulk) {
            rc = err_set(err, ERR_EXHAUSTED, "a %s of %zu bytes is over the limit of %zu bytes",
                         type->name, head + bulk, bytes_max);
        }
    }
    if (rc != 0) {
        rpc_blob_release(blob);
        return NULL;
    }
    if (bulk == 0 || !blob->release || bulk + head < FLAT_BYTES_MAX) {
        return encode_flat(msg, bulk_field, blob, head, bulk);
    }
    return encode_slices(msg, bulk_field, blob, head, bulk);
}

/* ---- in ---- */

struct received {
    grpc_byte_buffer *buffer;
    bool usual; /* of the usual size */
    struct rpc_piece pieces[];
};

static struct recycler usual_received =
    RECYCLER(sizeof(struct received) + PIECES_USUAL * sizeof(struct rpc_piece), 64);

static void received_release(void *ctx)
{
    struct received *r = ctx;
    grpc_byte_buffer_destroy(r->buffer);
    if (r->usual) {
        recycler_give(&usual_received, r);
    } else {
        free(r);
    }
}

struct rpc_msg *rpc_buffer_decode(const struct rpc_decoding *how, grpc_byte_buffer *buffer,
                                  struct err *err)
{
    if (buffer->type != GRPC_BB_RAW || buffer->data.raw.compression != GRPC_COMPRESS_NONE) {
        grpc_byte_buffer_destroy(buffer);
        err_set(err, ERR_UNSUPPORTED, "compressed messages are not served");
        return NULL;
    }
    const grpc_slice_buffer *slices = &buffer->data.raw.slice_buffer;
    bool usual = slices->count <= PIECES_USUAL;
    struct received *r = usual ? recycler_take(&usual_received)
                               : mem_new(1, sizeof(*r) + slices->count * sizeof(r->pieces[0]));
    r->buffer = buffer;
    r->usual = usual;
    for (size_t i = 0; i < slices->count; i++) {
        r->pieces[i] = (struct rpc_piece){.data = GRPC_SLICE_START_PTR(slices->slices[i]),
                                          .bytes = GRPC_SLICE_LENGTH(slices->slices[i])};
    }
    struct rpc_frame frame = {.pieces = r->pieces,
                              .piece_count = slices->count,
                              .bytes = slices->length,
                              .release = received_release,
                              .ctx = r};
    return rpc_msg_decode(how, &frame, err);
}
