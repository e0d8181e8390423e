/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in JSON become raw contents; whether they fit the model is seen where those of gRPC are.
 */
#include "serve/rpc/infer_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json_doc.h"
#include "serve/rpc/infer_bytes.h"

#define INPUTS_MAX 65536
#define DIMS_MAX 16
#define DEPTH_MAX 16
#define SHOWN_BYTES 64

void infer_json_release(struct infer_json *j)
{
    for (size_t i = 0; i < j->message.n_inputs; i++) {
        free(j->inputs[i].shape);
        buf_release(&j->contents[i]);
    }
    free(j->message.inputs);
    free(j->message.outputs);
    free(j->message.raw_input_contents);
    free(j->inputs);
    free(j->outputs);
    free(j->contents);
    free(j->binary);
    json_doc_free(j->root);
    *j = (struct infer_json){.root = NULL};
}

/* ---- elements ---- */

enum element { ELEMENT_FP32, ELEMENT_BYTES, ELEMENT_UINT64, ELEMENT_INT64, ELEMENT_OTHER };

static enum element element_of(const char *datatype)
{
    static const char *const names[] = {"FP32", "BYTES", "UINT64", "INT64"};
    enum element e = ELEMENT_FP32;
    while (e < ELEMENT_OTHER && strcmp(datatype, names[e]) != 0) {
        e++;
    }
    return e;
}

/* A number that fits no float is infinite, and refused as such. */
static bool add_number(const struct json_t *value, struct buf *out)
{
    double number = NAN; /* null: missing */
    if (!json_doc_is_null(value) && !json_doc_number(value, &number)) {
        return false;
    }
    const float x = (float)number;
    buf_add(out, &x, sizeof x);
    return true;
}

static bool add_text(const struct json_t *value, struct buf *out)
{
    const char *text = json_doc_is_null(value) ? "" : json_doc_text(value);
    if (text != NULL) {
        infer_bytes_add(out, text);
    }
    return text != NULL;
}

static bool add_element(const struct json_t *array, size_t i, enum element e, struct buf *out)
{
    uint64_t key;
    int64_t number;
    switch (e) {
    case ELEMENT_FP32:
        return add_number(json_doc_item(array, i), out);
    case ELEMENT_BYTES:
        return add_text(json_doc_item(array, i), out);
    case ELEMENT_UINT64:
        if (json_doc_item_u64(array, i, &key)) {
            buf_add(out, &key, sizeof key);
            return true;
        }
        return false;
    default:
        if (json_doc_item_i64(array, i, &number)) {
            buf_add(out, &number, sizeof number);
            return true;
        }
        return false;
    }
}

/* All elements of lists in lists, one after the other; how many. */
static int add_elements(const struct json_t *array, enum element e, unsigned depth, uint64_t *count,
                        struct buf *out, struct err *err)
{
    static const char *const expected[] = {"a number or null", "text or null",
                                           "a whole number from 0 on", "a whole number"};
    int rc = 0;
    for (size_t i = 0; i < json_doc_count(array) && rc == 0; i++) {
        const struct json_t *item = json_doc_item(array, i);
        if (json_doc_is_array(item) && depth < DEPTH_MAX) {
            rc = add_elements(item, e, depth + 1, count, out, err);
        } else if (add_element(array, i, e, out)) {
            ++*count;
        } else {
            rc = err_set(err, ERR_INVALID, "element %llu of data is not %s",
                         (unsigned long long)*count, expected[e]);
        }
    }
    return rc;
}

/* ---- tensors ---- */

static int read_shape(const struct json_t *object,
                      Inference__ModelInferRequest__InferInputTensor *t, uint64_t *elements,
                      struct err *err)
{
    const struct json_t *shape;
    int rc = json_doc_array(object, "shape", DIMS_MAX, &shape, &t->n_shape, err);
    if (rc != 0) {
        t->n_shape = 0;
        return rc;
    }
    t->shape = mem_new(t->n_shape + 1, sizeof *t->shape);
    *elements = 1;
    for (size_t i = 0; i < t->n_shape; i++) {
        if (!json_doc_item_i64(shape, i, &t->shape[i]) || t->shape[i] < 0) {
            return err_set(err, ERR_INVALID, "shape: whole numbers from 0 on are expected");
        }
        if (__builtin_mul_overflow(*elements, (uint64_t)t->shape[i], elements)) {
            return err_set(err, ERR_INVALID, "shape: that are too many elements");
        }
    }
    return 0;
}

