/* SPDX-License-Identifier: Apache-2.0 */
/* What a model takes, which requests are refused and how, and that raw and typed contents become
 * the same records. */
#include "infer_rig.h"
#include "unit/saved/saved_rig.h"

#include <math.h>

#include "serve/rpc/infer_bytes.h"
#include "serve/rpc/infer_inputs.h"

#define RECORDS_MAX 3

struct taker {
    struct job_spec spec; /* what the encoder borrows from */
    struct encoder *encoder;
    struct infer_inputs inputs;
    struct infer_tensor tensors[4];
    struct err err;
};

static void measure(struct taker *t, char *text)
{
    struct diags diags = {0};
    *t = (struct taker){.encoder = NULL};
    assert_int_equal(job_spec_parse(text, strlen(text), "job", NULL, 0, &t->spec, &diags), 0);
    if (encoder_open(&t->spec.data, DATA_LABEL_CLASS, &t->encoder, &t->err) != 0) {
        fail_msg("%s", t->err.msg);
    }
    diags_release(&diags);
    free(text);
}

/* Numbers a and b and a category; three records. @missing: what the job says of missing values. */
static void take_columns(struct taker *t, const struct saved_rig *r, const char *missing)
{
    saved_rig_file(r, "train", "a,kind,soil,b\n1,x,clay,10\n3,y,sand,30\n5,x,clay,50\n");
    char *data = mem_printf(", label: kind, categorical: soil, scale: none%s", missing);
    measure(t, saved_rig_job(r, "csv", data,
                             "layers: [{dense: {units: 2}}], loss: softmax_cross_entropy",
                             ", rule: sgd"));
    free(data);
    assert_int_equal(infer_inputs_make(&t->inputs, t->encoder, &t->err), 0);
}

/* Two sparse fields and no numbers. */
static void take_fields(struct taker *t, const struct saved_rig *r)
{
    saved_rig_file(r, "train", "1 0:2:1 1:4:1\n0 0:8:1 1:3:1\n");
    measure(
        t, saved_rig_job(r, "libffm", ", columns: [{column: 0..1, as: sparse}]",
                         "layers: [{linear: {rows: 9, shared: true}}], loss: sigmoid_cross_entropy",
                         ", rule: sgd"));
    assert_int_equal(infer_inputs_make(&t->inputs, t->encoder, &t->err), 0);
}

static void taker_end(struct taker *t)
{
    infer_inputs_release(&t->inputs);
    encoder_free(t->encoder);
    job_spec_release(&t->spec);
}

static void refused(struct taker *t, const struct ask *a, const char *says)
{
    size_t records = 0;
    t->err = (struct err){0};
    assert_int_equal(
        infer_inputs_check(&t->inputs, &a->message, RECORDS_MAX, t->tensors, &records, &t->err),
        ERR_INVALID);
    assert_string_equal(t->err.msg, says);
    assert_int_equal(records, 0);
}

/* The records of a request, as the model reads them. */
static struct dataset *taken(struct taker *t, const struct ask *a, size_t expected)
{
    struct records r = {0};
    struct dataset *d = NULL;
    size_t n = 0;
    int rc = infer_inputs_check(&t->inputs, &a->message, RECORDS_MAX, t->tensors, &n, &t->err);
    rc = rc != 0 ? rc : infer_records_begin(&t->inputs, n, &r, &t->err);
    rc = rc != 0 ? rc : infer_records_add(&t->inputs, t->tensors, n, &r, &t->err);
    rc = rc != 0 ? rc : encoder_apply(t->encoder, &r, &d, &t->err);
    if (rc != 0) {
        fail_msg("%s", t->err.msg);
    }
    assert_int_equal(n, expected);
    assert_int_equal(dataset_info(d)->records, expected);
    records_release(&r);
    return d;
}

static void read_all(const struct dataset *d, struct batch *b)
{
    const uint64_t all[RECORDS_MAX] = {0, 1, 2};
    const size_t n = (size_t)dataset_info(d)->records;
    assert_int_equal(batch_init(b, d, n, NULL), 0);
    assert_int_equal(dataset_read(d, all, n, b, NULL), 0);
}

