/* SPDX-License-Identifier: Apache-2.0 */
/* A backup: it makes the changes that its primary says, by the same functions, and nothing else. So
 * it has the same bits, and when the master says so it is the primary. */
#include <inttypes.h>

#include "base/mutant.h"
#include "ps/core/shard_internal.h"

static void release(const struct shard_event *e, struct shard_actions *out)
{
    shard_release_buffer(out, e->gradient);
    shard_release_buffer(out, e->slots_buffer);
}

/* ---- who may speak to it ---- */

/* A master that makes it the primary. */
static int check_promotion(const struct shard *s, const struct shard_event *e, struct err *err)
{
    if (s->standby.broken.code != 0) {
        return err_set(err, ERR_CORRUPT, "this backup cannot be the primary: %s",
                       s->standby.broken.msg);
    }
    if (s->standby.joins) {
        return err_set(err, ERR_CORRUPT,
                       "this backup cannot be the primary: it has not received the shard's state");
    }
    return e->generation == s->generation
               ? err_set(err, ERR_ABORTED,
                         "generation %" PRIu64 " has its primary; a backup is one in a later one",
                         e->generation)
               : 0;
}

static int check_speaker(const struct shard *s, const struct shard_event *e, struct err *err)
{
    switch (e->kind) {
    case SHARD_RECORD:
    case SHARD_STATE:
    case SHARD_GONE:
    case SHARD_SNAPSHOT:
    case SHARD_RECEIPT:
    case SHARD_CLOSE:
        return 0;
    case SHARD_MEMBERSHIP:
        if (e->promote) {
            return check_promotion(s, e, err);
        }
        break;
    default:
        break;
    }
    return err_set(err, ERR_STATE, "this shard is a backup, which only its primary changes");
}

bool shard_backup_refuses(const struct shard *s, const struct shard_event *e,
                          struct shard_actions *out)
{
    if (s->standby.role != SHARD_BACKUP || check_speaker(s, e, &out->err) == 0) {
        return false;
    }
    release(e, out);
    shard_refuse(s, e->tag, out);
    return true;
}

/* ---- does a record follow what is here? ---- */

static int check_update_sync(const struct shard *s, const struct shard_event *e, struct err *err)
{
    const struct shard_record *r = &e->record;
    bool whole = r->rounds == shard_rounds(s, s->version) && (r->rounds == 0 || e->totals != NULL);
    for (uint32_t i = 0; whole && i < r->rounds; i++) {
        whole = e->totals[i].of.step == s->version && e->totals[i].of.round == i;
    }
    return whole ? 0
                 : err_set(err, ERR_CORRUPT,
                           "an update of step %" PRIu64 " without the sums that it takes",
                           r->version);
}

static int check_workers(const struct shard *s, const struct shard_record *r, struct err *err)
{
    bool there = r->worker <= s->worker_count;
    for (size_t i = 0; i < r->sent_count; i++) {
        there = there && r->sent[i] > 0 && r->sent[i] <= s->worker_count;
    }
    return there ? 0
                 : err_set(err, ERR_CORRUPT, "an update with workers beyond the last of %zu",
                           s->worker_count);
}

static int check_update_async(const struct shard *s, const struct shard_record *r, struct err *err)
{
    const struct ledger *l = &s->ledger;
    bool rolls = r->epoch == l->epoch + 1 && ledger_left(l) == 0;
    bool next = r->split < l->split_count && (r->epoch == l->epoch || rolls) &&
                r->batch == (rolls ? 0 : l->done[r->split]) && r->batch < r->batch_end &&
                r->batch_end <= ledger_shape_split_batches(&l->shape, r->split) &&
                r->base_version <= s->version;
    return next ? check_workers(s, r, err)
                : err_set(err, ERR_CORRUPT,
                          "an update of batches %" PRIu32 "..%" PRIu32 " of split %" PRIu32
                          " of epoch %" PRIu64 ", which are not the next ones",
                          r->batch, r->batch_end, r->split, r->epoch);
}

