/* SPDX-License-Identifier: Apache-2.0 */
/* A new generation: the shards are told which workers there are, and answer how far they are. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "master/core/core.h"

void train_assign_from(struct job *j, uint64_t step)
{
    for (size_t i = 0; i < j->worker_count; i++) {
        j->workers[i].from = step;
    }
}

/* Raises the generation and tells the shards which workers there are now. A regrouping that is
 * under way is overtaken. */
void train_regroup(struct master *m, struct job *j)
{
    calls_forget(&m->calls, j, MASTER_CALL_MEMBERSHIP);
    calls_forget(&m->calls, j, MASTER_CALL_ASSIGN);
    j->record.generation += j->adopts && MUTANT(adopted_as_it_was) ? 0 : 1;
    j->regroup_needed = false;
    j->standby_moved = false;
    if (!MUTANT(generation_not_stored)) {
        job_store(m, j); /* a generation is stored before it is used */
        j->row_generation = j->row;
    }
    action_log(m, LOG_LEVEL_INFO, "job_regroup", "job=%s generation=%" PRIu64 " workers=%zu",
               j->record.id, j->record.generation, job_workers_started(j));
    for (size_t i = 0; i < j->worker_count; i++) {
        train_park_clear(m, j, &j->workers[i], ERR_ABORTED, "a new generation has begun");
        j->workers[i].assigned = false;
    }
    for (size_t i = 0; i < j->shard_count; i++) {
        call_start(m, j, j->shards[i].node, MASTER_CALL_MEMBERSHIP, (uint32_t)i);
    }
}

/* Keep what a shard says of itself in an answer. */
void train_shard_said(struct job *j, uint32_t shard, const struct master_call_done *done)
{
    struct shard_state *s = &j->shards[shard];
    s->version = done->version;
    ledger_release(&s->ledger);
    s->has_ledger = done->ledger != NULL;
    if (s->has_ledger) {
        ledger_copy(&s->ledger, done->ledger);
        ledger_settle(&s->ledger);
    }
    struct job_shard *shown = &j->record.shards[shard];
    shown->version = done->version;
    shown->examples = done->examples;
    shown->duplicates = done->duplicates;
    shown->dropped = done->dropped;
    ledger_release(&shown->ledger);
    if (done->ledger != NULL) {
        ledger_copy(&shown->ledger, done->ledger);
    }
}

/* Sync: go on with the lowest version of all shards; none is more than one ahead. */
static int regroup_sync(struct master *m, struct job *j)
{
    uint64_t lowest = UINT64_MAX;
    uint64_t highest = 0;
    for (size_t i = 0; i < j->shard_count; i++) {
        uint64_t step = j->shards[i].version - j->version_shift;
        lowest = step < lowest ? step : lowest;
        highest = step > highest ? step : highest;
    }
    if (highest > j->step_limit || highest - lowest > 1) {
        job_must_end(j, JOB_FAILED,
                     "the shards are at steps %" PRIu64 " to %" PRIu64
                     ", which cannot be with a step limit of %" PRIu64,
                     lowest, highest, j->step_limit);
        return ERR_INTERNAL;
    }
    progress_step(m, j, highest);
    train_assign_from(j, MUTANT(highest_version) ? highest : lowest);
    return 0;
}

/* The splits of one epoch as the shards have them; false: the shards cannot be so. */
static bool compare_ledgers(const struct job *j, uint32_t *low, uint32_t *high)
{
    const struct ledger *leased = &j->leases.ledger;
    for (size_t i = 0; i < j->shard_count; i++) {
        const struct shard_state *s = &j->shards[i];
        if (!s->has_ledger || s->ledger.split_count != leased->split_count) {
            return false;
        }
        bool whole = s->ledger.epoch == leased->epoch + 1; /* the leased epoch is complete there */
        if (!whole && s->ledger.epoch != leased->epoch) {
            return false;
        }
        for (uint32_t split = 0; split < leased->split_count; split++) {
            uint32_t done =
                whole ? ledger_shape_split_batches(&leased->shape, split) : s->ledger.done[split];
            if (whole && s->ledger.done[split] > 0) {
                return false;
            }
            low[split] = i == 0 || done < low[split] ? done : low[split];
            high[split] = i == 0 || done > high[split] ? done : high[split];
        }
    }
    return true;
}

/* Async and bounded: the shards have answered what is done. */
static int regroup_async(struct master *m, struct job *j)
{
    uint32_t *low = mem_new(j->leases.ledger.split_count, sizeof *low);
    uint32_t *high = mem_new(j->leases.ledger.split_count, sizeof *high);
    bool sound = compare_ledgers(j, low, high);
    if (sound) {
        leases_known(&j->leases, low, high);
        train_drop_finished(j);
        progress_step(m, j, train_step(j));
    } else {
        job_must_end(j, JOB_FAILED, "the ledgers of its shards are of different epochs");
    }
    free(low);
    free(high);
    return sound ? 0 : ERR_INTERNAL;
}

/* The worker that came last and that not every shard has heard of. */
static struct job_worker *newcomer(struct job *j)
{
    for (size_t i = j->worker_count; i-- > 0;) {
        if (j->workers[i].started && !j->workers[i].member) {
            return &j->workers[i];
        }
    }
    return NULL;
}

/* Leave the newest out and go on with the others. False: it is the only one, or none is new. */
static bool leave_out(struct master *m, struct job *j, const char *why)
{
    struct job_worker *w = newcomer(j);
    size_t others = job_workers_started(j) - (w != NULL);
    if (w == NULL || others == 0) {
        return false;
    }
    j->workers_fit = others;
    job_say(j, action_printf(m, "goes on without %s, for which there is no memory: %s", w->node->id,
                             why));
    job_drop_worker(m, j, w->node, why); /* and regroup, where that matters */
    return true;
}

void train_no_room(struct master *m, struct job *j, uint32_t shard, const char *why)
{
    if (MUTANT(no_room_is_done)) {
        return;
    }
    bool regroups = j->phase == PHASE_REGROUP;
    if (regroups && change_undo(m, j, why)) {
        return;
    }
    if (!leave_out(m, j, why) && job_workers_started(j) > 0) {
        job_must_recover(j, why); /* the server does not have what it promised */
        return;
    }
    if (!regroups) {
        /* the job has ended, or has no worker: the same generation, with the workers that are left
         */
        call_start(m, j, j->shards[shard].node, MASTER_CALL_MEMBERSHIP, shard);
    }
}

int train_regroup_end(struct master *m, struct job *j)
{
    for (size_t i = 0; i < j->worker_count; i++) {
        j->workers[i].member = j->workers[i].started;
    }
    if (j->adopts) {
        j->changing = false; /* nobody here waits for that change */
        adopt_position(m, j);
    } else if (j->changing) {
        change_done(m, j);
    }
    int rc = job_is_sync(j) ? regroup_sync(m, j) : regroup_async(m, j);
    if (rc == 0 && j->adopts) {
        adopt_end(m, j);
    }
    return rc;
}
