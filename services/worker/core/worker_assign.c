/* SPDX-License-Identifier: Apache-2.0 */
/* Assignments of the master: generations, limits, holds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutant.h"
#include "base/text.h"
#include "worker/core/worker_state.h"

static void take_ledger(struct ledger *to, const struct ledger *from,
                        const struct ledger_shape *shape)
{
    ledger_release(to);
    if (ledger_init(to, from != NULL ? &from->shape : shape, from != NULL ? from->epoch : 0,
                    NULL) != 0) {
        abort(); /* the shell checked the shape */
    }
    if (from != NULL) {
        memcpy(to->done, from->done, from->split_count * sizeof to->done[0]);
    }
}

static void reply_assign(struct worker *w, uint64_t tag, int code, const char *message)
{
    struct worker_do_reply *reply = &worker_add(w, WORKER_DO_REPLY_ASSIGN)->reply;
    reply->tag = tag;
    reply->code = code;
    reply->position = w->position;
    if (message != NULL) {
        text_copy(reply->message, sizeof reply->message, message);
    }
}

/* The first step that this worker has not begun: a step counts as begun with its first gradient. */
static uint64_t first_step_not_begun(const struct worker *w)
{
    if (worker_sync_is_standby(w)) {
        return w->a.step; /* it keeps no worker from stopping at once */
    }
    bool computing = w->computing == COMPUTING_BATCH || w->computing == COMPUTING_SPARE;
    bool begun = (w->sync.step_begun || computing) && !MUTANT(hold_forgets_step);
    return w->position + (begun ? 1 : 0);
}

static void hold(struct worker *w, uint64_t tag)
{
    w->a.hold = true;
    w->idle_reported = false;
    if (w->a.consistency.mode == TRAINING_SYNC) {
        w->a.step_limit = first_step_not_begun(w);
    }
    reply_assign(w, tag, 0, NULL);
    if (w->a.consistency.mode == TRAINING_SYNC) {
        w->out->items[w->out->count - 1].reply.position = w->a.step_limit;
    }
}

void worker_on_assign(struct worker *w, const struct worker_assign *event)
{
    const struct worker_assignment *a = &event->assignment;
    bool any = w->assigned || w->next_pending;
    uint64_t known = any ? worker_generation(w) : w->config.generation;
    if (a->generation < known) { /* of this start of the job, or of an earlier one */
        char message[128];
        (void)snprintf(message, sizeof message,
                       "generation %" PRIu64 " is over; this worker is at %" PRIu64, a->generation,
                       known);
        reply_assign(w, event->tag, ERR_ABORTED, message);
        return;
    }
    bool same = any && a->generation == known;
    if (same && a->number != 0 && a->number < w->assign_number && !MUTANT(late_assign)) {
        reply_assign(w, event->tag, ERR_ABORTED, "a later assignment came first");
        return;
    }
    w->assign_number = a->number != 0 ? a->number : w->assign_number;
    if (same) {
        struct worker_assignment *present = w->next_pending ? &w->next : &w->a;
        if (a->hold && !w->next_pending) {
            hold(w, event->tag);
            return;
        }
        present->hold = a->hold;
        if (a->hold) {
            present->step_limit = present->step;
        } else if (a->step_limit > present->step_limit) {
            present->step_limit = a->step_limit;
        }
        w->idle_reported = false;
        reply_assign(w, event->tag, 0, NULL);
        if (w->next_pending) {
            w->out->items[w->out->count - 1].reply.position = present->step;
        }
        return;
    }
    worker_take_places(w, a->generation, event->places);
    worker_take_eras(w, event->eras, event->era_count);
    w->next = *a;
    w->next.ledger = NULL;
    take_ledger(&w->next_ledger, a->ledger, &w->config.shape);
    w->next_pending = true;
    if (a->hold) {
        w->next.step_limit = a->step;
    }
    reply_assign(w, event->tag, 0, NULL);
}

void worker_begin_next(struct worker *w)
{
    struct ledger old = w->ledger;
    w->ledger = w->next_ledger;
    w->next_ledger = (struct ledger){0};
    ledger_release(&old);
    w->a = w->next;
    w->next_pending = false;
    w->assigned = true;
    w->fenced = false;
    w->idle_reported = false;
    w->idle_due = false;
    w->rows_retry_ms = 0;
    w->rows_attempts = 0;
    memset(w->buffer_users, 0, sizeof w->buffer_users);
    if (w->landing) {
        worker_set_forget(w, w->current); /* values that do not come would be missed too late */
        w->landing = false;
    }
    /* Nothing of the old mode is left: what it held, summed or waited for. */
    memset(&w->sync, 0, sizeof w->sync);
    if (!MUTANT(leases_over_generations)) {
        memset(&w->async, 0, sizeof w->async);
    }
    if (w->a.consistency.mode == TRAINING_SYNC) {
        worker_sync_begin(w);
    } else {
        worker_async_begin(w);
    }
}