/* A record is a, b, and which of clay and sand it is. */
static void assert_columns(struct taker *t, const struct ask *a, size_t n, const float *numbers,
                           const int *soils)
{
    struct batch b = {0};
    struct dataset *d = taken(t, a, n);
    read_all(d, &b);
    assert_int_equal(shape_count(&dataset_info(d)->features), 4);
    for (size_t i = 0; i < n; i++) {
        const float *x = b.features + 4 * i;
        assert_true(x[0] == numbers[2 * i] && x[1] == numbers[2 * i + 1]);
        assert_true(x[2] == (soils[i] == 0 ? 1.0F : 0.0F));
        assert_true(x[3] == (soils[i] == 1 ? 1.0F : 0.0F));
    }
    batch_release(&b);
    dataset_free(d);
}

static const float two[4] = {1.5F, -2, 3, 40};
static const uint8_t sand_clay[] = "\4\0\0\0sand\4\0\0\0clay";
#define SAND_CLAY_BYTES (sizeof sand_clay - 1)

static void test_what_a_model_takes(void **state)
{
    struct taker t;
    take_columns(&t, *state, "");
    assert_int_equal(t.inputs.count, 2);
    assert_string_equal(t.inputs.items[0].name, "features");
    assert_string_equal(infer_datatype(&t.inputs.items[0]), "FP32");
    assert_int_equal(t.inputs.items[0].elements, 2);
    assert_int_equal(t.inputs.items[0].shape.rank, 1);
    assert_string_equal(t.inputs.items[1].name, "soil");
    assert_string_equal(infer_datatype(&t.inputs.items[1]), "BYTES");
    assert_int_equal(t.inputs.items[1].elements, 1);
    taker_end(&t);
    take_fields(&t, *state);
    assert_int_equal(t.inputs.count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(t.inputs.items[i].name, i == 0 ? "0" : "1");
        assert_string_equal(infer_datatype(&t.inputs.items[i]), "UINT64");
        assert_int_equal(t.inputs.items[i].elements, 0);
        assert_int_equal(t.inputs.items[i].index, i);
    }
    taker_end(&t);
}

/* A column that is called as all numbers together are. */
static void test_two_inputs_of_one_name(void **state)
{
    struct saved_rig *r = *state;
    struct taker t;
    saved_rig_file(r, "train", "a,kind,features\n1,x,clay\n3,y,sand\n");
    measure(&t, saved_rig_job(r, "csv", ", label: kind, categorical: features",
                              "layers: [{dense: {units: 2}}], loss: softmax_cross_entropy",
                              ", rule: sgd"));
    assert_int_equal(infer_inputs_make(&t.inputs, t.encoder, &t.err), ERR_INVALID);
    assert_string_equal(t.err.msg, "two inputs of the model would be called \"features\"; numbers "
                                   "are the input \"features\", categories and sparse fields have "
                                   "the names of their columns");
    assert_null(t.inputs.items);
    taker_end(&t);
}

static void test_columns_raw_and_typed(void **state)
{
    struct taker t;
    struct ask a;
    float numbers[4];
    memcpy(numbers, two, sizeof two);
    ProtobufCBinaryData soils[] = {ask_text("sand"), ask_text("clay")};
    take_columns(&t, *state, "");
    ask_begin(&a); /* in an order of its own */
    ask_raw(&a, "soil", "BYTES", 2, 1, sand_clay, SAND_CLAY_BYTES);
    ask_raw(&a, "features", "FP32", 2, 2, two, sizeof two);
    assert_columns(&t, &a, 2, two, (int[]){1, 0});
    ask_begin(&a);
    Inference__InferTensorContents *c = ask_typed(&a, "features", "FP32", 2, 2);
    c->n_fp32_contents = 4;
    c->fp32_contents = numbers;
    c = ask_typed(&a, "soil", "BYTES", 2, 1);
    c->n_bytes_contents = 2;
    c->bytes_contents = soils;
    assert_columns(&t, &a, 2, two, (int[]){1, 0});
    a.tensors[1].n_shape = 1; /* [records] is no shape of a category */
    refused(&t, &a, "input \"soil\": its shape is [2], expected [records, 1]");
    taker_end(&t);
}

