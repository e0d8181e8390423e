/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tensor values from a received message piece by piece, and makes floats of fp16 and bf16. */
#include "wire/wire_values.h"

_Static_assert((int)VALUE_FP32 == (int)GRADUS__V1__WIRE_TYPE__FP32 &&
                   (int)VALUE_FP16 == (int)GRADUS__V1__WIRE_TYPE__FP16 &&
                   (int)VALUE_BF16 == (int)GRADUS__V1__WIRE_TYPE__BF16,
               "half.h and ps.proto number the types alike");

int wire_type_from_proto(Gradus__V1__WireType in, enum value_type *out, struct err *err)
{
    if ((int)in < 0 || (int)in >= VALUE_TYPES) {
        return err_set(err, ERR_INVALID, "values of the unknown type %d", (int)in);
    }
    *out = (enum value_type)in;
    return 0;
}

/* Slices end anywhere: a value whose bytes lie in two of them is put together. */
bool wire_values_read(struct rpc_spans *s, enum value_type type, float *out, size_t count)
{
    if (type == VALUE_FP32) {
        return rpc_spans_read_floats(s, out, count);
    }
    if (count > rpc_spans_left(s) / sizeof(uint16_t)) {
        return false;
    }
    while (count > 0) {
        const unsigned char *data;
        size_t bytes;
        unsigned char split[sizeof(uint16_t)];
        (void)rpc_spans_take(s, count * sizeof split, &data, &bytes);
        size_t whole = bytes / sizeof split;
        values_decode(type, data, whole, out);
        out += whole;
        count -= whole;
        if (bytes % sizeof split != 0) {
            split[0] = data[bytes - 1];
            (void)rpc_spans_read(s, &split[1], 1);
            values_decode(type, split, 1, out++);
            count--;
        }
    }
    return true;
}
