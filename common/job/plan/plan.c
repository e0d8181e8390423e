/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the plan of a job in three steps: cut variables into partitions, place those on shards,
 * lay out each shard's buffer by variable and row. The same input gives the same plan on any
 * node. */
#include "job/plan/plan.h"

#include <stdlib.h>

#include "base/mem.h"
#include "job/plan/plan_internal.h"

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0 ? 1 : 0);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* How many parts the partitioner cuts a variable into: TensorFlow's fixed_size, min_max_variable
 * and variable_axis_size partitioners (python/ops/partitioned_variables.py), along axis 0. */
static uint64_t part_count(const struct cluster_spec *c, const struct shape *shape)
{
    uint64_t rows = plan_rows(shape);
    uint64_t row_bytes = plan_row_elements(shape) * sizeof(float);
    uint64_t most = c->partitions == 0 ? rows : min_u64(rows, (uint64_t)c->partitions);
    uint64_t slice = (uint64_t)c->slice_bytes;
    switch ((enum partitioner)c->partitioner) {
    case PARTITIONER_MIN_SLICE:
        return min_u64(most, ceil_div(rows * row_bytes, slice));
    case PARTITIONER_MAX_SLICE:
        return min_u64(most, ceil_div(rows, row_bytes < slice ? slice / row_bytes : 1));
    case PARTITIONER_FIXED:
    case PARTITIONER_BALANCED: /* plan_balance() */
        break;
    }
    return most;
}

static int check_cluster(const struct cluster_spec *c, struct err *err)
{
    if (c->ps < 1 || c->ps > PLAN_SHARDS_MAX) {
        return err_set(err, ERR_INVALID, "%lld parameter servers; from 1 to %d", (long long)c->ps,
                       PLAN_SHARDS_MAX);
    }
    if (c->partitioner < PARTITIONER_FIXED || c->partitioner > PARTITIONER_BALANCED) {
        return err_set(err, ERR_INVALID, "unknown partitioner %d", c->partitioner);
    }
    int64_t least = c->partitioner == PARTITIONER_FIXED ? 1 : 0;
    if (c->partitions < least) {
        return err_set(err, ERR_INVALID, "%lld partitions; at least %lld", (long long)c->partitions,
                       (long long)least);
    }
    if (c->partitioner != PARTITIONER_FIXED && c->slice_bytes < 1) {
        return err_set(err, ERR_INVALID, "slices of %lld bytes; at least 1",
                       (long long)c->slice_bytes);
    }
    return 0;
}

/* Cut every variable; the first (rows mod parts) parts have one row more. */
static int cut(const struct cluster_spec *cluster, struct plan *plan, struct err *err)
{
    uint64_t total = 0;
    for (size_t v = 0; v < plan->variable_count; v++) {
        total += part_count(cluster, &plan->variables[v].shape);
        if (total > PLAN_PARTITIONS_MAX) {
            return err_set(err, ERR_INVALID,
                           "more than %d partitions at variable %s; use longer slices",
                           PLAN_PARTITIONS_MAX, plan->variables[v].name);
        }
    }
    plan->partitions = mem_new((size_t)total, sizeof *plan->partitions);
    for (uint32_t v = 0; v < plan->variable_count; v++) {
        const struct shape *shape = &plan->variables[v].shape;
        uint64_t parts = part_count(cluster, shape);
        uint64_t rows = plan_rows(shape);
        uint64_t row_elements = plan_row_elements(shape);
        uint64_t row = 0;
        for (uint64_t i = 0; i < parts; i++) {
            uint64_t n = rows / parts + (i < rows % parts ? 1 : 0);
            plan->partitions[plan->partition_count++] = (struct partition){
                .variable = v,
                .row_first = row,
                .row_count = n,
                .first = row * row_elements,
                .count = n * row_elements,
            };
            row += n;
        }
    }
    return 0;
}

