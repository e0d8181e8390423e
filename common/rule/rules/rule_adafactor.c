/* SPDX-License-Identifier: Apache-2.0 */
/* adafactor: Shazeer & Stern, "Adafactor: adaptive learning rates with sublinear memory cost", ICML
 * 2018, algorithms 4 and 5, with the hyperparameters of its section 9.
 *
 *     t ← version + 1,  β ← 1 − t^(−decay_power),  ρ ← min(learning_rate, 1 / √t)
 *     R ← β · R + (1 − β) · row means of (g² + epsilon1)
 *     C ← β · C + (1 − β) · column means of (g² + epsilon1)
 *     u ← g / √(R · C / mean of R)
 *     w ← w − max(epsilon2, RMS(w)) · ρ · u / max(1, RMS(u) / clip)
 *
 * A variable is a matrix of its first dimension by all others, which is how it is partitioned;
 * Keras and PyTorch factor the last two dimensions, which differs for convolutions. A vector has
 * rows of one element, and then R · C / mean of R is R: the unfactored form comes out by itself.
 *
 * Defaults: learning_rate 0.01, decay_power 0.8, epsilon1 1e-30, epsilon2 0.001, clip 1, as in the
 * paper and PyTorch. No first moment (beta1 0), as in the paper's recommendation.
 *
 * The sums take two rounds: columns, rows and the parameters' norm first, then that of u.
 *
 * Tables: not for tables: the column means would be those of all rows. */
#include "rule/rules/rule_kernel.h"

struct adafactor_params {
    double learning_rate;
    double decay_power;
    double epsilon1, epsilon2;
    double clip;
};

enum {
    ADAFACTOR_RATE,
    ADAFACTOR_KEPT,
    ADAFACTOR_FRESH,
    ADAFACTOR_EPSILON1,
    ADAFACTOR_EPSILON2,
    ADAFACTOR_CLIP
};
enum { ADAFACTOR_ROW_MEAN, ADAFACTOR_STEP };

#define GROUP 8 /* rows that are summed at once: a node of level 3 */
#define GROUP_LEVEL 3

static const struct field adafactor_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct adafactor_params, learning_rate), "0.01", 0, 1e6,
     NULL, "Largest size of a step beside the size of the variable"},
    {"decay_power", FIELD_FLOAT, offsetof(struct adafactor_params, decay_power), "0.8", 0, 1, NULL,
     "How fast the means of squared gradients become longer"},
    {"epsilon1", FIELD_FLOAT, offsetof(struct adafactor_params, epsilon1), "1e-30", 1e-36, 1, NULL,
     "Added to squared gradients"},
    {"epsilon2", FIELD_FLOAT, offsetof(struct adafactor_params, epsilon2), "0.001", 1e-30, 1, NULL,
     "Least size of a variable that steps are in proportion to"},
    {"clip", FIELD_FLOAT, offsetof(struct adafactor_params, clip), "1", 1e-6, 1e6, NULL,
     "Largest root mean square of a step before it is scaled"},
};

static void adafactor_prepare(const void *params, uint64_t version, double lr_scale,
                              struct rule_scalars *out)
{
    const struct adafactor_params *p = params;
    const double t = (double)version + 1.0;
    const double fresh = pow(t, -p->decay_power);
    const double rate = p->learning_rate * lr_scale;
    out->v[ADAFACTOR_RATE] = (float)(rate < 1.0 / sqrt(t) ? rate : 1.0 / sqrt(t));
    out->v[ADAFACTOR_KEPT] = (float)(1.0 - fresh);
    out->v[ADAFACTOR_FRESH] = (float)fresh;
    out->v[ADAFACTOR_EPSILON1] = (float)p->epsilon1;
    out->v[ADAFACTOR_EPSILON2] = (float)p->epsilon2;
    out->v[ADAFACTOR_CLIP] = (float)p->clip;
}

/* The new R of a row from the sum of its squared gradients. */
VECTOR_INLINE float adafactor_row(const struct rule_scalars *s, float old, double squares,
                                  size_t width)
{
    double mean = squares / (double)width;
    return s->v[ADAFACTOR_KEPT] * old +
           s->v[ADAFACTOR_FRESH] * ((float)mean + s->v[ADAFACTOR_EPSILON1]);
}

VECTOR_INLINE double square(const float *x, float scale, size_t i)
{
    double g = (double)(x[i] * scale);
    return g * g;
}

/* g² of one element, also added to the sum of its row. */
VECTOR_INLINE double square_into(const float *row, float scale, size_t i, double *sum)
{
    double x = square(row, scale, i);
    *sum += x;
    return x;
}