static void test_keys_raw_and_typed(void **state)
{
    struct taker t;
    struct ask a;
    uint64_t first[] = {7, 8, 9, 9, 1, UINT64_MAX}, second[] = {5, 6, 4};
    int64_t as_signed[] = {7, 8, 9, 9, 1, -1};
    take_fields(&t, *state);
    for (unsigned way = 0; way < 4; way++) {
        struct batch b = {0};
        const bool is_signed = way % 2 == 1;
        ask_begin(&a);
        if (way < 2) {
            ask_raw(&a, "0", is_signed ? "INT64" : "UINT64", 3, 2,
                    is_signed ? (void *)as_signed : first, sizeof first);
            ask_raw(&a, "1", "UINT64", 3, 1, second, sizeof second);
        } else {
            Inference__InferTensorContents *c =
                ask_typed(&a, "0", is_signed ? "INT64" : "UINT64", 3, 2);
            c->n_int64_contents = is_signed ? 6 : 0;
            c->int64_contents = as_signed;
            c->n_uint64_contents = is_signed ? 0 : 6;
            c->uint64_contents = first;
            c = ask_typed(&a, "1", "UINT64", 3, 1);
            c->n_uint64_contents = 3;
            c->uint64_contents = second;
        }
        struct dataset *d = taken(&t, &a, 3);
        read_all(d, &b);
        const struct sparse_batch *l = &b.lists;
        static const uint64_t expected[2][3][2] = {{{7, 8}, {9}, {1, UINT64_MAX}}, {{5}, {6}, {4}}};
        static const size_t lengths[2][3] = {{2, 1, 2}, {1, 1, 1}};
        for (size_t f = 0; f < 2; f++) {
            const uint64_t *offsets = l->offsets + f * (l->capacity + 1);
            for (size_t i = 0; i < 3; i++) {
                assert_int_equal(offsets[i + 1] - offsets[i], lengths[f][i]);
                assert_memory_equal(l->keys + offsets[i], expected[f][i],
                                    lengths[f][i] * sizeof(uint64_t));
            }
        }
        batch_release(&b);
        dataset_free(d);
    }
    taker_end(&t);
}

static void test_missing_values(void **state)
{
    struct taker t;
    struct ask a;
    const float numbers[] = {NAN, 7, INFINITY, 8};
    static const uint8_t none[] = "\2\0\0\0NA\0\0\0\0";
    take_columns(&t, *state, ", missing: mean");
    ask_begin(&a);
    ask_raw(&a, "features", "FP32", 1, 2, numbers, 8);
    ask_raw(&a, "soil", "BYTES", 1, 1, none, 6);
    assert_columns(&t, &a, 1, (float[]){3, 7}, (int[]){-1});
    a.raw[1] = (ProtobufCBinaryData){4, (uint8_t *)(uintptr_t)(none + 6)}; /* an empty text */
    assert_columns(&t, &a, 1, (float[]){3, 7}, (int[]){-1});
    a.raw[0].data += 8;
    refused(&t, &a, "input \"features\": number 0 of record 0 is infinite");
    taker_end(&t);
    take_columns(&t, *state, "");
    a.raw[0].data -= 8;
    refused(&t, &a,
            "input \"features\": number 0 of record 0 is no number; the job does not say what a "
            "missing one becomes");
    a.raw[0].data = (uint8_t *)(uintptr_t)two;
    refused(&t, &a,
            "input \"soil\": the text of record 0 is missing; the job does not say what a missing "
            "one becomes");
    taker_end(&t);
}

