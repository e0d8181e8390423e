/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of ONNX: what is made is read back, and what does not fit itself is refused. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "onnx/onnx.pb-c.h"
#include "onnx/onnx_tensor.h"

#define TYPE(name) ONNX__TENSOR_PROTO__DATA_TYPE__##name

/* A message as it comes from a file: through its bytes. */
static Onnx__TensorProto *reread(Onnx__TensorProto *t)
{
    const size_t n = onnx__tensor_proto__get_packed_size(t);
    uint8_t *bytes = mem_new(n + 1, 1);
    assert_int_equal(onnx__tensor_proto__pack(t, bytes), n);
    onnx__tensor_proto__free_unpacked(t, NULL);
    Onnx__TensorProto *again = onnx__tensor_proto__unpack(NULL, n, bytes);
    assert_non_null(again);
    free(bytes);
    return again;
}

static void made_floats_are_read(void **state)
{
    (void)state;
    static const uint64_t dims[] = {2, 3};
    static const float values[6] = {1, -2, 0.5F, 1e-30F, 3e30F, -0.0F};
    struct err err = {0};
    Onnx__TensorProto *t = reread(onnx_tensor_new_floats("dense_1.kernel", dims, 2, values, &err));
    struct onnx_tensor_info info;
    assert_int_equal(onnx_tensor_inspect(t, &info, &err), 0);
    assert_int_equal(info.type, TYPE(FLOAT));
    assert_int_equal(info.rank, 2);
    assert_int_equal(info.dims[1], 3);
    assert_int_equal(info.count, 6);
    assert_int_equal(info.bytes, 24);
    assert_false(info.external);
    float out[6];
    assert_int_equal(onnx_tensor_floats(t, NULL, out, &err), 0);
    assert_memory_equal(out, values, sizeof values);
    int64_t ints[6];
    assert_int_equal(onnx_tensor_ints(t, NULL, ints, &err), ERR_INVALID);
    assert_string_equal(err.msg,
                        "tensor dense_1.kernel: it is of type FLOAT; integers are needed here");
    onnx__tensor_proto__free_unpacked(t, NULL);
}

static void made_ints_are_read(void **state)
{
    (void)state;
    static const uint64_t dims[] = {3};
    static const int64_t values[3] = {INT64_MIN, -1, 7};
    struct err err = {0};
    Onnx__TensorProto *t = reread(onnx_tensor_new_ints("shape", dims, 1, values, &err));
    int64_t out[3];
    assert_int_equal(onnx_tensor_ints(t, NULL, out, &err), 0);
    assert_memory_equal(out, values, sizeof values);
    float floats[3];
    assert_int_equal(onnx_tensor_floats(t, NULL, floats, &err), ERR_INVALID);
    onnx__tensor_proto__free_unpacked(t, NULL);
}

/* A scalar has one element and no dimension; a dimension of 0 has none. */
static void scalars_and_nothing(void **state)
{
    (void)state;
    static const uint64_t none[] = {4, 0};
    const float one = 3;
    struct err err = {0};
    Onnx__TensorProto *t = reread(onnx_tensor_new_floats("s", NULL, 0, &one, &err));
    float out[4] = {9, 9, 9, 9};
    assert_int_equal(onnx_tensor_floats(t, NULL, out, &err), 0);
    assert_true(out[0] == 3);
    onnx__tensor_proto__free_unpacked(t, NULL);
    t = reread(onnx_tensor_new_floats("n", none, 2, &one, &err));
    assert_int_equal(onnx_tensor_floats(t, NULL, out, &err), 0);
    assert_true(out[0] == 3 && out[1] == 9);
    onnx__tensor_proto__free_unpacked(t, NULL);
}

static Onnx__TensorProto blank(int type, int64_t *dims, size_t rank)
{
    Onnx__TensorProto t = ONNX__TENSOR_PROTO__INIT;
    t.name = (char *)(uintptr_t) "w";
    t.has_data_type = true;
    t.data_type = type;
    t.dims = dims;
    t.n_dims = rank;
    return t;
}

