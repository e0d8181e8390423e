/* SPDX-License-Identifier: Apache-2.0 */
/* Writes answers and descriptions. Floats have nine digits, which read back to the same bits. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "json/json_write.h"
#include "serve/rpc/infer_bytes.h"
#include "serve/rpc/infer_json.h"

/* ---- answers ---- */

static void add_floats(const ProtobufCBinaryData *raw, struct buf *out)
{
    for (size_t at = 0; at + sizeof(float) <= raw->len; at += sizeof(float)) {
        float x;
        memcpy(&x, raw->data + at, sizeof x);
        buf_add_str(out, at == 0 ? "" : ",");
        if (isfinite(x)) {
            char text[TEXT_FLOAT_BYTES];
            buf_add_str(out, text_float(x, text));
        } else {
            buf_add_str(out, "null");
        }
    }
}

static void add_texts(const ProtobufCBinaryData *raw, uint64_t count, struct buf *out)
{
    struct infer_bytes texts = {.raw = raw};
    struct buf text = {0};
    for (uint64_t i = 0; i < count; i++) {
        const ProtobufCBinaryData bytes = infer_bytes_next(&texts);
        buf_reset(&text);
        buf_add(&text, bytes.data, bytes.len);
        buf_add_str(out, i == 0 ? "" : ",");
        json_add_string(out, buf_str(&text));
    }
    buf_release(&text);
}

static void add_output(const Inference__ModelInferResponse__InferOutputTensor *t,
                       const ProtobufCBinaryData *raw, bool binary, struct buf *out)
{
    uint64_t count = 1;
    buf_add_str(out, "{\"name\":");
    json_add_string(out, t->name);
    buf_printf(out, ",\"datatype\":\"%s\",\"shape\":[", t->datatype);
    for (size_t i = 0; i < t->n_shape; i++) {
        buf_printf(out, "%s%" PRId64, i == 0 ? "" : ",", t->shape[i]);
        count *= (uint64_t)t->shape[i];
    }
    if (binary) {
        buf_printf(out, "],\"parameters\":{\"binary_data_size\":%zu}}", raw->len);
        return;
    }
    buf_add_str(out, "],\"data\":[");
    if (strcmp(t->datatype, "BYTES") == 0) {
        add_texts(raw, count, out);
    } else {
        add_floats(raw, out);
    }
    buf_add_str(out, "]}");
}

void infer_json_answer(const struct infer_json *j, const Inference__ModelInferResponse *r,
                       struct buf *out, size_t *json_bytes)
{
    struct buf binary = {0};
    buf_add_str(out, "{\"model_name\":");
    json_add_string(out, r->model_name);
    buf_add_str(out, ",\"model_version\":");
    json_add_string(out, r->model_version);
    if (r->id[0] != '\0') {
        buf_add_str(out, ",\"id\":");
        json_add_string(out, r->id);
    }
    buf_add_str(out, ",\"outputs\":[");
    for (size_t i = 0; i < r->n_outputs; i++) {
        const ProtobufCBinaryData *raw = &r->raw_output_contents[i];
        const bool as_bytes = j->message.n_outputs > 0 ? j->binary[i] : j->all_binary;
        buf_add_str(out, i == 0 ? "" : ",");
        add_output(r->outputs[i], raw, as_bytes, out);
        if (as_bytes) {
            buf_add(&binary, raw->data, raw->len);
        }
    }
    buf_add_str(out, "]}");
    *json_bytes = binary.len > 0 ? out->len : 0;
    buf_add(out, binary.data, binary.len);
    buf_release(&binary);
}

/* ---- any message ---- */

static void add_value(const ProtobufCFieldDescriptor *f, const void *at, struct buf *out)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
        json_add_string(out, *(char *const *)at);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        buf_add_str(out, *(const protobuf_c_boolean *)at ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_INT32:
        buf_printf(out, "%" PRId32, *(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT64:
        buf_printf(out, "%" PRId64, *(const int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
        buf_printf(out, "%" PRIu64, *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        buf_printf(out, "\"%s\"",
                   protobuf_c_enum_descriptor_get_value(f->descriptor, *(const int *)at)->name);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        infer_json_message(*(ProtobufCMessage *const *)at, out);
        break;
    default: /* descriptions have no other types */
        buf_add_str(out, "null");
        break;
    }
}

static size_t size_of(const ProtobufCFieldDescriptor *f)
{
    return f->type == PROTOBUF_C_TYPE_BOOL                                       ? sizeof(bool)
           : f->type == PROTOBUF_C_TYPE_INT32 || f->type == PROTOBUF_C_TYPE_ENUM ? sizeof(int32_t)
                                                                                 : sizeof(uint64_t);
}

static void add_list(const ProtobufCFieldDescriptor *f, const char *values, size_t n,
                     struct buf *out)
{
    buf_add_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        buf_add_str(out, i == 0 ? "" : ",");
        add_value(f, values + i * size_of(f), out);
    }
    buf_add_char(out, ']');
}

/* True if the field is set; numbers always are. */
static bool is_set(const ProtobufCFieldDescriptor *f, const char *m)
{
    const char *at = m + f->offset;
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        return *(const size_t *)(m + f->quantifier_offset) > 0;
    }
    if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
        *(const uint32_t *)(m + f->quantifier_offset) != f->id) {
        return false;
    }
    return f->type == PROTOBUF_C_TYPE_STRING    ? (*(char *const *)at)[0] != '\0'
           : f->type == PROTOBUF_C_TYPE_MESSAGE ? *(void *const *)at != NULL
                                                : true;
}

void infer_json_message(const ProtobufCMessage *m, struct buf *out)
{
    const char *base = (const char *)m;
    const char *between = "";
    buf_add_char(out, '{');
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        if (!is_set(f, base)) {
            continue;
        }
        buf_printf(out, "%s\"%s\":", between, f->name);
        between = ",";
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            add_list(f, *(char *const *)(base + f->offset),
                     *(const size_t *)(base + f->quantifier_offset), out);
        } else {
            add_value(f, base + f->offset, out);
        }
    }
    buf_add_char(out, '}');
}
