/* SPDX-License-Identifier: Apache-2.0 */
/* Protocol Buffers' wire format, as far as these messages use it; fields that they do not have are
 * skipped. */
#include "data/tf_example.h"

#include <string.h>

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

#define VARINT_BYTES_MAX 10

const char *const tf_kind_names[] = {"nothing", "bytes", "float", "int64"};

/* One field of a message. */
struct wire_item {
    uint64_t number;
    unsigned type;
    uint64_t value;       /* of a varint */
    struct tf_span bytes; /* of all others */
};

static bool read_varint(struct tf_span *s, uint64_t *value)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < VARINT_BYTES_MAX && s->p < s->end; i++) {
        uint8_t byte = *s->p++;
        v |= (uint64_t)(byte & 0x7F) << (7 * i);
        if ((byte & 0x80) == 0) {
            *value = v;
            return true;
        }
    }
    return false;
}

static bool take(struct tf_span *s, uint64_t n, struct tf_span *out)
{
    if (n > (uint64_t)(s->end - s->p)) {
        return false;
    }
    *out = (struct tf_span){.p = s->p, .end = s->p + n};
    s->p += n;
    return true;
}

static enum tf_step next_item(struct tf_span *s, struct wire_item *out)
{
    uint64_t key, n;
    if (s->p == s->end) {
        return TF_END;
    }
    if (!read_varint(s, &key)) {
        return TF_BROKEN;
    }
    *out = (struct wire_item){.number = key >> 3, .type = (unsigned)(key & 7)};
    bool whole = false;
    switch (out->type) {
    case WIRE_VARINT:
        whole = read_varint(s, &out->value);
        break;
    case WIRE_64:
        whole = take(s, 8, &out->bytes);
        break;
    case WIRE_BYTES:
        whole = read_varint(s, &n) && take(s, n, &out->bytes);
        break;
    case WIRE_32:
        whole = take(s, 4, &out->bytes);
        break;
    default:
        break;
    }
    return whole && out->number > 0 ? TF_FOUND : TF_BROKEN;
}

/* The next field of bytes numbered 1 to @last; others are skipped. */
static enum tf_step next_bytes(struct tf_span *s, uint64_t last, struct wire_item *out)
{
    enum tf_step step;
    do {
        step = next_item(s, out);
    } while (step == TF_FOUND && out->number > last);
    return step == TF_FOUND && out->type != WIRE_BYTES ? TF_BROKEN : step;
}

void tf_example_begin(struct tf_example *e, const uint8_t *bytes, size_t size)
{
    static const uint8_t nothing = 0;
    bytes = bytes == NULL ? &nothing : bytes; /* an empty one may have no memory */
    *e = (struct tf_example){.rest = {.p = bytes, .end = bytes + size},
                             .features = {.p = bytes, .end = bytes}};
}

/* The list of a feature; of several, the last one. */
static enum tf_step read_feature(struct tf_span feature, struct tf_feature *out)
{
    struct wire_item item;
    enum tf_step step;
    while ((step = next_bytes(&feature, TF_INT64, &item)) == TF_FOUND) {
        out->kind = (enum tf_kind)item.number;
        out->list = item.bytes;
    }
    return step;
}

static enum tf_step read_entry(struct tf_span entry, struct tf_feature *out)
{
    struct wire_item item;
    enum tf_step step;
    *out = (struct tf_feature){.name = {.p = entry.p, .end = entry.p},
                               .list = {.p = entry.p, .end = entry.p}};
    while ((step = next_bytes(&entry, 2, &item)) == TF_FOUND) {
        if (item.number == 1) {
            out->name = item.bytes;
        } else if (read_feature(item.bytes, out) == TF_BROKEN) {
            return TF_BROKEN;
        }
    }
    return step == TF_END ? TF_FOUND : TF_BROKEN;
}

enum tf_step tf_example_next(struct tf_example *e, struct tf_feature *out)
{
    struct wire_item item;
    for (;;) {
        enum tf_step step = next_bytes(&e->features, 1, &item);
        if (step != TF_END) {
            return step == TF_FOUND ? read_entry(item.bytes, out) : step;
        }
        step = next_bytes(&e->rest, 1, &item);
        if (step != TF_FOUND) {
            return step;
        }
        e->features = item.bytes;
    }
}

void tf_values_begin(struct tf_values *v, const struct tf_feature *feature)
{
    *v = (struct tf_values){.kind = feature->kind,
                            .rest = feature->list,
                            .packed = {.p = feature->list.p, .end = feature->list.p}};
}

static float float_of(const uint8_t *p)
{
    uint32_t bits =
        (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static enum tf_step next_packed(struct tf_values *v, struct tf_value *out)
{
    struct tf_span four;
    uint64_t bits = 0;
    if (v->kind == TF_FLOAT) {
        if (!take(&v->packed, sizeof(float), &four)) {
            return TF_BROKEN;
        }
        out->number = float_of(four.p);
        return TF_FOUND;
    }
    if (!read_varint(&v->packed, &bits)) {
        return TF_BROKEN;
    }
    memcpy(&out->integer, &bits, sizeof bits);
    return TF_FOUND;
}

enum tf_step tf_values_next(struct tf_values *v, struct tf_value *out)
{
    struct wire_item item;
    for (;;) {
        if (v->packed.p < v->packed.end) {
            return next_packed(v, out);
        }
        enum tf_step step = next_item(&v->rest, &item);
        if (step != TF_FOUND) {
            return step;
        }
        if (item.number != 1) {
            continue;
        }
        if (v->kind == TF_BYTES && item.type == WIRE_BYTES) {
            out->bytes = item.bytes;
            return TF_FOUND;
        }
        if (v->kind == TF_FLOAT && item.type == WIRE_32) {
            out->number = float_of(item.bytes.p);
            return TF_FOUND;
        }
        if (v->kind == TF_INT64 && item.type == WIRE_VARINT) {
            memcpy(&out->integer, &item.value, sizeof item.value);
            return TF_FOUND;
        }
        if (v->kind == TF_BYTES || item.type != WIRE_BYTES) {
            return TF_BROKEN;
        }
        v->packed = item.bytes;
    }
}
