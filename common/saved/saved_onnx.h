/* SPDX-License-Identifier: Apache-2.0 */
/* A trained model as an ONNX file that takes what gradus-serve does and answers as it does; or,
 * where it was made of a file (model.onnx), that file with the values of today. */
#ifndef GRADUS_SAVED_SAVED_ONNX_H
#define GRADUS_SAVED_SAVED_ONNX_H

#include "saved/saved_model.h"

struct saved_onnx_options {
    bool external; /* large constants are beside the file, not only where they have to be */
    bool texts;    /* are the inputs of categories, which ai.onnx.ml finds the places of */
};
/* Write it at @location, a path or a URL (onnx_graph_write()); @wrote_external (may be NULL) is
 * set. Errors: ERR_UNSUPPORTED layers or columns that the operators of ONNX cannot say, with
 * advice; of writing.
 */
int saved_onnx_write(const struct saved_model *m, const char *location,
                     const struct saved_onnx_options *options, bool *wrote_external,
                     struct err *err);

#endif
