/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of a job: each server has its part of a table's memory. */
#include "job/plan/plan_tables.h"

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

void plan_table_config(const struct job_spec *spec, size_t table, const struct rule_past *past,
                       uint32_t shard, uint32_t shards, struct table_config *out)
{
    const struct model_table *t = &spec->model.tables[table];
    *out = (struct table_config){
        .name = t->name,
        .seed = (uint64_t)spec->training.seed,
        .dim = (size_t)t->dim,
        .init = {.kind = (enum init_kind)t->init, .a = t->init_mean, .b = t->init_spread},
        .rule = spec->update.rule,
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
        .notes_evicted = spec->training.checkpoint_full_every > 1,
        .shard = shard,
        .shards = shards,
    };
    if (t->init == INIT_UNIFORM) {
        out->init.a = t->init_mean - t->init_spread;
        out->init.b = t->init_mean + t->init_spread;
    }
}
