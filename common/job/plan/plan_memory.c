/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the floats that a shard needs by the job's mode, rule and number of workers: values,
 * slots, versions that workers hold, gradients that wait to be summed. */
#include "job/plan/plan_memory.h"

#include "base/mutant.h"
#include "job/progress/tree.h"

size_t plan_memory_bases(const struct update_spec *spec, const struct consistency *c,
                         size_t workers)
{
    bool keeps = c->policy == POLICY_DELAY_COMPENSATION || spec->rule->base != RULE_BASE_NONE;
    return c->mode == TRAINING_SYNC || !keeps ? 0 : workers;
}

size_t plan_memory_base_slots(const struct update_spec *spec, size_t bases)
{
    return spec->rule->base == RULE_BASE_SLOT && bases > 0 ? bases + 1 : 0;
}

size_t plan_memory_gradients(const struct consistency *c, size_t workers, uint32_t rounds)
{
    size_t waiting = 0;
    if (c->mode == TRAINING_SYNC && consistency_is_partial(c)) {
        waiting = MUTANT(budget_reserve_of_some) ? c->aggregate : c->replicas;
    } else if (c->mode == TRAINING_SYNC) {
        size_t of_shares = workers * tree_cover_max(c->replicas);
        waiting = tree_waiting_max(c->replicas);
        waiting = !consistency_is_nonblocking(c) && of_shares < waiting ? of_shares : waiting;
        waiting = rounds > 0 && waiting == 0 && !MUTANT(budget_no_room_for_totals) ? 1 : waiting;
    }
    return waiting + (MUTANT(budget_reserve_short) ? 0 : 1);
}

uint64_t plan_memory_version(uint64_t elements, enum value_type type)
{
    return elements + (type == VALUE_FP32 ? 0 : (elements + 1) / 2);
}

/* Floats that a server's part of the job's tables takes. */
static uint64_t tables_of(const struct job_spec *spec, uint32_t shards)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < spec->model.table_count; i++) {
        const struct model_table *t = &spec->model.tables[i];
        bytes += ((uint64_t)t->memory_bytes + (uint64_t)t->copies_bytes) / shards;
    }
    return bytes / sizeof(float);
}

void plan_memory_of(const struct update *u, const struct job_spec *spec,
                    const struct consistency *c, const struct plan *plan, uint32_t shard,
                    size_t workers, uint32_t rounds, struct plan_memory *out)
{
    const uint64_t elements = plan->shard_elements[shard];
    const size_t bases = plan_memory_bases(&spec->update, c, workers);
    const size_t base_slots = plan_memory_base_slots(&spec->update, bases);
    const uint64_t version =
        plan_memory_version(elements, (enum value_type)spec->training.wire_parameters);
    *out = (struct plan_memory){
        .values = 2 * version,
        .bases = bases * version,
        .gradients = plan_memory_gradients(c, workers, rounds) * elements,
        .tables = tables_of(spec, plan->shard_count),
    };
    if (base_slots > 0) {
        out->bases += base_slots * update_slot_floats(u, 0);
    }
    if (update_needs_gradient(u)) {
        out->gradients += elements;
    }
    out->total = out->values + out->bases + out->gradients + out->tables;
    for (size_t k = 0; k < update_slot_count(u); k++) {
        out->slots[k] = update_slot_floats(u, k);
        out->pins += out->slots[k];
    }
    out->total += 2 * out->pins; /* the slots, and their copy */
    if (spec->cluster.standby != STANDBY_NONE && plan->shard_count > 1) {
        /* the same, and one more version, which may be pinned: on a backup no update waits */
        out->standby = out->total + version + elements;
        out->total += out->standby;
    }
}
