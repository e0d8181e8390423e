/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tensors. A table of types says where the elements of each may be; everything else follows
 * from it. */
#include "onnx/onnx_tensor.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "onnx/onnx.pb-c.h"
#include "tensor/half.h"

/* The lists of TensorProto. */
enum list { LIST_NONE, LIST_FLOAT, LIST_INT32, LIST_INT64, LIST_DOUBLE, LIST_UINT64, LIST_COUNT };

struct type {
    const char *name;
    size_t bytes;
    enum list list;
};

#define TYPE(name) [ONNX__TENSOR_PROTO__DATA_TYPE__##name]
static const struct type types[] = {
    TYPE(UNDEFINED) = {"UNDEFINED", 0, LIST_NONE}, TYPE(FLOAT) = {"FLOAT", 4, LIST_FLOAT},
    TYPE(UINT8) = {"UINT8", 1, LIST_INT32},        TYPE(INT8) = {"INT8", 1, LIST_INT32},
    TYPE(UINT16) = {"UINT16", 2, LIST_INT32},      TYPE(INT16) = {"INT16", 2, LIST_INT32},
    TYPE(INT32) = {"INT32", 4, LIST_INT32},        TYPE(INT64) = {"INT64", 8, LIST_INT64},
    TYPE(STRING) = {"STRING", 0, LIST_NONE},       TYPE(BOOL) = {"BOOL", 1, LIST_INT32},
    TYPE(FLOAT16) = {"FLOAT16", 2, LIST_INT32},    TYPE(DOUBLE) = {"DOUBLE", 8, LIST_DOUBLE},
    TYPE(UINT32) = {"UINT32", 4, LIST_UINT64},     TYPE(UINT64) = {"UINT64", 8, LIST_UINT64},
    TYPE(COMPLEX64) = {"COMPLEX64", 0, LIST_NONE}, TYPE(COMPLEX128) = {"COMPLEX128", 0, LIST_NONE},
    TYPE(BFLOAT16) = {"BFLOAT16", 2, LIST_INT32},
};
#undef TYPE

static const struct type *type_find(int type)
{
    static const struct type unknown = {"unknown", 0, LIST_NONE};
    return type >= 0 && (size_t)type < sizeof types / sizeof types[0] ? &types[type] : &unknown;
}

size_t onnx_type_bytes(int type)
{
    return type_find(type)->bytes;
}

const char *onnx_type_name(int type)
{
    return type_find(type)->name;
}

static const char *name_of(const Onnx__TensorProto *t)
{
    return t->name != NULL && t->name[0] != '\0' ? t->name : "(without a name)";
}

/* ---- reading ---- */

static int inspect_dims(const Onnx__TensorProto *t, struct onnx_tensor_info *info, struct err *err)
{
    const int number = t->has_data_type ? t->data_type : ONNX__TENSOR_PROTO__DATA_TYPE__UNDEFINED;
    const struct type *type = type_find(number);
    if (type->bytes == 0) {
        return err_set(err, ERR_INVALID, "its type is %d (%s), which cannot be used", number,
                       type->name);
    }
    if (t->segment != NULL) {
        return err_set(err, ERR_INVALID, "it is a segment of a tensor; only whole ones are read");
    }
    if (t->n_dims > ONNX_RANK_MAX) {
        return err_set(err, ERR_INVALID, "it has %zu dimensions; at most %d are possible",
                       t->n_dims, ONNX_RANK_MAX);
    }
    info->type = number;
    info->rank = t->n_dims;
    info->count = 1;
    for (size_t i = 0; i < t->n_dims; i++) {
        if (t->dims[i] < 0) {
            return err_set(err, ERR_INVALID, "dimension %zu is %" PRId64, i, t->dims[i]);
        }
        info->dims[i] = (uint64_t)t->dims[i];
        if (__builtin_mul_overflow(info->count, info->dims[i], &info->count) ||
            info->count > ONNX_ELEMENTS_MAX) {
            return err_set(err, ERR_INVALID, "it has more than %d elements", ONNX_ELEMENTS_MAX);
        }
    }
    info->bytes = info->count * type->bytes;
    return 0;
}

/* A number of bytes in decimal. */
static int read_number(const char *key, const char *text, uint64_t *out, struct err *err)
{
    *out = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c < '0' || *c > '9' || __builtin_mul_overflow(*out, (uint64_t)10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(*c - '0'), out)) {
            return err_set(err, ERR_INVALID,
                           "its external data has %s \"%.40s\", which is no number", key, text);
        }
    }
    return text[0] != '\0' ? 0
                           : err_set(err, ERR_INVALID, "its external data has an empty %s", key);
}

/* True if the path is relative, and no part of it is "..". */
static bool stays_inside(const char *path)
{
    if (path[0] == '\0' || path[0] == '/' || strchr(path, '\\') != NULL) {
        return false;
    }
    for (const char *part = path; part != NULL; part = strchr(part, '/')) {
        part += part[0] == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0')) {
            return false;
        }
    }
    return true;
}

