/* SPDX-License-Identifier: Apache-2.0 */
/* A push becomes an update as soon as a snapshot is free to write it to, and the backup has
 * received what was said to it; when it has, answers that waited are given. */
#include "base/mutant.h"
#include "ps/core/shard_internal.h"

bool shard_wants_snapshot(const struct shard *s)
{
    const bool may = !s->closed && s->standby.role != SHARD_BACKUP && !shard_awaits_backup(s);
    return may && (s->queue_count > 0 || (shard_sync_ready(s) && !shard_sums_wanting(s)));
}

void shard_on_snapshot(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    if (!e->can_apply || !shard_wants_snapshot(s)) {
        return;
    }
    if (s->consistency.mode == TRAINING_SYNC) {
        shard_sync_go_on(s, e, out);
    } else {
        shard_async_apply(s, out);
    }
    shard_wake(s, out);
}

/* Nothing that was said is on its way. In sync another shard may be a step behind: who takes over
 * must have the version before, too, and what led to the present one. */
static bool can_take_over(const struct shard *s)
{
    const struct shard_standby *b = &s->standby;
    const bool first = b->state_version == s->version_first; /* no shard is behind that */
    if (s->consistency.mode == TRAINING_SYNC && s->version == b->state_version && !first &&
        !MUTANT(follows_without_version_before)) {
        return false;
    }
    for (size_t i = 0; i < SHARD_PINS_MAX; i++) {
        if (s->pins[i].unsaid) {
            return false;
        }
    }
    return true;
}

/* The backup that joins has the state, and maybe more. */
static void catch_up(struct shard *s, struct shard_actions *out)
{
    struct shard_standby *b = &s->standby;
    if (b->state_kept) {
        shard_record_state_end(s, out);
        b->behind = b->records - b->received;
        b->caught = b->received;
        b->follows = MUTANT(follows_before_received);
    }
    b->joining = b->records - b->received > 1;
    b->shown = s->version; /* if it is waited for from now on */
}

void shard_on_receipt(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    struct shard_standby *b = &s->standby;
    if (b->role != SHARD_PRIMARY || e->backup != b->backup || e->received <= b->received ||
        e->received > b->records) {
        return;
    }
    b->received = MUTANT(receipt_of_all) ? b->records : e->received;
    b->unreceived_ms = e->now_ms;
    if (b->joining) {
        catch_up(s, out);
    }
    if (!b->joining && !shard_unreceived(s)) {
        b->follows = b->follows || can_take_over(s);
        shard_hold_let_go(s, out);
        shard_wake(s, out);
        shard_readers_wake(s, e->now_ms, out);
    }
}
