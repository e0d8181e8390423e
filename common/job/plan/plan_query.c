/* SPDX-License-Identifier: Apache-2.0 */
/* Answers questions about a plan: rows and parts, places in the shards, the table that users see.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "job/plan/plan.h"
#include "job/plan/plan_internal.h"

uint64_t plan_rows(const struct shape *shape)
{
    return shape->rank == 0 ? 1 : shape->dims[0];
}

uint64_t plan_row_elements(const struct shape *shape)
{
    uint64_t rows = plan_rows(shape);
    return rows == 0 ? 0 : shape_count(shape) / rows;
}

void plan_release(struct plan *plan)
{
    free(plan->variables);
    free(plan->partitions);
    free(plan->shard_elements);
    *plan = (struct plan){0};
}

bool plan_cuts(const struct plan *plan)
{
    return plan->partition_count > plan->variable_count;
}

bool plan_is_given(const struct plan *plan)
{
    for (size_t i = 0; i < plan->variable_count; i++) {
        if (plan->variables[i].init.kind == INIT_GIVEN) {
            return true;
        }
    }
    return false;
}

/* The first partition of @shard or of one after it. */
static size_t shard_begin(const struct plan *plan, uint32_t shard)
{
    size_t lo = 0;
    size_t hi = plan->partition_count;
    while (lo < hi) {
        size_t middle = lo + (hi - lo) / 2;
        if (plan->partitions[middle].shard < shard) {
            lo = middle + 1;
        } else {
            hi = middle;
        }
    }
    return lo;
}

const struct partition *plan_shard(const struct plan *plan, uint32_t shard, size_t *count)
{
    if (shard >= plan->shard_count) {
        *count = 0;
        return NULL;
    }
    size_t first = shard_begin(plan, shard);
    *count = shard_begin(plan, shard + 1) - first;
    return plan->partitions + first;
}

const struct partition *plan_at(const struct plan *plan, uint32_t shard, uint64_t at)
{
    size_t count;
    const struct partition *p = plan_shard(plan, shard, &count);
    size_t i = 0;
    while (i + 1 < count && at >= p[i + 1].offset) {
        i++;
    }
    return count == 0 ? NULL : &p[i];
}

void plan_format(const struct plan *plan, struct buf *out)
{
    int width = 8;
    uint64_t elements = 0;
    char text[96];
    for (size_t v = 0; v < plan->variable_count; v++) {
        int n = (int)strlen(plan->variables[v].name);
        width = n > width ? n : width;
        elements += shape_count(&plan->variables[v].shape);
    }
    buf_printf(out, "%zu variables in %zu partitions on %u parameter servers, %s\n",
               plan->variable_count, plan->partition_count, plan->shard_count,
               text_bytes(elements * sizeof(float), text, sizeof text));
    buf_printf(out, "%-3s  %-*s  %-14s  %-13s  %10s  %10s\n", "PS", width, "VARIABLE", "SHAPE",
               "ROWS", "ELEMENTS", "BYTES");
    for (uint32_t s = 0; s < plan->shard_count; s++) {
        size_t count;
        const struct partition *p = plan_shard(plan, s, &count);
        for (size_t i = 0; i < count; i++) {
            const struct variable_spec *v = &plan->variables[p[i].variable];
            char rows[48];
            (void)snprintf(rows, sizeof rows, "%" PRIu64 "..%" PRIu64, p[i].row_first,
                           (p[i].row_first + p[i].row_count - 1));
            buf_printf(out, "%-3u  %-*s  %-14s", s, width, v->name,
                       shape_format(&v->shape, text, sizeof text));
            buf_printf(out, "  %-13s  %10" PRIu64 "  %10s\n", rows, p[i].count,
                       text_bytes(p[i].count * sizeof(float), text, sizeof text));
        }
        buf_printf(out, "%-3u  %-*s  %-14s  %-13s  %10" PRIu64 "  %10s\n", s, width, "total", "",
                   "", plan->shard_elements[s],
                   text_bytes(plan->shard_elements[s] * sizeof(float), text, sizeof text));
    }
}
