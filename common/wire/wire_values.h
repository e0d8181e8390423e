/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a message's bulk field, in the type in which they travel. */
#ifndef GRADUS_WIRE_WIRE_VALUES_H
#define GRADUS_WIRE_WIRE_VALUES_H

#include "gradus/v1/ps.pb-c.h"
#include "rpc/rpc.h"
#include "tensor/half.h"

/* Errors: ERR_INVALID: a number that is no type. */
int wire_type_from_proto(Gradus__V1__WireType in, enum value_type *out, struct err *err);
/* Decode @count values at the cursor to @out, in one pass; false (and nothing moved) when fewer are
 * left. */
bool wire_values_read(struct rpc_spans *s, enum value_type type, float *out, size_t count);

#endif
