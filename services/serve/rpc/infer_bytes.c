/* SPDX-License-Identifier: Apache-2.0 */
/* Lengths are read byte by byte, as nothing in a message is aligned. */
#include "serve/rpc/infer_bytes.h"

#include <stdint.h>
#include <string.h>

#define LENGTH_BYTES 4

static uint32_t length_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

int infer_bytes_check(const ProtobufCBinaryData *raw, size_t elements, const char *input,
                      struct err *err)
{
    size_t at = 0, found = 0;
    while (raw->len - at >= LENGTH_BYTES &&
           length_at(raw->data + at) <= raw->len - at - LENGTH_BYTES) {
        at += LENGTH_BYTES + length_at(raw->data + at);
        found++;
    }
    return at == raw->len && found == elements
               ? 0
               : err_set(err, ERR_INVALID,
                         "input \"%.64s\": %zu bytes of raw contents are %zu elements, each a "
                         "length of 4 bytes and the bytes, up to byte %zu; expected %zu and "
                         "nothing behind them",
                         input, raw->len, found, at, elements);
}

ProtobufCBinaryData infer_bytes_next(struct infer_bytes *b)
{
    if (b->raw == NULL) {
        return b->typed->bytes_contents[b->at++];
    }
    uint8_t *p = b->raw->data + b->at;
    const ProtobufCBinaryData text = {.len = length_at(p), .data = p + LENGTH_BYTES};
    b->at += LENGTH_BYTES + text.len;
    return text;
}

void infer_bytes_add(struct buf *out, const char *text)
{
    const uint32_t n = (uint32_t)strlen(text);
    const uint8_t length[LENGTH_BYTES] = {(uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16),
                                          (uint8_t)(n >> 24)};
    buf_add(out, length, sizeof length);
    buf_add(out, text, n);
}