/* By variable, then rows. */
static int compare_position(const struct partition *x, const struct partition *y)
{
    if (x->variable != y->variable) {
        return x->variable < y->variable ? -1 : 1;
    }
    return (x->row_first > y->row_first) - (x->row_first < y->row_first);
}

static int compare_size(const void *a, const void *b)
{
    const struct partition *x = a;
    const struct partition *y = b;
    if (x->count != y->count) {
        return x->count > y->count ? -1 : 1;
    }
    return compare_position(x, y);
}

static int compare_shard(const void *a, const void *b)
{
    const struct partition *x = a;
    const struct partition *y = b;
    if (x->shard != y->shard) {
        return x->shard < y->shard ? -1 : 1;
    }
    return compare_position(x, y);
}

/* Largest first onto the least loaded shard: at most 4/3 − 1/(3n) of the best possible maximum
 * (Graham, "Bounds on multiprocessing timing anomalies", 1969). */
static void place(struct plan *plan)
{
    qsort(plan->partitions, plan->partition_count, sizeof *plan->partitions, compare_size);
    for (size_t i = 0; i < plan->partition_count; i++) {
        uint32_t least = 0;
        for (uint32_t s = 1; s < plan->shard_count; s++) {
            if (plan->shard_elements[s] < plan->shard_elements[least]) {
                least = s;
            }
        }
        plan->partitions[i].shard = least;
        plan->shard_elements[least] += plan->partitions[i].count;
    }
}

/* The places in the shards' buffers, in the order of variables and rows. */
static void lay_out(struct plan *plan)
{
    qsort(plan->partitions, plan->partition_count, sizeof *plan->partitions, compare_shard);
    for (size_t i = 0; i < plan->partition_count; i++) {
        struct partition *p = &plan->partitions[i];
        bool starts = i == 0 || p[-1].shard != p->shard;
        p->offset = starts ? 0 : p[-1].offset + p[-1].count;
    }
}

static int distribute(const struct cluster_spec *cluster, size_t tables, struct plan *plan,
                      struct err *err)
{
    bool balanced = cluster->partitioner == PARTITIONER_BALANCED;
    int rc = balanced ? 0 : cut(cluster, plan, err);
    if (rc == 0 && balanced) {
        plan_balance(cluster, tables > 0, plan);
    }
    if (rc == 0 && tables == 0 && plan->partition_count < plan->shard_count) {
        rc =
            err_set(err, ERR_INVALID,
                    "%zu partitions cannot fill %u parameter servers; use fewer of them or cut the "
                    "variables into more partitions",
                    plan->partition_count, plan->shard_count);
    }
    if (rc == 0 && !balanced) {
        place(plan);
    }
    return rc;
}

static int make(const struct variable_spec *variables, size_t count,
                const struct cluster_spec *cluster, size_t tables, struct plan *plan,
                struct err *err)
{
    int rc = plan_check_variables(variables, count, err);
    if (rc == 0) {
        rc = check_cluster(cluster, err);
    }
    if (rc != 0) {
        return rc;
    }
    struct plan made = {.variable_count = count, .shard_count = (uint32_t)cluster->ps};
    made.variables = mem_new(count, sizeof *made.variables);
    made.shard_elements = mem_new(made.shard_count, sizeof *made.shard_elements);
    for (size_t i = 0; i < count; i++) {
        made.variables[i] = variables[i];
    }
    rc = distribute(cluster, tables, &made, err);
    if (rc != 0) {
        plan_release(&made);
        return rc;
    }
    lay_out(&made);
    *plan = made;
    return 0;
}

int plan_make(const struct variable_spec *variables, size_t count,
              const struct cluster_spec *cluster, struct plan *plan, struct err *err)
{
    return make(variables, count, cluster, 0, plan, err);
}

int plan_make_job(const struct variable_spec *variables, size_t count, const struct job_spec *spec,
                  struct plan *plan, struct err *err)
{
    return make(variables, count, &spec->cluster, spec->model.table_count, plan, err);
}
