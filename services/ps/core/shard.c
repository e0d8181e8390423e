/* SPDX-License-Identifier: Apache-2.0 */
/* The entrance of a shard's core: refuses requests of strangers and those after its end, and passes
 * the rest to the function for their kind (shard_on_*, in the other files here). */
#include "ps/core/shard.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "ps/core/shard_internal.h"

static void (*const handlers[SHARD_EVENT_KINDS])(struct shard *, const struct shard_event *,
                                                 struct shard_actions *) = {
#define X(NAME, name) [SHARD_##NAME] = shard_on_##name,
    SHARD_EVENTS(X)
#undef X
};

/* ---- life ---- */

static int check_options(const struct shard_options *o, struct err *err)
{
    int rc = era_check(o->eras, o->era_count, SHARD_ROUNDS_MAX, err);
    rc = rc != 0 ? rc : consistency_check(&o->consistency, err);
    rc = rc != 0 ? rc : shard_ledger_check(o->ledger, err);
    return rc != 0 ? rc : shard_workers_check(o->workers, o->worker_count, err);
}

struct shard *shard_new(const struct shard_options *o, struct err *err)
{
    if (check_options(o, err) != 0) {
        return NULL;
    }
    struct shard *s = mem_new(1, sizeof *s);
    s->lead = o->shard == 0;
    s->generation = o->generation;
    s->fence = o->fence;
    s->version = o->version;
    s->version_first = o->version;
    s->elements = o->elements;
    s->filled = o->given || o->joins ? 0 : o->elements;
    s->examples = o->examples;
    s->consistency = o->consistency;
    s->has_slots = o->has_slots;
    s->keeps_bases = o->keeps_bases;
    shard_eras_set(s, o->eras, o->era_count);
    ledger_copy(&s->ledger, o->ledger);
    shard_sync_resize(s);
    shard_workers_set(s, o->workers, o->worker_count, NULL); /* nothing is kept yet */
    s->standby.role = o->role;
    s->standby.backup = o->backup;
    s->standby.follows = o->role == SHARD_PRIMARY;
    s->standby.joins = o->joins;
    return s;
}

void shard_free(struct shard *s)
{
    if (s == NULL) {
        return;
    }
    for (size_t i = 0; i < SHARD_PINS_MAX; i++) {
        ledger_release(&s->pins[i].ledger);
    }
    ledger_release(&s->ledger);
    for (size_t i = 0; i < SHARD_DECISIONS_KEPT; i++) {
        free(s->decisions[i].bits);
    }
    shard_hold_clear(s);
    free(s->standby.held);
    free(s->standby.sent);
    free(s->eras);
    free(s->pacing.late);
    free(s->pacing.came_ms);
    free(s->nodes);
    free(s->queue);
    free(s->workers);
    free(s->parked);
    free(s);
}

/* ---- steps ---- */

static bool wants_reply(enum shard_event_kind kind)
{
    return kind != SHARD_GONE && kind != SHARD_SNAPSHOT && kind != SHARD_RECEIPT;
}

int shard_check_fence(const struct shard *s, const struct shard_event *e, struct err *err)
{
    if (e->own || !wants_reply(e->kind)) {
        return 0;
    }
    if (e->kind == SHARD_FILL && MUTANT(fill_of_another_opening)) {
        return 0;
    }
    if (e->kind == SHARD_EXCHANGE || e->kind == SHARD_FILL || e->kind == SHARD_READ) {
        return fence_check_opening(&s->fence, &e->fence, err);
    }
    int rc = fence_check_secret(&s->fence, &e->fence, err);
    if (rc != 0 || e->kind == SHARD_CLOSE) {
        return rc; /* the master may not know that the shard was opened before */
    }
    return fence_check_opening(&s->fence, &e->fence, err);
}

static void step_refused(const struct shard *s, const struct shard_event *e,
                         struct shard_actions *out)
{
    shard_release_buffer(out, e->gradient);
    shard_release_buffer(out, e->slots_buffer);
    shard_refuse(s, e->tag, out);
}

static void step_closed(const struct shard *s, const struct shard_event *e,
                        struct shard_actions *out)
{
    shard_release_buffer(out, e->gradient);
    shard_release_buffer(out, e->slots_buffer);
    if (e->kind == SHARD_CLOSE) {
        shard_reply_state(s, e->tag, out);
    } else if (wants_reply(e->kind)) {
        (void)err_set(&out->err, ERR_NOT_FOUND, "closed");
        shard_refuse(s, e->tag, out);
    }
}

/* No update begins before the backup has received what was said to it. */
static void handle(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    if (e->can_apply && shard_awaits_backup(s)) {
        struct shard_event waits = *e;
        waits.can_apply = false;
        handlers[e->kind](s, &waits, out);
    } else {
        handlers[e->kind](s, e, out);
    }
}

void shard_step(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    assert(e->kind < SHARD_EVENT_KINDS);
    out->count = 0;
    out->err.code = 0;
    out->err.msg[0] = 0;
    shard_hold_clear(s);
    s->standby.now_ms = e->now_ms;
    if (s->closed) {
        step_closed(s, e, out);
        return;
    }
    const uint64_t version = s->version;
    shard_readers_pass(s, e->now_ms, out);
    if (shard_check_fence(s, e, &out->err) != 0 || shard_hold_is_full(s, e, &out->err)) {
        step_refused(s, e, out);
        return;
    }
    if (shard_backup_refuses(s, e, out)) {
        return;
    }
    handle(s, e, out);
    if (s->version != version) {
        shard_readers_wake(s, e->now_ms, out);
    }
    shard_hold_answers(s, e, out);
}

void shard_info(const struct shard *s, struct shard_info *out)
{
    *out = (struct shard_info){
        .generation = s->generation,
        .version = s->version,
        .elements = s->elements,
        .filled = s->filled,
        .consistency = s->consistency,
        .examples = s->examples,
        .pushes_applied = s->pushes_applied,
        .pushes_duplicate = s->pushes_duplicate,
        .pushes_dropped = s->pushes_dropped,
        .parked = s->parked_count,
        .parked_since_ms = s->parked_count > 0 ? s->parked[0].since_ms : 0,
        .queued = s->queue_count,
        .closed = s->closed,
        .ledger = s->consistency.mode == TRAINING_SYNC ? NULL : &s->ledger,
        .role = s->standby.role,
        .backup = s->standby.backup,
        .follows = shard_has_backup(s) && s->standby.follows,
        .joining = shard_has_backup(s) && s->standby.joining,
        .state_kept = s->standby.state_kept,
        .records = s->standby.records,
        .received = s->standby.received,
        .unreceived_ms = shard_has_backup(s) && s->standby.received < s->standby.records
                             ? s->standby.unreceived_ms
                             : 0,
        .broken = s->standby.broken.code == 0 ? NULL : &s->standby.broken,
    };
    for (uint32_t r = 0; r < s->replicas; r++) {
        out->queued += s->nodes[r].buffer != NULL;
    }
    for (size_t i = 0; i < SHARD_PINS_MAX; i++) {
        const struct shard_pin *pin = &s->pins[i];
        if (pin->id[0] != 0) {
            out->pinned[out->pins++] = (struct shard_pin_info){pin->id, pin->version, pin->slots};
        }
    }
    out->readers = shard_readers_count(s);
}
