/* SPDX-License-Identifier: Apache-2.0 */
/* The rounds of an update: what a shard adds up, and what it makes of the totals. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/vector.h"
#include "rule/update/update_blob.h"
#include "rule/update/update_impl.h"

/* The least of a slice that a thread of its own is worth, and rows that rules sum at once. */
#define SLICE_FLOATS (UINT64_C(1) << 16)
#define SLICE_ROWS 8

/* ---- memory ---- */

/* Nodes that the sum over a range of @summands can have, and one on its way. */
static size_t nodes_max(uint64_t summands)
{
    size_t levels = 1;
    while (summands >>= 1) {
        levels++;
    }
    size_t nodes = 2 * levels + 2;
    return nodes < SUMS_NODES_MAX ? nodes : SUMS_NODES_MAX;
}

static int init_sums(struct rule_sums *s, size_t row_values, struct err *err)
{
    if (sums_init(&s->scalars, RULE_SUMS_MAX, err) != 0) {
        return ERR_EXHAUSTED;
    }
    s->rows.lanes = 1;
    s->rows.values = mem_try_aligned(row_values + 1, sizeof(double), "partial sums", err);
    return s->rows.values == NULL ? ERR_EXHAUSTED : 0;
}

int update_sums_init(struct update *u, unsigned slices, struct err *err)
{
    size_t rows = 0;
    for (size_t i = 0; i < u->part_count && u->spec->rule->columns; i++) {
        const struct update_part *part = &u->parts[i].part;
        size_t width = u->variables[part->variable].spec.width, values;
        if (!mem_mul(nodes_max(part->count / width), width + 1, &values)) {
            return err_set(err, ERR_EXHAUSTED, "sums of %zu columns", width);
        }
        rows = values > rows ? values : rows;
    }
    u->sums = mem_new(slices, sizeof *u->sums);
    u->slices = slices;
    int rc = 0;
    for (unsigned i = 0; i < slices && rc == 0; i++) {
        rc = init_sums(&u->sums[i], rows, err);
    }
    return rc;
}

void update_sums_release(struct update *u)
{
    for (unsigned i = 0; i < u->slices; i++) {
        rule_sums_release(&u->sums[i]);
    }
    free(u->sums);
    u->sums = NULL;
    u->slices = 0;
}

/* ---- reduce ---- */

/* (g · scale)², with the value clipped first. @marked: NaN where g is not finite, which clipping
 * would hide. */
VECTOR_CLONES
static void norm_terms(const float *gradient, float scale, float limit, bool marked, size_t n,
                       double *restrict terms)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * scale;
        float c = g > limit ? limit : g;
        c = c < -limit ? -limit : c;
        double mark = marked ? (double)(g - g) : 0.0;
        terms[i] = (double)c * (double)c + mark;
    }
}

static void reset(struct rule_sums *s, const size_t widths[BLOB_LISTS])
{
    sums_reset(&s->scalars);
    sums_reset(&s->rows);
    s->scalars.width = widths[0];
    s->rows.width = widths[1];
}

/* Of the mean in @gradient: @count elements of a variable from its element @first on. */
static void reduce_norm(const struct update *u, const float *gradient, uint64_t first,
                        uint64_t count, float scale, struct rule_sums *out)
{
    const float limit = u->spec->clip_value > 0 ? (float)u->spec->clip_value : INFINITY;
    const bool marked = u->spec->non_finite != UPDATE_NON_FINITE_APPLY;
    double terms[SUMS_BLOCK];
    reset(out, (const size_t[BLOB_LISTS]){1, 0});
    for (uint64_t at = 0, n; at < count; at += n) {
        n = SUMS_BLOCK - (first + at) % SUMS_BLOCK; /* large nodes begin at whole blocks */
        n = n < count - at ? n : count - at;
        norm_terms(gradient + at, scale, limit, marked, (size_t)n, terms);
        sums_add(&out->scalars, first + at, (size_t)n, terms);
    }
}

/* The round of the rule that round @round of the update is. */
static unsigned rule_round(const struct update *u, unsigned round)
{
    return round - u->takes_norms;
}

