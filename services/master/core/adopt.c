/* SPDX-License-Identifier: Apache-2.0 */
/* A master that was started again takes running jobs over as they are: nobody loads or computes
 * anything again.
 *
 * The row of such a job names its nodes (handover.c), which this master believes to be alive, as
 * the one before did. One that has ended is found out as usual: late at once, so its address is
 * looked at, and silent if that says nothing. The workers say what the data are, which they have;
 * the shards are told a new generation, and what they answer is where the job goes on. Leases are
 * made anew: workers drop theirs in a new generation. A version that all shards have pinned, and
 * with which something was to be done yet, stays pinned, and that is done; other pins are taken
 * back. What was due and is not known of is made where the job stands now. A change of the file
 * that some shards may not have heard of is told to all of them again. A job for which any of that
 * fails goes back to its newest checkpoint, like one that has lost a server. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "base/release.h"
#include "base/text.h"
#include "master/core/core.h"

/* ---- nodes ---- */

/* NULL: there is none that could be it. */
static struct node *existing(struct master *m, const struct job_handover_node *from)
{
    struct node *n = node_named(m, from->id);
    return n != NULL && n->alive && n->incarnation == from->incarnation &&
                   strcmp(n->address, from->address) == 0
               ? n
               : NULL;
}

/* Can the node be taken for granted? A server may serve several jobs. */
static bool is_sound(struct master *m, const struct job_handover_node *from, enum master_role role)
{
    const struct node *n = node_named(m, from->id);
    if (from->incarnation == 0 || from->id[0] == '\0' || from->address[0] == '\0') {
        return false;
    }
    if (n == NULL) {
        return m->node_count < MASTER_NODES_MAX;
    }
    return existing(m, from) == n && n->role == role && role == MASTER_PS &&
           n->job_count < MASTER_JOBS_PER_PS_MAX;
}

static bool are_sound(struct master *m, const struct job_handover *h)
{
    bool sound = true;
    for (size_t i = 0; i < h->server_count; i++) {
        sound = sound && is_sound(m, &h->servers[i], MASTER_PS) &&
                h->servers[i].backup <= h->server_count + h->other_count;
    }
    for (size_t i = 0; i < h->worker_count; i++) {
        sound = sound && h->workers[i].start != 0 && is_sound(m, &h->workers[i], MASTER_WORKER);
    }
    return sound && m->node_count + h->server_count + h->worker_count <= MASTER_NODES_MAX;
}

static struct node *take_node(struct master *m, const struct job_handover_node *from,
                              enum master_role role)
{
    struct node *n = existing(m, from);
    if (n != NULL) {
        return n;
    }
    const struct node_identity is = {.role = role,
                                     .incarnation = from->incarnation,
                                     .pid = from->pid,
                                     .address = from->address,
                                     .http_address = from->http_address,
                                     .version = from->version,
                                     .host = from->host};
    n = node_add(m, &is, from->id);
    n->unheard = true;
    return n;
}

/* Can a backup be there? The server may have been taken for a shard. */
static bool may_back(struct master *m, const struct job *j, const struct job_handover_node *from)
{
    const struct node *n = existing(m, from);
    return (n != NULL && n->role == MASTER_PS && node_serves(n, j)) || is_sound(m, from, MASTER_PS);
}

/* The shards have their servers. A backup whose server cannot be the one is left out, here and in
 * the row: the shards are told so before the job goes on. */
