/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of shards come to a worker, or never will: values are put in place beside the job's
 * thread, which hears of them in its mail. */
#include "sim/sim.h"

#include <stdio.h>

/* It may be told with the first of its values. */
static void land_later(struct world *w, const struct pending_exchange *p, struct sim_worker_job *j,
                       struct exchange *x)
{
    const struct sim_knobs *k = &w->schedule->knobs;
    struct worker_values *set = &j->sets[p->set];
    set->shard[p->shard].lost = false;
    set->shard[p->shard].lands_us = 0;
    if (!p->early || w->quiet || k->early_part == 0 ||
        world_draw(w, "early", ++w->answers, 1000000) >= k->early_part) {
        return;
    }
    x->partial = true;
    set->shard[p->shard].lands_us = w->now_us + 1 + world_draw(w, "land", w->answers, k->early_us);
    set->shard[p->shard].stream = p->stream;
    if (world_draw(w, "lost", w->answers, 1000000) < k->lost_part) {
        values_lost(j->layout, set, p->shard);
    }
}

/* An answer of a shard: its values are in place at once, whatever the job's thread is doing. */
void worker_exchanged(struct world *w, uint32_t node, uint32_t exchange)
{
    struct sim_worker_job *j = w->nodes[node].job;
    struct exchange *x = &w->exchanges[exchange];
    const struct sim_job *job = &w->jobs[j->job];
    for (uint32_t i = 0; i < j->pending_count; i++) {
        struct pending_exchange *p = &j->pending[i];
        if (!p->open || p->number != x->number || p->stream != x->stream) {
            continue;
        }
        p->open = false;
        if (p->rows) {
            rows_came(w, node, p, x);
            exchange_free(w, exchange);
            return;
        }
        if (p->pulls) {
            j->filling[p->set]--;
        }
        if (x->has_values && p->pulls) {
            struct worker_values *set = &j->sets[p->set];
            for (uint32_t k = 0; k < j->layout->shard_elements[p->shard]; k++) {
                const uint32_t element = j->layout->map[p->shard][k];
                set->t.v[element] = job_is_row(job, element) ? -1e9F : x->values.v[k];
            }
            set->shard[p->shard].version = x->version;
            set->shard[p->shard].opened = x->opened;
            set->shard[p->shard].ids = x->ids;
            set->shard[p->shard].known = true;
            land_later(w, p, j, x);
            rows_along(w, j, p, x);
        }
        worker_post(w, node, (struct mail){MAIL_EXCHANGED, exchange, 0});
        return;
    }
    exchange_free(w, exchange); /* nobody asked, or it was given up */
}

/* The rest of what was told early does not come either. */
static void lose_rest(struct world *w, struct sim_worker_job *j, uint32_t stream)
{
    for (size_t i = 0; i < WORKER_SET_COUNT; i++) {
        struct worker_values *set = &j->sets[i];
        for (uint32_t s = 0; s < j->shard_count; s++) {
            if (set->shard[s].lands_us > w->now_us && set->shard[s].stream == stream) {
                values_lost(j->layout, set, s);
            }
        }
    }
}

void worker_broken(struct world *w, uint32_t node, uint32_t stream)
{
    struct sim_worker_job *j = w->nodes[node].job;
    if (j->there) {
        lose_rest(w, j, stream);
    }
    uint32_t serial = j->serial;
    for (uint32_t i = 0; i < j->pending_count && j->there && j->serial == serial; i++) {
        struct pending_exchange *p = &j->pending[i];
        if (!p->open || p->stream != stream) {
            continue;
        }
        p->open = false;
        if (p->rows) {
            rows_broken(w, node);
            continue;
        }
        if (p->pulls) {
            j->filling[p->set]--;
        }
        uint32_t index = exchange_new(w);
        struct exchange *x = &w->exchanges[index];
        x->stream = stream;
        x->number = p->number;
        x->code = ERR_UNAVAILABLE;
        snprintf(x->message, sizeof x->message, "the stream was closed");
        worker_post(w, node, (struct mail){MAIL_EXCHANGED, index, 0});
    }
}
