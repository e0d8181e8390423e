/* SPDX-License-Identifier: Apache-2.0 */
/* Shards begin, with initial values or those of a checkpoint, and end, whatever waits. */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void load_tables(struct world *w, struct sim_shard *s, const struct unary_request *q)
{
    const struct sim_job *j = &w->jobs[s->job];
    struct sim_saved *files[SIM_SHARDS_MAX];
    s->tables = tables_open(w, s, q->version);
    if (s->tables != NULL && q->directory[0] != '\0') {
        const uint32_t count = disk_tables(w, q->directory, files);
        tables_restore(w, j, s->tables->real->tables, files, count);
        tables_expected(files, count, s->number, s->layout->shard_count, s->tables->models);
    }
    tables_applied(w, s);
}

static void load(struct world *w, struct sim_shard *s, const struct unary_request *q,
                 struct shard_options *o, struct err *err)
{
    struct tensor values;
    struct tensor slot = {{0}};
    struct disk_cut cut = {0};
    const struct sim_job *j = &w->jobs[s->job];
    int code = q->directory[0] == '\0' ? 0 : disk_readable(w, q->directory);
    if (q->joins) {
        s->snapshots[0].version = q->version;
        s->snapshots[0].refs = 1;
        given_open(s, true);
        s->tables = tables_open(w, s, q->version);
        return;
    }
    if (code != 0) {
        err_set(err, code, "checkpoint %s: %s", q->directory,
                code == ERR_CORRUPT ? "a checksum differs" : "the disk is not there");
        return;
    }
    if (q->directory[0] == '\0') {
        numbers_initial(key_of_job(w, s->job), j->elements, &values);
    } else if (!disk_read(w, q->directory, &values, &slot, &cut)) {
        err_set(err, ERR_NOT_FOUND, "checkpoint %s is not complete", q->directory);
        return;
    }
    struct snapshot_slot *first = &s->snapshots[0];
    first->version = q->version;
    first->refs = 1;
    first->ids = cut.ids;
    s->applied = cut.ids;
    s->examples = cut.examples;
    o->examples = cut.examples;
    for (uint32_t i = 0; i < s->elements; i++) {
        first->t.v[i] = values.v[s->map[i]];
        s->slot.v[i] = slot.v[s->map[i]];
    }
    given_open(s, o->given);
    load_tables(w, s, q);
}

struct sim_shard *shard_make(struct world *w, uint32_t node, const struct unary_request *q,
                             struct err *err)
{
    struct sim_job *j = &w->jobs[q->job];
    struct sim_shard *s = mem_new(1, sizeof *s);
    s->open = true;
    s->node = node;
    s->job = q->job;
    s->number = q->shard;
    s->serial = (uint32_t)++w->serials;
    s->opened = q->joins && q->generation > j->opened ? j->opened : q->generation;
    s->fence = q->fence;
    s->version_first = q->version;
    s->layout = &j->layouts[q->planned];
    s->elements = s->layout->shard_elements[q->shard];
    s->previous = SIM_NONE;
    s->buffers = 2;
    s->room = q->worker_count;
    s->modes = 1U << q->consistency.mode;
    memcpy(s->map, s->layout->map[q->shard], sizeof s->map);
    uint32_t done[SIM_SPLITS_MAX];
    memcpy(done, q->ledger.done, sizeof done);
    struct ledger ledger = {q->ledger.shape, q->ledger.epoch, q->ledger.split_count, done};
    j->split_batches = q->ledger.shape.split_batches;
    const char *workers[SIM_WORKERS_MAX];
    for (uint32_t i = 0; i < q->worker_count; i++) {
        workers[i] = w->names[q->workers[i]];
    }
    struct era eras[SIM_ERAS_MAX];
    s->era_count = q->era_count;
    memcpy(s->eras, q->eras, sizeof s->eras);
    struct shard_options o = {.shard = q->shard,
                              .generation = q->generation,
                              .fence = q->fence,
                              .version = q->version,
                              .elements = s->elements,
                              .consistency = q->consistency,
                              .given = j->given && q->directory[0] == '\0',
                              .has_slots = true,
                              .eras = eras,
                              .era_count =
                                  q->joins ? 0 /* its state says them */
                                           : eras_for_core(s->layout, q->eras, q->era_count, eras),
                              .ledger = &ledger,
                              .workers = workers,
                              .worker_count = q->worker_count};
    standby_open(s, q, &o);
    load(w, s, q, &o, err);
    s->core = err->code != 0 ? NULL : shard_new(&o, err);
    if (s->core == NULL) {
        tables_close(w, s->tables);
        free(s);
        return NULL;
    }
    budget_open(w, s, &q->consistency, q->worker_count);
    return s;
}

static void forget_waiting(struct world *w, struct sim_shard *s, bool answer)
{
    for (size_t i = 0; i < w->request_count && s->waiting > 0; i++) {
        struct sim_request *r = &w->requests[i];
        if (r->used && r->shard == s) {
            if (answer && r->exchange == SIM_NONE && r->read == SIM_NONE) {
                unary_refuse(w, r->unary, r->attempt, ERR_ABORTED, "the shard is closed");
            }
            request_drop(w, r);
        }
    }
}

/* Everything of it is put back; what its core did not is a leak. */
void shard_drop(struct world *w, struct sim_shard *s)
{
    shard_closed_add(&w->nodes[s->node].closed, s->fence.opening, s->number);
    if (s->open) {
        struct shard_event e = {.kind = SHARD_CLOSE, .generation = UINT64_MAX, .own = true};
        s->open = false;
        if (!shard_do(w, s, &e)) {
            shard_release(w, s); /* it was in no table any more */
            return;
        }
    }
    if (s->gradients > 0 || s->kept > 0 || s->waiting > 0) {
        violated(w, INVARIANT_CLEAN, "a closed shard has %u buffers, %u versions, %u requests left",
                 s->gradients, s->kept, s->waiting);
    }
    budget_close(w, s);
    shard_release(w, s);
}

void shard_release(struct world *w, struct sim_shard *s)
{
    forget_waiting(w, s, false);
    shard_free(s->core);
    shard_actions_release(&s->actions);
    tables_close(w, s->tables);
    standby_release(s);
    free(s);
}

/* A shard that has all elements needs no rounds for the same sums. */
void shard_sum_alone(struct sim_shard *s, const struct shard_action *a, const struct gradient *g)
{
    struct shard_info info;
    shard_info(s->core, &info);
    if (s->layout->shard_count > 1 || info.consistency.mode != TRAINING_SYNC) {
        return;
    }
    const uint32_t rounds = s->eras[a->era].rounds;
    for (uint32_t i = 0; i < rounds; i++) {
        s->totals[i].value = numbers_sums(g == NULL ? NULL : g->t.v, s->map, s->elements, i,
                                          i == 0 ? 0 : s->totals[i - 1].value);
    }
    s->settled = rounds;
    s->begun = rounds > 0;
}
