/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a request: which a model takes, whether a request has them, and how they become
 * records.
 *
 * The numbers of a record are one input, "features", FP32, as the data files have them: scaling,
 * missing values (NaN, where the job says what they become) and the like are done here. Each column
 * of categories is an input of its name, BYTES, one text for each record. Each sparse field is an
 * input, UINT64 or INT64, [records, keys]. */
#ifndef GRADUS_SERVE_INFER_INPUTS_H
#define GRADUS_SERVE_INFER_INPUTS_H

#include "data/encoder.h"
#include "inference/open_inference.pb-c.h"

#define INFER_TEXT_BYTES_MAX 65536 /* of one category */

enum infer_kind { INFER_NUMBERS, INFER_CATEGORY, INFER_FIELD };

struct infer_input {
    const char *name; /* borrows from the encoder */
    enum infer_kind kind;
    size_t index;       /* number of the category, or of the field */
    size_t elements;    /* of a record; 0: as many as the request has keys */
    struct shape shape; /* of a record */
};

struct infer_inputs {
    const struct encoder *encoder;
    struct infer_input *items;
    size_t count, numbers, fields;
};

/* One tensor of a request that was looked at; borrows from the request. */
struct infer_tensor {
    const ProtobufCBinaryData *raw; /* NULL: */
    const Inference__InferTensorContents *typed;
    size_t elements; /* of a record */
    bool is_signed;  /* INT64 */
};

/* @e must outlive it. Errors: ERR_INVALID two inputs have one name. */
int infer_inputs_make(struct infer_inputs *in, const struct encoder *e, struct err *err);
void infer_inputs_release(struct infer_inputs *in);          /* zeroed is fine */
const char *infer_datatype(const struct infer_input *input); /* "FP32" */

/* Look at the tensors of @q: @tensors [in->count] and *@records. At most @records_max records.
 * Errors: ERR_INVALID says which input is wrong and what is expected. */
int infer_inputs_check(const struct infer_inputs *in, const Inference__ModelInferRequest *q,
                       size_t records_max, struct infer_tensor *tensors, size_t *records,
                       struct err *err);

/* Room for @count records in @out, of encoder_begin(). Errors: ERR_EXHAUSTED. */
int infer_records_begin(const struct infer_inputs *in, size_t count, struct records *out,
                        struct err *err);
/* Add the @count records of tensors that were looked at. Errors: ERR_EXHAUSTED. */
int infer_records_add(const struct infer_inputs *in, const struct infer_tensor *tensors,
                      size_t count, struct records *out, struct err *err);

#endif
