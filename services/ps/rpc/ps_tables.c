/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the tables of a shard, as the job file says, and shows their part of the server's meters.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "job/plan/plan_tables.h"
#include "ps/rpc/ps_rows.h"

/* Owned: one for each table. */
static struct table_config *configs_of(const struct ps_shard *s)
{
    const struct model_spec *model = &s->spec.model;
    struct table_config *configs = mem_new(model->table_count, sizeof *configs);
    for (size_t i = 0; i < model->table_count; i++) {
        plan_table_config(&s->spec, i, &s->pasts[i], s->number, s->plan.shard_count, &configs[i]);
    }
    return configs;
}

int ps_tables_open(struct ps_shard *s, uint64_t version, struct err *err)
{
    const struct model_spec *model = &s->spec.model;
    if (model->table_count == 0) {
        return 0;
    }
    s->pasts = mem_new(model->table_count, sizeof *s->pasts);
    for (size_t i = 0; i < model->table_count; i++) {
        if (model->tables[i].catch_up) {
            struct update *newest = s->eras.items[s->eras.count - 1].update;
            update_past(newest, model->tables[i].name, &s->pasts[i]);
        }
    }
    struct table_config *configs = configs_of(s);
    int rc =
        shard_tables_new(configs, model->table_count, version, &s->ps->budget, &s->tables, err);
    free(configs);
    ps_tables_follow(s);
    return rc;
}

int ps_tables_renew(struct ps_shard *s, uint64_t version, struct err *err)
{
    struct table_config *configs = configs_of(s);
    int rc = shard_tables_renew(s->tables, configs, version, err);
    free(configs);
    return rc;
}

void ps_tables_follow(struct ps_shard *s)
{
    if (s->tables != NULL && !s->let_go) {
        shard_tables_keep_previous(s->tables, s->consistency.mode == TRAINING_SYNC);
    }
}

/* Sums up all tables of @s; nothing when the shard is gone. */
static void sum_up(const struct ps_shard *s, struct table_stats *sum)
{
    for (size_t i = 0; !s->let_go && i < s->tables->count; i++) {
        struct table_stats t = {0};
        if (s->tables->tables[i] != NULL) {
            table_stats(s->tables->tables[i], &t);
        }
        sum->rows += t.rows;
        sum->bytes += t.bytes + t.copies_bytes;
        sum->admitted += t.admitted;
        sum->evicted += t.evicted;
        sum->dropped += t.dropped;
        sum->updated += t.updated;
        sum->read += t.read;
    }
}

void ps_tables_show(struct ps_shard *s)
{
    const struct ps_meters *m = &s->ps->meters;
    const struct table_stats *shown = &s->tables_shown;
    struct table_stats now = {0};
    if (s->tables == NULL) {
        return;
    }
    sum_up(s, &now);
    meter_change(m->table_rows, (double)now.rows - (double)shown->rows);
    meter_change(m->table_bytes, (double)now.bytes - (double)shown->bytes);
    if (!s->let_go) {
        meter_add(m->rows_admitted, now.admitted - shown->admitted);
        meter_add(m->rows_evicted, now.evicted - shown->evicted);
        meter_add(m->rows_dropped, now.dropped - shown->dropped);
        meter_add(m->rows_updated, now.updated - shown->updated);
        meter_add(m->rows_read, now.read - shown->read);
    }
    s->tables_shown = now;
}
