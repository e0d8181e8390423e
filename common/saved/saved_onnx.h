/* SPDX-License-Identifier: Apache-2.0 */
/* A trained model as an ONNX file that takes what gradus-serve does and answers as it does; or,
 * where it was made of a file (model.onnx), that file with the values of today. */
#ifndef GRADUS_SAVED_SAVED_ONNX_H
#define GRADUS_SAVED_SAVED_ONNX_H

#include "saved/saved_model.h"

/* Write it at @location, a path or a URL, and the large constants beside it where @external or
 * where they have to be (onnx_graph_write()); @wrote_external (may be NULL) is set. Errors:
 * ERR_UNSUPPORTED layers or columns that the operators of ONNX cannot say, with advice; of writing.
 */
int saved_onnx_write(const struct saved_model *m, const char *location, bool external,
                     bool *wrote_external, struct err *err);

#endif