static void widths_of(const struct update *u, unsigned round, size_t width,
                      size_t widths[BLOB_LISTS])
{
    const struct rule *rule = u->spec->rule;
    widths[0] = 1;
    widths[1] = 0;
    if (!(round == 0 && u->takes_norms)) {
        widths[0] = rule->sum_count[rule_round(u, round)];
        widths[1] = rule->columns && rule_round(u, round) == 0 ? width + 1 : 0;
    }
}

/* A part in slices, each by a thread. */
struct slicing {
    struct update *u;
    unsigned round;
    size_t part;
    uint64_t each; /* elements of all but the last */
};

static void reduce_slice(void *ctx, size_t i)
{
    const struct slicing *k = ctx;
    struct update *u = k->u;
    const struct update_part *p = &u->parts[k->part].part;
    const uint64_t at = i * k->each;
    const uint64_t n = k->each < p->count - at ? k->each : p->count - at;
    struct rule_sums *out = &u->sums[i];
    if (k->round == 0 && u->takes_norms) {
        reduce_norm(u, u->step.gradient + p->offset + at, p->first + at, n, u->scale, out);
        return;
    }
    size_t widths[BLOB_LISTS];
    widths_of(u, k->round, u->variables[p->variable].spec.width, widths);
    reset(out, widths);
    float *slots[RULE_SLOTS_MAX];
    const struct rule_span span = update_span(u, k->part, p->offset + at, n, slots);
    u->spec->rule->reduce(&u->groups[u->parts[k->part].group].scalars, rule_round(u, k->round),
                          &span, out);
}

/* Into the first of the scratch sums. The bits do not depend on the slices. */
static void reduce_part(struct update *u, unsigned round, size_t part)
{
    const struct update_part *p = &u->parts[part].part;
    const uint64_t rows = SLICE_ROWS * u->variables[p->variable].spec.width;
    const uint64_t unit = u->by_rows ? rows : SLICE_FLOATS;
    const uint64_t units = p->count / unit + 1;
    const uint64_t most = p->count / SLICE_FLOATS;
    const uint64_t slices = most < 1 ? 1 : most < u->slices ? most : u->slices;
    struct slicing k = {u, round, part, (units + slices - 1) / slices * unit};
    const size_t count = (size_t)((p->count + k.each - 1) / k.each);
    u->team.run(u->team.team, count, reduce_slice, NULL, &k);
    for (size_t i = 1; i < count; i++) {
        int rc = rule_sums_join(&u->sums[0], &u->sums[i], NULL);
        assert(rc == 0); /* parts lie side by side, so this cannot fail */
        (void)rc;
    }
}

/* Tables that sums of @round are of. */
static size_t tables_in(const struct update *u, unsigned round)
{
    return round == 0 && u->takes_norms && u->kind == UPDATE_DUE ? u->table_count : 0;
}

void update_reduce(struct update *u, unsigned round, struct buf *out)
{
    assert(round == u->round && round < u->rounds);
    blob_begin(out, BLOB_PARTS, round, u->step.version);
    for (size_t i = 0; i < u->part_count && u->kind == UPDATE_DUE; i++) {
        const struct update_part *p = &u->parts[i].part;
        if (!update_is_apart(u, p->variable)) {
            reduce_part(u, round, i);
            blob_add_part(out, p->variable, p->first, p->count, &u->sums[0]);
        }
    }
    assert(tables_in(u, round) == 0 || u->step.tables != NULL);
    blob_add_tables(out, u->step.tables, tables_in(u, round));
}

/* ---- settle ---- */

/* The next variable that sums are of, from @v on. */
static uint32_t next_counted(const struct update *u, uint32_t v)
{
    while (v < u->variable_count && update_is_apart(u, v)) {
        v++;
    }
    return v;
}

/* The next variable, from @v on, of which there are totals. */
static uint32_t next_summed(const struct update *u, uint32_t v)
{
    v = next_counted(u, v);
    while (u->alone && v < u->variable_count && u->variables[v].local == SIZE_MAX) {
        v = next_counted(u, v + 1);
    }
    return v;
}