static void take_backups(struct master *m, struct job *j)
{
    struct job_handover *h = &j->record.handover;
    for (size_t i = 0; i < h->server_count; i++) {
        struct job_handover_node *from = &h->servers[i];
        if (from->backup == 0) {
            continue;
        }
        const struct job_handover_node *place = job_handover_place(h, from->backup);
        if (!may_back(m, j, place)) {
            action_log(m, LOG_LEVEL_WARN, "backup_lost",
                       "job=%s shard=%zu node=%s reason=\"the row names another node\"",
                       j->record.id, i, place->id);
            job_handover_no_backup(from);
        } else {
            struct node *n = take_node(m, place, MASTER_PS);
            j->shards[i].backup = (struct shard_backup){
                .node = n,
                .opening = from->backup_opening,
                .joins = !from->backup_follows,
                .stage = from->backup_follows ? BACKUP_FOLLOWS : BACKUP_NAMED,
            };
            node_take(n, j);
        }
    }
}

/* May have been written by a master of another release, which speaks with nodes as this one does.
 */
static bool is_readable(const struct job_handover *h)
{
    return h->opening != 0 && h->format == RELEASE_HANDOVER && h->protocol == RELEASE_PROTOCOL;
}

bool adopt_begin(struct master *m, struct job *j)
{
    const struct job_handover *h = &j->record.handover;
    if (!is_readable(h) || h->server_count == 0 || !are_sound(m, h) || MUTANT(never_adopts)) {
        return false;
    }
    j->shards = mem_new(h->server_count, sizeof *j->shards);
    j->shard_count = h->server_count;
    for (size_t i = 0; i < h->server_count; i++) {
        struct node *n = take_node(m, &h->servers[i], MASTER_PS);
        j->shards[i].node = n;
        j->shards[i].opened = true;
        j->shards[i].opening = /* rows of before have one for all */
            h->servers[i].opening != 0 ? h->servers[i].opening : h->opening;
        /* it may have been a backup, and was not told yet that it is the primary */
        j->shards[i].promote =
            h->servers[i].backup == 0 &&
            (j->spec.cluster.standby != STANDBY_NONE || !MUTANT(moved_is_backup));
        node_take(n, j);
        shard_opened(&j->shards[i]);
    }
    for (size_t i = 0; i < h->worker_count; i++) {
        struct job_worker *w = job_worker_add(j, take_node(m, &h->workers[i], MASTER_WORKER));
        w->start = h->workers[i].start;
        w->started = true;
        j->start_last = w->start > j->start_last ? w->start : j->start_last;
    }
    take_backups(m, j);
    standby_show(j);
    j->opening = h->opening;
    j->record.servers = (uint32_t)h->server_count; /* rows of before do not say it */
    j->adopts = j->chosen = j->resume = true;
    action_log(m, LOG_LEVEL_INFO, "job_adopts",
               "job=%s generation=%" PRIu64 " servers=%zu workers=%zu", j->record.id,
               j->record.generation, h->server_count, h->worker_count);
    job_touch(j);
    return true;
}

/* ---- what is done, and what is due ---- */

static int check(struct job *j, struct err *err)
{
    const struct job_handover *h = &j->record.handover;
    const struct best best = j->record.best;
    int rc = start_check_data(j, err);
    j->record.best = best;
    rc = rc != 0 ? rc : data_check_same(j, err);
    if (rc != 0) {
        return rc;
    }
    const struct ledger_shape *there = &h->ledger.shape, *here = &j->step_map.ledger.shape;
    if (j->plan.shard_count != j->shard_count || there->records != here->records ||
        there->batch_records != here->batch_records) {
        return err_set(err, ERR_STATE, "its shards are others than those of its file");
    }
    return start_step_map(j, h->step, &h->ledger, err);
}

bool adopt_data_known(struct master *m, struct job *j)
{
    const struct job_handover *h = &j->record.handover;
    const struct job_record *r = &j->record;
    struct err err = {0};
    if (check(j, &err) != 0) {
        job_must_recover(j, action_printf(m, "it cannot be taken over: %s", err.msg));
        return false;
    }
    j->version_shift = h->version_shift;
    j->checkpointed_step = h->checkpointed_step;
    j->evaluated_step =
        r->evaluation_count == 0 ? NO_STEP : r->evaluations[r->evaluation_count - 1].step;
    job_record_set_shards(&j->record, j->shard_count);
    standby_show(j);
    quota_measure(j);
    progress_init(j);
    return true;
}

