/* SPDX-License-Identifier: Apache-2.0 */
/* The inputs of a model, from the encoder, and the check of requests against them. */
#include "serve/rpc/infer_inputs.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "data/csv_columns.h"
#include "serve/rpc/infer_bytes.h"

#define SHOWN_BYTES 64
#define FEATURES "features"
#define EXPONENT_BITS 0x7F800000U /* all set: infinite, or no number */

void infer_inputs_release(struct infer_inputs *in)
{
    free(in->items);
    *in = (struct infer_inputs){0};
}

static int check_names(const struct infer_inputs *in, struct err *err)
{
    for (size_t i = 0; i < in->count; i++) {
        for (size_t k = i + 1; k < in->count; k++) {
            if (strcmp(in->items[i].name, in->items[k].name) == 0) {
                return err_set(err, ERR_INVALID,
                               "two inputs of the model would be called \"%.64s\"; numbers are the "
                               "input \"" FEATURES "\", categories and sparse fields have the "
                               "names of their columns",
                               in->items[i].name);
            }
        }
    }
    return 0;
}

int infer_inputs_make(struct infer_inputs *in, const struct encoder *e, struct err *err)
{
    const struct records *r = encoder_raw(e);
    *in = (struct infer_inputs){.encoder = e, .numbers = r->numbers, .fields = r->fields.count};
    in->items = mem_new(1 + r->category_count + r->fields.count, sizeof *in->items);
    if (r->numbers > 0) {
        in->items[in->count++] =
            (struct infer_input){.name = FEATURES, .elements = r->numbers, .shape = r->shape};
    }
    for (size_t i = 0; i < r->category_count; i++) {
        in->items[in->count++] = (struct infer_input){.name = r->categories[i].name,
                                                      .kind = INFER_CATEGORY,
                                                      .index = i,
                                                      .elements = 1,
                                                      .shape = {.rank = 1, .dims = {1}}};
    }
    for (size_t i = 0; i < r->fields.count; i++) {
        in->items[in->count++] =
            (struct infer_input){.name = r->fields.fields[i].name, .kind = INFER_FIELD, .index = i};
    }
    int rc = check_names(in, err);
    if (rc != 0) {
        infer_inputs_release(in);
    }
    return rc;
}

const char *infer_datatype(const struct infer_input *input)
{
    static const char *const names[] = {
        [INFER_NUMBERS] = "FP32", [INFER_CATEGORY] = "BYTES", [INFER_FIELD] = "UINT64"};
    return names[input->kind];
}

/* ---- requests ---- */

/* "[-1, 28, 28]" as a request has to say it. */
static void add_expected(const struct infer_input *input, struct buf *out)
{
    buf_add_str(out, "[records");
    for (size_t i = 0; i < input->shape.rank; i++) {
        buf_printf(out, ", %" PRIu64, input->shape.dims[i]);
    }
    buf_add_str(out, input->elements == 0 ? ", keys]" : "]");
}

static int wrong_shape(const struct infer_input *input,
                       const Inference__ModelInferRequest__InferInputTensor *t, struct err *err)
{
    struct buf text = {0};
    buf_printf(&text, "input \"%.64s\": its shape is [", input->name);
    for (size_t i = 0; i < t->n_shape && i < SHAPE_RANK_MAX + 1; i++) {
        buf_printf(&text, "%s%" PRId64, i == 0 ? "" : ", ", t->shape[i]);
    }
    buf_add_str(&text, t->n_shape > SHAPE_RANK_MAX + 1 ? ", …], expected " : "], expected ");
    add_expected(input, &text);
    int rc = err_set(err, ERR_INVALID, "%s", buf_str(&text));
    buf_release(&text);
    return rc;
}

static bool shape_fits(const struct infer_input *input,
                       const Inference__ModelInferRequest__InferInputTensor *t)
{
    if (input->kind == INFER_FIELD) {
        return t->n_shape == 2 && t->shape[1] >= 0 && t->shape[1] <= (int64_t)SPARSE_KEYS_MAX;
    }
    if (t->n_shape == 2 && t->shape[1] == (int64_t)input->elements) {
        return true; /* also of images, row by row */
    }
    bool fits = t->n_shape == input->shape.rank + 1;
    for (size_t i = 0; fits && i < input->shape.rank; i++) {
        fits = t->shape[i + 1] == (int64_t)input->shape.dims[i];
    }
    return fits;
}

static int check_datatype(const struct infer_input *input,
                          const Inference__ModelInferRequest__InferInputTensor *t,
                          struct infer_tensor *out, struct err *err)
{
    char shown[SHOWN_BYTES];
    out->is_signed = input->kind == INFER_FIELD && strcmp(t->datatype, "INT64") == 0;
    if (out->is_signed || strcmp(t->datatype, infer_datatype(input)) == 0) {
        return 0;
    }
    return err_set(err, ERR_INVALID, "input \"%.64s\": its datatype is \"%s\", expected %s%s",
                   input->name, text_shown(t->datatype, shown, sizeof shown), infer_datatype(input),
                   input->kind == INFER_FIELD ? " or INT64" : "");
}