static size_t count_summed(const struct update *u)
{
    size_t n = 0;
    for (uint32_t v = next_summed(u, 0); v < u->variable_count; v = next_summed(u, v + 1)) {
        n++;
    }
    return n;
}

static int check_total(const struct update *u, unsigned round, uint32_t expected,
                       const struct blob_total *total, struct err *err)
{
    const struct update_variable *v = &u->variables[expected].spec;
    const uint64_t rows = v->elements / v->width;
    size_t widths[BLOB_LISTS];
    widths_of(u, round, v->width, widths);
    if (total->variable != expected) {
        return err_set(err, ERR_INVALID, "variable %" PRIu32 " where '%s' is next", total->variable,
                       v->name);
    }
    if (total->widths[0] != widths[0] || total->widths[1] != widths[1]) {
        return err_set(err, ERR_INVALID, "'%s' has %zu and %zu sums, not %zu and %zu", v->name,
                       total->widths[0], total->widths[1], widths[0], widths[1]);
    }
    /* Scalars are added over elements or over rows, as the rule likes. */
    bool all = total->covered[0] == v->elements ||
               (total->covered[0] == rows && !(round == 0 && u->takes_norms));
    if (!all || (widths[1] > 0 && total->covered[1] != rows)) {
        return err_set(err, ERR_INVALID, "the sums over '%s' are not over all of it", v->name);
    }
    return 0;
}

static int check_totals(const struct update *u, unsigned round, const void *data, size_t bytes,
                        struct err *err)
{
    struct blob_reader r;
    int rc = blob_open(&r, data, bytes, BLOB_TOTALS, err);
    if (rc != 0) {
        return rc;
    }
    const size_t due = u->alone ? count_summed(u) : u->counted;
    const size_t entries = u->kind == UPDATE_DUE ? due : 0;
    if (round != u->round || r.header.round != round || r.header.version != u->step.version) {
        return err_set(err, ERR_INVALID,
                       "round %u of version %" PRIu64 ", but round %u of version %" PRIu64
                       " is next",
                       r.header.round, r.header.version, u->round, u->step.version);
    }
    if (r.header.tables != tables_in(u, round)) {
        return err_set(err, ERR_INVALID, "sums over %" PRIu32 " tables instead of %zu",
                       r.header.tables, tables_in(u, round));
    }
    if (r.header.entries != entries) {
        return err_set(err, ERR_INVALID, "sums over %" PRIu32 " variables instead of %zu",
                       r.header.entries, entries);
    }
    uint32_t v = 0;
    for (size_t i = 0; i < entries && rc == 0; i++, v++) {
        struct blob_total total;
        v = next_summed(u, v);
        rc = blob_next_total(&r, &total, err);
        rc = rc != 0 ? rc : check_total(u, round, v, &total, err);
    }
    for (uint32_t i = 0; i < r.header.tables && rc == 0; i++) {
        struct exact_sum sum;
        rc = blob_next_table(&r, &sum, err);
    }
    return rc != 0 ? rc : blob_close(&r, err);
}

/* Factors of clips: TensorFlow's, limit / max(norm, limit). */
static double clip_factor(double norm, double limit)
{
    return limit > 0 && norm > limit ? limit / norm : 1.0;
}

/* True: what @norm is of, a variable or a table behind them, keeps the update from being made. */
static bool is_bad(struct update *u, uint32_t variable, double norm)
{
    if (isfinite(norm) || u->spec->non_finite == UPDATE_NON_FINITE_APPLY) {
        return false;
    }
    u->poisoned = u->kind == UPDATE_COLLECTING;
    u->kind = u->kind == UPDATE_DUE ? UPDATE_LEFT_OUT : u->kind;
    u->bad_variable = variable;
    return true;
}

