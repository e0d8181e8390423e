/* SPDX-License-Identifier: Apache-2.0 */
/* How deep graphs lie in attributes of nodes of graphs. protobuf-c decodes by recursion, so a file
 * of brackets alone would use up the stack. */
#include "onnx_net/onnx_net_impl.h"

#define DEPTH_MAX 16 /* graphs in graphs */

enum { MODEL, GRAPH, FUNCTION, NODE, ATTRIBUTE, NOTHING };

/* The message that field @number of a message has, as far as it may lead to a graph. */
static int inside(int message, uint64_t number)
{
    switch (message) {
    case MODEL:
        return number == 7 ? GRAPH : number == 25 ? FUNCTION : NOTHING;
    case GRAPH:
        return number == 1 ? NODE : NOTHING;
    case FUNCTION:
        return number == 7 ? NODE : NOTHING;
    case NODE:
        return number == 5 ? ATTRIBUTE : NOTHING;
    case ATTRIBUTE:
        return number == 6 || number == 11 ? GRAPH : NOTHING;
    default:
        return NOTHING;
    }
}

static bool varint(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
        const uint8_t byte = *(*at)++;
        *out |= (uint64_t)(byte & 0x7F) << shift;
        if ((byte & 0x80) == 0) {
            return true;
        }
    }
    return false;
}

/* True if the nesting is not too deep. Bytes that are no message are left to the decoder. */
static bool fits(int message, const uint8_t *at, const uint8_t *end, int depth)
{
    if (depth > 3 * DEPTH_MAX) {
        return false;
    }
    uint64_t key, n;
    while (at < end && varint(&at, end, &key)) {
        const unsigned wire = key & 7;
        if (wire == 0) {
            if (!varint(&at, end, &n)) {
                return true;
            }
            continue;
        }
        n = wire == 1 ? 8 : wire == 5 ? 4 : 0;
        if ((wire == 2 && !varint(&at, end, &n)) || n == 0 || n > (uint64_t)(end - at)) {
            if (wire == 2 && n == 0) {
                continue;
            }
            return true;
        }
        const int below = wire == 2 ? inside(message, key >> 3) : NOTHING;
        if (below != NOTHING && !fits(below, at, at + n, depth + 1)) {
            return false;
        }
        at += n;
    }
    return true;
}

bool onnx_nesting_fits(const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    return fits(MODEL, at, at + n, 0);
}