/* The bytes behind the JSON that are not taken yet. */
struct rest {
    const char *bytes;
    size_t count;
};

/* Reads the tensor's parameter @key as a whole number; false: it is none. */
static bool parameter_u64(const struct json_t *object, const char *key, uint64_t *out)
{
    const struct json_t *parameters = json_doc_member(object, "parameters");
    return parameters != NULL && json_doc_member(parameters, key) != NULL &&
           json_doc_u64(parameters, key, SIZE_MAX, out, NULL) == 0;
}

static int read_contents(const struct json_t *object, enum element e, uint64_t elements,
                         struct rest *rest, struct buf *contents, ProtobufCBinaryData *raw,
                         struct err *err)
{
    uint64_t bytes = 0, count = 0;
    const struct json_t *data = json_doc_member(object, "data");
    if (parameter_u64(object, "binary_data_size", &bytes)) {
        if (bytes > rest->count || data != NULL) {
            return err_set(err, ERR_INVALID,
                           data != NULL ? "there are both data and binary_data_size"
                                        : "binary_data_size is %llu, but there are only %zu bytes",
                           (unsigned long long)bytes, rest->count);
        }
        *raw = (ProtobufCBinaryData){.len = bytes, .data = (uint8_t *)(uintptr_t)rest->bytes};
        rest->bytes += bytes;
        rest->count -= bytes;
        return 0;
    }
    if (data == NULL || !json_doc_is_array(data)) {
        return err_set(err, ERR_INVALID, "data: %s", data == NULL ? "missing" : "no list");
    }
    if (e == ELEMENT_OTHER) {
        return 0; /* the model's check says what it takes */
    }
    int rc = add_elements(data, e, 0, &count, contents, err);
    if (rc == 0 && count != elements) {
        rc = err_set(err, ERR_INVALID, "%llu elements in data, expected %llu by its shape",
                     (unsigned long long)count, (unsigned long long)elements);
    }
    *raw = (ProtobufCBinaryData){.len = contents->len, .data = (uint8_t *)contents->data};
    return rc;
}

static int read_input(const struct json_t *object, struct infer_json *j, size_t i,
                      struct rest *rest, struct err *err)
{
    Inference__ModelInferRequest__InferInputTensor *t = &j->inputs[i];
    const char *name = NULL, *datatype = NULL;
    char shown[SHOWN_BYTES];
    uint64_t elements = 0;
    int rc = json_doc_is_object(object) ? json_doc_string(object, "name", &name, err)
                                        : err_set(err, ERR_INVALID, "an object is expected");
    if (rc != 0) {
        return err_wrap(err, "inputs[%zu]", i);
    }
    t->name = (char *)(uintptr_t)name;
    rc = json_doc_string(object, "datatype", &datatype, err);
    rc = rc != 0 ? rc : read_shape(object, t, &elements, err);
    if (rc == 0) {
        t->datatype = (char *)(uintptr_t)datatype;
        rc = read_contents(object, element_of(datatype), elements, rest, &j->contents[i],
                           &j->message.raw_input_contents[i], err);
    }
    return rc == 0 ? 0 : err_wrap(err, "input \"%s\"", text_shown(name, shown, sizeof shown));
}

