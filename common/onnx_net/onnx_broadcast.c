/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcasting as in NumPy: dimensions are aligned at the last one, and those of 1 are repeated.
 * Neighbouring dimensions that both inputs go through alike become one, so that the loops over the
 * last one are long. */
#include <string.h>

#include "onnx_net/onnx_op.h"
#include "tensor/kernel.h"

static size_t dim_of(const struct onnx_dims *d, size_t rank, size_t i)
{
    return i + d->rank < rank ? 1 : d->dims[i + d->rank - rank];
}

int onnx_broadcast_shapes(const struct onnx_dims *a, const struct onnx_dims *b,
                          struct onnx_dims *out, struct err *err)
{
    out->rank = a->rank > b->rank ? a->rank : b->rank;
    for (size_t i = 0; i < out->rank; i++) {
        const size_t x = dim_of(a, out->rank, i), y = dim_of(b, out->rank, i);
        if (x != y && x != 1 && y != 1) {
            char left[128], right[128];
            return err_set(err, ERR_INVALID,
                           "shapes %s and %s do not go together; equal dimensions, or 1, would fit",
                           onnx_dims_format(a, left, sizeof left),
                           onnx_dims_format(b, right, sizeof right));
        }
        out->dims[i] = x == 1 ? y : x;
    }
    return 0;
}

/* Row-major strides of @d, seen as a tensor of @out's shape. */
static void strides(const struct onnx_dims *d, const struct onnx_dims *out, size_t *to)
{
    size_t step = 1;
    for (size_t i = out->rank; i-- > 0;) {
        const size_t n = dim_of(d, out->rank, i);
        to[i] = n == 1 ? 0 : step;
        step *= n;
    }
}

void onnx_broadcast_make(const struct onnx_dims *a, const struct onnx_dims *b,
                         const struct onnx_dims *out, struct onnx_broadcast *plan)
{
    size_t sa[ONNX_DIMS_MAX], sb[ONNX_DIMS_MAX];
    strides(a, out, sa);
    strides(b, out, sb);
    *plan = (struct onnx_broadcast){.rank = 0};
    for (size_t i = 0; i < out->rank; i++) {
        const size_t n = out->dims[i];
        if (n == 1) {
            continue;
        }
        const size_t last = plan->rank - 1;
        if (plan->rank > 0 && plan->a[last] == n * sa[i] && plan->b[last] == n * sb[i]) {
            plan->dims[last] *= n;
            plan->a[last] = sa[i];
            plan->b[last] = sb[i];
            continue;
        }
        plan->dims[plan->rank] = n;
        plan->a[plan->rank] = sa[i];
        plan->b[plan->rank] = sb[i];
        plan->rank++;
    }
    if (plan->rank == 0) { /* one element */
        plan->rank = 1;
        plan->dims[0] = 1;
    }
}

size_t onnx_broadcast_rows(const struct onnx_broadcast *plan)
{
    size_t rows = 1;
    for (size_t i = 0; i + 1 < plan->rank; i++) {
        rows *= plan->dims[i];
    }
    return rows;
}

void onnx_row_next(const struct onnx_broadcast *plan, struct onnx_row *row)
{
    for (size_t i = plan->rank - 1; i-- > 0;) {
        row->a += plan->a[i];
        row->b += plan->b[i];
        if (++row->index[i] < plan->dims[i]) {
            return;
        }
        row->index[i] = 0;
        row->a -= plan->a[i] * plan->dims[i];
        row->b -= plan->b[i] * plan->dims[i];
    }
}

void onnx_broadcast_sum_b(const struct onnx_broadcast *plan, const float *from, size_t n_b,
                          float *to)
{
    const size_t last = plan->rank - 1, n = plan->dims[last], rows = onnx_broadcast_rows(plan);
    struct onnx_row row = {0};
    memset(to, 0, n_b * sizeof *to);
    for (size_t r = 0; r < rows; r++) {
        if (plan->b[last] == 0) {
            to[row.b] += kernel_sum(from + r * n, n);
        } else {
            kernel_add(n, from + r * n, to + row.b);
        }
        onnx_row_next(plan, &row);
    }
}
