/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/wire_json.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_write.h"

/* examples_per_second → examplesPerSecond */
static void add_name(const char *name, struct buf *out)
{
    bool upper = false;
    buf_add_char(out, '"');
    for (; *name != '\0'; name++) {
        if (*name == '_') {
            upper = true;
        } else {
            const bool small = *name >= 'a' && *name <= 'z';
            buf_add_char(out, (char)(upper && small ? *name - 'a' + 'A' : *name));
            upper = false;
        }
    }
    buf_add_str(out, "\":");
}

static void add_bytes(const ProtobufCBinaryData *b, struct buf *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    buf_add_char(out, '"');
    for (size_t i = 0; i < b->len; i += 3) {
        uint32_t three = 0;
        const size_t n = b->len - i < 3 ? b->len - i : 3;
        for (size_t k = 0; k < 3; k++) {
            three = three << 8 | (k < n ? b->data[i + k] : 0U);
        }
        for (size_t k = 0; k < 4; k++) {
            buf_add_char(out, k <= n ? digits[three >> (18 - 6 * k) & 63] : '=');
        }
    }
    buf_add_char(out, '"');
}

static bool reads_back(const char *text, double v, bool single)
{
    return single ? (double)strtof(text, NULL) == v : strtod(text, NULL) == v;
}

void wire_json_digits(double v, bool single, struct buf *out)
{
    const size_t at = out->len;
    int digits = single ? FLT_DIG : DBL_DIG;
    do {
        out->len = at;
        buf_printf(out, "%.*g", digits++, v);
    } while (!reads_back(buf_str(out) + at, v, single));
}

static void add_double(double v, bool single, struct buf *out)
{
    if (isfinite(v)) {
        wire_json_digits(v, single, out);
    } else {
        buf_add_str(out, isnan(v) ? "\"NaN\"" : v > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    }
}

static void add_enum(const ProtobufCFieldDescriptor *f, int32_t v, struct buf *out)
{
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(f->descriptor, v);
    if (value != NULL) {
        json_add_string(out, value->name);
    } else {
        buf_printf(out, "%" PRId32, v);
    }
}

static size_t size_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    default:
        return 4;
    }
}

static void add_number(const ProtobufCFieldDescriptor *f, const void *at, struct buf *out)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        buf_printf(out, "%" PRId32, *(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        buf_printf(out, "%" PRIu32, *(const uint32_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        buf_printf(out, "\"%" PRId64 "\"", *(const int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        buf_printf(out, "\"%" PRIu64 "\"", *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        add_double((double)*(const float *)at, true, out);
        break;
    default:
        add_double(*(const double *)at, false, out);
        break;
    }
}

static void add_value(const ProtobufCFieldDescriptor *f, const void *at, struct buf *out)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_BOOL:
        buf_add_str(out, *(const protobuf_c_boolean *)at ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_STRING:
        json_add_text(out, *(char *const *)at != NULL ? *(char *const *)at : "");
        break;
    case PROTOBUF_C_TYPE_BYTES:
        add_bytes(at, out);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        wire_json(*(const ProtobufCMessage *const *)at, out);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        add_enum(f, *(const int32_t *)at, out);
        break;
    default:
        add_number(f, at, out);
        break;
    }
}

/* Messages and members of a oneof are there or not; any other field always is. */
static bool is_there(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    const void *at = (const char *)m + f->offset;
    if (f->id >= WIRE_JSON_PRIVATE) {
        return false;
    }
    if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
        return *(const uint32_t *)(const void *)((const char *)m + f->quantifier_offset) == f->id;
    }
    return f->label == PROTOBUF_C_LABEL_REPEATED || f->type != PROTOBUF_C_TYPE_MESSAGE ||
           *(const void *const *)at != NULL;
}

static void add_list(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, struct buf *out)
{
    const size_t count = *(const size_t *)(const void *)((const char *)m + f->quantifier_offset);
    const char *items = *(char *const *)(const void *)((const char *)m + f->offset);
    buf_add_char(out, '[');
    for (size_t i = 0; i < count; i++) {
        buf_add_str(out, i == 0 ? "" : ",");
        add_value(f, items + i * size_of(f->type), out);
    }
    buf_add_char(out, ']');
}

void wire_json(const ProtobufCMessage *message, struct buf *out)
{
    const ProtobufCMessageDescriptor *d = message->descriptor;
    const char *comma = "";
    buf_add_char(out, '{');
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        if (!is_there(message, f)) {
            continue;
        }
        buf_add_str(out, comma);
        comma = ",";
        add_name(f->name, out);
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            add_list(message, f, out);
        } else {
            add_value(f, (const char *)message + f->offset, out);
        }
    }
    buf_add_char(out, '}');
}
