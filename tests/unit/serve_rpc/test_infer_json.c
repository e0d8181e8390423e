/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and answers of the open inference protocol as JSON, with tensors in it and behind it. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/rpc/infer_json.h"

static struct infer_json read_well(const char *text, const char *rest)
{
    struct infer_json j;
    struct err err = {0};
    struct buf body = {0};
    buf_add_str(&body, text);
    buf_add_str(&body, rest);
    if (infer_json_read(buf_str(&body), body.len, strlen(text), &j, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    /* Binary tensors are borrowed: they are looked at before. */
    for (size_t i = 0; i < j.message.n_raw_input_contents; i++) {
        ProtobufCBinaryData *raw = &j.message.raw_input_contents[i];
        if (raw->data != (uint8_t *)j.contents[i].data) {
            buf_add(&j.contents[i], raw->data, raw->len);
            raw->data = (uint8_t *)j.contents[i].data;
        }
    }
    buf_release(&body);
    return j;
}

static void assert_raw(const struct infer_json *j, size_t i, const void *bytes, size_t n)
{
    assert_int_equal(j->message.raw_input_contents[i].len, n);
    assert_memory_equal(j->message.raw_input_contents[i].data, bytes, n);
}

static void test_tensors(void **state)
{
    (void)state;
    struct infer_json j = read_well(
        "{\"id\": \"seven\", \"inputs\": ["
        "{\"name\": \"features\", \"datatype\": \"FP32\", \"shape\": [2, 2],"
        " \"data\": [[1, 2.5], [null, -1e300]]},"
        "{\"name\": \"soil\", \"datatype\": \"BYTES\", \"shape\": [2, 1], \"data\": "
        "[\"caf\\u00e9\", null]},"
        "{\"name\": \"a\", \"datatype\": \"UINT64\", \"shape\": [2], \"data\": "
        "[18446744073709551615, 0]},"
        "{\"name\": \"b\", \"datatype\": \"INT64\", \"shape\": [1, 0], \"data\": [[]]},"
        "{\"name\": \"c\", \"datatype\": \"INT64\", \"shape\": [1], \"data\": [-5]},"
        "{\"name\": \"d\", \"datatype\": \"FP64\", \"shape\": [1], \"data\": [-5]},"
        "{\"name\": \"e\", \"datatype\": \"FP32\", \"shape\": [1],"
        " \"parameters\": {\"binary_data_size\": 4}}],"
        "\"outputs\": [{\"name\": \"class\", \"parameters\": {\"binary_data\": true}}, {\"name\": "
        "\"value\"}]}",
        "abcd");
    const uint64_t keys[] = {UINT64_MAX, 0};
    const int64_t minus = -5;
    float features[4];
    assert_string_equal(j.message.id, "seven");
    assert_int_equal(j.message.n_inputs, 7);
    assert_string_equal(j.message.inputs[1]->name, "soil");
    assert_string_equal(j.message.inputs[1]->datatype, "BYTES");
    assert_int_equal(j.message.inputs[0]->n_shape, 2);
    assert_int_equal(j.message.inputs[3]->shape[1], 0);
    memcpy(features, j.message.raw_input_contents[0].data, sizeof features);
    assert_true(features[0] == 1 && features[1] == 2.5F && isnan(features[2]) &&
                isinf(features[3]));
    assert_raw(&j, 1, "\5\0\0\0caf\xc3\xa9\0\0\0\0", 13);
    assert_raw(&j, 2, keys, sizeof keys);
    assert_raw(&j, 3, "", 0);
    assert_raw(&j, 4, &minus, sizeof minus);
    assert_raw(&j, 5, "", 0); /* the model says that it takes none of it */
    assert_raw(&j, 6, "abcd", 4);
    assert_int_equal(j.message.n_outputs, 2);
    assert_true(j.binary[0]);
    assert_false(j.binary[1]);
    infer_json_release(&j);
}

static void test_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "JSON, line 1"},
        {"[]", "an object is expected"},
        {"{}", "inputs: missing"},
        {"{\"inputs\": 3}", "inputs: a list is expected"},
        {"{\"inputs\": [3]}", "inputs[0]: an object is expected"},
        {"{\"inputs\": [{\"name\": 3}]}", "inputs[0]: name: text is expected"},
        {"{\"inputs\": [{\"name\": \"a\"}]}", "input \"a\": datatype: missing"},
        {"{\"inputs\": [{\"name\": \"a\", \"datatype\": \"FP32\"}]}", "shape: missing"},
        {"{\"inputs\": [{\"name\": \"a\", \"datatype\": \"FP32\", \"shape\": [-1]}]}",
         "shape: whole numbers from 0 on"},
        {"{\"inputs\": [{\"name\": \"a\", \"datatype\": \"FP32\", \"shape\": [4294967296, "
         "4294967296]}]}",
         "too many elements"},
        {"{\"inputs\": [{\"name\": \"a\", \"datatype\": \"FP32\", \"shape\": [1]}]}",
         "data: missing"},
        {"{\"inputs\": [{\"name\": \"a\", \"datatype\": \"FP32\", \"shape\": [1], \"data\": 3}]}",
         "data: no list"},
        {"{\"inputs\": [{\"name\": \"a\", \"datatype\": \"FP32\", \"shape\": [2], \"data\": [3]}]}",
         "1 elements in data, expected 2 by its shape"},
        {"{\"inputs\": [{\"name\": \"a\", \"datatype\": \"FP32\", \"shape\": [1], \"data\": "
         "[\"3\"]}]}",
         "element 0 of data is not a number or null"},
        {"{\"inputs\": [{\"name\": \"a\", \"datatype\": \"UINT64\", \"shape\": [2], \"data\": [1, "
         "-1]}]}",
         "element 1 of data is not a whole number from 0 on"},
        {"{\"inputs\": [{\"name\": \"a\", \"datatype\": \"INT64\", \"shape\": [1], \"data\": "
         "[9223372036854775808]}]}",
         "is not a whole number"},
        {"{\"inputs\": [{\"name\": \"a\", \"datatype\": \"FP32\", \"shape\": [1], \"parameters\": "
         "{\"binary_data_size\": 4}}]}",
         "binary_data_size is 4, but there are only 0 bytes"},
        {"{\"inputs\": [{\"name\": \"a\", \"datatype\": \"FP32\", \"shape\": [1], \"data\": [1], "
         "\"parameters\": {\"binary_data_size\": 0}}]}",
         "both data and binary_data_size"},
        {"{\"inputs\": [], \"outputs\": [{}]}", "outputs[0]: name: missing"},
        {"{\"inputs\": [], \"outputs\": [{\"name\": \"a\", \"parameters\": {\"binary_data\": 1}}]}",
         "parameters.binary_data: true or false"},
        {"{\"inputs\": [], \"outputs\": [{\"name\": \"a\", \"parameters\": {\"classification\": "
         "1}}]}",
         "classification is not served"},
        {"{\"inputs\": [], \"id\": 7}", "id: text is expected"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct infer_json j;
        struct err err = {0};
        const size_t n = strlen(rows[i].text);
        assert_int_equal(infer_json_read(rows[i].text, n, n, &j, &err), ERR_INVALID);
        if (strstr(err.msg, rows[i].part) == NULL) {
            fail_msg("not \"%s\": %s", rows[i].part, err.msg);
        }
        infer_json_release(&j);
    }
    struct infer_json j;
    struct err err = {0};
    assert_int_equal(infer_json_read("{\"inputs\": []}xyz", 17, 14, &j, &err), ERR_INVALID);
    assert_string_equal(err.msg, "3 bytes behind the JSON belong to no input");
    infer_json_release(&j);
    assert_int_equal(infer_json_read("{}", 2, 3, &j, &err), ERR_INVALID);
    infer_json_release(&j);
}

