/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over whole variables: a step of sync goes in rounds (docs/protocol.md). A worker that asks
 * for the next version also asks all shards for their partial sums of this one, joins them, and
 * brings the totals back. All workers that wait do the same; the shards take the totals that come
 * first. */
#include <inttypes.h>
#include <stdio.h>

#include "base/mutant.h"
#include "worker/core/worker_state.h"

uint32_t worker_sums_rounds(const struct worker *w)
{
    return w->era_count == 0 ? 0 : w->eras[era_at(w->eras, w->era_count, w->position)].rounds;
}

void worker_sums_step_begin(struct worker *w)
{
    w->sync.sums = (struct sums_state){0};
}

static void ask(struct worker *w)
{
    struct sums_state *s = &w->sync.sums;
    s->answered = 0;
    s->past = 0;
    s->known = false;
    for (uint32_t shard = 0; shard < w->config.shard_count; shard++) {
        struct worker_request request = worker_request(w, shard, EXCHANGE_SUMS);
        request.ask.sums = (struct exchange_round){w->position, s->round};
        worker_exchange(w, &request, false);
    }
}

void worker_sums_ask(struct worker *w)
{
    if (worker_sums_rounds(w) > 0 && !w->sync.sums.asked) {
        w->sync.sums.asked = true;
        ask(w);
    }
}

/* The totals of the round to the shards that do not have them. */
static void send_totals(struct worker *w)
{
    struct sums_state *s = &w->sync.sums;
    bool joined = false;
    for (uint32_t shard = 0; shard < w->config.shard_count; shard++) {
        if (!w->sums_wanted[shard]) {
            continue;
        }
        if (!joined) {
            struct worker_do_join *join = &worker_add(w, WORKER_DO_JOIN)->join;
            join->step = w->position;
            join->round = s->round;
            join->known = s->known && !MUTANT(totals_not_told);
            join->shard = s->known_by;
            joined = true;
        }
        struct worker_request request = worker_request(w, shard, EXCHANGE_TOTALS);
        request.ask.totals.of = (struct exchange_round){w->position, s->round};
        worker_exchange(w, &request, false);
    }
}

static void take(struct worker *w, uint32_t shard, const struct worker_exchanged *event)
{
    struct sums_state *s = &w->sync.sums;
    const struct exchange_sums *sums = &event->answer.sums;
    w->sums_wanted[shard] = !sums->known;
    s->answered++;
    s->past += event->version > w->position ? 1 : 0;
    s->over = s->over || sums->over;
    if (sums->known && !sums->over) {
        s->known = true;
        s->known_by = shard;
    }
}

void worker_sums_answered(struct worker *w, const struct worker_request *request,
                          const struct worker_exchanged *event)
{
    struct sums_state *s = &w->sync.sums;
    const struct exchange_round *of = &request->ask.sums;
    if (of->step != w->position || of->round != s->round) {
        return;
    }
    if (event->answer.kind != EXCHANGE_SUMS) {
        char message[128];
        (void)snprintf(message, sizeof message,
                       "shard %" PRIu32 " did not answer with sums of step %" PRIu64,
                       request->shard, of->step);
        worker_fail_job(w, ERR_INTERNAL, message);
        return;
    }
    take(w, request->shard, event);
    if (s->answered < w->config.shard_count || s->over || s->past == w->config.shard_count) {
        return;
    }
    send_totals(w);
    if (++s->round < worker_sums_rounds(w)) {
        ask(w); /* a shard keeps it until it has the totals, which go before it */
    }
}
