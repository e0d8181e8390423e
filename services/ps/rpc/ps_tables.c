/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the tables of a shard, as the job file says. */
#include <stdlib.h>

#include "base/mem.h"
#include "job/plan/plan_tables.h"
#include "ps/rpc/ps_rows.h"

int ps_tables_open(struct ps_shard *s, uint64_t version, struct err *err)
{
    const struct model_spec *model = &s->spec.model;
    if (model->table_count == 0) {
        return 0;
    }
    struct table_config *configs = mem_new(model->table_count, sizeof *configs);
    s->pasts = mem_new(model->table_count, sizeof *s->pasts);
    for (size_t i = 0; i < model->table_count; i++) {
        if (model->tables[i].catch_up) {
            update_past(s->update, model->tables[i].name, &s->pasts[i]);
        }
        plan_table_config(&s->spec, i, &s->pasts[i], s->number, s->plan.shard_count, &configs[i]);
    }
    int rc =
        shard_tables_new(configs, model->table_count, version, &s->ps->budget, &s->tables, err);
    free(configs);
    return rc;
}
