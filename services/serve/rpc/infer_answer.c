/* SPDX-License-Identifier: Apache-2.0 */
/* Makes an answer's message, without copying what is there already. */
#include "serve/rpc/infer_answer.h"

#include <string.h>

#include "base/text.h"
#include "serve/rpc/infer_bytes.h"

#define SHOWN_BYTES 64

size_t infer_outputs(const struct serve_model *m, struct infer_output out[INFER_OUTPUTS_MAX])
{
    if (saved_model_classes(m->saved) == 0) {
        out[0] = (struct infer_output){"value", "FP32", 1};
        return 1;
    }
    out[0] = (struct infer_output){"probabilities", "FP32", saved_model_classes(m->saved)};
    out[1] = (struct infer_output){"class", "BYTES", 1};
    return 2;
}

static size_t find(const struct infer_output *outputs, size_t count, const char *name)
{
    size_t i = 0;
    while (i < count && strcmp(outputs[i].name, name) != 0) {
        i++;
    }
    return i;
}

int infer_outputs_check(const struct serve_model *m, const Inference__ModelInferRequest *q,
                        struct err *err)
{
    struct infer_output outputs[INFER_OUTPUTS_MAX];
    const size_t count = infer_outputs(m, outputs);
    bool seen[INFER_OUTPUTS_MAX] = {false};
    for (size_t i = 0; i < q->n_outputs; i++) {
        const size_t k = find(outputs, count, q->outputs[i]->name);
        char shown[SHOWN_BYTES];
        if (k == count || seen[k]) {
            return err_set(err, ERR_INVALID, "output \"%s\": %s %s%s%s",
                           text_shown(q->outputs[i]->name, shown, sizeof shown),
                           k == count ? "the model has none of that name; it has"
                                      : "it is asked for twice; there are",
                           outputs[0].name, count > 1 ? ", " : "",
                           count > 1 ? outputs[1].name : "");
        }
        seen[k] = true;
    }
    return 0;
}

static size_t largest(const float *p, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++) {
        best = p[i] > p[best] ? i : best;
    }
    return best;
}

static void add_classes(const struct serve_model *m, const float *answers, size_t records,
                        struct buf *out)
{
    const size_t classes = saved_model_classes(m->saved);
    for (size_t i = 0; i < records; i++) {
        infer_bytes_add(out,
                        saved_model_class_name(m->saved, largest(answers + i * classes, classes)));
    }
}

static void add_output(struct infer_answer *a, const struct serve_model *m,
                       const struct infer_output *output, const float *answers, size_t records)
{
    const size_t n = a->message.n_outputs++;
    Inference__ModelInferResponse__InferOutputTensor *t = &a->tensors[n];
    inference__model_infer_response__infer_output_tensor__init(t);
    t->name = (char *)(uintptr_t)output->name;
    t->datatype = (char *)(uintptr_t)output->datatype;
    a->shapes[n][0] = (int64_t)records;
    a->shapes[n][1] = (int64_t)output->elements;
    t->shape = a->shapes[n];
    t->n_shape = 2;
    a->list[n] = t;
    if (strcmp(output->datatype, "BYTES") == 0) {
        add_classes(m, answers, records, &a->classes);
        a->raw[n] = (ProtobufCBinaryData){a->classes.len, (uint8_t *)a->classes.data};
    } else {
        a->raw[n] = (ProtobufCBinaryData){records * output->elements * sizeof *answers,
                                          (uint8_t *)(uintptr_t)answers};
    }
}

void infer_answer_make(struct infer_answer *a, const char *name, const struct serve_model *m,
                       const Inference__ModelInferRequest *q, const float *answers, size_t records)
{
    struct infer_output outputs[INFER_OUTPUTS_MAX];
    const size_t count = infer_outputs(m, outputs);
    a->classes = (struct buf){0};
    inference__model_infer_response__init(&a->message);
    a->message.model_name = (char *)(uintptr_t)name;
    a->message.model_version = (char *)(uintptr_t)m->version;
    a->message.id = q->id;
    a->message.outputs = a->list;
    for (size_t i = 0; i < (q->n_outputs > 0 ? q->n_outputs : count); i++) {
        const size_t k = q->n_outputs > 0 ? find(outputs, count, q->outputs[i]->name) : i;
        add_output(a, m, &outputs[k], answers, records);
    }
    a->message.raw_output_contents = a->raw;
    a->message.n_raw_output_contents = a->message.n_outputs;
}

void infer_answer_release(struct infer_answer *a)
{
    buf_release(&a->classes);
}