static void lists_are_read(void **state)
{
    (void)state;
    int64_t two = 2;
    float floats[2] = {1.5F, -2};
    double doubles[2] = {1.5, 1.0 / 3};
    int32_t words[2] = {0x3E00, (int32_t)0xFFFFC000}; /* 1.5 and -2 in FP16 */
    int32_t bfloats[2] = {0x3FC0, 0xC000};            /* the same in BF16 */
    int64_t longs[2] = {-5, INT64_MAX};
    uint64_t unsigneds[2] = {5, UINT32_MAX};
    struct err err = {0};
    float out[2];
    int64_t ints[2];

    Onnx__TensorProto t = blank(TYPE(FLOAT), &two, 1);
    t.float_data = floats;
    t.n_float_data = 2;
    assert_int_equal(onnx_tensor_floats(&t, NULL, out, &err), 0);
    assert_true(out[0] == 1.5F && out[1] == -2);

    t = blank(TYPE(DOUBLE), &two, 1);
    t.double_data = doubles;
    t.n_double_data = 2;
    assert_int_equal(onnx_tensor_floats(&t, NULL, out, &err), 0);
    assert_true(out[0] == 1.5F && out[1] == (float)(1.0 / 3));

    t = blank(TYPE(FLOAT16), &two, 1);
    t.int32_data = words;
    t.n_int32_data = 2;
    assert_int_equal(onnx_tensor_floats(&t, NULL, out, &err), 0);
    assert_true(out[0] == 1.5F && out[1] == -2);
    t.data_type = TYPE(BFLOAT16);
    t.int32_data = bfloats;
    assert_int_equal(onnx_tensor_floats(&t, NULL, out, &err), 0);
    assert_true(out[0] == 1.5F && out[1] == -2);

    t.data_type = TYPE(INT8);
    words[1] = -7;
    t.int32_data = words;
    assert_int_equal(onnx_tensor_ints(&t, NULL, ints, &err), 0);
    assert_int_equal(ints[1], -7);

    t = blank(TYPE(INT64), &two, 1);
    t.int64_data = longs;
    t.n_int64_data = 2;
    assert_int_equal(onnx_tensor_ints(&t, NULL, ints, &err), 0);
    assert_true(ints[0] == -5 && ints[1] == INT64_MAX);

    t = blank(TYPE(UINT32), &two, 1);
    t.uint64_data = unsigneds;
    t.n_uint64_data = 2;
    assert_int_equal(onnx_tensor_ints(&t, NULL, ints, &err), 0);
    assert_true(ints[0] == 5 && ints[1] == UINT32_MAX);
}

static void raw_integers_keep_their_sign(void **state)
{
    (void)state;
    static const struct {
        int type;
        int64_t wanted;
    } rows[] = {{TYPE(INT8), -2},       {TYPE(UINT8), 0xFE}, {TYPE(INT16), -2},
                {TYPE(UINT16), 0xFFFE}, {TYPE(INT32), -2},   {TYPE(UINT32), 0xFFFFFFFE},
                {TYPE(INT64), -2},      {TYPE(BOOL), 0xFE}};
    uint8_t bytes[8];
    memset(bytes, 0xFF, sizeof bytes);
    bytes[0] = 0xFE;
    int64_t one = 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Onnx__TensorProto t = blank(rows[i].type, &one, 1);
        t.has_raw_data = true;
        t.raw_data.data = bytes;
        t.raw_data.len = onnx_type_bytes(rows[i].type);
        int64_t out = 0;
        struct err err = {0};
        assert_int_equal(onnx_tensor_ints(&t, NULL, &out, &err), 0);
        assert_int_equal(out, rows[i].wanted);
    }
}

