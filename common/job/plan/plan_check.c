/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of a plan: what every plan must hold, whether it was made here or came over the wire.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "job/plan/plan_internal.h"

static int check_variable(const struct variable_spec *v, size_t index, struct err *err)
{
    size_t length = strnlen(v->name, sizeof v->name);
    if (length == 0 || length == sizeof v->name || !text_is_utf8(v->name, length)) {
        return err_set(err, ERR_INVALID, "variable %zu: its name must be 1 to %d bytes of UTF-8",
                       index, VARIABLE_NAME_BYTES - 1);
    }
    if (v->shape.rank > SHAPE_RANK_MAX) {
        return err_set(err, ERR_INVALID, "variable %s: rank %zu; at most %d", v->name,
                       v->shape.rank, SHAPE_RANK_MAX);
    }
    uint64_t count = shape_count(&v->shape);
    if (count == 0 || count > PLAN_ELEMENTS_MAX) {
        char shape[96];
        return err_set(err, ERR_INVALID,
                       "variable %s: shape %s must have from 1 to %" PRIu64 " elements", v->name,
                       shape_format(&v->shape, shape, sizeof shape), PLAN_ELEMENTS_MAX);
    }
    if ((int)v->init.kind < 0 || v->init.kind > INIT_GIVEN) {
        return err_set(err, ERR_INVALID, "variable %s: unknown initialiser %d", v->name,
                       (int)v->init.kind);
    }
    if (!(v->statistic >= 0 && v->statistic <= 1)) {
        return err_set(err, ERR_INVALID,
                       "variable %s: a statistic that goes %g of the way; from 0 to 1 would fit",
                       v->name, v->statistic);
    }
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    const struct variable_spec *const *x = a;
    const struct variable_spec *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int check_unique(const struct variable_spec *variables, size_t count, struct err *err)
{
    const struct variable_spec **sorted = mem_new(count, sizeof *sorted);
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &variables[i];
    }
    qsort(sorted, count, sizeof *sorted, compare_names);
    int rc = 0;
    for (size_t i = 1; i < count && rc == 0; i++) {
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0) {
            rc = err_set(err, ERR_INVALID, "variable %s: the name is used twice", sorted[i]->name);
        }
    }
    free(sorted);
    return rc;
}

int plan_check_variables(const struct variable_spec *variables, size_t count, struct err *err)
{
    if (count == 0 || count > PLAN_VARIABLES_MAX) {
        return err_set(err, ERR_INVALID, "%zu variables; from 1 to %d", count, PLAN_VARIABLES_MAX);
    }
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        int rc = check_variable(&variables[i], i, err);
        if (rc != 0) {
            return rc;
        }
        total += shape_count(&variables[i].shape);
    }
    if (total > PLAN_ELEMENTS_MAX) {
        return err_set(err, ERR_INVALID, "%" PRIu64 " elements in all variables; at most %" PRIu64,
                       total, PLAN_ELEMENTS_MAX);
    }
    return check_unique(variables, count, err);
}

/* @at: elements of the partition's shard before it. */
static int check_partition(const struct plan *plan, const struct partition *p, uint64_t at,
                           struct err *err)
{
    if (p->variable >= plan->variable_count) {
        return err_set(err, ERR_INVALID, "variable number %u of %zu", p->variable,
                       plan->variable_count);
    }
    const struct variable_spec *v = &plan->variables[p->variable];
    uint64_t rows = plan_rows(&v->shape);
    uint64_t row_elements = plan_row_elements(&v->shape);
    if (p->row_count == 0 || p->row_count > rows || p->row_first > rows - p->row_count) {
        return err_set(err, ERR_INVALID,
                       "%" PRIu64 " rows of %s from row %" PRIu64 ", which has %" PRIu64,
                       p->row_count, v->name, p->row_first, rows);
    }
    if (p->first != p->row_first * row_elements || p->count != p->row_count * row_elements) {
        return err_set(err, ERR_INVALID,
                       "elements %" PRIu64 "+%" PRIu64 " of %s do not fit rows %" PRIu64 "+%" PRIu64
                       " of %" PRIu64 " elements",
                       p->first, p->count, v->name, p->row_first, p->row_count, row_elements);
    }
    if (p->offset != at) {
        return err_set(err, ERR_INVALID,
                       "offset %" PRIu64 " in shard %u, whose partitions so far end at %" PRIu64,
                       p->offset, p->shard, at);
    }
    return 0;
}

