/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to gradus-serve (serve/rpc/infer_*.c): tensors raw and typed, their shapes, what becomes
 * of them on the way to a model, for data with numbers and categories and for data of keys alone;
 * and the same records as lines of JSON (data/json_records.c), as gradus predict reads them.
 *
 * Input: a byte that chooses the data and how, a ModelInferRequest or lines. */
#include "fuzz/data.h"
#include "fuzz/message.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/json_records.h"
#include "serve/rpc/infer_inputs.h"

#define RECORDS_MAX 8
#define INPUTS_MAX 8

static struct encoder *encoders[2];

static struct encoder *make(unsigned slot, struct data_spec *spec, const char *text)
{
    union {
        const char *in;
        char *out;
    } file = {.in = fuzz_file(slot, text, strlen(text))};
    struct encoder *e = NULL;
    struct err err = {0};
    spec->train.file = file.out;
    if (encoder_open(spec, DATA_LABEL_CLASS, &e, &err) != 0) {
        fuzz_require(false, err.msg);
    }
    return e;
}

static void make_encoders(void)
{
    char label[] = "l", categories[] = "c", field[] = "0..2", none[] = "";
    struct data_column columns[] = {{.column = field,
                                     .as = COLUMN_SPARSE,
                                     .boundaries = none,
                                     .vocabulary = none,
                                     .vocabulary_file = none,
                                     .separator = none}};
    struct data_spec csv = fuzz_data_spec(""), ffm = fuzz_data_spec("");
    csv.format = DATA_FORMAT_CSV;
    csv.header = DATA_HEADER_TRUE;
    csv.label = label;
    csv.categorical = categories;
    csv.missing = DATA_MISSING_MEAN;
    ffm.format = DATA_FORMAT_LIBFFM;
    ffm.columns = columns;
    ffm.column_count = 1;
    ffm.lists_all = true;
    encoders[0] = make(0, &csv, "a,l,c,b\n1,x,red,2\n3,y,blue,7\n5,x,red,1\n");
    encoders[1] = make(1, &ffm, "1 0:2:1 1:4:1\n0 2:8:1\n");
}

static void read_all(const struct dataset *d, size_t records)
{
    const uint64_t all[RECORDS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct batch b = {0};
    struct err err = {0};
    fuzz_require(dataset_info(d)->records == records, "as many records as the request has");
    int rc = batch_init(&b, d, records, &err);
    rc = rc != 0 ? rc : dataset_read(d, all, records, &b, &err);
    fuzz_require_error(rc, &err);
    batch_release(&b);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t n_max, unsigned seed)
{
    static const char *const words[] = {"features", "FP32",  "c",      "BYTES", "0", "1",
                                        "2",        "INT64", "UINT64", "red",   NULL};
    if (n < 2 || n_max < 2) {
        return LLVMFuzzerMutate(data, n, n_max);
    }
    data[0] = (uint8_t)(data[0] ^ (seed % 16 == 0));
    if (data[0] % 4 >= 2) {
        return 1 + LLVMFuzzerMutate(data + 1, n - 1, n_max - 1);
    }
    return 1 + fuzz_message_mutate(&inference__model_infer_request__descriptor, words, data + 1,
                                   n - 1, n_max - 1, seed);
}

/* Up to two bad lines are left out. */
static void read_lines(const struct encoder *e, const struct fuzz_input *in)
{
    char id[] = "who";
    struct data_spec spec = *encoder_spec(e);
    struct records r = {0};
    struct dataset *d = NULL;
    struct err err = {0};
    spec.bad_records = 2;
    spec.id = in->n % 2 == 0 ? id : NULL;
    const struct feed_text text = {.where = "lines",
                                   .bytes = (const char *)in->data,
                                   .count = in->n,
                                   .line = 1,
                                   .spec = &spec};
    int rc = json_records_read(e, &text, &r, &err);
    fuzz_require(r.bad_count <= 2, "no more bad lines than are allowed");
    const size_t records = (size_t)r.count;
    if (rc == 0 && records > 0 && records <= RECORDS_MAX) {
        rc = encoder_apply(e, &r, &d, &err);
        if (rc == 0) {
            read_all(d, records);
        }
    }
    fuzz_require_error(rc, &err);
    dataset_free(d);
    records_release(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    if (encoders[0] == NULL) {
        make_encoders();
    }
    const unsigned way = (unsigned)fuzz_below(&in, 4);
    if (way >= 2) {
        read_lines(encoders[way - 2], &in);
        return 0;
    }
    struct infer_inputs inputs;
    struct infer_tensor tensors[INPUTS_MAX];
    struct err err = {0};
    size_t records = 0;
    fuzz_require(infer_inputs_make(&inputs, encoders[way], &err) == 0, err.msg);
    Inference__ModelInferRequest *q = inference__model_infer_request__unpack(NULL, in.n, in.data);
    int rc = q == NULL ? ERR_INVALID
                       : infer_inputs_check(&inputs, q, RECORDS_MAX, tensors, &records, &err);
    if (rc == 0) {
        struct records r = {0};
        struct dataset *d = NULL;
        rc = infer_records_begin(&inputs, records, &r, &err);
        rc = rc != 0 ? rc : infer_records_add(&inputs, tensors, records, &r, &err);
        rc = rc != 0 ? rc : encoder_apply(inputs.encoder, &r, &d, &err);
        if (rc == 0) {
            read_all(d, records);
        }
        dataset_free(d);
        records_release(&r);
    }
    if (q != NULL) {
        fuzz_require_error(rc, &err);
        inference__model_infer_request__free_unpacked(q, NULL);
    }
    infer_inputs_release(&inputs);
    return 0;
}
