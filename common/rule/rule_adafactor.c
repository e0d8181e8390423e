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
#include "rule/kernel.h"

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

/* The new R of one row. */
VECTOR_INLINE float adafactor_row(const struct rule_scalars *s, float old, const float *gradient,
                                  float scale, size_t width)
{
    double mean = kernel_row_squares(gradient, scale, width) / (double)width;
    return s->v[ADAFACTOR_KEPT] * old +
           s->v[ADAFACTOR_FRESH] * ((float)mean + s->v[ADAFACTOR_EPSILON1]);
}

VECTOR_INLINE double square(const float *x, float scale, size_t i)
{
    double g = (double)(x[i] * scale);
    return g * g;
}

/* g² of a group of rows, by columns, added in the order of the tree. */
VECTOR_CLONES
static void square_group(const float *g, float scale, size_t width, double *restrict to)
{
    VECTOR_LOOP
    for (size_t i = 0; i < width; i++) {
        double a = square(g, scale, i) + square(g + width, scale, i);
        double b = square(g + 2 * width, scale, i) + square(g + 3 * width, scale, i);
        double c = square(g + 4 * width, scale, i) + square(g + 5 * width, scale, i);
        double d = square(g + 6 * width, scale, i) + square(g + 7 * width, scale, i);
        to[i] = (a + b) + (c + d);
    }
}

VECTOR_CLONES
static void square_row(const float *g, float scale, size_t width, double *restrict to)
{
    VECTOR_LOOP
    for (size_t i = 0; i < width; i++) {
        to[i] = square(g, scale, i);
    }
}

/* The new R of @count rows, added in the order of the tree. */
VECTOR_CLONES
static double sum_rows(const struct rule_scalars *s, const struct rule_span *span, size_t row,
                       size_t count)
{
    const float *old = span->slots[0];
    double r[GROUP];
    for (size_t k = 0; k < count; k++) {
        r[k] = (double)adafactor_row(s, old[row + k], span->gradient + (row + k) * span->width,
                                     span->gradient_scale, span->width);
    }
    for (size_t half = count / 2; half > 0; half /= 2) {
        for (size_t k = 0; k < half; k++) {
            r[k] = r[2 * k] + r[2 * k + 1];
        }
    }
    return r[0];
}

static void reduce_gradient(const struct rule_scalars *s, const struct rule_span *span,
                            struct sums *out)
{
    const size_t width = span->width, rows = span->n / width;
    const uint64_t first = span->first / width;
    for (size_t row = 0, count; row < rows; row += count) {
        bool group = (first + row) % GROUP == 0 && rows - row >= GROUP;
        count = group ? GROUP : 1;
        double *values = sums_next(out);
        const float *gradient = span->gradient + row * width;
        if (group) {
            square_group(gradient, span->gradient_scale, width, values);
        } else {
            square_row(gradient, span->gradient_scale, width, values);
        }
        values[width] = sum_rows(s, span, row, count);
        sums_push(out, first + row, group ? GROUP_LEVEL : 0, values);
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

/* Σ u² of each of @count rows. */
VECTOR_CLONES
static void direction_terms(const struct rule_scalars *s, const struct rule_span *span, size_t row,
                            size_t count, double *terms)
{
    const double *columns = span->totals->columns;
    const float *old = span->slots[0];
    const float scale = span->gradient_scale;
    const size_t width = span->width;
    for (size_t k = 0; k < count; k++) {
        const float *g = span->gradient + (row + k) * width;
        float factor = row_factor(span->totals, adafactor_row(s, old[row + k], g, scale, width));
        double lane[16] = {0};
        size_t i = 0;
        for (; width - i >= 16; i += 16) {
            for (size_t l = 0; l < 16; l++) {
                double u = (double)(g[i + l] * scale * factor) * columns[i + l];
                lane[l] += u * u;
            }
        }
        for (size_t l = 0; i < width; i++, l++) {
            double u = (double)(g[i] * scale * factor) * columns[i];
            lane[l] += u * u;
        }
        for (size_t half = 8; half > 0; half /= 2) {
            for (size_t l = 0; l < half; l++) {
                lane[l] += lane[l + half];
            }
        }
        terms[k] = lane[0];
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
    const double rows = (double)(totals->elements / totals->width);
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
        r[row] = adafactor_row(s, r[row], g, scale, width);
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