void adopt_shard_said(struct job *j, uint32_t shard, const struct master_call_done *done)
{
    struct shard_state *s = &j->shards[shard];
    s->pin_count = 0;
    for (size_t i = 0; j->adopts && i < done->pin_count && i < MASTER_PINS_MAX; i++) {
        struct pin_said *pin = &s->pins[s->pin_count++];
        text_copy(pin->id, sizeof pin->id, done->pins[i].id);
        pin->version = done->pins[i].version;
        pin->slots = done->pins[i].slots;
    }
}

/* ---- the sync point that was at work ---- */

/* Nobody has moved since the step map begins. */
static bool is_at_beginning(const struct job *j)
{
    bool all = true;
    for (size_t i = 0; i < j->shard_count; i++) {
        all = all && j->shards[i].version == j->step_map.step + j->version_shift;
    }
    return all;
}

/* The shards were told a change and have not moved since: all of them, or only some, know it. */
static bool was_changing(const struct job *j)
{
    return j->record.handover.changing && is_at_beginning(j);
}

static const struct pin_said *pin_of(const struct shard_state *s, const char *id)
{
    for (size_t i = 0; i < s->pin_count; i++) {
        if (strcmp(s->pins[i].id, id) == 0) {
            return &s->pins[i];
        }
    }
    return NULL;
}

/* Has every shard pinned it? @moved: some have made updates since. */
static bool is_everywhere(const struct job *j, const char *id, bool *moved)
{
    *moved = false;
    for (size_t i = 0; i < j->shard_count; i++) {
        const struct pin_said *pin = pin_of(&j->shards[i], id);
        if (pin == NULL) {
            return false;
        }
        *moved = *moved || j->shards[i].version > pin->version;
    }
    return true;
}

/* Is there something left to do with @pin? An evaluation for which all stand is made anew there. */
static bool is_at_work(const struct job *j, const struct pin_said *pin, struct adoption *out)
{
    const struct job_record *r = &j->record;
    const struct job_handover_pin *known = &r->handover.pin;
    static const char begins[] = "step-";
    bool moved, evaluated = false;
    if (strncmp(pin->id, begins, sizeof begins - 1) != 0) {
        return false;
    }
    out->known = known->id != NULL && strcmp(pin->id, known->id) == 0;
    out->step = strtoull(pin->id + sizeof begins - 1, NULL, 10);
    if ((out->step < j->step_map.step && !out->known) || !is_everywhere(j, pin->id, &moved)) {
        return false;
    }
    for (size_t i = r->evaluation_count; i-- > 0 && !evaluated;) {
        evaluated = r->evaluations[i].step == out->step;
    }
    const bool best = best_is_kept(&j->spec.training) && r->best.known &&
                      r->best.step == out->step &&
                      !(r->best.kept && r->best.kept_step == out->step);
    out->evaluate = !evaluated &&
                    (out->known                      ? known->evaluate
                     : out->step == j->step_map.step ? checkpoint_due_where_it_begins(j)
                                                     : checkpoint_due_evaluation_at(j, out->step));
    out->checkpoint =
        pin->slots && (best || (out->known ? known->checkpoint && j->checkpointed_step != out->step
                                           : checkpoint_due_at(j, out->step)));
    out->slots = pin->slots;
    text_copy(out->pin, sizeof out->pin, pin->id);
    return out->evaluate ? moved || out->known : out->checkpoint;
}