static void other_files(void **state)
{
    (void)state;
    static const uint64_t dims[] = {2};
    static const float values[2] = {4, 5};
    struct err err = {0};
    Onnx__TensorProto *t = onnx_tensor_new_floats("w", dims, 1, NULL, &err);
    onnx_tensor_set_external(t, "net.onnx.data", 4096, 8);
    t = reread(t);
    struct onnx_tensor_info info;
    assert_int_equal(onnx_tensor_inspect(t, &info, &err), 0);
    assert_true(info.external);
    assert_string_equal(info.file, "net.onnx.data");
    assert_int_equal(info.offset, 4096);
    float out[2];
    assert_int_equal(onnx_tensor_floats(t, NULL, out, &err), ERR_INVALID);
    assert_string_equal(err.msg, "tensor w: its elements are in another file");
    assert_int_equal(onnx_tensor_floats(t, values, out, &err), 0);
    assert_memory_equal(out, values, sizeof values);

    static const struct {
        size_t entry;
        const char *value, *message;
    } bad[] = {{0, "/etc/passwd", "/etc/passwd"},
               {0, "../w", "../w"},
               {0, "a/../../w", "a/../../w"},
               {0, "a/..", "a/.."},
               {0, "", "only files in the directory of the model"},
               {1, "-1", "offset \"-1\", which is no number"},
               {1, "", "an empty offset"},
               {1, "18446744073709551616", "which is no number"},
               {1, "9223372036854775807", "begins at"},
               {2, "12", "has 12 bytes; its dimensions say 8"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *kept = t->external_data[bad[i].entry]->value;
        t->external_data[bad[i].entry]->value = (char *)(uintptr_t)bad[i].value;
        assert_int_equal(onnx_tensor_inspect(t, &info, &err), ERR_INVALID);
        assert_non_null(strstr(err.msg, bad[i].message));
        t->external_data[bad[i].entry]->value = kept;
    }
    assert_int_equal(onnx_tensor_inspect(t, &info, &err), 0);
    free(t->external_data[0]->value);
    t->external_data[0]->value = mem_strdup("a..b/..c"); /* no way out */
    assert_int_equal(onnx_tensor_inspect(t, &info, &err), 0);
    onnx__tensor_proto__free_unpacked(t, NULL);
}

static void refuse(const Onnx__TensorProto *t, const char *message)
{
    struct err err = {0};
    struct onnx_tensor_info info;
    assert_int_equal(onnx_tensor_inspect(t, &info, &err), ERR_INVALID);
    if (strstr(err.msg, message) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.msg, message);
    }
}

static void wrong_tensors_are_refused(void **state)
{
    (void)state;
    int64_t dims[ONNX_RANK_MAX + 1] = {2, 2};
    float floats[4] = {0};
    int32_t words[4] = {0};
    uint8_t bytes[16] = {0};
    Onnx__TensorProto good = blank(TYPE(FLOAT), dims, 2);
    good.float_data = floats;
    good.n_float_data = 4;
    struct err err = {0};
    struct onnx_tensor_info info;
    assert_int_equal(onnx_tensor_inspect(&good, &info, &err), 0);

    Onnx__TensorProto t = good;
    t.n_float_data = 3;
    refuse(&t, "tensor w: it has 3 elements; its dimensions say 4");
    t = good;
    t.has_raw_data = true;
    t.raw_data.data = bytes;
    t.raw_data.len = 16;
    refuse(&t, "two places");
    t.n_float_data = 0;
    t.raw_data.len = 15;
    refuse(&t, "it has 15 bytes; its dimensions say 16");
    t.raw_data.len = 0;
    refuse(&t, "it has 0 bytes");
    t = good;
    t.int32_data = words;
    t.n_int32_data = 4;
    refuse(&t, "another type than FLOAT");
    t = good;
    t.has_data_location = true;
    t.data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    refuse(&t, "two places");
    t.n_float_data = 0;
    refuse(&t, "only files in the directory of the model");
    t = good;
    t.data_type = 99;
    refuse(&t, "its type is 99 (unknown)");
    t.data_type = -1;
    refuse(&t, "its type is -1 (unknown)");
    t.data_type = TYPE(STRING);
    refuse(&t, "(STRING)");
    t.has_data_type = false;
    refuse(&t, "its type is 0 (UNDEFINED)");
    t = good;
    Onnx__TensorProto__Segment segment = ONNX__TENSOR_PROTO__SEGMENT__INIT;
    t.segment = &segment;
    refuse(&t, "segment");
    t = good;
    t.n_dims = ONNX_RANK_MAX + 1;
    refuse(&t, "9 dimensions");
    t = good;
    dims[1] = -1;
    refuse(&t, "dimension 1 is -1");
    dims[1] = INT64_MAX;
    refuse(&t, "more than");
    t.name = NULL;
    refuse(&t, "tensor (without a name):");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_floats_are_read),         cmocka_unit_test(made_ints_are_read),
        cmocka_unit_test(scalars_and_nothing),          cmocka_unit_test(lists_are_read),
        cmocka_unit_test(raw_integers_keep_their_sign), cmocka_unit_test(other_files),
        cmocka_unit_test(wrong_tensors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
