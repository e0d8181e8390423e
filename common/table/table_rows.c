/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and removes rows, and lays out their records. */
#include "table/table_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "base/rng.h"
#include "rule/rules/rows.h"

bool table_takes_rule(const struct rule *rule)
{
    for (size_t k = 0; k < rule->slot_count; k++) {
        if (rule->slot_kinds[k] != RULE_SLOT_PARAMETER && rule->slot_kinds[k] != RULE_SLOT_ROW) {
            return false;
        }
    }
    return rule_takes_rows(rule);
}

/* Values, slots per parameter, slots per row. */
static void lay_out(struct table_rows *rows)
{
    const struct rule *rule = rows->rule;
    rows->stride = rows->dim;
    for (size_t k = 0; k < rule->slot_count; k++) {
        if (rule->slot_kinds[k] == RULE_SLOT_PARAMETER) {
            rows->slot_at[k] = rows->stride;
            rows->stride += rows->dim;
        }
    }
    for (size_t k = 0; k < rule->slot_count; k++) {
        if (rule->slot_kinds[k] == RULE_SLOT_ROW) {
            rows->slot_at[k] = rows->stride++;
        }
    }
}

static int take_memory(struct table_rows *rows, struct err *err)
{
    const uint64_t max = rows->budget.bytes_max;
    int rc = table_budget_take(&rows->budget, rows->stride * sizeof(float), "rows of a table", err);
    if (rc != 0) {
        return rc;
    }
    rows->scratch = mem_try_aligned(rows->stride, sizeof(float), "rows of a table", err);
    if (rows->scratch == NULL) {
        return ERR_EXHAUSTED;
    }
    rc = table_index_init(&rows->index, &rows->budget, err);
    rc = rc == 0 ? table_memory_init(&rows->records, &rows->budget, max, err) : rc;
    return rc == 0 ? table_memory_init(&rows->notes, &rows->budget, max, err) : rc;
}

int table_rows_init(struct table_rows *rows, const struct table_spec *spec, struct err *err)
{
    if (spec->dim == 0 || spec->dim > TABLE_DIM_MAX) {
        return err_set(err, ERR_INVALID, "table %s: dim %zu is not in 1..%d", spec->name, spec->dim,
                       TABLE_DIM_MAX);
    }
    if (!table_takes_rule(spec->rule)) {
        return err_set(err, ERR_INVALID,
                       "table %s: rule %s looks at all of a variable and cannot update rows",
                       spec->name, spec->rule->name);
    }
    memset(rows, 0, sizeof *rows);
    rows->budget.bytes_max = spec->bytes_max;
    rows->rule = spec->rule;
    rows->init = spec->init;
    rows->init_key = rng_key(spec->seed, spec->name);
    rows->dim = spec->dim;
    rows->unused = TABLE_ROW_NONE;
    lay_out(rows);
    int rc = take_memory(rows, err);
    if (rc != 0) {
        table_rows_release(rows);
        return err_wrap(err, "table %s", spec->name);
    }
    return 0;
}

void table_rows_release(struct table_rows *rows)
{
    free(rows->scratch);
    free(rows->shaped);
    table_index_release(&rows->index);
    table_memory_release(&rows->records);
    table_memory_release(&rows->notes);
    memset(rows, 0, sizeof *rows);
}

void table_rows_begin(const struct table_rows *rows, uint64_t key, float *record)
{
    const struct rule *rule = rows->rule;
    init_fill(&rows->init, rng_key_mix(rows->init_key, key), "", 0, rows->dim, record);
    for (size_t k = 0; k < rule->slot_count; k++) {
        const size_t n = rule->slot_kinds[k] == RULE_SLOT_ROW ? 1 : rows->dim;
        for (size_t i = 0; i < n; i++) {
            record[rows->slot_at[k] + i] = rule->slot_initial[k];
        }
    }
}

/* Takes memory for one more row, whose number is @row from then on. */
static int next_row(struct table_rows *rows, uint32_t *row, struct err *err)
{
    if (rows->unused != TABLE_ROW_NONE) {
        *row = rows->unused;
        return 0;
    }
    if (rows->made == TABLE_ROW_NONE) {
        return err_set(err, ERR_EXHAUSTED, "rows of a table: no more than %u", TABLE_ROW_NONE);
    }
    const size_t n = (size_t)rows->made + 1;
    int rc =
        table_memory_grow(&rows->records, n * rows->stride * sizeof(float), "rows of a table", err);
    rc = rc == 0 ? table_memory_grow(&rows->notes, n * sizeof(struct table_note), "rows of a table",
                                     err)
                 : rc;
    *row = rows->made;
    return rc;
}

static int add_one(struct table_rows *rows, uint64_t key, uint64_t seen, struct err *err)
{
    uint32_t row = TABLE_ROW_NONE;
    int rc = next_row(rows, &row, err);
    rc = rc == 0 ? table_index_insert(&rows->index, key, row, err) : rc;
    if (rc != 0) {
        return err_wrap(err, "key %llu", (unsigned long long)key);
    }
    struct table_note *note = table_rows_note(rows, row);
    if (row == rows->made) {
        rows->made++;
    } else {
        rows->unused = note->next_unused;
    }
    *note = (struct table_note){.seen = seen};
    float *record = table_rows_record(rows, row);
    if (MUTANT(slots_of_evicted) && row + 1 < rows->made) {
        table_rows_begin(rows, key, rows->scratch);
        memcpy(record, rows->scratch, rows->dim * sizeof *record);
        return 0;
    }
    table_rows_begin(rows, key, record);
    return 0;
}

#define LOOKED_UP 64 /* keys at a time */

int table_rows_add(struct table_rows *rows, const uint64_t *keys, size_t n, uint64_t seen,
                   struct err *err)
{
    uint32_t found[LOOKED_UP];
    for (size_t at = 0, count; at < n; at += count) {
        count = n - at < LOOKED_UP ? n - at : LOOKED_UP;
        table_index_find_batch(&rows->index, keys + at, count, found);
        for (size_t i = 0; i < count; i++) {
            if (found[i] != TABLE_ROW_NONE ||
                table_index_find(&rows->index, keys[at + i]) != TABLE_ROW_NONE) {
                continue; /* the key came twice: this is the second */
            }
            int rc = add_one(rows, keys[at + i], seen, err);
            if (rc != 0) {
                return rc;
            }
        }
    }
    return 0;
}

bool table_rows_remove(struct table_rows *rows, uint64_t key)
{
    const uint32_t row = table_index_remove(&rows->index, key);
    if (row == TABLE_ROW_NONE) {
        return false;
    }
    *table_rows_note(rows, row) =
        (struct table_note){.seen = TABLE_SEEN_UNUSED, .next_unused = rows->unused};
    rows->unused = row;
    return true;
}
