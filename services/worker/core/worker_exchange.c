/* SPDX-License-Identifier: Apache-2.0 */
/* Open exchanges: kept until they are answered, sent again after passing errors. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "worker/core/worker_state.h"

struct worker_request worker_request(const struct worker *w, uint32_t shard,
                                     enum exchange_kind kind)
{
    return (struct worker_request){
        .shard = shard,
        .generation = w->a.generation,
        .ask = {.kind = kind},
        .buffer = WORKER_BUFFER_NONE,
        .set = w->current,
    };
}

struct worker_request worker_rows(struct worker *w, enum rows_of of)
{
    struct worker_request request = {.buffer = WORKER_BUFFER_NONE};
    if (w->config.tables) {
        request = worker_request(w, 0, EXCHANGE_ROWS);
        request.exchange = ++w->exchange_last;
        request.ask.rows.of = of;
    }
    return request;
}

static bool have_rows(const struct worker *w, const struct ledger_batch *of)
{
    bool all =
        w->config.tables && (ledger_batch_equal(&w->rows_of, of) || MUTANT(rows_of_any_batch));
    for (uint32_t s = 0; s < w->config.shard_count && all; s++) {
        all = w->rows_came[s] || (MUTANT(rows_of_lead) && s != WORKER_LEAD);
    }
    return all;
}

void worker_rows_needed(struct worker *w, struct worker_do_compute *compute, enum rows_of of,
                        uint64_t version)
{
    compute->has_rows = have_rows(w, &compute->batch);
    memset(w->rows_came, 0, w->config.shard_count * sizeof w->rows_came[0]); /* used once */
    if (!compute->has_rows) {
        compute->request = worker_rows(w, of);
        compute->request.ask.rows.version = version;
    }
}

void worker_rows_along(const struct worker *w, struct worker_request *request,
                       const struct ledger_batch *next)
{
    if (w->config.tables && next->count > 0) {
        request->brings_rows = true;
        request->rows_of = *next;
        request->early = false; /* rows come behind all values */
    }
}

enum worker_set worker_other_set(const struct worker *w)
{
    return w->current == WORKER_SET_A ? WORKER_SET_B : WORKER_SET_A;
}

bool worker_set_known(const struct worker *w, enum worker_set set)
{
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        if (w->versions[set][s] == WORKER_VERSION_NONE) {
            return false;
        }
    }
    return true;
}

bool worker_set_is(const struct worker *w, enum worker_set set, uint64_t version)
{
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        if (w->versions[set][s] != version && !(MUTANT(mixed_versions) && s > 0)) {
            return false;
        }
    }
    return true;
}

void worker_set_forget(struct worker *w, enum worker_set set)
{
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        w->versions[set][s] = WORKER_VERSION_NONE;
    }
}

bool worker_pulls(const struct worker_request *r)
{
    return r->ask.has_pull || r->ask.kind == EXCHANGE_PINNED;
}

static void send(struct worker *w, const struct worker_request *request)
{
    worker_add(w, WORKER_DO_EXCHANGE)->exchange = *request;
}

void worker_push_along(struct worker *w)
{
    w->computing = COMPUTING_PUSHED;
    w->along = true;
    w->push_count = 0;
}

void worker_pushed_along(struct worker *w, size_t at)
{
    struct worker_do_compute *compute = &w->out->items[at].compute;
    assert(w->out->items[at].kind == WORKER_DO_COMPUTE && compute->buffer == w->computing_buffer);
    compute->pushes = w->pushes;
    compute->push_count = w->push_count;
    w->along = false;
}

void worker_exchange(struct worker *w, struct worker_request *request, bool evaluation)
{
    request->exchange = ++w->exchange_last;
    w->exchanges =
        mem_grow(w->exchanges, &w->exchange_capacity, w->exchange_count + 1, sizeof *w->exchanges);
    w->exchanges[w->exchange_count++] =
        (struct exchange){.request = *request, .evaluation = evaluation};
    if (evaluation) {
        w->evaluation_open++;
    } else {
        w->training_open++;
    }
    if (request->buffer != WORKER_BUFFER_NONE) {
        w->buffer_users[request->buffer]++;
    }
    if (worker_pulls(request)) {
        w->versions[request->set][request->shard] = WORKER_VERSION_NONE;
    }
    if (request->ask.has_pull && !MUTANT(rows_kept)) {
        w->rows_came[request->shard] = false;
    }
    if (request->brings_rows) {
        w->rows_of = request->rows_of;
    }
    if (w->along && request->ask.has_push && request->buffer == w->computing_buffer) {
        assert(w->push_count < w->config.shard_count);
        w->pushes[w->push_count++] = *request;
    } else {
        send(w, request);
    }
}

void worker_exchange_close(struct worker *w, size_t i)
{
    struct exchange *x = &w->exchanges[i];
    worker_buffer_drop(w, x->request.buffer);
    if (x->evaluation) {
        w->evaluation_open--;
    } else {
        w->training_open--;
    }
    w->waiting_count -= x->waiting ? 1 : 0;
    *x = w->exchanges[--w->exchange_count];
}

void worker_drop_waiting(struct worker *w)
{
    for (size_t i = 0; i < w->exchange_count;) {
        if (!w->exchanges[i].evaluation && w->exchanges[i].waiting) {
            worker_exchange_close(w, i);
        } else {
            i++;
        }
    }
}

void worker_drop_pushes(struct worker *w, uint32_t buffer)
{
    for (size_t i = 0; i < w->exchange_count;) {
        const struct worker_request *r = &w->exchanges[i].request;
        if (r->ask.has_push && r->buffer == buffer) {
            worker_exchange_close(w, i);
        } else {
            i++;
        }
    }
}

void worker_retry_exchanges(struct worker *w)
{
    if (w->fenced || w->next_pending) {
        worker_drop_waiting(w);
        return;
    }
    for (size_t i = 0; w->waiting_count > 0 && i < w->exchange_count; i++) {
        struct exchange *x = &w->exchanges[i];
        if (x->waiting && x->request.ask.kind == EXCHANGE_SPARE && w->sync.step_over) {
            worker_exchange_close(w, i--); /* no replica is late any more */
        } else if (x->waiting && x->retry_ms <= w->now_ms) {
            x->waiting = false;
            w->waiting_count--;
            send(w, &x->request);
        }
    }
}

bool worker_quiet(const struct worker *w)
{
    return w->training_open == 0 &&
           (w->computing == COMPUTING_NOTHING || w->computing == COMPUTING_EVALUATION);
}