/* Checks kind and number of the typed contents. */
static int check_typed(const struct infer_input *input, const struct infer_tensor *t,
                       size_t expected, struct err *err)
{
    const Inference__InferTensorContents *c = t->typed;
    const size_t all = c->n_bool_contents + c->n_int_contents + c->n_int64_contents +
                       c->n_uint_contents + c->n_uint64_contents + c->n_fp32_contents +
                       c->n_fp64_contents + c->n_bytes_contents;
    const size_t have = input->kind == INFER_NUMBERS    ? c->n_fp32_contents
                        : input->kind == INFER_CATEGORY ? c->n_bytes_contents
                        : t->is_signed                  ? c->n_int64_contents
                                                        : c->n_uint64_contents;
    const char *name = input->kind == INFER_NUMBERS    ? "fp32_contents"
                       : input->kind == INFER_CATEGORY ? "bytes_contents"
                       : t->is_signed                  ? "int64_contents"
                                                       : "uint64_contents";
    return have == expected && all == have
               ? 0
               : err_set(err, ERR_INVALID,
                         "input \"%.64s\": %zu elements in contents, %zu of them in %s; expected "
                         "%zu there",
                         input->name, all, have, name, expected);
}

static int check_raw(const struct infer_input *input, const struct infer_tensor *t, size_t elements,
                     struct err *err)
{
    if (input->kind == INFER_CATEGORY) {
        return infer_bytes_check(t->raw, elements, input->name, err);
    }
    const size_t size = input->kind == INFER_NUMBERS ? sizeof(float) : sizeof(uint64_t);
    return t->raw->len == elements * size
               ? 0
               : err_set(err, ERR_INVALID,
                         "input \"%.64s\": %zu bytes of raw contents, expected %zu (%zu elements "
                         "of %zu bytes)",
                         input->name, t->raw->len, elements * size, elements, size);
}

/* True if all numbers are finite. Without a branch, so that one instruction looks at many. */
static bool all_finite(const unsigned char *bytes, size_t n)
{
    uint32_t found = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, bytes + i * sizeof bits, sizeof bits);
        found |= (bits & EXPONENT_BITS) == EXPONENT_BITS;
    }
    return found == 0;
}

/* Numbers are finite, or missing where that is allowed. */
static int check_numbers(const struct infer_inputs *in, const struct infer_input *input,
                         const struct infer_tensor *t, size_t records, struct err *err)
{
    const unsigned char *bytes =
        t->raw != NULL ? t->raw->data : (const unsigned char *)t->typed->fp32_contents;
    const size_t n = all_finite(bytes, records * in->numbers) ? 0 : records * in->numbers;
    for (size_t i = 0; i < n; i++) {
        float x;
        memcpy(&x, bytes + i * sizeof x, sizeof x);
        if (isfinite(x) || (isnan(x) && encoder_takes_missing(in->encoder, i % in->numbers))) {
            continue;
        }
        return err_set(err, ERR_INVALID, "input \"%.64s\": number %zu of record %zu is %s",
                       input->name, i % in->numbers, i / in->numbers,
                       isnan(x) ? "no number; the job does not say what a missing one becomes"
                                : "infinite");
    }
    return 0;
}

/* Empty, NA and the like. */
static bool is_missing(const ProtobufCBinaryData *text)
{
    char word[8] = "";
    if (text->len >= sizeof word) {
        return false;
    }
    memcpy(word, text->data == NULL ? (const uint8_t *)"" : text->data, text->len);
    return csv_is_missing(word);
}

static int check_categories(const struct infer_inputs *in, const struct infer_input *input,
                            const struct infer_tensor *t, size_t records, struct err *err)
{
    struct infer_bytes texts = {.raw = t->raw, .typed = t->typed};
    const bool may_miss = encoder_takes_missing(in->encoder, in->numbers + input->index);
    for (size_t i = 0; i < records; i++) {
        const ProtobufCBinaryData text = infer_bytes_next(&texts);
        if (text.len > INFER_TEXT_BYTES_MAX || (text.len > 0 && memchr(text.data, 0, text.len))) {
            return err_set(err, ERR_INVALID,
                           "input \"%.64s\": the text of record %zu is too long (%u bytes at most) "
                           "or has a NUL byte",
                           input->name, i, INFER_TEXT_BYTES_MAX);
        }
        if (!may_miss && is_missing(&text)) {
            return err_set(
                err, ERR_INVALID,
                "input \"%.64s\": the text of record %zu is missing; the job does not say "
                "what a missing one becomes",
                input->name, i);
        }
    }
    return 0;
}

