/* SPDX-License-Identifier: Apache-2.0 */
/* Generations: who may speak from now on, and the end of a shard. */
#include <inttypes.h>

#include "base/mutant.h"
#include "ps/core/shard_internal.h"

int shard_ledger_check(const struct ledger *l, struct err *err)
{
    for (uint32_t i = 0; i < l->split_count; i++) {
        uint32_t batches = ledger_shape_split_batches(&l->shape, i);
        if (l->done[i] > batches) {
            return err_set(err, ERR_INVALID,
                           "%" PRIu32 " batches of split %" PRIu32 " are done, of %" PRIu32,
                           l->done[i], i, batches);
        }
    }
    return 0;
}

static bool same_shape(const struct ledger_shape *a, const struct ledger_shape *b)
{
    return a->records == b->records && a->batch_records == b->batch_records &&
           a->split_batches == b->split_batches;
}

/* Checks whether consistency and data position may change to those of @e. */
static int check_change(const struct shard *s, const struct shard_event *e, struct err *err)
{
    if (e->ledger == NULL) {
        return 0;
    }
    if (e->consistency == NULL || !same_shape(&e->ledger->shape, &s->ledger.shape)) {
        return err_set(err, ERR_INVALID, "%s",
                       e->consistency == NULL ? "a data position without a consistency"
                                              : "a data position of other data");
    }
    int rc = consistency_check(e->consistency, err);
    rc = rc != 0 ? rc : shard_ledger_check(e->ledger, err);
    rc = rc != 0 ? rc : era_check(e->eras, e->era_count, SHARD_ROUNDS_MAX, err);
    if (rc != 0) {
        return rc;
    }
    if (e->version != s->version) {
        return err_set(err, ERR_STATE,
                       "a change at version %" PRIu64 ", but the shard is at %" PRIu64, e->version,
                       s->version);
    }
    /* Without rounds of sums the lead has applied what it decided, so it is a step ahead. With
     * rounds no shard has applied it while the versions are equal: the decision goes with the
     * change. */
    if (shard_decide_pending(s) && shard_rounds(s, s->version) == 0) {
        return err_set(err, ERR_STATE,
                       "a change at step %" PRIu64
                       ", which other shards have done and this one has not",
                       s->version);
    }
    if (s->consistency.mode != TRAINING_SYNC && !ledger_equal(e->ledger, &s->ledger)) {
        return err_set(err, ERR_STATE,
                       "a change at a data position where this shard, at version %" PRIu64
                       ", is not",
                       s->version);
    }
    return 0;
}

static bool brings_backup(const struct shard *s, const struct shard_event *e)
{
    return e->has_backup && !(shard_has_backup(s) && s->standby.backup == e->backup);
}

bool shard_joins(const struct shard *s, const struct shard_event *e)
{
    return !s->closed && e->kind == SHARD_MEMBERSHIP && e->generation > s->generation &&
           brings_backup(s, e);
}

/* May the shard have the backup that @e says? */
static int check_backup(const struct shard *s, const struct shard_event *e, struct err *err)
{
    if (!brings_backup(s, e)) {
        return 0;
    }
    int rc = shard_check_filled(s, err);
    return rc == 0 && s->has_slots && e->slots_buffer == NULL
               ? err_set(err, ERR_EXHAUSTED, "there is no memory for a copy of the slots")
               : rc;
}

static int check_membership(const struct shard *s, const struct shard_event *e, struct err *err)
{
    int rc = shard_workers_check(e->workers, e->worker_count, err);
    rc = rc != 0 ? rc : check_change(s, e, err);
    return rc != 0 ? rc : check_backup(s, e, err);
}

/* Nothing is in. */
static void change(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    shard_policy_forget_all(s, out);
    /* all shards are at this version: nobody asks for sums of the step before */
    s->sums.kept = false;
    shard_decide_erase(s); /* the decision was about as many replicas as there were before */
    s->consistency = *e->consistency;
    ledger_release(&s->ledger);
    ledger_copy(&s->ledger, e->ledger);
    if (e->era_count > 0 && !MUTANT(era_not_taken) && (s->lead || !MUTANT(era_of_lead))) {
        shard_eras_set(s, e->eras, e->era_count);
    }
    shard_sync_resize(s);
}

/* Forgets what is not applied yet, so that the answer holds until a worker pushes in the new
 * generation. */
static void begin_generation(struct shard *s, const struct shard_event *e,
                             struct shard_actions *out)
{
    uint64_t old = s->generation;
    s->generation = e->generation;
    (void)shard_check_generation(s, old, &out->err); /* sets the error for requests that wait */
    shard_refuse_parked(s, out);
    shard_hold_refuse(s, out);
    shard_readers_refuse(s, out);
    shard_sync_forget(s, e->now_ms, out);
    if (!MUTANT(queue_over_generations)) {
        shard_async_forget(s, out);
    }
    for (size_t i = 0; MUTANT(decision_forgotten) && i < SHARD_DECISIONS_KEPT; i++) {
        s->decisions[i].replicas = 0;
    }
    shard_spare_forgive(s);
    shard_workers_set(s, e->workers, e->worker_count, out);
    shard_workers_reset(s);
    if (e->ledger != NULL) {
        change(s, e, out);
    }
}

int shard_membership_take(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    int rc = check_membership(s, e, &out->err);
    if (rc != 0) {
        return rc;
    }
    const bool joins = brings_backup(s, e);
    if (s->standby.role == SHARD_BACKUP ? e->promote : joins || !e->has_backup) {
        shard_record_state_end(s, out);
        s->standby.joining = false;
        s->standby.role = SHARD_ALONE;
    }
    if (!MUTANT(membership_not_said)) {
        shard_record_event(s, SHARD_RECORD_MEMBERSHIP, out);
    }
    if (e->forget_pins) {
        shard_pins_forget(s, e->keep_pin, out);
    }
    begin_generation(s, e, out);
    if (joins) {
        shard_record_state(s, e, out);
    }
    return 0;
}

void shard_on_membership(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    int rc = 0;
    const bool joins = shard_joins(s, e);
    if (MUTANT(membership_of_any_generation) && e->generation < s->generation) {
        begin_generation(s, e, out);
    } else if (e->generation <= s->generation) {
        /* the worker was told the same before */
        rc = shard_check_generation(s, e->generation, &out->err);
    } else {
        rc = shard_membership_take(s, e, out);
    }
    if (rc != 0 || !joins) {
        shard_release_buffer(out, e->slots_buffer);
    }
    if (rc != 0) {
        shard_refuse(s, e->tag, out);
        return;
    }
    shard_reply_state(s, e->tag, out);
}

void shard_on_state(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    if (shard_check_generation(s, e->generation, &out->err) != 0) {
        shard_refuse(s, e->tag, out);
        return;
    }
    shard_reply_state(s, e->tag, out);
}

/* A newer generation may close: the job can end before every shard has heard of it. */
void shard_on_close(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    if (e->generation < s->generation) {
        (void)shard_check_generation(s, e->generation, &out->err);
        shard_refuse(s, e->tag, out);
        return;
    }
    (void)err_set(&out->err, ERR_NOT_FOUND, "closed");
    shard_refuse_parked(s, out);
    shard_hold_refuse(s, out);
    shard_readers_refuse(s, out);
    shard_sync_forget(s, e->now_ms, out);
    shard_async_forget(s, out);
    shard_policy_forget_all(s, out);
    shard_pins_release(s, out);
    shard_readers_release(s, out);
    shard_record_state_end(s, out);
    s->closed = true;
    shard_reply_state(s, e->tag, out);
}
