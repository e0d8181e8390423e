/* SPDX-License-Identifier: Apache-2.0 */
/* All rows of a model's tables as an ONNX file has them. Private to common/saved. */
#ifndef GRADUS_SAVED_SAVED_ONNX_TABLES_H
#define GRADUS_SAVED_SAVED_ONNX_TABLES_H

#include "graph/model_onnx.h"
#include "saved/saved_model.h"

struct saved_onnx_tables {           /* begins zeroed */
    struct model_onnx_table *tables; /* [count]; their keys and values are owned */
    size_t count;
};

/* Errors: ERR_EXHAUSTED. */
int saved_onnx_tables(const struct saved_model *m, struct saved_onnx_tables *out, struct err *err);
void saved_onnx_tables_release(struct saved_onnx_tables *t);

#endif
