/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the shards: values noted, failed exchanges tried again, the rest handed to the mode.
 */
#include "worker/core/worker_state.h"

static bool retriable(int code)
{
    /* FAILED_PRECONDITION: the shard has not heard of this generation yet. NOT_FOUND: the server
     * came back without the shard; the master will say what becomes of the job. */
    return code == ERR_UNAVAILABLE || code == ERR_STATE || code == ERR_TIMEOUT ||
           code == ERR_CANCELLED || code == ERR_NOT_FOUND || code == ERR_EXHAUSTED;
}

/* The shards know better than this worker what the generation is. PERMISSION: it is of this one,
 * but they do not count it in: its assignment was meant for a process before it. */
static bool fences(int code)
{
    return code == ERR_ABORTED || code == ERR_PERMISSION;
}

/* An exchange of this generation has failed: wait a little, or give up. */
static void exchange_failed(struct worker *w, size_t i, const struct worker_exchanged *event)
{
    struct exchange *x = &w->exchanges[i];
    if (worker_nonblocking_outrun(w, &x->request, event->code)) {
        worker_exchange_close(w, i);
    } else if (!retriable(event->code)) {
        worker_exchange_close(w, i);
        worker_fail_job(w, event->code,
                        event->message != NULL ? event->message : "exchange failed");
    } else if (!x->waiting) {
        x->waiting = true;
        w->waiting_count++;
        x->attempts++;
        x->retry_ms = w->now_ms + worker_backoff(x->attempts);
    }
}

void worker_on_exchanged(struct worker *w, const struct worker_exchanged *event)
{
    size_t i = 0;
    while (i < w->exchange_count && w->exchanges[i].request.exchange != event->exchange) {
        i++;
    }
    if (i == w->exchange_count) {
        return; /* answered before, or of a time that is over */
    }
    struct exchange *x = &w->exchanges[i];
    struct worker_request request = x->request;
    if (x->evaluation) {
        if (event->code == 0) {
            w->versions[WORKER_SET_EVALUATION][request.shard] = event->version;
        }
        worker_exchange_close(w, i);
        worker_evaluation_exchanged(w, event, request.ask.pin_id);
        return;
    }
    bool over = w->fenced || w->next_pending || request.generation != w->a.generation;
    if (event->code != 0 && !over && !fences(event->code)) {
        exchange_failed(w, i, event);
        return;
    }
    if (event->code == 0 && worker_pulls(&request)) {
        w->versions[request.set][request.shard] = event->version;
        w->landing = w->landing || event->partial;
        w->rows_came[request.shard] |= request.brings_rows && event->rows;
    }
    worker_exchange_close(w, i);
    if (event->code != 0) {
        w->fenced = true;
        worker_drop_waiting(w);
    } else if (over) {
        return;
    } else if (w->a.consistency.mode == TRAINING_SYNC) {
        worker_sync_exchanged(w, &request, event);
    } else {
        worker_async_exchanged(w, &request, event);
    }
}
