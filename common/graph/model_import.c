/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the reader of ONNX files for what the model section says. */
#include "graph/model_import.h"

#include <stdlib.h>

#include "base/mem.h"
#include "config/field_texts.h"
#include "onnx_net/onnx_net.h"

bool model_is_imported(const struct model_spec *spec)
{
    return spec->onnx != NULL && spec->onnx[0] != '\0';
}

/* A last node that is part of the loss. */
static const char *link_of(enum loss_kind loss)
{
    return loss == LOSS_SOFTMAX_CROSS_ENTROPY   ? "Softmax"
           : loss == LOSS_SIGMOID_CROSS_ENTROPY ? "Sigmoid"
                                                : NULL;
}

int model_import(struct model_spec *spec, const struct model_import_file *file, struct err *err)
{
    struct field_texts patterns = {0};
    if (spec->trainable != NULL && !field_texts_read(spec->trainable, &patterns)) {
        return err_set(err, ERR_INVALID, "model.trainable is no list of patterns");
    }
    const struct onnx_net_source source = {
        .bytes = file->bytes,
        .n = file->n,
        .output = spec->output,
        .link = link_of(spec->loss),
        .trainable = (const char *const *)patterns.items,
        .trainable_count = patterns.count,
        .external = file->external,
        .ctx = file->ctx,
    };
    onnx_net_free(spec->net);
    spec->net = NULL;
    int rc = onnx_net_read(&source, &spec->net, err);
    field_texts_release(&patterns);
    return rc;
}

bool model_import_takes_whole(const struct model_spec *spec)
{
    return onnx_net_takes_whole(spec->net);
}

struct given_variables model_import_given(const struct model_spec *spec)
{
    return (struct given_variables){
        .variables = onnx_net_variables(spec->net),
        .count = onnx_net_variable_count(spec->net),
        .fingerprint = onnx_net_fingerprint(spec->net),
    };
}

const float *model_import_initial(const struct model_spec *spec, size_t variable)
{
    return onnx_net_initial(spec->net, variable);
}

int model_import_write(const struct model_spec *spec, const float *const *values,
                       const char *const (*notes)[2], size_t note_count, const char *location,
                       struct err *err)
{
    struct onnx_note *list = mem_new(note_count + 1, sizeof *list);
    for (size_t i = 0; i < note_count; i++) {
        list[i] = (struct onnx_note){notes[i][0], notes[i][1]};
    }
    int rc = onnx_net_write(spec->net, values, list, note_count, location, err);
    free(list);
    return rc;
}