/* The tensor @t of the request as the input @input. */
static int check_tensor(const struct infer_inputs *in, const struct infer_input *input,
                        const Inference__ModelInferRequest__InferInputTensor *t, size_t records_max,
                        struct infer_tensor *out, size_t *records, struct err *err)
{
    int rc = check_datatype(input, t, out, err);
    if (rc == 0 && !shape_fits(input, t)) {
        rc = wrong_shape(input, t, err);
    }
    if (rc != 0) {
        return rc;
    }
    if (t->shape[0] < 1 || (uint64_t)t->shape[0] > records_max) {
        return err_set(err, ERR_INVALID,
                       "input \"%.64s\": %" PRId64 " records, allowed are 1 to %zu (--batch-max)",
                       input->name, t->shape[0], records_max);
    }
    const size_t n = (size_t)t->shape[0];
    if (*records != 0 && *records != n) {
        return err_set(err, ERR_INVALID, "input \"%.64s\": %zu records, but other inputs have %zu",
                       input->name, n, *records);
    }
    *records = n;
    out->elements = input->elements > 0 ? input->elements : (size_t)t->shape[1];
    rc = out->raw != NULL ? check_raw(input, out, n * out->elements, err)
                          : check_typed(input, out, n * out->elements, err);
    if (rc == 0 && input->kind == INFER_NUMBERS) {
        rc = check_numbers(in, input, out, n, err);
    } else if (rc == 0 && input->kind == INFER_CATEGORY) {
        rc = check_categories(in, input, out, n, err);
    }
    return rc;
}

static int no_such_input(const struct infer_inputs *in, const char *name, struct err *err)
{
    char shown[SHOWN_BYTES];
    struct buf names = {0};
    for (size_t i = 0; i < in->count && i < 8; i++) {
        buf_printf(&names, "%s%.64s", i == 0 ? "" : ", ", in->items[i].name);
    }
    int rc =
        err_set(err, ERR_INVALID, "input \"%s\": the model has none of that name; it has %s%s",
                text_shown(name, shown, sizeof shown), buf_str(&names), in->count > 8 ? ", …" : "");
    buf_release(&names);
    return rc;
}

static size_t find(const struct infer_inputs *in, const char *name)
{
    size_t i = 0;
    while (i < in->count && strcmp(in->items[i].name, name) != 0) {
        i++;
    }
    return i;
}

/* Finds the contents of tensor @k. */
static int locate(const Inference__ModelInferRequest *q, size_t k, struct infer_tensor *out,
                  struct err *err)
{
    static const Inference__InferTensorContents nothing = INFERENCE__INFER_TENSOR_CONTENTS__INIT;
    const Inference__ModelInferRequest__InferInputTensor *t = q->inputs[k];
    char shown[SHOWN_BYTES];
    if (q->n_raw_input_contents > 0 && t->contents != NULL) {
        return err_set(err, ERR_INVALID,
                       "input \"%s\" has contents, and the request has raw_input_contents; allowed "
                       "is one of the two",
                       text_shown(t->name, shown, sizeof shown));
    }
    if (q->n_raw_input_contents > 0 && q->n_raw_input_contents != q->n_inputs) {
        return err_set(err, ERR_INVALID,
                       "%zu raw_input_contents for %zu inputs; expected one for each",
                       q->n_raw_input_contents, q->n_inputs);
    }
    out->raw = q->n_raw_input_contents > 0 ? &q->raw_input_contents[k] : NULL;
    out->typed = t->contents != NULL ? t->contents : &nothing;
    return 0;
}

int infer_inputs_check(const struct infer_inputs *in, const Inference__ModelInferRequest *q,
                       size_t records_max, struct infer_tensor *tensors, size_t *records,
                       struct err *err)
{
    size_t n = 0;
    memset(tensors, 0, in->count * sizeof *tensors);
    for (size_t k = 0; k < q->n_inputs; k++) {
        const size_t i = find(in, q->inputs[k]->name);
        if (i == in->count) {
            return no_such_input(in, q->inputs[k]->name, err);
        }
        if (tensors[i].typed != NULL) {
            return err_set(err, ERR_INVALID, "input \"%.64s\" is there twice", in->items[i].name);
        }
        int rc = locate(q, k, &tensors[i], err);
        rc = rc != 0
                 ? rc
                 : check_tensor(in, &in->items[i], q->inputs[k], records_max, &tensors[i], &n, err);
        if (rc != 0) {
            return rc;
        }
    }
    for (size_t i = 0; i < in->count; i++) {
        if (tensors[i].typed == NULL) {
            return err_set(err, ERR_INVALID, "input \"%.64s\" is missing", in->items[i].name);
        }
    }
    *records = n;
    return 0;
}
