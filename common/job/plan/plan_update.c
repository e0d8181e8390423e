/* SPDX-License-Identifier: Apache-2.0 */
/* Translates the partitions of a plan into the variables and parts that rule/update works on,
 * which knows nothing of plans. */
#include "job/plan/plan_update.h"

#include <stdlib.h>

#include "base/mem.h"

static struct update_variable *variables_of(const struct plan *plan)
{
    struct update_variable *v = mem_new(plan->variable_count, sizeof *v);
    for (size_t i = 0; i < plan->variable_count; i++) {
        const struct variable_spec *spec = &plan->variables[i];
        v[i] = (struct update_variable){
            .name = spec->name,
            .elements = shape_count(&spec->shape),
            .width = (size_t)plan_row_elements(&spec->shape),
            .statistic = (float)spec->statistic,
        };
    }
    return v;
}

int plan_update_shard(const struct plan *plan, const struct update_spec *spec, uint32_t shard,
                      struct update **out, struct err *err)
{
    size_t count;
    const struct partition *p = plan_shard(plan, shard, &count);
    struct update_variable *variables = variables_of(plan);
    struct update_part *parts = mem_new(count, sizeof *parts);
    for (size_t i = 0; i < count; i++) {
        parts[i] = (struct update_part){p[i].variable, p[i].first, p[i].count, p[i].offset};
    }
    int rc = update_new(spec, variables, plan->variable_count, parts, count, out, err);
    free(parts);
    free(variables);
    return rc;
}

int plan_update_whole(const struct plan *plan, const struct update_spec *spec, struct update **out,
                      struct err *err)
{
    struct update_variable *variables = variables_of(plan);
    struct update_part *parts = mem_new(plan->variable_count, sizeof *parts);
    uint64_t at = 0;
    for (size_t i = 0; i < plan->variable_count; i++) {
        parts[i] = (struct update_part){(uint32_t)i, 0, variables[i].elements, at};
        at += variables[i].elements;
    }
    size_t count = plan->variable_count;
    int rc = update_new(spec, variables, count, parts, count, out, err);
    free(parts);
    free(variables);
    return rc;
}

int plan_update_check(const struct plan *plan, const struct update_spec *spec, struct err *err)
{
    struct update_variable *variables = variables_of(plan);
    int rc = update_spec_check(spec, variables, plan->variable_count, err);
    free(variables);
    return rc;
}

uint32_t plan_update_rounds(const struct plan *plan, const struct update *update)
{
    return plan->shard_count > 1 ? update_rounds(update) : 0;
}