/* g² of one column of a group of rows, added in the order of the tree. */
VECTOR_INLINE double square_column(const float *g, float scale, size_t width, size_t i,
                                   double (*lane)[KERNEL_LANES], size_t l)
{
    double a = square_into(g, scale, i, &lane[0][l]);
    double b = square_into(g + width, scale, i, &lane[1][l]);
    double c = square_into(g + 2 * width, scale, i, &lane[2][l]);
    double d = square_into(g + 3 * width, scale, i, &lane[3][l]);
    double e = square_into(g + 4 * width, scale, i, &lane[4][l]);
    double f = square_into(g + 5 * width, scale, i, &lane[5][l]);
    double h = square_into(g + 6 * width, scale, i, &lane[6][l]);
    double k = square_into(g + 7 * width, scale, i, &lane[7][l]);
    return ((a + b) + (c + d)) + ((e + f) + (h + k));
}

/* g² of a group of rows: by columns into @to, by rows (as kernel_row_squares()) into @rows. */
VECTOR_CLONES
static void square_group(const float *g, float scale, size_t width, double *restrict to,
                         double *restrict rows)
{
    double lane[GROUP][KERNEL_LANES] = {{0}};
    size_t i = 0;
    for (; width - i >= KERNEL_LANES; i += KERNEL_LANES) {
        VECTOR_LOOP
        for (size_t l = 0; l < KERNEL_LANES; l++) {
            to[i + l] = square_column(g, scale, width, i + l, lane, l);
        }
    }
    for (size_t l = 0; i < width; i++, l++) {
        to[i] = square_column(g, scale, width, i, lane, l);
    }
    for (size_t k = 0; k < GROUP; k++) {
        rows[k] = kernel_lanes_total(lane[k]);
    }
}

VECTOR_CLONES
static void square_row(const float *g, float scale, size_t width, double *restrict to,
                       double *restrict row)
{
    VECTOR_LOOP
    for (size_t i = 0; i < width; i++) {
        to[i] = square(g, scale, i);
    }
    *row = kernel_row_squares(g, scale, width);
}

static void reduce_gradient(const struct rule_scalars *s, const struct rule_span *span,
                            struct sums *out)
{
    const size_t width = span->width, rows = span->n / width;
    const uint64_t first = span->first / width;
    const float *old = span->slots[0];
    for (size_t row = 0, count; row < rows; row += count) {
        bool group = (first + row) % GROUP == 0 && rows - row >= GROUP;
        count = group ? GROUP : 1;
        double *values = sums_next(out);
        double squares[GROUP], r[GROUP];
        const float *gradient = span->gradient + row * width;
        if (group) {
            square_group(gradient, span->gradient_scale, width, values, squares);
        } else {
            square_row(gradient, span->gradient_scale, width, values, squares);
        }
        for (size_t k = 0; k < count; k++) {
            r[k] = (double)adafactor_row(s, old[row + k], squares[k], width);
        }
        values[width] =
            !group ? r[0] : ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
        sums_push_vectors(out, first + row, group ? GROUP_LEVEL : 0);
    }
}

VECTOR_CLONES
static void value_terms(const struct rule_scalars *s, const struct rule_span *span, size_t at,
                        size_t n, double *terms)
{
    (void)s;
    const float *w = span->in + at;
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        double x = (double)w[i];
        terms[i] = x * x;
    }
}

/* √(mean of R / R) of a row. */
VECTOR_INLINE float row_factor(const struct rule_totals *totals, float r)
{
    return sqrtf(totals->settled[ADAFACTOR_ROW_MEAN] / r);
}

/* Σ (g / √C)² over a row, as kernel_row_squares(). */
VECTOR_INLINE double scaled_squares(const float *restrict g, float scale,
                                    const double *restrict columns, size_t width)
{
    double lane[KERNEL_LANES] = {0};
    size_t i = 0;
    for (; width - i >= KERNEL_LANES; i += KERNEL_LANES) {
        VECTOR_LOOP
        for (size_t l = 0; l < KERNEL_LANES; l++) {
            double y = (double)(g[i + l] * scale) * columns[i + l];
            lane[l] += y * y;
        }
    }
    for (size_t l = 0; i < width; i++, l++) {
        double y = (double)(g[i] * scale) * columns[i];
        lane[l] += y * y;
    }
    return kernel_lanes_total(lane);
}

