/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the attributes of nodes. An attribute of another type than wanted counts as left out: the
 * checker of files has refused it before. */
#include <string.h>

#include "onnx_net/onnx_op.h"

const Onnx__AttributeProto *onnx_attribute(const struct onnx_node *n, const char *name)
{
    for (size_t i = 0; i < n->proto->n_attribute; i++) {
        const Onnx__AttributeProto *a = n->proto->attribute[i];
        if (a->name != NULL && strcmp(a->name, name) == 0) {
            return a;
        }
    }
    return NULL;
}

int64_t onnx_attribute_int(const struct onnx_node *n, const char *name, int64_t otherwise)
{
    const Onnx__AttributeProto *a = onnx_attribute(n, name);
    return a == NULL || !a->has_i ? otherwise : a->i;
}

float onnx_attribute_float(const struct onnx_node *n, const char *name, float otherwise)
{
    const Onnx__AttributeProto *a = onnx_attribute(n, name);
    return a == NULL || !a->has_f ? otherwise : a->f;
}

bool onnx_attribute_is(const struct onnx_node *n, const char *name, const char *text)
{
    const Onnx__AttributeProto *a = onnx_attribute(n, name);
    return a != NULL && a->has_s && a->s.len == strlen(text) &&
           memcmp(a->s.data, text, a->s.len) == 0;
}

const int64_t *onnx_attribute_ints(const struct onnx_node *n, const char *name, size_t *count)
{
    const Onnx__AttributeProto *a = onnx_attribute(n, name);
    *count = a == NULL ? 0 : a->n_ints;
    return a == NULL || a->n_ints == 0 ? NULL : a->ints;
}