static void test_names_and_contents(void **state)
{
    struct taker t;
    struct ask a;
    float numbers[4] = {1, 2, 3, 4};
    int32_t other[] = {1};
    take_columns(&t, *state, "");
    ask_begin(&a);
    refused(&t, &a, "input \"features\" is missing");
    ask_raw(&a, "features", "FP32", 2, 2, two, sizeof two);
    refused(&t, &a, "input \"soil\" is missing");
    ask_raw(&a, "features", "FP32", 2, 2, two, sizeof two);
    refused(&t, &a, "input \"features\" is there twice");
    a.tensors[1].name = (char *)(uintptr_t) "water";
    refused(&t, &a, "input \"water\": the model has none of that name; it has features, soil");
    a.message.n_raw_input_contents = 1;
    refused(&t, &a, "1 raw_input_contents for 2 inputs; expected one for each");
    ask_begin(&a);
    Inference__InferTensorContents *c = ask_typed(&a, "features", "FP32", 2, 2);
    c->fp32_contents = numbers;
    c->n_fp32_contents = 3;
    refused(&t, &a,
            "input \"features\": 3 elements in contents, 3 of them in fp32_contents; expected 4 "
            "there");
    c->n_fp32_contents = 4;
    c->n_int_contents = 1;
    c->int_contents = other;
    refused(&t, &a,
            "input \"features\": 5 elements in contents, 4 of them in fp32_contents; expected 4 "
            "there");
    c->n_int_contents = 0;
    a.tensors[0].contents = NULL; /* nothing at all is nothing of what is expected */
    refused(&t, &a,
            "input \"features\": 0 elements in contents, 0 of them in fp32_contents; expected 4 "
            "there");
    a.tensors[0].contents = c;
    a.message.n_raw_input_contents = 1;
    refused(&t, &a,
            "input \"features\" has contents, and the request has raw_input_contents; allowed is "
            "one of the two");
    taker_end(&t);
}

static void test_shapes_and_sizes(void **state)
{
    struct taker t;
    struct ask a;
    take_columns(&t, *state, "");
    ask_begin(&a);
    ask_raw(&a, "features", "FP64", 2, 2, two, sizeof two);
    refused(&t, &a, "input \"features\": its datatype is \"FP64\", expected FP32");
    a.tensors[0].datatype = (char *)(uintptr_t) "INT64";
    refused(&t, &a, "input \"features\": its datatype is \"INT64\", expected FP32");
    a.tensors[0].datatype = (char *)(uintptr_t) "FP32";
    a.shapes[0][1] = 3;
    refused(&t, &a, "input \"features\": its shape is [2, 3], expected [records, 2]");
    a.shapes[0][1] = 2;
    a.shapes[0][0] = 0;
    refused(&t, &a, "input \"features\": 0 records, allowed are 1 to 3 (--batch-max)");
    a.shapes[0][0] = 4;
    refused(&t, &a, "input \"features\": 4 records, allowed are 1 to 3 (--batch-max)");
    a.shapes[0][0] = 3;
    refused(&t, &a,
            "input \"features\": 16 bytes of raw contents, expected 24 (6 elements of 4 bytes)");
    a.shapes[0][0] = 2;
    ask_raw(&a, "soil", "BYTES", 1, 1, sand_clay, 8);
    refused(&t, &a, "input \"soil\": 1 records, but other inputs have 2");
    taker_end(&t);
    take_fields(&t, *state);
    ask_begin(&a);
    ask_raw(&a, "0", "FP32", 2, 1, two, sizeof two);
    refused(&t, &a, "input \"0\": its datatype is \"FP32\", expected UINT64 or INT64");
    a.tensors[0].datatype = (char *)(uintptr_t) "INT64";
    a.shapes[0][1] = -1;
    refused(&t, &a, "input \"0\": its shape is [2, -1], expected [records, keys]");
    a.tensors[0].n_shape = 1;
    refused(&t, &a, "input \"0\": its shape is [2], expected [records, keys]");
    a.tensors[0].n_shape = 2;
    a.shapes[0][1] = 0;
    refused(&t, &a, "input \"0\": 16 bytes of raw contents, expected 0 (0 elements of 8 bytes)");
    a.shapes[0][1] = 2;
    refused(&t, &a, "input \"0\": 16 bytes of raw contents, expected 32 (4 elements of 8 bytes)");
    taker_end(&t);
}

