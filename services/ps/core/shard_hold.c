/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that show what the backup has not received yet: they wait, as they are. Those of
 * exchanges that train, or ask for sums, wait as requests do (shard_park.c). */
#include <string.h>

#include "base/mem.h"
#include "ps/core/shard_internal.h"

/* A refusal shows nothing; a pinned version was shown when it was pinned, and readers are told of
 * no other. */
static bool shows(const struct shard_event *e, const struct shard_action *a)
{
    return a->kind == SHARD_REPLY && a->code == 0 && !a->values && !a->rows &&
           e->kind != SHARD_READ;
}

static void hold(struct shard_standby *b, const struct shard_action *reply)
{
    b->held = mem_grow(b->held, &b->held_capacity, b->held_count + 1, sizeof *b->held);
    struct shard_held *h = &b->held[b->held_count++];
    *h = (struct shard_held){.reply = *reply};
    if (reply->ledger != NULL) {
        ledger_copy(&h->ledger, reply->ledger);
    }
}

/* An answer to @e, which is not parked, may have to wait. A new generation refuses all that wait.
 */
static bool may_wait(const struct shard *s, const struct shard_event *e)
{
    switch (e->kind) {
    case SHARD_EXCHANGE:
        return e->ask.kind == EXCHANGE_SPARE;
    case SHARD_MEMBERSHIP:
        return e->generation <= s->generation;
    case SHARD_FILL:
    case SHARD_PIN:
    case SHARD_UNPIN:
    case SHARD_STATE:
        return true;
    default:
        return false;
    }
}

bool shard_hold_is_full(const struct shard *s, const struct shard_event *e, struct err *err)
{
    if (!shard_unreceived(s) || s->standby.held_count < SHARD_PARKED_MAX || !may_wait(s, e)) {
        return false;
    }
    (void)err_set(err, ERR_EXHAUSTED, "%d answers wait for the backup already; try again later",
                  SHARD_PARKED_MAX);
    return true;
}

void shard_hold_answers(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    if (!shard_unreceived(s) || s->closed) {
        return;
    }
    size_t kept = 0;
    for (size_t i = 0; i < out->count; i++) {
        if (shows(e, &out->items[i])) {
            hold(&s->standby, &out->items[i]);
        } else {
            out->items[kept++] = out->items[i];
        }
    }
    out->count = kept;
}

void shard_hold_let_go(struct shard *s, struct shard_actions *out)
{
    struct shard_standby *b = &s->standby;
    for (size_t i = 0; i < b->held_count; i++) {
        struct shard_action *a = shard_act(out, SHARD_REPLY);
        *a = b->held[i].reply;
        a->ledger = a->ledger == NULL ? NULL : &b->held[i].ledger;
    }
    b->let_go = true;
}

static void forget(struct shard_standby *b)
{
    for (size_t i = 0; i < b->held_count; i++) {
        ledger_release(&b->held[i].ledger);
    }
    b->held_count = 0;
    b->let_go = false;
}

void shard_hold_clear(struct shard *s)
{
    if (s->standby.let_go) {
        forget(&s->standby);
    }
}

void shard_hold_refuse(struct shard *s, struct shard_actions *out)
{
    for (size_t i = 0; i < s->standby.held_count; i++) {
        shard_refuse(s, s->standby.held[i].reply.tag, out);
    }
    forget(&s->standby);
}

void shard_hold_gone(struct shard *s, const void *tag)
{
    struct shard_standby *b = &s->standby;
    for (size_t i = 0; i < b->held_count; i++) {
        if (b->held[i].reply.tag == tag) {
            ledger_release(&b->held[i].ledger);
            b->held_count--;
            memmove(&b->held[i], &b->held[i + 1], (b->held_count - i) * sizeof *b->held);
            return;
        }
    }
}
