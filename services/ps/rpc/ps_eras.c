/* SPDX-License-Identifier: Apache-2.0 */
/* The eras of a shard: for each update section that the job has, or had, an update over the same
 * variables and slots. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/spec/job_era.h"
#include "ps/rpc/ps_shell.h"

static void run_shared(void *team, size_t count, void (*one)(void *ctx, size_t i),
                       void (*done)(void *ctx, size_t n), void *ctx)
{
    parallel_for(team, count, one, done, ctx);
}

static int make_update(const struct ps_shard *s, struct ps_era *e, struct err *err)
{
    const size_t tables = s->spec.model.table_count;
    int rc = plan_update_shard(&s->plan, &e->spec, s->number, &e->update, err);
    if (rc != 0) {
        return rc;
    }
    update_add_tables(e->update, tables, s->plan.shard_count == 1);
    if (s->elements >= PS_SHARED_FLOATS_MIN) {
        const struct update_team team = {run_shared, s->ps->team, thread_team_size(s->ps->team)};
        rc = update_share(e->update, &team, err);
    }
    return rc;
}

static int add(const struct ps_shard *s, struct ps_eras *out, uint64_t version, const char *section,
               struct err *err)
{
    struct ps_era *e = &out->items[out->count];
    int rc = job_update_parse(section, &s->spec, &e->spec, err);
    if (rc == 0 && out->count > 0 && e->spec.rule != out->items[0].spec.rule) {
        rc = err_set(err, ERR_INVALID, "the rule becomes %s; it is fixed", e->spec.rule->name);
    }
    if (rc != 0) {
        update_spec_release(&e->spec);
        return rc;
    }
    e->text = mem_strdup(section);
    e->spec.records = s->records;
    out->count++; /* released with the others from here on */
    rc = make_update(s, e, err);
    if (rc != 0) {
        return rc;
    }
    if (out->count > 1) {
        update_follows(e->update, out->items[out->count - 2].update, version);
    }
    out->eras[out->count - 1] =
        (struct era){.version = version, .rounds = plan_update_rounds(&s->plan, e->update)};
    out->needs_norms = out->needs_norms || update_needs_norms(e->update);
    return 0;
}

int ps_eras_make(const struct ps_shard *s, Gradus__V1__Era *const *list, size_t count,
                 struct ps_eras *out, struct err *err)
{
    if (count > ERAS_MAX) {
        return err_set(err, ERR_INVALID, "%zu eras; at most %d", count, ERAS_MAX);
    }
    *out = (struct ps_eras){.items = mem_new(count + 1, sizeof *out->items),
                            .eras = mem_new(count + 1, sizeof *out->eras)};
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = add(s, out, list[i]->version, list[i]->update, err);
    }
    if (count == 0) { /* of a master that knows no others */
        char *section = job_update_section(s->spec.text);
        rc = add(s, out, 0, section, err);
        free(section);
    }
    rc = rc != 0 ? rc : era_check(out->eras, out->count, SHARD_ROUNDS_MAX, err);
    if (rc != 0) {
        ps_eras_release(out);
        return err_wrap(err, "eras");
    }
    return 0;
}

void ps_eras_release(struct ps_eras *e)
{
    for (size_t i = e->count; i-- > 0;) { /* each borrows from the one before it */
        update_free(e->items[i].update);
        update_spec_release(&e->items[i].spec);
        free(e->items[i].text);
    }
    free(e->items);
    free(e->eras);
    *e = (struct ps_eras){0};
}

void ps_eras_take(struct ps_shard *s, struct ps_eras *from, uint64_t version)
{
    if (s->slots_of == NULL) {
        s->slots_of = from->items[0].update;
    } else if (s->first_eras.count == 0) {
        s->first_eras = s->eras;
    } else {
        ps_eras_release(&s->eras);
    }
    s->eras = *from;
    *from = (struct ps_eras){0};
    ps_era_of(s, era_at(s->eras.eras, s->eras.count, version));
    struct update *newest = s->eras.items[s->eras.count - 1].update;
    for (size_t i = 0; s->pasts != NULL && i < s->spec.model.table_count; i++) {
        if (s->spec.model.tables[i].catch_up) {
            update_past(newest, s->spec.model.tables[i].name, &s->pasts[i]);
        }
    }
}

void ps_era_of(struct ps_shard *s, size_t era)
{
    s->era = &s->eras.items[era];
    s->update = s->era->update;
}

uint32_t ps_eras_rounds(const struct ps_eras *e)
{
    return era_rounds_max(e->eras, e->count);
}

const struct update_spec *ps_newest_update(const struct ps_shard *s)
{
    return &s->eras.items[s->eras.count - 1].spec;
}
