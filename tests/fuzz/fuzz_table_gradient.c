/* SPDX-License-Identifier: Apache-2.0 */
/* What workers push of a table (table/table_gradient.c): what is read has rising keys and
 * sightings, is written as the same bytes, and is added to another one.
 *
 * Input: dim; how many bytes the first gradient has, in two bytes; the gradients, without the upper
 * half of each count, so that they are mostly right. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "table/table_gradient.h"

/* As the type that its header says, mostly. */
static bool read_one(struct table_gradient *g, const uint8_t *data, size_t n)
{
    const size_t bytes = n + 4;
    const enum value_type type = n < 9 ? VALUE_FP32 : (enum value_type)(data[8] % VALUE_TYPES);
    uint8_t *whole = mem_new(bytes, 1);
    struct err err = {0};
    if (n >= 4) {
        memcpy(whole, data, 4);
        memcpy(whole + 8, data + 4, n - 4);
    }
    int rc = table_gradient_decode(g, type, whole, bytes, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0) {
        const struct table_gradient_view view = table_gradient_view(g);
        uint8_t *again = mem_new(bytes, 1);
        fuzz_require(table_gradient_bytes(type, g->n, g->dim) == bytes,
                     "the count is what there is");
        table_gradient_encode(type, &view, again);
        if (type != VALUE_FP32) { /* a NaN is a quiet one from the first time on */
            memcpy(whole, again, bytes);
            fuzz_require(table_gradient_decode(g, type, whole, bytes, &err) == 0, "and read again");
            const struct table_gradient_view same = table_gradient_view(g);
            table_gradient_encode(type, &same, again);
        }
        fuzz_require(memcmp(again, whole, bytes) == 0, "what was read is written as the same");
        free(again);
    }
    free(whole);
    return rc == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    const size_t dim = (size_t)fuzz_below(&in, 17) + 1;
    size_t first = fuzz_byte(&in);
    first = first << 8 | fuzz_byte(&in);
    first = first < in.n ? first : in.n;
    struct table_gradient a, b;
    struct err err = {0};
    table_gradient_init(&a, dim);
    table_gradient_init(&b, dim);
    if (read_one(&a, in.data, first) && read_one(&b, in.data + first, in.n - first)) {
        const struct table_gradient_view view = table_gradient_view(&b);
        const size_t before = a.n;
        fuzz_require(table_gradient_add(&a, &view, &err) == 0, "gradients of one dim are added");
        fuzz_require(a.n >= before && a.n >= b.n && a.n <= before + b.n, "no key is lost");
        for (size_t i = 1; i < a.n; i++) {
            fuzz_require(a.keys[i - 1] < a.keys[i], "keys rise");
        }
        (void)table_gradient_clip_rows(&a, 1, 1e-3);
    }
    table_gradient_release(&a);
    table_gradient_release(&b);
    return 0;
}