static void test_texts(void **state)
{
    struct taker t;
    struct ask a;
    char *large = mem_new(INFER_TEXT_BYTES_MAX + 2, 1);
    ProtobufCBinaryData text = {INFER_TEXT_BYTES_MAX, (uint8_t *)large};
    memset(large, 'x', INFER_TEXT_BYTES_MAX + 1);
    take_columns(&t, *state, "");
    ask_begin(&a);
    float numbers[2] = {1, 2};
    Inference__InferTensorContents *c = ask_typed(&a, "features", "FP32", 1, 2);
    c->n_fp32_contents = 2;
    c->fp32_contents = numbers;
    c = ask_typed(&a, "soil", "BYTES", 1, 1);
    c->n_bytes_contents = 1;
    c->bytes_contents = &text;
    assert_columns(&t, &a, 1, numbers, (int[]){-1}); /* a text that the train data have not */
    text.len++;
    refused(&t, &a,
            "input \"soil\": the text of record 0 is too long (65536 bytes at most) or has a NUL "
            "byte");
    text = (ProtobufCBinaryData){4, (uint8_t *)(uintptr_t) "cl\0y"};
    refused(&t, &a,
            "input \"soil\": the text of record 0 is too long (65536 bytes at most) or has a NUL "
            "byte");
    taker_end(&t);
    free(large);
}

/* Elements of which the last is cut, or that something follows. */
static void test_raw_texts(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n, elements, at;
    } cases[] = {{"", 0, 1, 0},
                 {"\1\0\0", 3, 1, 0},
                 {"\1\0\0\0", 4, 1, 0},
                 {"\2\0\0\0a", 5, 1, 0},
                 {"\1\0\0\0ab", 6, 1, 5},
                 {"\0\0\0\0\0\0\0\0", 8, 1, 8},
                 {"\0\0\0\1aaa", 7, 1, 0},
                 {"\0\0\1\0aaa", 7, 1, 0},
                 {"\0\1\0\0aaa", 7, 1, 0}};
    struct err err;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const ProtobufCBinaryData raw = {cases[i].n, (uint8_t *)(uintptr_t)cases[i].bytes};
        char says[200];
        const size_t found = cases[i].at == 0 ? 0 : cases[i].at == 8 ? 2 : 1;
        (void)snprintf(says, sizeof says,
                       "input \"soil\": %zu bytes of raw contents are %zu elements, each a length "
                       "of 4 bytes and the bytes, up to byte %zu; expected %zu and nothing behind "
                       "them",
                       cases[i].n, found, cases[i].at, cases[i].elements);
        assert_int_equal(infer_bytes_check(&raw, cases[i].elements, "soil", &err), ERR_INVALID);
        assert_string_equal(err.msg, says);
    }
    struct buf out = {0};
    char long_text[300];
    memset(long_text, 'z', sizeof long_text);
    long_text[299] = '\0';
    infer_bytes_add(&out, "ab");
    infer_bytes_add(&out, "");
    infer_bytes_add(&out, long_text);
    const ProtobufCBinaryData raw = {out.len, (uint8_t *)out.data};
    assert_int_equal(infer_bytes_check(&raw, 3, "soil", &err), 0);
    struct infer_bytes b = {.raw = &raw};
    static const size_t lengths[] = {2, 0, 299};
    for (size_t i = 0; i < 3; i++) {
        const ProtobufCBinaryData text = infer_bytes_next(&b);
        assert_int_equal(text.len, lengths[i]);
        assert_memory_equal(text.data, i == 0 ? "ab" : long_text, i == 1 ? 0 : text.len);
    }
    assert_int_equal(b.at, out.len);
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_a_model_takes, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_two_inputs_of_one_name, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_columns_raw_and_typed, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_keys_raw_and_typed, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_missing_values, saved_rig_setup, saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_names_and_contents, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_shapes_and_sizes, saved_rig_setup, saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_texts, saved_rig_setup, saved_rig_teardown),
        cmocka_unit_test(test_raw_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