static int check_update(const struct shard *s, const struct shard_event *e, struct err *err)
{
    bool fits = e->record.examples > 0 ? e->gradient != NULL && e->elements == s->elements
                                       : e->gradient == NULL;
    if (!fits || s->filled < s->elements) {
        return err_set(err, ERR_CORRUPT, "an update with %" PRIu64 " elements of %" PRIu64,
                       e->elements, s->elements);
    }
    return s->consistency.mode == TRAINING_SYNC ? check_update_sync(s, e, err)
                                                : check_update_async(s, &e->record, err);
}

/* ---- the changes: with an error nothing is changed, and nothing of @e taken ---- */

static int take_update_sync(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    const struct shard_record *r = &e->record;
    int rc =
        consistency_is_partial(&s->consistency) ? shard_decide_note(s, &r->decision, &out->err) : 0;
    if (rc != 0) {
        return rc;
    }
    s->nodes[0] = (struct shard_node){.sum_end = s->replicas,
                                      .pushes = r->pushes,
                                      .in = true,
                                      .buffer = e->gradient,
                                      .examples = r->examples};
    shard_sums_repeat(s, e->totals, out);
    shard_sync_apply(s, e->now_ms, out);
    return 0;
}

static int take_update(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    const struct shard_record *r = &e->record;
    int rc = check_update(s, e, &out->err);
    if (rc != 0 || s->consistency.mode == TRAINING_SYNC) {
        return rc != 0 ? rc : take_update_sync(s, e, out);
    }
    for (size_t i = 0; i < r->sent_count; i++) {
        shard_policy_sent(s, r->sent[i] - 1, out);
    }
    const struct shard_queued q = {r->epoch,    r->split,        r->batch,    r->batch_end,
                                   r->examples, r->base_version, e->gradient, r->worker - 1};
    shard_async_update(s, &q, out);
    return 0;
}

static int take_decision(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    return consistency_is_partial(&s->consistency)
               ? shard_decide_note(s, &e->record.decision, &out->err)
               : err_set(&out->err, ERR_CORRUPT, "a decision, but every step has all its replicas");
}

static int take_fill(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    bool next = e->first <= s->filled && e->elements <= s->elements - e->first &&
                e->first + e->elements > s->filled && e->given != NULL;
    if (!next) {
        return err_set(&out->err, ERR_CORRUPT,
                       "initial values of elements %" PRIu64 "+%" PRIu64 ", of which %" PRIu64
                       " are filled",
                       e->first, e->elements, s->filled);
    }
    shard_fill_take(s, e, out);
    return 0;
}

static int take_pin(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    int rc = shard_pin_check(s, e, &out->err);
    if (rc == 0 && shard_pin_find(s, e->pin_id) != NULL) {
        rc = err_set(&out->err, ERR_CORRUPT, "a version is pinned twice under one id");
    }
    if (rc == 0 && s->has_slots && e->slots && e->slots_buffer == NULL) {
        rc = err_set(&out->err, ERR_EXHAUSTED, "there is no memory for a copy of the slots");
    }
    if (rc == 0) {
        (void)shard_pin_take(s, e, out);
    }
    return rc;
}

static int take_unpin(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    shard_pin_end(s, e, out);
    return 0;
}

static int take_membership(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    return e->generation > s->generation
               ? shard_membership_take(s, e, out)
               : err_set(&out->err, ERR_CORRUPT, "generation %" PRIu64 " after %" PRIu64,
                         e->generation, s->generation);
}

static int check_state(const struct shard *s, const struct shard_event *e, struct err *err)
{
    if (e->consistency == NULL || e->ledger == NULL || e->elements != s->elements) {
        return err_set(err, ERR_CORRUPT, "a state without %s",
                       e->consistency == NULL ? "a consistency"
                       : e->ledger == NULL    ? "a data position"
                                              : "all of its values");
    }
    int rc = consistency_check(e->consistency, err);
    rc = rc != 0 ? rc : shard_ledger_check(e->ledger, err);
    rc = rc != 0 ? rc : era_check(e->eras, e->era_count, SHARD_ROUNDS_MAX, err);
    return rc != 0 ? rc : shard_workers_check(e->workers, e->worker_count, err);
}

