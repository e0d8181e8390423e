/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of numbers, lists, keys, their weights, labels and weights of records, and a sum of these
 * with all that is the same for every record. */
#include "data/fingerprint.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "data/dataset_state.h"

enum { SUM_NUMBERS, SUM_LISTS, SUM_KEYS, SUM_WEIGHTS, SUM_LABELS, SUM_RECORD_WEIGHTS, SUM_COUNT };

struct fingerprint {
    struct checksum *sums[SUM_COUNT];
};

struct fingerprint *fingerprint_new(void)
{
    struct fingerprint *f = mem_new(1, sizeof *f);
    for (size_t i = 0; i < SUM_COUNT; i++) {
        f->sums[i] = checksum_new();
    }
    return f;
}

void fingerprint_free(struct fingerprint *f)
{
    for (size_t i = 0; f != NULL && i < SUM_COUNT; i++) {
        checksum_free(f->sums[i]);
    }
    free(f);
}

static void add_fields(struct fingerprint *f, const struct sparse_fields *fields)
{
    const size_t keys = (size_t)sparse_fields_keys(fields);
    if (fields->count == 0 || fields->records == 0) {
        return;
    }
    checksum_add(f->sums[SUM_LISTS], fields->ends,
                 (size_t)fields->records * fields->count * sizeof *fields->ends);
    checksum_add(f->sums[SUM_KEYS], fields->keys, keys * sizeof *fields->keys);
    if (fields->weighted) {
        checksum_add(f->sums[SUM_WEIGHTS], fields->weights, keys * sizeof *fields->weights);
    }
}

void fingerprint_add(struct fingerprint *f, const struct dataset *block)
{
    const size_t n = (size_t)block->info.records;
    if (block->bytes != NULL) {
        checksum_add(f->sums[SUM_NUMBERS], block->bytes, n * block->width);
    } else if (block->width > 0) {
        checksum_add(f->sums[SUM_NUMBERS], block->values, n * block->width * sizeof(float));
    }
    add_fields(f, &block->fields);
    if (block->classes != NULL) {
        checksum_add(f->sums[SUM_LABELS], block->classes, n * sizeof *block->classes);
    } else {
        checksum_add(f->sums[SUM_LABELS], block->targets, n * sizeof *block->targets);
    }
    if (block->weights != NULL) {
        checksum_add(f->sums[SUM_RECORD_WEIGHTS], block->weights, n * sizeof *block->weights);
    }
}

uint64_t fingerprint_value(const struct fingerprint *f, const struct dataset *like,
                           uint64_t records)
{
    const struct dataset_info *info = &like->info;
    struct checksum *c = checksum_new();
    uint64_t head[3 + SHAPE_RANK_MAX] = {records, info->classes, info->features.rank};
    memcpy(head + 3, info->features.dims, info->features.rank * sizeof head[0]);
    checksum_add(c, head, sizeof head);
    const size_t sums = info->weighted ? SUM_COUNT : SUM_RECORD_WEIGHTS;
    for (size_t i = 0; i < sums; i++) {
        const uint64_t sum = checksum_value(f->sums[i]);
        checksum_add(c, &sum, sizeof sum);
    }
    if (like->bytes != NULL) {
        size_t factors = like->scaling.uniform ? 1 : like->scaling.count;
        checksum_add(c, like->scaling.shift, factors * sizeof(float));
        checksum_add(c, like->scaling.factor, factors * sizeof(float));
    }
    for (size_t i = 0; i < like->fields.count; i++) {
        const struct sparse_field *field = &like->fields.fields[i];
        const uint32_t numbers[2] = {field->width, (uint32_t)field->fold};
        checksum_add(c, field->name, strlen(field->name) + 1);
        checksum_add(c, numbers, sizeof numbers);
    }
    if (!info->label_is_class) {
        const double units[2] = {info->label_scale, info->label_offset};
        checksum_add(c, units, sizeof units);
    }
    const uint64_t value = checksum_value(c);
    checksum_free(c);
    return value;
}