static int inspect_external(const Onnx__TensorProto *t, struct onnx_tensor_info *info,
                            struct err *err)
{
    uint64_t length = 0;
    int rc = 0;
    for (size_t i = 0; i < t->n_external_data && rc == 0; i++) {
        const Onnx__StringStringEntryProto *e = t->external_data[i];
        const char *key = e->key != NULL ? e->key : "", *value = e->value != NULL ? e->value : "";
        if (strcmp(key, "location") == 0) {
            info->file = value;
        } else if (strcmp(key, "offset") == 0) {
            rc = read_number(key, value, &info->offset, err);
        } else if (strcmp(key, "length") == 0) {
            info->length_given = true;
            rc = read_number(key, value, &length, err);
        }
    }
    if (rc != 0) {
        return rc;
    }
    if (info->file == NULL || !stays_inside(info->file)) {
        return err_set(err, ERR_INVALID,
                       "its elements are in \"%.200s\"; only files in the directory of the model "
                       "are read, by names without \"..\"",
                       info->file != NULL ? info->file : "");
    }
    if (info->length_given && length != info->bytes) {
        return err_set(err, ERR_INVALID,
                       "its external data has %" PRIu64 " bytes; its dimensions say %" PRIu64,
                       length, info->bytes);
    }
    if (info->offset > INT64_MAX - info->bytes) {
        return err_set(err, ERR_INVALID, "its external data begins at %" PRIu64, info->offset);
    }
    return 0;
}

/* Checks that the elements are in the one place where there are any. */
static int inspect_inside(const Onnx__TensorProto *t, const struct onnx_tensor_info *info,
                          struct err *err)
{
    const size_t lists[LIST_COUNT] = {
        [LIST_NONE] = t->n_string_data,   [LIST_FLOAT] = t->n_float_data,
        [LIST_INT32] = t->n_int32_data,   [LIST_INT64] = t->n_int64_data,
        [LIST_DOUBLE] = t->n_double_data, [LIST_UINT64] = t->n_uint64_data};
    const enum list own = type_find(info->type)->list;
    for (int i = 0; i < LIST_COUNT; i++) {
        if (lists[i] > 0 && (i != (int)own || t->has_raw_data || info->external)) {
            return err_set(err, ERR_INVALID,
                           i == (int)own ? "it has its elements in two places"
                                         : "it has elements of another type than %s",
                           onnx_type_name(info->type));
        }
    }
    if (info->external) {
        return t->has_raw_data ? err_set(err, ERR_INVALID, "it has its elements in two places") : 0;
    }
    if (t->has_raw_data && t->raw_data.len != info->bytes) {
        return err_set(err, ERR_INVALID, "it has %zu bytes; its dimensions say %" PRIu64,
                       t->raw_data.len, info->bytes);
    }
    if (!t->has_raw_data && lists[own] != info->count) {
        return err_set(err, ERR_INVALID, "it has %zu elements; its dimensions say %" PRIu64,
                       lists[own], info->count);
    }
    return 0;
}

int onnx_tensor_inspect(const Onnx__TensorProto *t, struct onnx_tensor_info *info, struct err *err)
{
    struct onnx_tensor_info found = {.external = t->has_data_location &&
                                                 t->data_location ==
                                                     ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL};
    int rc = inspect_dims(t, &found, err);
    rc = rc != 0 ? rc : inspect_inside(t, &found, err);
    rc = rc != 0 || !found.external ? rc : inspect_external(t, &found, err);
    if (rc != 0) {
        return err_wrap(err, "tensor %.200s", name_of(t));
    }
    *info = found;
    return 0;
}

/* The raw bytes; NULL: the elements are in a list. */
static const uint8_t *raw(const Onnx__TensorProto *t, const void *external)
{
    return external != NULL ? external : t->has_raw_data ? t->raw_data.data : NULL;
}

static int wrong_type(const Onnx__TensorProto *t, const char *wanted, struct err *err)
{
    return err_set(err, ERR_INVALID, "tensor %.200s: it is of type %s; %s are needed here",
                   name_of(t), onnx_type_name(t->data_type), wanted);
}