/* With an error the shard has a part of it, and never becomes anything. */
static int take_state(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    const struct shard_record *r = &e->record;
    int rc = check_state(s, e, &out->err);
    if (rc != 0) {
        return rc;
    }
    s->generation = r->generation;
    s->version = r->version;
    s->version_first = r->version;
    s->examples = r->examples;
    s->pushes_applied = r->pushes_applied;
    s->consistency = *e->consistency;
    if (!MUTANT(state_without_ledger)) {
        ledger_release(&s->ledger);
        ledger_copy(&s->ledger, e->ledger);
    }
    if (!MUTANT(state_without_eras)) {
        shard_eras_set(s, e->eras, e->era_count);
    }
    shard_sync_resize(s);
    shard_workers_set(s, e->workers, e->worker_count, out);
    if (r->decision.bytes > 0) {
        rc = take_decision(s, e, out);
    }
    if (rc == 0) {
        s->filled = s->elements;
        s->standby.joins = false;
        shard_act(out, SHARD_LOAD)->version = s->version;
    }
    return rc;
}

static int (*const takes[])(struct shard *, const struct shard_event *, struct shard_actions *) = {
    [SHARD_RECORD_UPDATE] = take_update, [SHARD_RECORD_DECISION] = take_decision,
    [SHARD_RECORD_FILL] = take_fill,     [SHARD_RECORD_PIN] = take_pin,
    [SHARD_RECORD_UNPIN] = take_unpin,   [SHARD_RECORD_MEMBERSHIP] = take_membership,
    [SHARD_RECORD_STATE] = take_state,
};

/* ---- records ---- */

/* Whether a record may be heard at all. */
static int check_record(const struct shard *s, const struct shard_record *r, struct err *err)
{
    if (s->standby.role != SHARD_BACKUP && !MUTANT(old_primary_is_heard)) {
        return err_set(err, ERR_ABORTED,
                       "a record of generation %" PRIu64 ", but this shard is a primary, in "
                       "generation %" PRIu64,
                       r->generation, s->generation);
    }
    if (s->standby.broken.code != 0) {
        return err_set(err, ERR_CORRUPT, "this backup does not follow any more: %s",
                       s->standby.broken.msg);
    }
    if (r->number <= s->standby.records) {
        return 0;
    }
    if (r->number > s->standby.records + 1) {
        return err_set(err, ERR_RANGE, "record %" PRIu64 ", but the next one is %" PRIu64,
                       r->number, s->standby.records + 1);
    }
    return r->generation < s->generation && !MUTANT(old_primary_is_heard)
               ? shard_check_generation(s, r->generation, err)
               : 0;
}

static void receipt(const struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    struct shard_action *a = shard_act(out, SHARD_REPLY);
    a->tag = e->tag;
    a->version = s->version;
    a->generation = s->generation;
    a->received = s->standby.records;
}

static int take(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    const struct shard_record *r = &e->record;
    const bool joins = s->standby.joins;
    if (joins != (r->kind == SHARD_RECORD_STATE)) {
        return err_set(&out->err, ERR_CORRUPT, "%s",
                       joins ? "the first record is not the shard's state"
                             : "the state of a shard that this one has followed before");
    }
    if (!joins && (r->version != s->version ||
                   (r->generation != s->generation && !MUTANT(old_primary_is_heard)))) {
        return err_set(&out->err, ERR_CORRUPT,
                       "record %" PRIu64 " of version %" PRIu64 " and generation %" PRIu64
                       ", but the backup is at %" PRIu64 " and %" PRIu64,
                       r->number, r->version, r->generation, s->version, s->generation);
    }
    if (e->cannot != NULL) {
        out->err = *e->cannot;
        return out->err.code;
    }
    return takes[r->kind](s, e, out);
}

void shard_on_record(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    const size_t before = out->count;
    struct shard_standby *b = &s->standby;
    if (check_record(s, &e->record, &out->err) != 0) {
        release(e, out);
        shard_refuse(s, e->tag, out);
        return;
    }
    if (e->record.number <= b->records) {
        release(e, out);
        receipt(s, e, out);
        return;
    }
    b->records++;
    receipt(s, e, out); /* before the change is made */
    if (take(s, e, out) == 0) {
        return;
    }
    b->records--;
    b->broken = out->err;
    out->count = before;
    release(e, out);
    shard_refuse(s, e->tag, out);
}
