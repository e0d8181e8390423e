/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the tables of a shard, as the job file says: each server has its part of a table's memory.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "ps/rpc/ps_rows.h"

_Static_assert((int)ADMIT_ALL == (int)TABLE_ADMIT_ALL &&
                   (int)ADMIT_PROBABILITY == (int)TABLE_ADMIT_PROBABILITY &&
                   (int)EVICT_LEAST_FREQUENT == (int)TABLE_LEAST_FREQUENT &&
                   (int)FULL_EVICT == (int)TABLE_FULL_EVICT,
               "the job file and the tables number these alike");

static uint64_t part_of(int64_t bytes, uint32_t shards)
{
    return (uint64_t)bytes / shards;
}

static struct table_admission_spec admission_of(const struct model_table *t, uint32_t shards)
{
    const bool counted = t->admission == ADMIT_COUNTED;
    return (struct table_admission_spec){
        .kind = (enum table_admission_kind)t->admission,
        .sightings = (uint32_t)t->sightings,
        .bytes = counted ? part_of(t->admission_bytes, shards) : (uint64_t)t->admission_bytes,
        .probability = t->probability,
    };
}

static void fill(const struct ps_shard *s, const struct model_table *t, struct rule_past *past,
                 struct table_config *c)
{
    const uint32_t shards = s->plan.shard_count;
    if (t->catch_up) {
        update_past(s->update, t->name, past);
    }
    *c = (struct table_config){
        .name = t->name,
        .seed = (uint64_t)s->spec.training.seed,
        .dim = (size_t)t->dim,
        .init = {.kind = (enum init_kind)t->init, .a = t->init_mean, .b = t->init_spread},
        .rule = s->spec.update.rule,
        .past = t->catch_up ? past : NULL,
        .admission = admission_of(t, shards),
        .eviction = {.every = (uint64_t)t->evict_every,
                     .unseen = (uint64_t)t->evict_unseen,
                     .rows_max = (uint64_t)t->rows_max,
                     .least = (enum table_least)t->evict_least},
        .on_full = (enum table_full)t->on_full,
        .bytes_max = part_of(t->memory_bytes, shards),
        .copies_bytes_max = part_of(t->copies_bytes, shards),
        .keeps_previous = true,
        .shard = s->number,
        .shards = shards,
    };
    if (t->init == INIT_UNIFORM) {
        c->init.a = t->init_mean - t->init_spread;
        c->init.b = t->init_mean + t->init_spread;
    }
}

int ps_tables_open(struct ps_shard *s, uint64_t version, struct err *err)
{
    const struct model_spec *model = &s->spec.model;
    if (model->table_count == 0) {
        return 0;
    }
    struct table_config *configs = mem_new(model->table_count, sizeof *configs);
    s->pasts = mem_new(model->table_count, sizeof *s->pasts);
    for (size_t i = 0; i < model->table_count; i++) {
        fill(s, &model->tables[i], &s->pasts[i], &configs[i]);
    }
    int rc =
        shard_tables_new(configs, model->table_count, version, &s->ps->budget, &s->tables, err);
    free(configs);
    return rc;
}