/* Half floats in a list: each the lower half of a number. */
static void halves(enum value_type type, const uint8_t *bytes, const int32_t *list, size_t n,
                   float *out)
{
    if (bytes != NULL) {
        values_decode(type, bytes, n, out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const uint16_t half = (uint16_t)list[i];
        values_decode(type, &half, 1, &out[i]);
    }
}

/* Both are asked to read only what inspect has seen to be there. */
static bool must_be_external(const struct onnx_tensor_info *info, const void *external)
{
    return info->external && external == NULL && info->count > 0;
}

int onnx_tensor_floats(const Onnx__TensorProto *t, const void *external, float *out,
                       struct err *err)
{
    struct onnx_tensor_info info;
    int rc = onnx_tensor_inspect(t, &info, err);
    if (rc != 0) {
        return rc;
    }
    if (must_be_external(&info, external)) {
        return err_set(err, ERR_INVALID, "tensor %.200s: its elements are in another file",
                       name_of(t));
    }
    const uint8_t *bytes = raw(t, info.external ? external : NULL);
    const size_t n = (size_t)info.count;
    if (n == 0) {
        return 0;
    }
    switch (info.type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
        memcpy(out, bytes != NULL ? (const void *)bytes : t->float_data, n * sizeof *out);
        return 0;
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16:
        halves(VALUE_FP16, bytes, t->int32_data, n, out);
        return 0;
    case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16:
        halves(VALUE_BF16, bytes, t->int32_data, n, out);
        return 0;
    case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
        for (size_t i = 0; i < n; i++) {
            double x;
            memcpy(&x, bytes != NULL ? bytes + i * sizeof x : (const uint8_t *)&t->double_data[i],
                   sizeof x);
            out[i] = (float)x;
        }
        return 0;
    default:
        return wrong_type(t, "floats", err);
    }
}

/* Element @i of a type of integers, sign-extended when the type has a sign. */
static int64_t integer(const Onnx__TensorProto *t, const struct onnx_tensor_info *info,
                       const uint8_t *bytes, size_t i)
{
    if (bytes == NULL) {
        switch (type_find(info->type)->list) {
        case LIST_INT64:
            return t->int64_data[i];
        case LIST_UINT64:
            return (int64_t)(uint32_t)t->uint64_data[i];
        default:
            return t->int32_data[i];
        }
    }
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        int64_t i64;
    } x;
    const size_t size = onnx_type_bytes(info->type);
    memcpy(&x, bytes + i * size, size);
    switch (info->type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT8:
        return x.i8;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT16:
        return x.i16;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
        return x.i32;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
        return x.i64;
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT16:
        return x.u16;
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT32:
        return x.u32;
    default: /* UINT8, BOOL */
        return x.u8;
    }
}

int onnx_tensor_ints(const Onnx__TensorProto *t, const void *external, int64_t *out,
                     struct err *err)
{
    struct onnx_tensor_info info;
    int rc = onnx_tensor_inspect(t, &info, err);
    if (rc != 0) {
        return rc;
    }
    switch (info.type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16:
    case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16:
    case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT64:
        return wrong_type(t, "integers", err);
    default:
        break;
    }
    if (must_be_external(&info, external)) {
        return err_set(err, ERR_INVALID, "tensor %.200s: its elements are in another file",
                       name_of(t));
    }
    const uint8_t *bytes = raw(t, info.external ? external : NULL);
    for (size_t i = 0; i < info.count; i++) {
        out[i] = integer(t, &info, bytes, i);
    }
    return 0;
}

/* ---- making ---- */

static Onnx__TensorProto *tensor_new(const char *name, int type, const uint64_t *dims, size_t rank,
                                     const void *values, struct err *err)
{
    Onnx__TensorProto *t = mem_new(1, sizeof *t);
    onnx__tensor_proto__init(t);
    t->name = mem_strdup(name);
    t->has_data_type = true;
    t->data_type = type;
    t->n_dims = rank;
    t->dims = mem_new(rank + 1, sizeof *t->dims);
    uint64_t bytes = onnx_type_bytes(type);
    for (size_t i = 0; i < rank; i++) {
        t->dims[i] = (int64_t)dims[i];
        bytes *= dims[i];
    }
    if (values != NULL) {
        t->has_raw_data = true;
        t->raw_data.len = (size_t)bytes;
        t->raw_data.data = malloc((size_t)bytes + 1);
        if (t->raw_data.data == NULL) {
            (void)err_set(err, ERR_EXHAUSTED, "no memory for the %" PRIu64 " bytes of tensor %s",
                          bytes, name);
            t->has_raw_data = false;
            onnx__tensor_proto__free_unpacked(t, NULL);
            return NULL;
        }
        memcpy(t->raw_data.data, values, (size_t)bytes);
    }
    return t;
}

Onnx__TensorProto *onnx_tensor_new_floats(const char *name, const uint64_t *dims, size_t rank,
                                          const float *values, struct err *err)
{
    return tensor_new(name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, dims, rank, values, err);
}

Onnx__TensorProto *onnx_tensor_new_ints(const char *name, const uint64_t *dims, size_t rank,
                                        const int64_t *values, struct err *err)
{
    return tensor_new(name, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, dims, rank, values, err);
}

static Onnx__StringStringEntryProto *entry_new(const char *key, char *value)
{
    Onnx__StringStringEntryProto *e = mem_new(1, sizeof *e);
    onnx__string_string_entry_proto__init(e);
    e->key = mem_strdup(key);
    e->value = value;
    return e;
}

void onnx_tensor_set_external(Onnx__TensorProto *t, const char *file, uint64_t offset,
                              uint64_t bytes)
{
    t->has_data_location = true;
    t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    t->external_data = mem_new(3, sizeof(Onnx__StringStringEntryProto *));
    t->n_external_data = 3;
    t->external_data[0] = entry_new("location", mem_strdup(file));
    t->external_data[1] = entry_new("offset", mem_printf("%" PRIu64, offset));
    t->external_data[2] = entry_new("length", mem_printf("%" PRIu64, bytes));
}
