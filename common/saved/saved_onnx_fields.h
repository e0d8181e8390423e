/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse fields of records as inputs of an ONNX graph: their keys, and the columns that the keys of
 * fields with a width fall into. Private to common/saved. */
#ifndef GRADUS_SAVED_SAVED_ONNX_FIELDS_H
#define GRADUS_SAVED_SAVED_ONNX_FIELDS_H

#include "graph/model_onnx.h"
#include "saved/saved_model.h"

struct saved_onnx_fields { /* begins zeroed */
    const char **keys;     /* [fields] INT64 [batch, keys]; NULL: nothing reads the field */
    const char **weights;  /* [fields] FLOAT of the same shape; NULL: all weigh 1 */
};

/* Adds the inputs. @texts: as saved_onnx_write(). Errors: ERR_INVALID. */
int saved_onnx_fields(const struct saved_model *m, bool texts, struct onnx_graph *g,
                      struct saved_onnx_fields *out, struct err *err);
void saved_onnx_fields_release(struct saved_onnx_fields *f);
/* Puts columns of fields with a width behind *@x, [batch, shape]; NULL: there are no others. */
void saved_onnx_columns(const struct saved_model *m, const struct saved_onnx_fields *f,
                        struct onnx_graph *g, const char **x, struct shape *shape);

#endif