static int compare_rows(const void *a, const void *b)
{
    const struct partition *const *x = a;
    const struct partition *const *y = b;
    if ((*x)->variable != (*y)->variable) {
        return (*x)->variable < (*y)->variable ? -1 : 1;
    }
    return ((*x)->row_first > (*y)->row_first) - ((*x)->row_first < (*y)->row_first);
}

/* The sorted partitions must be a walk over all rows of all variables. */
static int check_coverage(const struct plan *plan, struct err *err)
{
    const struct partition **sorted = mem_new(plan->partition_count, sizeof *sorted);
    for (size_t i = 0; i < plan->partition_count; i++) {
        sorted[i] = &plan->partitions[i];
    }
    qsort(sorted, plan->partition_count, sizeof *sorted, compare_rows);
    int rc = 0;
    size_t i = 0;
    for (uint32_t v = 0; v < plan->variable_count && rc == 0; v++) {
        uint64_t rows = plan_rows(&plan->variables[v].shape);
        uint64_t at = 0;
        while (i < plan->partition_count && sorted[i]->variable == v &&
               sorted[i]->row_first == at) {
            at += sorted[i]->row_count;
            i++;
        }
        bool twice =
            i < plan->partition_count && sorted[i]->variable == v && sorted[i]->row_first < at;
        if (twice || at != rows) {
            rc = err_set(err, ERR_INVALID, "row %" PRIu64 " of %s is in %s partition",
                         (twice ? sorted[i]->row_first : at), plan->variables[v].name,
                         twice ? "more than one" : "no");
        }
    }
    free(sorted);
    return rc;
}

static int check_partitions(struct plan *plan, struct err *err)
{
    uint32_t shard = 0;
    for (size_t i = 0; i < plan->partition_count; i++) {
        const struct partition *p = &plan->partitions[i];
        if (p->shard >= plan->shard_count || p->shard < shard) {
            return err_set(err, ERR_INVALID, "partition %zu: shard %u after %u, of %u", i, p->shard,
                           shard, plan->shard_count);
        }
        shard = p->shard;
        int rc = check_partition(plan, p, plan->shard_elements[shard], err);
        if (rc != 0) {
            (void)err_wrap(err, "partition %zu", i);
            return rc;
        }
        plan->shard_elements[shard] += p->count;
    }
    return check_coverage(plan, err);
}

int plan_check_shards(const struct plan *plan, size_t tables, struct err *err)
{
    for (uint32_t shard = 0; shard < plan->shard_count && tables == 0; shard++) {
        if (plan->shard_elements[shard] == 0) {
            return err_set(err, ERR_INVALID, "shard %u of %u is empty, and the job has no tables",
                           shard, plan->shard_count);
        }
    }
    return 0;
}

int plan_from_parts(const struct variable_spec *variables, size_t variable_count,
                    const struct partition *partitions, size_t partition_count,
                    uint32_t shard_count, struct plan *plan, struct err *err)
{
    int rc = plan_check_variables(variables, variable_count, err);
    if (rc != 0) {
        return rc;
    }
    if (shard_count == 0 || shard_count > PLAN_SHARDS_MAX || partition_count == 0 ||
        partition_count > PLAN_PARTITIONS_MAX) {
        return err_set(err, ERR_INVALID,
                       "%zu partitions on %u shards; from 1 to %d partitions on 1 to %d shards "
                       "would fit",
                       partition_count, shard_count, PLAN_PARTITIONS_MAX, PLAN_SHARDS_MAX);
    }
    struct plan made = {.variable_count = variable_count,
                        .partition_count = partition_count,
                        .shard_count = shard_count};
    made.variables = mem_new(variable_count, sizeof *made.variables);
    made.partitions = mem_new(partition_count, sizeof *made.partitions);
    made.shard_elements = mem_new(shard_count, sizeof *made.shard_elements);
    memcpy(made.variables, variables, variable_count * sizeof *variables);
    memcpy(made.partitions, partitions, partition_count * sizeof *partitions);
    rc = check_partitions(&made, err);
    if (rc != 0) {
        plan_release(&made);
        return rc;
    }
    *plan = made;
    return 0;
}
