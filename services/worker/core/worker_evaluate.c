/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluations between batches: pull a pinned version once, compute chunks of it. */
#include <string.h>

#include "base/mutant.h"
#include "base/text.h"
#include "worker/core/worker_state.h"

void worker_evaluation_pump(struct worker *w)
{
    if (w->evaluation_count == 0 || w->evaluation_open > 0 || w->computing != COMPUTING_NOTHING) {
        return;
    }
    struct evaluation *e = &w->evaluations[0];
    if (strcmp(e->pin_id, w->evaluation_pin) == 0) {
        struct worker_do_evaluate *evaluate = &worker_add(w, WORKER_DO_EVALUATE)->evaluate;
        evaluate->tag = e->tag;
        evaluate->first = e->first;
        evaluate->count = e->count;
        evaluate->request = worker_rows(w, MUTANT(rows_not_pinned) ? ROWS_OF_LATEST : ROWS_OF_PIN);
        text_copy(evaluate->request.ask.pin_id, sizeof evaluate->request.ask.pin_id, e->pin_id);
        w->computing = COMPUTING_EVALUATION;
        worker_evaluation_pop(w);
        return;
    }
    w->evaluation_pin[0] = '\0';
    text_copy(w->evaluation_pulling, sizeof w->evaluation_pulling, e->pin_id);
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        struct worker_request request = worker_request(w, s, EXCHANGE_PINNED);
        request.set = WORKER_SET_EVALUATION;
        text_copy(request.ask.pin_id, sizeof request.ask.pin_id, e->pin_id);
        worker_exchange(w, &request, true);
    }
}

/* After one failure, the other answers of that pull are dropped. */
void worker_evaluation_exchanged(struct worker *w, const struct worker_exchanged *event,
                                 const char *pin_id)
{
    if (strcmp(w->evaluation_pulling, pin_id) != 0) {
        return;
    }
    if (event->code != 0) {
        w->evaluation_pulling[0] = '\0';
        worker_evaluation_fail(w, event->code,
                               event->message != NULL ? event->message : "pull failed");
    } else if (w->evaluation_open == 0) {
        w->evaluation_pulling[0] = '\0';
        text_copy(w->evaluation_pin, sizeof w->evaluation_pin, pin_id);
    }
}

static void refuse(struct worker *w, const struct worker_evaluate *event, int code,
                   const char *message)
{
    struct worker_do_reply *reply = &worker_add(w, WORKER_DO_FAIL_EVALUATE)->reply;
    reply->tag = event->tag;
    reply->code = code;
    text_copy(reply->message, sizeof reply->message, message);
}

void worker_on_evaluate(struct worker *w, const struct worker_evaluate *event)
{
    if (event->generation < w->config.generation) {
        refuse(w, event, ERR_ABORTED, "its generation was over when this worker began the job");
        return;
    }
    if (w->evaluation_count == WORKER_EVALUATIONS_MAX) {
        refuse(w, event, ERR_EXHAUSTED, "too many evaluations are queued already");
        return;
    }
    worker_take_places(w, event->generation, event->places);
    struct evaluation *e = &w->evaluations[w->evaluation_count++];
    *e = (struct evaluation){.tag = event->tag, .first = event->first, .count = event->count};
    text_copy(e->pin_id, sizeof e->pin_id, event->pin_id);
}
