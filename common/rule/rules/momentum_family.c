/* SPDX-License-Identifier: Apache-2.0 */
/* Brings a table row up to date that many updates skipped: for momentum and nesterov. Without
 * gradients the moves are a geometric series, so one pass with its sum does them all. */
#include "rule/rules/momentum_family.h"

#include "base/vector.h"

VECTOR_CLONES
static void coast(float left, float moved, float *restrict values, float *restrict m, size_t n)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        values[i] = values[i] - moved * m[i];
        m[i] = left * m[i];
    }
}

void momentum_coast(double left, double moved, float *values, float *momentum, size_t n)
{
    coast((float)left, (float)moved, values, momentum, n);
}