bool adopt_again(struct job *j)
{
    struct adoption *a = &j->adoption;
    bool pins = false;
    if (a->looked) {
        return false;
    }
    *a = (struct adoption){.looked = true};
    for (size_t i = 0; i < j->shard_count; i++) {
        pins = pins || j->shards[i].pin_count > 0;
    }
    for (size_t i = 0; j->shard_count > 0 && i < j->shards[0].pin_count; i++) {
        struct adoption found = {.looked = true};
        if (is_at_work(j, &j->shards[0].pins[i], &found) && found.step >= a->step &&
            !MUTANT(sync_point_lost)) {
            *a = found;
        }
    }
    j->changing = was_changing(j);
    return pins || j->changing;
}

/* The epoch in which the shard that is furthest behind is. */
static const struct ledger *lowest_ledger(const struct job *j)
{
    const struct ledger *lowest = NULL;
    for (size_t i = 0; i < j->shard_count; i++) {
        const struct shard_state *s = &j->shards[i];
        lowest = s->has_ledger && (lowest == NULL || s->ledger.epoch < lowest->epoch) ? &s->ledger
                                                                                      : lowest;
    }
    return lowest;
}

/* Nobody has begun the epoch of @at: all are at the end of the one before, where something may be
 * due. */
static bool is_between_epochs(const struct job *j, const struct ledger *at)
{
    bool between = at->epoch > j->step_map.ledger.epoch && !MUTANT(adopted_into_next_epoch);
    for (size_t i = 0; i < j->shard_count; i++) {
        const struct ledger *l = &j->shards[i].ledger;
        between = between && j->shards[i].has_ledger && l->epoch == at->epoch &&
                  ledger_records(l) == l->epoch * j->epoch_records;
    }
    return between;
}

/* Nothing is leased, and what is done of the epoch is what the regrouping compares next. */
static void take_leases(struct job *j, const struct ledger *at)
{
    struct ledger begins;
    ledger_copy(&begins, at);
    begins.epoch -= is_between_epochs(j, at);
    begins.epoch = MUTANT(adopted_from_the_start) ? j->step_map.ledger.epoch : begins.epoch;
    memset(begins.done, 0, begins.split_count * sizeof *begins.done);
    leases_release(&j->leases);
    leases_init(&j->leases, &begins, step_map_batches(&j->step_map, j->record.steps_total));
    ledger_release(&begins);
}

static uint64_t furthest(const struct job *j)
{
    uint64_t step = j->step_map.step;
    for (size_t i = 0; i < j->shard_count; i++) {
        uint64_t at = j->shards[i].version - j->version_shift;
        step = at > step ? at : step;
    }
    return step;
}

void adopt_position(struct master *m, struct job *j)
{
    const uint64_t step = job_is_sync(j) ? furthest(j) : j->step_map.step;
    const struct ledger *at = job_is_sync(j) ? NULL : lowest_ledger(j);
    if (job_is_sync(j)) {
        struct ledger ledger;
        step_map_ledger(&j->step_map, step, &ledger);
        progress_adopted(j, &ledger);
        ledger_release(&ledger);
    } else if (at != NULL) { /* otherwise the regrouping finds it out */
        progress_adopted(j, at);
        take_leases(j, at);
    }
    const struct adoption *a = &j->adoption;
    checkpoint_due_adopted(j, a->evaluate ? a->step : j->evaluated_step,
                           a->checkpoint ? a->step : j->checkpointed_step, step);
    if (!a->evaluate && is_at_beginning(j)) {
        checkpoint_due_make_up(j); /* as when it began there */
    }
    checkpoint_due_saved(m, j, step);
}

void adopt_end(struct master *m, struct job *j)
{
    const struct adoption a = j->adoption;
    j->adopts = false;
    j->adoption = (struct adoption){0};
    j->record.adoptions++;
    j->adopted_ms = m->now_ms;
    j->refill = true;
    m->reschedule = true; /* it may have been about to move */
    m->counts.adoptions++;
    if (a.pin[0] != '\0') {
        sync_point_adopt(m, j, &a);
    }
    job_say(j, "adopted by a master that was started again: nothing is done twice");
    job_store(m, j); /* a master that ends before the next sync point has counted it */
}
