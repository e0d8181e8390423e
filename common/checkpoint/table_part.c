/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of a table's parts, and the parts in memory. */
#include "checkpoint/table_part.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "base/mem.h"

const char *const table_part_words[TABLE_PART_KINDS] = {
    [TABLE_PART_ROWS] = "rows", [TABLE_PART_COUNTS] = "counts", [TABLE_PART_EVICTED] = "keys"};

static void add_column(struct table_layout *l, const char *mark, const char *name,
                       enum safetensors_dtype dtype, uint64_t width)
{
    struct table_part_column *c = &l->columns[l->column_count++];
    (void)snprintf(c->suffix, sizeof c->suffix, "%s%s", mark, name);
    c->dtype = dtype;
    c->width = width;
    l->row_bytes += table_layout_bytes(l, l->column_count - 1);
}

void table_layout_init(struct table_layout *l, const struct table_file_info *table,
                       const struct table_file_slots *slots, enum table_part_kind kind)
{
    *l = (struct table_layout){.table = table->name, .kind = kind};
    const bool counts = kind == TABLE_PART_COUNTS;
    const bool exact = table->admission == TABLE_ADMIT_COUNTED;
    if (counts && !exact && table->admission != TABLE_ADMIT_BLOOM) {
        return;
    }
    add_column(l, ".", "keys", SAFETENSORS_U64, 0);
    if (counts && exact) {
        add_column(l, ".", "counts", SAFETENSORS_U32, 0);
    } else if (counts) {
        add_column(l, ".", "counters", SAFETENSORS_U8, TABLE_BLOOM_BLOCK);
    }
    if (kind != TABLE_PART_ROWS) {
        return;
    }
    add_column(l, ".", "values", SAFETENSORS_F32, table->dim);
    l->slot_count = slots->count;
    for (size_t k = 0; k < slots->count; k++) {
        add_column(l, "#", slots->names[k], SAFETENSORS_F32,
                   slots->kinds[k] == RULE_SLOT_ROW ? 0 : table->dim);
    }
    add_column(l, ".", "seen", SAFETENSORS_U64, 0);
    add_column(l, ".", "sightings", SAFETENSORS_U32, 0);
}

uint64_t table_layout_count(const struct table_layout *l, const struct table_file_info *table)
{
    const uint64_t counts[TABLE_PART_KINDS] = {
        [TABLE_PART_ROWS] = table->rows,
        [TABLE_PART_COUNTS] = table->counts,
        [TABLE_PART_EVICTED] = table->evicted,
    };
    return counts[l->kind];
}

uint64_t table_layout_bytes(const struct table_layout *l, size_t column)
{
    const struct table_part_column *c = &l->columns[column];
    return safetensors_dtype_bytes(c->dtype) * (c->width == 0 ? 1 : c->width);
}

void table_layout_tensor(const struct table_layout *l, size_t column, uint64_t rows,
                         struct safetensors_tensor *out)
{
    if (column == l->column_count) {
        *out = (struct safetensors_tensor){.dtype = SAFETENSORS_U64, .rank = 1, .dims = {1}};
        return;
    }
    const struct table_part_column *c = &l->columns[column];
    *out = (struct safetensors_tensor){
        .dtype = c->dtype, .rank = c->width == 0 ? 1 : 2, .dims = {rows, c->width}};
}

char *table_layout_name(const struct table_layout *l, uint64_t part, size_t column)
{
    return mem_printf("%s/%c%05" PRIu64 "%s", l->table, "rce"[l->kind], part,
                      column == l->column_count ? ".sum" : l->columns[column].suffix);
}

int table_part_init(struct table_part *p, const struct table_layout *l, uint64_t capacity,
                    struct err *err)
{
    *p = (struct table_part){.layout = l, .capacity = (size_t)capacity};
    for (size_t i = 0; i < l->column_count; i++) {
        p->columns[i] =
            mem_try_aligned((size_t)capacity, (size_t)table_layout_bytes(l, i), "rows", err);
        if (p->columns[i] == NULL) {
            table_part_release(p);
            return ERR_EXHAUSTED;
        }
    }
    return 0;
}

void table_part_release(struct table_part *p)
{
    for (size_t i = 0; i < TABLE_PART_COLUMNS_MAX; i++) {
        free(p->columns[i]);
    }
    *p = (struct table_part){0};
}

static void *at(const struct table_part *p, size_t column, size_t row)
{
    return (char *)p->columns[column] + row * table_layout_bytes(p->layout, column);
}

struct table_chunk table_part_rows(const struct table_part *p, size_t first)
{
    const size_t slots = p->layout->slot_count;
    struct table_chunk chunk = {
        .capacity = p->capacity - first,
        .kept = true,
        .keys = at(p, 0, first),
        .values = at(p, 1, first),
        .seen = at(p, 2 + slots, first),
        .sightings = at(p, 3 + slots, first),
    };
    for (size_t k = 0; k < slots; k++) {
        chunk.slots[k] = at(p, 2 + k, first);
    }
    return chunk;
}

struct table_counts_chunk table_part_counts(const struct table_part *p, size_t first)
{
    const bool exact = p->layout->columns[1].dtype == SAFETENSORS_U32;
    return (struct table_counts_chunk){
        .capacity = p->capacity - first,
        .keys = at(p, 0, first),
        .counts = exact ? at(p, 1, first) : NULL,
        .counters = exact ? NULL : at(p, 1, first),
    };
}

uint64_t table_part_sum(const struct table_part *p)
{
    struct checksum *sum = checksum_new();
    for (size_t i = 0; i < p->layout->column_count; i++) {
        checksum_add(sum, p->columns[i], p->n * (size_t)table_layout_bytes(p->layout, i));
    }
    const uint64_t value = checksum_value(sum);
    checksum_free(sum);
    return value;
}