/* Σ u² of each of @count rows. */
VECTOR_CLONES
static void direction_terms(const struct rule_scalars *s, const struct rule_span *span, size_t row,
                            size_t count, double *terms)
{
    const float *old = span->slots[0];
    const float scale = span->gradient_scale;
    const size_t width = span->width;
    for (size_t k = 0; k < count; k++) {
        const float *g = span->gradient + (row + k) * width;
        float r = adafactor_row(s, old[row + k], kernel_row_squares(g, scale, width), width);
        double factor = (double)row_factor(span->totals, r);
        terms[k] = scaled_squares(g, scale, span->totals->columns, width) * factor * factor;
    }
}

static void reduce_direction(const struct rule_scalars *s, const struct rule_span *span,
                             struct sums *out)
{
    const size_t rows = span->n / span->width;
    const uint64_t first = span->first / span->width;
    double terms[SUMS_BLOCK];
    for (size_t row = 0, n; row < rows; row += n) {
        n = SUMS_BLOCK - (size_t)((first + row) % SUMS_BLOCK);
        n = n < rows - row ? n : rows - row;
        direction_terms(s, span, row, n, terms);
        sums_add(out, first + row, n, terms);
    }
}

static void adafactor_reduce(const struct rule_scalars *s, unsigned round,
                             const struct rule_span *span, struct rule_sums *out)
{
    if (round == 0) {
        kernel_reduce(s, span, &out->scalars, value_terms);
        reduce_gradient(s, span, &out->rows);
    } else {
        reduce_direction(s, span, &out->scalars);
    }
}

/* Round 0: the column slot, and in the place of the column sums 1 / √C. */
static void settle_columns(const struct rule_scalars *s, struct rule_totals *totals,
                           float *const *slots)
{
    const uint64_t whole_rows = totals->elements / totals->width;
    const double rows = (double)whole_rows;
    float *c = slots[1];
    for (size_t i = 0; i < totals->width; i++) {
        float mean = (float)(totals->columns[i] / rows) + s->v[ADAFACTOR_EPSILON1];
        c[i] = s->v[ADAFACTOR_KEPT] * c[i] + s->v[ADAFACTOR_FRESH] * mean;
        totals->columns[i] = 1.0 / sqrt((double)c[i]);
    }
    totals->settled[ADAFACTOR_ROW_MEAN] = (float)(totals->columns[totals->width] / rows);
    double size = sqrt(totals->sums[0] / (double)totals->elements);
    double least = (double)s->v[ADAFACTOR_EPSILON2];
    totals->settled[ADAFACTOR_STEP] =
        (float)((double)s->v[ADAFACTOR_RATE] * (size > least ? size : least));
}

static void adafactor_settle(const struct rule_scalars *s, unsigned round,
                             struct rule_totals *totals, float *const *slots)
{
    if (round == 0) {
        settle_columns(s, totals, slots);
        return;
    }
    double size = sqrt(totals->sums[0] / (double)totals->elements) / (double)s->v[ADAFACTOR_CLIP];
    if (size > 1) {
        totals->settled[ADAFACTOR_STEP] = (float)((double)totals->settled[ADAFACTOR_STEP] / size);
    }
}

VECTOR_CLONES
static void adafactor_apply(const struct rule_scalars *s, const struct rule_span *span)
{
    const double *columns = span->totals->columns;
    const float step = span->totals->settled[ADAFACTOR_STEP];
    const float scale = span->gradient_scale;
    const size_t width = span->width;
    float *r = span->slots[0];
    for (size_t row = 0; row < span->n / width; row++) {
        const float *in = span->in + row * width;
        const float *g = span->gradient + row * width;
        float *out = span->out + row * width;
        r[row] = adafactor_row(s, r[row], kernel_row_squares(g, scale, width), width);
        float factor = row_factor(span->totals, r[row]);
        VECTOR_LOOP
        for (size_t i = 0; i < width; i++) {
            double u = (double)(g[i] * scale * factor) * columns[i];
            out[i] = in[i] - step * (float)u;
        }
    }
}

extern const struct rule rule_adafactor;
const struct rule rule_adafactor = {
    .name = "adafactor",
    .help = "Adaptive steps from means of squared gradients of rows and columns only",
    .fields = adafactor_fields,
    .field_count = sizeof adafactor_fields / sizeof adafactor_fields[0],
    .params_bytes = sizeof(struct adafactor_params),
    .slot_count = 2,
    .slot_names = {"row", "column"},
    .slot_kinds = {RULE_SLOT_ROW, RULE_SLOT_COLUMN},
    .prepare = adafactor_prepare,
    .apply_span = adafactor_apply,
    .rounds = 2,
    .sum_count = {1, 1},
    .columns = true,
    .reduce = adafactor_reduce,
    .settle = adafactor_settle,
};