static int read_inputs(struct infer_json *j, struct rest *rest, struct err *err)
{
    const struct json_t *list;
    size_t n;
    int rc = json_doc_array(j->root, "inputs", INPUTS_MAX, &list, &n, err);
    if (rc != 0) {
        return rc;
    }
    j->inputs = mem_new(n + 1, sizeof *j->inputs);
    j->contents = mem_new(n + 1, sizeof *j->contents);
    j->message.inputs = mem_new(n + 1, sizeof(void *));
    j->message.raw_input_contents = mem_new(n + 1, sizeof *j->message.raw_input_contents);
    for (size_t i = 0; i < n; i++) {
        inference__model_infer_request__infer_input_tensor__init(&j->inputs[i]);
        j->message.inputs[i] = &j->inputs[i];
    }
    j->message.n_inputs = j->message.n_raw_input_contents = n;
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = read_input(json_doc_item(list, i), j, i, rest, err);
    }
    return rc;
}

/* ---- outputs ---- */

/* A parameter that is true or false; @out stays when it is not there. */
static int parameter_bool(const struct json_t *object, const char *key, bool *out, struct err *err)
{
    const struct json_t *parameters = json_doc_member(object, "parameters");
    const struct json_t *value = parameters != NULL ? json_doc_member(parameters, key) : NULL;
    if (parameters != NULL && json_doc_member(parameters, "classification") != NULL) {
        return err_set(err, ERR_INVALID, "parameters.classification is not served");
    }
    return value == NULL || json_doc_bool(value, out)
               ? 0
               : err_set(err, ERR_INVALID, "parameters.%s: true or false is expected", key);
}

static int read_outputs(struct infer_json *j, struct err *err)
{
    const struct json_t *list = json_doc_member(j->root, "outputs");
    size_t n = 0;
    int rc = parameter_bool(j->root, "binary_data_output", &j->all_binary, err);
    if (rc == 0 && list != NULL) {
        rc = json_doc_array(j->root, "outputs", INPUTS_MAX, &list, &n, err);
    }
    j->outputs = mem_new(n + 1, sizeof *j->outputs);
    j->message.outputs = mem_new(n + 1, sizeof(void *));
    j->binary = mem_new(n + 1, sizeof *j->binary);
    for (size_t i = 0; i < n && rc == 0; i++) {
        const struct json_t *object = json_doc_item(list, i);
        const char *name = NULL;
        inference__model_infer_request__infer_requested_output_tensor__init(&j->outputs[i]);
        j->binary[i] = j->all_binary;
        rc = json_doc_is_object(object) ? json_doc_string(object, "name", &name, err)
                                        : err_set(err, ERR_INVALID, "an object is expected");
        rc = rc != 0 ? rc : parameter_bool(object, "binary_data", &j->binary[i], err);
        rc = rc != 0 ? err_wrap(err, "outputs[%zu]", i) : 0;
        j->outputs[i].name = (char *)(uintptr_t)name;
        j->message.outputs[i] = &j->outputs[i];
    }
    j->message.n_outputs = rc == 0 ? n : 0;
    return rc;
}

int infer_json_read(const char *body, size_t bytes, size_t json_bytes, struct infer_json *out,
                    struct err *err)
{
    struct err why = {0};
    const char *id;
    *out = (struct infer_json){.root = NULL};
    inference__model_infer_request__init(&out->message);
    if (json_bytes > bytes) {
        return err_set(err, ERR_INVALID, "the JSON is said to have %zu bytes, the body has %zu",
                       json_bytes, bytes);
    }
    struct rest rest = {.bytes = body + json_bytes, .count = bytes - json_bytes};
    int rc = json_doc_parse(body, json_bytes, &out->root, &why);
    rc = rc != 0 ? rc : read_inputs(out, &rest, &why);
    rc = rc != 0 ? rc : read_outputs(out, &why);
    if (rc == 0 && json_doc_member(out->root, "id") != NULL) {
        rc = json_doc_string(out->root, "id", &id, &why);
        out->message.id = rc == 0 ? (char *)(uintptr_t)id : out->message.id;
    }
    if (rc == 0 && rest.count > 0) {
        rc = err_set(&why, ERR_INVALID, "%zu bytes behind the JSON belong to no input", rest.count);
    }
    return rc == 0 ? 0 : err_set(err, ERR_INVALID, "%s", why.msg);
}
