/* SPDX-License-Identifier: Apache-2.0 */
/* The state machine behind a node's membership: events in, actions out. A failed call is
 * repeated after a pause that doubles each time and is drawn at random from its upper half. */
#include "membership/membership_core.h"

#include "base/backoff.h"
#include "base/rng.h"

static void start_call(struct membership_core *c, enum membership_call call,
                       struct membership_actions *out)
{
    c->call++;
    c->calling = true;
    c->again = false;
    out->call = call;
}

static void call_now(struct membership_core *c, struct membership_actions *out)
{
    start_call(c, c->state == MEMBERSHIP_IN ? MEMBERSHIP_HEARTBEAT : MEMBERSHIP_JOIN, out);
}

static void lose(struct membership_core *c, struct membership_actions *out)
{
    c->state = MEMBERSHIP_OUT;
    out->lost = true;
    call_now(c, out);
}

/* Twice as long after each failure, and somewhere in the upper half of that. */
static uint64_t pause_ms(const struct membership_core *c)
{
    uint64_t ms = backoff_ms(c->failures, MEMBERSHIP_BACKOFF_MIN_MS, MEMBERSHIP_BACKOFF_MAX_MS);
    return ms / 2 + rng_below(c->seed, c->call, ms / 2 + 1);
}

static void failed(struct membership_core *c, int code, uint64_t now_ms,
                   struct membership_actions *out)
{
    if (c->failures == 0) {
        c->failing_ms = now_ms;
    }
    if (c->failures == 0 || now_ms - c->told_ms >= MEMBERSHIP_TELL_MS) {
        c->told_ms = now_ms;
        out->trouble = true;
    }
    c->failures++;
    const uint64_t most_ms = code == ERR_EXISTS ? MEMBERSHIP_PLACE_MS /* it may soon be free */
                             : code == ERR_UNAVAILABLE ? MEMBERSHIP_AWAY_MS
                                                       : MEMBERSHIP_BACKOFF_MAX_MS;
    const uint64_t wait_ms = pause_ms(c);
    out->timer_ms = now_ms + (wait_ms < most_ms ? wait_ms : most_ms);
}

static void went_well(struct membership_core *c, const struct membership_event *e,
                      struct membership_actions *out)
{
    out->well = c->failures > 0;
    c->failures = 0;
    if (c->state == MEMBERSHIP_OUT) {
        c->state = MEMBERSHIP_IN;
        c->interval_ms = e->interval_ms;
        if (c->interval_ms == 0 || c->interval_ms > MEMBERSHIP_INTERVAL_MAX_MS) {
            c->interval_ms = MEMBERSHIP_INTERVAL_MAX_MS;
        }
        out->joined = true;
    }
    out->timer_ms = e->now_ms + c->interval_ms;
    if (c->again) {
        call_now(c, out);
    }
}

static void on_answer(struct membership_core *c, const struct membership_event *e,
                      struct membership_actions *out)
{
    if (e->call != c->call || !c->calling) {
        return; /* of a call that nobody waits for any more */
    }
    c->calling = false;
    if (c->state == MEMBERSHIP_LEAVING) {
        c->state = MEMBERSHIP_LEFT;
        out->left = true;
    } else if (e->code == 0) {
        went_well(c, e, out);
    } else if (e->code == ERR_NOT_FOUND && c->state == MEMBERSHIP_IN) {
        lose(c, out);
    } else {
        failed(c, e->code, e->now_ms, out);
    }
}

static void on_leave(struct membership_core *c, struct membership_actions *out)
{
    if (c->state == MEMBERSHIP_IN) {
        c->state = MEMBERSHIP_LEAVING;
        start_call(c, MEMBERSHIP_LEAVE, out);
    } else if (c->state == MEMBERSHIP_OUT) {
        c->state = MEMBERSHIP_LEFT;
        out->left = true;
    }
}

void membership_step(struct membership_core *c, const struct membership_event *e,
                     struct membership_actions *out)
{
    *out = (struct membership_actions){0};
    if (c->state == MEMBERSHIP_LEFT) {
        return;
    }
    switch (e->kind) {
    case MEMBERSHIP_ON_ANSWER:
        on_answer(c, e, out);
        break;
    case MEMBERSHIP_ON_LEAVE:
        on_leave(c, out);
        break;
    case MEMBERSHIP_ON_HURRY:
        if (c->state == MEMBERSHIP_IN && !c->calling) {
            call_now(c, out);
        } else {
            c->again = c->state == MEMBERSHIP_IN;
        }
        break;
    case MEMBERSHIP_ON_TIMER:
        if (!c->calling) {
            call_now(c, out);
        }
        break;
    }
}
