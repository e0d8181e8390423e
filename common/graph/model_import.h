/* SPDX-License-Identifier: Apache-2.0 */
/* A model that is the graph of an ONNX file (model.onnx): read once, before model_new(). */
#ifndef GRADUS_GRAPH_MODEL_IMPORT_H
#define GRADUS_GRAPH_MODEL_IMPORT_H

#include "graph/layer.h"
#include "tensor/init.h"

struct model_import_file {
    const void *bytes; /* of the file */
    size_t n;
    /* reads files beside it, as in struct onnx_net_source */
    int (*external)(void *ctx, const char *file, uint64_t offset, void *out, size_t bytes,
                    struct err *err);
    void *ctx;
};

/* True if the model is an imported graph. */
bool model_is_imported(const struct model_spec *spec);
/* Imports the graph into spec->net. Errors: those of onnx_net_read(). */
int model_import(struct model_spec *spec, const struct model_import_file *file, struct err *err);
/* Records are to be whole numbers. It was imported. */
bool model_import_takes_whole(const struct model_spec *spec);
/* What the file says of the variables; borrows from @spec. It was imported. */
struct given_variables model_import_given(const struct model_spec *spec);
const float *model_import_initial(const struct model_spec *spec, size_t variable);
/* The file again at @location, with @values of its variables and @notes (pairs of key and text) in
 * its metadata. Errors: those of onnx_net_write(). */
int model_import_write(const struct model_spec *spec, const float *const *values,
                       const char *const (*notes)[2], size_t note_count, const char *location,
                       struct err *err);

#endif
