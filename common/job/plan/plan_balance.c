/* SPDX-License-Identifier: Apache-2.0 */
/* The balanced partitioner: large variables are cut, so that every shard has about as many bytes.
 *
 * A variable gets a part on each of the shards that hold least by then, and so many rows there that
 * these shards are level afterwards. Variables that cannot be cut come first, the largest of them
 * first; those with the shortest rows come last, because they even out best what the others left.
 * So a shard differs from the mean by no more than half a row of the last variable that is cut over
 * all shards, however uneven the others are. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/plan/plan_internal.h"

struct load { /* of one shard, while plans are made */
    uint32_t shard;
    uint64_t elements;
    uint64_t rows; /* rows of the variable that is being placed */
};

struct cuttable {
    uint32_t variable;
    uint64_t rows, row_elements;
    uint32_t parts; /* at most */
};

/* The largest number of shards for a variable: none of its parts is much shorter than half of
 * @slice bytes. */
static uint32_t part_count(const struct cluster_spec *c, const struct shape *shape, uint64_t slice)
{
    uint64_t bytes = shape_count(shape) * sizeof(float);
    uint64_t most = bytes / slice + (bytes % slice != 0 ? 1 : 0);
    most = c->whole_variables ? 1 : most;
    most = most > plan_rows(shape) ? plan_rows(shape) : most;
    most = c->partitions > 0 && most > (uint64_t)c->partitions ? (uint64_t)c->partitions : most;
    return most > (uint64_t)c->ps ? (uint32_t)c->ps : (uint32_t)most;
}

static int compare_cuttable(const void *a, const void *b)
{
    const struct cuttable *x = a;
    const struct cuttable *y = b;
    uint64_t x_elements = x->rows * x->row_elements;
    uint64_t y_elements = y->rows * y->row_elements;
    if (x->parts != y->parts) {
        return x->parts < y->parts ? -1 : 1;
    }
    if (x->parts > 1 && x->row_elements != y->row_elements) {
        return x->row_elements > y->row_elements ? -1 : 1;
    }
    if (x_elements != y_elements) {
        return x_elements > y_elements ? -1 : 1;
    }
    return x->variable < y->variable ? -1 : 1;
}

static int compare_load(const void *a, const void *b)
{
    const struct load *x = a;
    const struct load *y = b;
    if (x->elements != y->elements) {
        return x->elements < y->elements ? -1 : 1;
    }
    return x->shard < y->shard ? -1 : 1;
}

static int compare_number(const void *a, const void *b)
{
    const struct load *x = a;
    const struct load *y = b;
    return (x->shard > y->shard) - (x->shard < y->shard);
}

/* What the first @count of @loads, which ascend, hold when @elements more have made them level. */
static uint64_t level_of(const struct load *loads, uint32_t count, uint64_t elements)
{
    uint64_t sum = elements;
    uint64_t level = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += loads[i].elements;
        level = sum / (i + 1);
        if (i + 1 == count || level <= loads[i + 1].elements) {
            break;
        }
    }
    return level;
}

/* Rows of @v for the first @v->parts of @loads, which ascend. */
static void share_rows(const struct cuttable *v, struct load *loads)
{
    uint64_t level = level_of(loads, v->parts, v->rows * v->row_elements);
    uint64_t left = v->rows;
    for (uint32_t i = 0; i < v->parts; i++) {
        struct load *l = &loads[i];
        l->rows = level > l->elements ? (level - l->elements) / v->row_elements : 0;
        l->rows = l->rows < left ? l->rows : left;
        l->elements += l->rows * v->row_elements;
        left -= l->rows;
    }
    while (left > 0) { /* rows that rounding left over, fewer than there are parts */
        struct load *least = &loads[0];
        for (uint32_t i = 1; i < v->parts; i++) {
            least = loads[i].elements < least->elements ? &loads[i] : least;
        }
        least->rows++;
        least->elements += v->row_elements;
        left--;
    }
}

static void add_parts(struct plan *plan, const struct cuttable *v, const struct load *loads)
{
    uint64_t row = 0;
    for (uint32_t i = 0; i < v->parts; i++) {
        if (loads[i].rows == 0) {
            continue;
        }
        plan->partitions[plan->partition_count++] = (struct partition){
            .variable = v->variable,
            .shard = loads[i].shard,
            .row_first = row,
            .row_count = loads[i].rows,
            .first = row * v->row_elements,
            .count = loads[i].rows * v->row_elements,
        };
        row += loads[i].rows;
    }
}

/* The plan with parts of @slice bytes; false: a shard is left empty. */
static bool try_slice(const struct cluster_spec *c, uint64_t slice, struct plan *plan)
{
    struct cuttable *order = mem_new(plan->variable_count, sizeof *order);
    struct load *loads = mem_new(plan->shard_count, sizeof *loads);
    size_t parts = 0;
    for (uint32_t v = 0; v < plan->variable_count; v++) {
        const struct shape *shape = &plan->variables[v].shape;
        order[v] = (struct cuttable){v, plan_rows(shape), plan_row_elements(shape),
                                     part_count(c, shape, slice)};
        parts += order[v].parts;
    }
    for (uint32_t s = 0; s < plan->shard_count; s++) {
        loads[s].shard = s;
    }
    free(plan->partitions);
    plan->partitions = mem_new(parts, sizeof *plan->partitions);
    plan->partition_count = 0;
    qsort(order, plan->variable_count, sizeof *order, compare_cuttable);
    for (size_t i = 0; i < plan->variable_count; i++) {
        qsort(loads, plan->shard_count, sizeof *loads, compare_load);
        share_rows(&order[i], loads);
        qsort(loads, order[i].parts, sizeof *loads, compare_number); /* rows ascend with shards */
        add_parts(plan, &order[i], loads);
    }
    bool full = true;
    for (uint32_t s = 0; s < plan->shard_count; s++) {
        plan->shard_elements[loads[s].shard] = loads[s].elements;
        full = full && loads[s].elements > 0;
    }
    free(order);
    free(loads);
    return full;
}

void plan_balance(const struct cluster_spec *cluster, bool may_be_empty, struct plan *plan)
{
    uint64_t slice = (uint64_t)cluster->slice_bytes;
    bool full = try_slice(cluster, slice, plan);
    while (!full && slice > sizeof(float)) {
        slice /= 2; /* the model is too small to fill all shards with parts so long */
        full = try_slice(cluster, slice, plan);
    }
    if (!full && may_be_empty) { /* cutting would gain nothing */
        (void)try_slice(cluster, (uint64_t)cluster->slice_bytes, plan);
    }
}
