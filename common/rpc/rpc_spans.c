/* SPDX-License-Identifier: Apache-2.0 */
/* The cursor over received bulk bytes. Slices end anywhere, so an element may straddle two or more
 * of them, and none is aligned. */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"

#include "rpc/rpc_codec.h"

#define BOUNCE_FLOATS 512 /* unaligned floats go through a buffer of this many */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are little-endian in memory");

void rpc_spans_init(struct rpc_spans *s, const struct rpc_piece *pieces, size_t piece_count,
                    size_t offset, size_t bytes)
{
    size_t i = 0;
    while (i < piece_count && offset >= pieces[i].bytes) {
        offset -= pieces[i].bytes;
        i++;
    }
    *s = (struct rpc_spans){.pieces = pieces,
                            .piece_count = piece_count,
                            .first = i,
                            .first_offset = offset,
                            .total = bytes};
    rpc_spans_rewind(s);
}

size_t rpc_spans_bytes(const struct rpc_spans *s)
{
    return s->total;
}

size_t rpc_spans_left(const struct rpc_spans *s)
{
    return s->left;
}

void rpc_spans_rewind(struct rpc_spans *s)
{
    s->piece = s->first;
    s->offset = s->first_offset;
    s->left = s->total;
}

/* Up to @limit contiguous bytes at the cursor, which moves past them. */
static size_t advance(struct rpc_spans *s, size_t limit, const unsigned char **data)
{
    if (limit > s->left) {
        limit = s->left;
    }
    if (limit == 0) {
        return 0;
    }
    while (s->offset == s->pieces[s->piece].bytes) {
        s->piece++;
        s->offset = 0;
    }
    const struct rpc_piece *piece = &s->pieces[s->piece];
    size_t n = piece->bytes - s->offset;
    if (n > limit) {
        n = limit;
    }
    *data = (const unsigned char *)piece->data + s->offset;
    s->offset += n;
    s->left -= n;
    return n;
}

bool rpc_spans_take(struct rpc_spans *s, size_t bytes_max, const unsigned char **data,
                    size_t *bytes)
{
    size_t n = advance(s, bytes_max, data);
    if (n == 0) {
        return false;
    }
    *bytes = n;
    return true;
}

bool rpc_spans_next(struct rpc_spans *s, const unsigned char **data, size_t *bytes)
{
    return rpc_spans_take(s, SIZE_MAX, data, bytes);
}

bool rpc_spans_read(struct rpc_spans *s, void *dst, size_t bytes)
{
    if (bytes > s->left) {
        return false;
    }
    unsigned char *out = dst;
    while (bytes > 0) {
        const unsigned char *data = NULL;
        size_t n = advance(s, bytes, &data);
        mem_copy(out, data, n);
        out += n;
        bytes -= n;
    }
    return true;
}

bool rpc_spans_skip(struct rpc_spans *s, size_t bytes)
{
    if (bytes > s->left) {
        return false;
    }
    while (bytes > 0) {
        const unsigned char *data = NULL;
        bytes -= advance(s, bytes, &data);
    }
    return true;
}

bool rpc_spans_read_floats(struct rpc_spans *s, float *dst, size_t count)
{
    return count <= SIZE_MAX / sizeof(float) && rpc_spans_read(s, dst, count * sizeof(float));
}

/* How many whole, aligned floats lie at the cursor without a gap; @values is set to them. */
static size_t aligned_run(const struct rpc_spans *s, const float **values)
{
    struct rpc_spans look = *s;
    const unsigned char *data = NULL;
    size_t n = advance(&look, SIZE_MAX, &data);
    if ((uintptr_t)data % _Alignof(float) != 0) {
        return 0;
    }
    *values = (const float *)(const void *)data;
    return n / sizeof(float);
}

/* The number of whole floats in the rest of this piece, plus the one that straddles its end. */
static size_t bounce_run(const struct rpc_spans *s)
{
    struct rpc_spans look = *s;
    const unsigned char *data = NULL;
    size_t n = advance(&look, SIZE_MAX, &data);
    size_t count = (n + sizeof(float) - 1) / sizeof(float);
    return count < BOUNCE_FLOATS ? count : BOUNCE_FLOATS;
}

bool rpc_spans_each_floats(struct rpc_spans *s, size_t count,
                           void (*each)(void *ctx, size_t index, const float *values, size_t n),
                           void *ctx)
{
    if (count > s->left / sizeof(float)) {
        return false;
    }
    float bounce[BOUNCE_FLOATS];
    for (size_t index = 0; index < count;) {
        const float *values = NULL;
        size_t n = aligned_run(s, &values);
        if (n > 0) {
            n = n < count - index ? n : count - index;
            rpc_spans_skip(s, n * sizeof(float));
        } else {
            n = bounce_run(s);
            n = n < count - index ? n : count - index;
            rpc_spans_read_floats(s, bounce, n);
            values = bounce;
        }
        each(ctx, index, values, n);
        index += n;
    }
    return true;
}
