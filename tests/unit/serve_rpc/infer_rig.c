/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf-c's messages have no const: nothing here is written to. */
#include "infer_rig.h"

static char *plain(const char *text)
{
    return (char *)(uintptr_t)text;
}

void ask_begin(struct ask *a)
{
    memset(a, 0, sizeof *a);
    inference__model_infer_request__init(&a->message);
    a->message.inputs = a->list;
    a->message.outputs = a->output_list;
    a->message.raw_input_contents = a->raw;
}

static size_t add(struct ask *a, const char *name, const char *datatype, int64_t records,
                  int64_t columns)
{
    const size_t n = a->message.n_inputs++;
    assert_true(n < ASK_TENSORS_MAX);
    Inference__ModelInferRequest__InferInputTensor *t = a->list[n] = &a->tensors[n];
    inference__model_infer_request__infer_input_tensor__init(t);
    t->name = plain(name);
    t->datatype = plain(datatype);
    t->shape = a->shapes[n];
    t->shape[t->n_shape++] = records;
    if (columns >= 0) {
        t->shape[t->n_shape++] = columns;
    }
    return n;
}

Inference__InferTensorContents *ask_typed(struct ask *a, const char *name, const char *datatype,
                                          int64_t records, int64_t columns)
{
    const size_t n = add(a, name, datatype, records, columns);
    inference__infer_tensor_contents__init(&a->contents[n]);
    a->tensors[n].contents = &a->contents[n];
    return &a->contents[n];
}

void ask_raw(struct ask *a, const char *name, const char *datatype, int64_t records,
             int64_t columns, const void *bytes, size_t n)
{
    (void)add(a, name, datatype, records, columns);
    a->raw[a->message.n_raw_input_contents++] =
        (ProtobufCBinaryData){n, (uint8_t *)(uintptr_t)bytes};
}

void ask_output(struct ask *a, const char *name)
{
    const size_t n = a->message.n_outputs++;
    assert_true(n < ASK_TENSORS_MAX);
    a->output_list[n] = &a->outputs[n];
    inference__model_infer_request__infer_requested_output_tensor__init(&a->outputs[n]);
    a->outputs[n].name = plain(name);
}

ProtobufCBinaryData ask_text(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)plain(text)};
}
