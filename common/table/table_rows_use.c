/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and updates the rows of a batch of keys. */
#include "table/table_rows.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "rule/rules/elements.h"
#include "table/table_ahead.h"
#include "table/table_squares.h"

/* Sixteen floats are a line and the commonest row: a copy of a known length is four instructions
 * where memcpy() is a call. */
VECTOR_INLINE void copy_floats(float *to, const float *from, size_t n)
{
    for (; n >= 16; n -= 16, to += 16, from += 16) {
        memcpy(to, from, 16 * sizeof(float));
    }
    if (n > 0) {
        memcpy(to, from, n * sizeof(float));
    }
}

static void slots_of(const struct table_rows *rows, float *record, float **slots)
{
    for (size_t k = 0; k < rows->rule->slot_count; k++) {
        slots[k] = record + rows->slot_at[k];
    }
}

void table_rows_catch_up(const struct table_rows *rows, const struct table_catch_up *up,
                         uint64_t seen, float *record)
{
    if (rows->rule->catch_up != NULL && seen < up->version) {
        float *slots[RULE_SLOTS_MAX] = {NULL};
        slots_of(rows, record, slots);
        rows->rule->catch_up(up->past, seen, up->version, record, slots, rows->dim);
    }
}

/* Reads a copy of a row, brought up to date; or the initial values of a row that is not there. */
static void read_one(struct table_rows *rows, const struct table_catch_up *up, uint64_t key,
                     uint32_t row, float *out)
{
    uint64_t seen = 0;
    if (row == TABLE_ROW_NONE) {
        table_rows_begin(rows, key, rows->scratch);
    } else {
        seen = table_rows_note(rows, row)->seen;
        copy_floats(rows->scratch, table_rows_record(rows, row), rows->stride);
    }
    if (up->past != NULL) {
        table_rows_catch_up(rows, up, seen, rows->scratch);
    }
    if (MUTANT(reading_changes) && row != TABLE_ROW_NONE) {
        copy_floats(table_rows_record(rows, row), rows->scratch, rows->stride);
    }
    copy_floats(out, rows->scratch, rows->dim);
}

void table_rows_gather(struct table_rows *rows, const struct table_catch_up *up,
                       const uint64_t *keys, size_t n, float *out, bool *present)
{
    const bool plain = up->past == NULL || rows->rule->catch_up == NULL;
    const size_t dim = rows->dim;
    struct table_ahead ahead = {
        .rows = rows,
        .keys = keys,
        .n = n,
        .record_bytes = (plain ? dim : rows->stride) * sizeof(float),
        .notes = !plain,
    };
    size_t count;
    const uint32_t *found;
    for (size_t step = 0; table_ahead_step(&ahead, step, &found, &count); step++) {
        for (size_t i = 0, at; i < count; i++) {
            at = (step - 2) * TABLE_BLOCK + i;
            if (plain && found[i] != TABLE_ROW_NONE) {
                copy_floats(out + at * dim, table_rows_record(rows, found[i]), dim);
            } else {
                read_one(rows, up, keys[at], found[i], out + at * dim);
            }
            if (present != NULL) {
                present[at] = found[i] != TABLE_ROW_NONE;
            }
        }
    }
}

static uint32_t sightings_of(const struct table_update *u, size_t i)
{
    return u->sightings == NULL ? 1 : u->sightings[i];
}

/* What ridge adds to the l2 of a row that has had @seen updates. */
static float ridge_of(const struct table_update *u, uint64_t seen)
{
    const uint64_t steps = u->up.version + 1 > seen ? u->up.version + 1 - seen : 1;
    return u->shaping->ridge * fminf((float)steps, u->shaping->ridge_steps);
}

/* The gradient of key @i, whose row has @values and has had @seen updates, as the rule gets it. */
static const float *shape(struct table_rows *rows, const struct table_update *u, size_t i,
                          const float *values, uint64_t seen)
{
    const struct table_shaping *s = u->shaping;
    float *to = rows->shaped;
    const size_t n = rows->dim;
    copy_floats(to, u->gradient + i * n, n);
    table_row_shape(to, n, u->gradient_scale, &s->clip);
    if (s->scaled) {
        elements_clip(to, 1.0F, INFINITY, s->factor, n);
    }
    if (s->l1 != 0 || s->l2 != 0 || s->ridge != 0) {
        const float share = (float)sightings_of(u, i) * u->gradient_scale;
        elements_penalize(to, values, s->l1 * share, s->l2 * share + ridge_of(u, seen), n);
    }
    copy_floats(to + n, values, n);
    return to;
}

/* Updates @row, which is that of key @i. @span has what is the same for all rows. */
static void update_one(struct table_rows *rows, const struct table_update *u, size_t i,
                       uint32_t row, struct rule_span *span)
{
    float *record = table_rows_record(rows, row);
    struct table_note *note = table_rows_note(rows, row);
    float *slots[RULE_SLOTS_MAX] = {NULL};
    if (u->up.past != NULL) {
        table_rows_catch_up(rows, &u->up, note->seen, record);
    }
    slots_of(rows, record, slots);
    span->out = record;
    span->in = record;
    span->slots = slots;
    span->gradient = u->gradient + i * rows->dim;
    if (u->shaping != NULL) {
        span->gradient = shape(rows, u, i, record, note->seen);
    }
    span->base = u->base == NULL ? NULL : u->base + i * rows->dim;
    span->first = u->keys[i] * rows->dim;
    rule_apply_span(rows->rule, u->scalars, span);
    if (u->shaping != NULL && u->shaping->decay != 0) {
        elements_shrink(record, rows->shaped + rows->dim, u->shaping->decay, rows->dim);
    }
    const uint32_t sightings = sightings_of(u, i);
    note->seen = u->up.version + 1;
    note->sightings =
        sightings > UINT32_MAX - note->sightings ? UINT32_MAX : note->sightings + sightings;
}

size_t table_rows_update(struct table_rows *rows, const struct table_update *update)
{
    assert(update->up.past == NULL || rows->rule->still || rows->rule->catch_up != NULL);
    struct table_ahead ahead = {
        .rows = rows,
        .keys = update->keys,
        .known = update->rows,
        .n = update->n,
        .record_bytes = rows->stride * sizeof(float),
        .notes = true,
    };
    struct rule_span span = {
        .gradient_scale = update->shaping == NULL ? update->gradient_scale : 1.0F,
        .n = rows->dim,
        .width = rows->dim,
        .variable = rows->init_key,
    };
    size_t updated = 0, count;
    const uint32_t *found;
    if (update->shaping != NULL && rows->shaped == NULL) {
        rows->shaped = mem_new(2 * rows->dim, sizeof(float));
    }
    for (size_t step = 0; table_ahead_step(&ahead, step, &found, &count); step++) {
        for (size_t i = 0; i < count; i++) {
            if (found[i] != TABLE_ROW_NONE) {
                update_one(rows, update, (step - 2) * TABLE_BLOCK + i, found[i], &span);
                updated++;
            }
        }
    }
    return updated;
}