void update_take_norms(struct update *u, const double *norms)
{
    const struct update_spec *spec = u->spec;
    double all = 0;
    for (uint32_t v = next_counted(u, 0); v < u->variable_count; v = next_counted(u, v + 1)) {
        if (is_bad(u, v, norms[v])) {
            return;
        }
        u->factors[v] = clip_factor(sqrt(norms[v]), spec->clip_norm);
        all += u->factors[v] * u->factors[v] * norms[v];
    }
    for (size_t i = 0; i < u->table_count; i++) {
        const double squares = norms[u->variable_count + i];
        if (is_bad(u, (uint32_t)(u->variable_count + i), squares)) {
            return;
        }
        u->table_factors[i] = clip_factor(sqrt(squares), spec->clip_norm);
        all += u->table_factors[i] * u->table_factors[i] * squares;
    }
    const double global = clip_factor(sqrt(all), spec->clip_global_norm);
    for (size_t v = 0; v < u->variable_count; v++) {
        u->factors[v] *= global;
    }
    for (size_t i = 0; i < u->table_count; i++) {
        u->table_factors[i] *= global;
    }
}

static void settle_variable(struct update *u, unsigned round, const struct blob_total *total)
{
    const struct rule *rule = u->spec->rule;
    const struct update_variable_state *v = &u->variables[total->variable];
    if (v->local == SIZE_MAX) {
        return;
    }
    struct update_local *local = &u->locals[v->local];
    struct rule_totals *totals = &local->totals;
    blob_doubles(total->packed[0], total->widths[0], totals->sums);
    if (total->widths[1] > 0) {
        blob_doubles(total->packed[1], total->widths[1], totals->columns);
    }
    float *slots[RULE_SLOTS_MAX];
    const struct rule_span span =
        update_span(u, local->part, u->parts[local->part].part.offset, 0, slots);
    rule->settle(&u->groups[v->group].scalars, rule_round(u, round), totals, span.slots);
}

int update_settle(struct update *u, unsigned round, const void *totals, size_t bytes,
                  struct err *err)
{
    int rc = check_totals(u, round, totals, bytes, err);
    if (rc != 0) {
        return err_wrap(err, "totals of round %u", round);
    }
    struct blob_reader r;
    struct blob_total total;
    (void)blob_open(&r, totals, bytes, BLOB_TOTALS, NULL); /* it was opened a moment ago */
    for (uint32_t i = 0; i < r.header.entries; i++) {
        (void)blob_next_total(&r, &total, NULL);
        if (round == 0 && u->takes_norms) {
            blob_doubles(total.packed[0], 1, &u->norms[total.variable]);
        } else {
            settle_variable(u, round, &total);
        }
    }
    for (uint32_t i = 0; i < r.header.tables; i++) {
        struct exact_sum sum;
        (void)blob_next_table(&r, &sum, NULL);
        u->norms[u->variable_count + i] = exact_sum_total(&sum);
    }
    if (round == 0 && u->takes_norms && u->kind == UPDATE_DUE) {
        update_take_norms(u, u->norms);
    }
    update_round_done(u);
    return 0;
}

void update_round_done(struct update *u)
{
    u->round++;
    if (u->round == (unsigned)u->takes_norms && u->round < u->rounds && u->kind == UPDATE_DUE) {
        update_shape(u);
    }
}

/* ---- a worker's norms ---- */

int update_norms(struct update *u, const float *gradient, uint64_t examples, double *norms,
                 struct err *err)
{
    assert(u->takes_norms && u->is_complete);
    struct buf mine = {0}, totals = {0};
    blob_begin(&mine, BLOB_PARTS, 0, 0);
    for (size_t i = 0; i < u->part_count; i++) {
        const struct update_part *p = &u->parts[i].part;
        if (!update_is_apart(u, p->variable)) {
            reduce_norm(u, gradient + p->offset, p->first, p->count,
                        examples == 0 ? 0.0F : 1.0F / (float)examples, &u->sums[0]);
            blob_add_part(&mine, p->variable, p->first, p->count, &u->sums[0]);
        }
    }
    const void *parts[] = {mine.data};
    int rc = update_join(parts, &mine.len, 1, &totals, err);
    if (rc == 0) {
        struct blob_reader r;
        struct blob_total total;
        memset(norms, 0, u->variable_count * sizeof *norms);
        (void)blob_open(&r, totals.data, totals.len, BLOB_TOTALS, NULL);
        while (blob_next_total(&r, &total, NULL) == 0) {
            blob_doubles(total.packed[0], 1, &norms[total.variable]);
        }
    }
    buf_release(&mine);
    buf_release(&totals);
    return rc;
}
