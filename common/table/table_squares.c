/* SPDX-License-Identifier: Apache-2.0 */
/* The squares of rows: within a row in doubles, over rows without rounding. */
#include "table/table_squares.h"

#include <math.h>
#include <string.h>

#include "base/vector.h"
#include "rule/rules/elements.h"

#define LANES 8

VECTOR_CLONES
double table_squares_of_row(const float *row, size_t dim, float scale)
{
    double lanes[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= dim; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            const float g = row[i + j] * scale;
            lanes[j] += (double)g * (double)g;
        }
    }
    for (size_t j = 0; i + j < dim; j++) {
        const float g = row[i + j] * scale;
        lanes[j] += (double)g * (double)g;
    }
    for (size_t half = LANES / 2; half > 0; half /= 2) {
        for (size_t j = 0; j < half; j++) {
            lanes[j] += lanes[j + half];
        }
    }
    return lanes[0];
}

void table_row_shape(float *row, size_t dim, float scale, const struct table_clip *clip)
{
    elements_clip(row, scale, clip->value > 0 ? clip->value : INFINITY, 1.0F, dim);
    if (clip->norm > 0) {
        (void)table_row_clip(row, dim, 1.0F, clip->norm);
    }
}

bool table_row_clip(float *row, size_t dim, float scale, double norm_max)
{
    const double norm = sqrt(table_squares_of_row(row, dim, scale));
    if (!(norm > norm_max) || !isfinite(norm)) {
        return false;
    }
    const float shrink = (float)(norm_max / norm);
    for (size_t k = 0; k < dim; k++) {
        row[k] *= shrink;
    }
    return true;
}

void table_squares_add(struct exact_sum *s, const struct table_gradient_view *g, float scale,
                       const struct table_clip *clip, float *scratch)
{
    const bool clips = clip != NULL && (clip->value > 0 || clip->norm > 0);
    for (size_t i = 0; i < g->n; i++) {
        const float *row = g->values + i * g->dim;
        if (clips) {
            memcpy(scratch, row, g->dim * sizeof *scratch);
            table_row_shape(scratch, g->dim, scale, clip);
        }
        exact_sum_add(s, clips ? table_squares_of_row(scratch, g->dim, 1.0F)
                               : table_squares_of_row(row, g->dim, scale));
    }
}