static void test_answers(void **state)
{
    (void)state;
    struct infer_json j = read_well("{\"inputs\": [], \"id\": \"7\"}", "");
    struct infer_json raw =
        read_well("{\"inputs\": [], \"parameters\": {\"binary_data_output\": true}}", "");
    Inference__ModelInferResponse__InferOutputTensor
        a = INFERENCE__MODEL_INFER_RESPONSE__INFER_OUTPUT_TENSOR__INIT,
        b = a;
    Inference__ModelInferResponse__InferOutputTensor *list[] = {&a, &b};
    char value[] = "value", class[] = "class", fp32[] = "FP32", bytes[] = "BYTES";
    char model[] = "m \"1\"", version[] = "9", id[] = "7";
    int64_t shape[] = {2, 1};
    float numbers[] = {0.1F, NAN};
    char texts[] = "\1\0\0\0a\2\0\0\0\"b";
    ProtobufCBinaryData contents[] = {{sizeof numbers, (uint8_t *)numbers},
                                      {sizeof texts - 1, (uint8_t *)texts}};
    Inference__ModelInferResponse r = INFERENCE__MODEL_INFER_RESPONSE__INIT;
    a.name = value;
    a.datatype = fp32;
    b.name = class;
    b.datatype = bytes;
    a.shape = b.shape = shape;
    a.n_shape = b.n_shape = 2;
    r.model_name = model;
    r.model_version = version;
    r.id = id;
    r.outputs = list;
    r.raw_output_contents = contents;
    r.n_outputs = r.n_raw_output_contents = 2;
    struct buf out = {0};
    size_t json_bytes = 7;
    infer_json_answer(&j, &r, &out, &json_bytes);
    assert_int_equal(json_bytes, 0);
    assert_string_equal(
        buf_str(&out),
        "{\"model_name\":\"m "
        "\\\"1\\\"\",\"model_version\":\"9\",\"id\":\"7\",\"outputs\":[{\"name\":"
        "\"value\",\"datatype\":\"FP32\",\"shape\":[2,1],\"data\":[0.100000001,null]},{\"name\":"
        "\"class\",\"datatype\":\"BYTES\",\"shape\":[2,1],\"data\":[\"a\",\"\\\"b\"]}]}");
    buf_reset(&out);
    infer_json_answer(&raw, &r, &out, &json_bytes);
    assert_int_equal(out.len - json_bytes, sizeof numbers + sizeof texts - 1);
    assert_memory_equal(out.data + json_bytes, numbers, sizeof numbers);
    assert_memory_equal(out.data + json_bytes + sizeof numbers, texts, sizeof texts - 1);
    assert_non_null(strstr(out.data, "\"parameters\":{\"binary_data_size\":11}}]}"));
    buf_release(&out);
    infer_json_release(&j);
    infer_json_release(&raw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_what_is_wrong),
        cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
