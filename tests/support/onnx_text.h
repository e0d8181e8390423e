/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX files written as text, for tests. Statements are separated by ';':
 *   opset 13                          17 without it
 *   input x ?,3,4                     floats, ? is a dimension that is left open
 *   tokens x ?,5                      the same of INT64
 *   float w 4,3                       an initializer: numbers from 0.2 to 1.2 that look random
 *   float s - = 2                     a number of no dimension; one or as many values as elements
 *   int shape 2 = -1 12
 *   Gemm x w b -> y : transB=1 alpha=0.5 axes=0,1 auto_pad=SAME_UPPER     '' leaves an input out
 *   output y
 * Attributes: of a name in the list of onnx_text.c always a list or a float; else by their looks.
 */
#ifndef GRADUS_TESTS_SUPPORT_ONNX_TEXT_H
#define GRADUS_TESTS_SUPPORT_ONNX_TEXT_H

#include <stddef.h>

#include "onnx/onnx.pb-c.h"

/* Owned: onnx__model_proto__free_unpacked(m, NULL). */
Onnx__ModelProto *onnx_text_model(const char *text);
/* Its bytes; owned. The model is freed. */
void *onnx_text_pack(Onnx__ModelProto *m, size_t *n);

#endif
