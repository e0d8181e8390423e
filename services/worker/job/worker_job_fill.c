/* SPDX-License-Identifier: Apache-2.0 */
/* StartJob of a job whose initial values this worker brings: the call is kept until every shard has
 * all of them. Nothing here waits, so the job can be dropped at any moment. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "os/chrono.h"
#include "os/log.h"
#include "worker/job/worker_job_assign.h"
#include "worker/job/worker_job_state.h"

#define FILL_CHUNK_BYTES (1U << 20)

static void go_on(struct worker_job *j);

static void on_due(void *ctx)
{
    go_on(ctx);
}

void worker_job_fill_end(struct worker_job *j, int code, const char *message)
{
    struct job_fill *f = &j->fill;
    if (!f->active) {
        return;
    }
    f->active = false;
    work_end(&j->tells->fills);
    loop_timer_clear(j->loop, &f->timer);
    worker_fill_release(&f->core);
    while (f->call_count > 0) {
        struct rpc_call *call = f->calls[--f->call_count];
        if (code != 0) {
            worker_job_fail_call(call, code, message);
        } else {
            Gradus__V1__StartJobResponse response = GRADUS__V1__START_JOB_RESPONSE__INIT;
            (void)rpc_reply(call, &response.base, NULL);
        }
        rpc_call_unref(call);
    }
}

/* Gives up, because trying again does not help. A shard that is gone is the master's to replace: it
 * asks again, or starts the job anew. A code that the master would take for a word about this
 * worker itself is replaced. */
static void give_up(struct worker_job *j, uint32_t shard, int code, const char *message)
{
    struct err err;
    (void)err_set(&err, code, "%s", message);
    (void)err_wrap(&err, "initial values for shard %" PRIu32, shard);
    char quoted[512];
    log_warn("fill_failed", "job=%s error=%s", j->id, log_quote(err.msg, quoted, sizeof quoted));
    if (code == ERR_ABORTED) {
        code = ERR_UNAVAILABLE;
    } else {
        code = code == ERR_UNAUTHENTICATED ? ERR_PERMISSION : code;
        j->failed = true;
    }
    worker_job_fill_end(j, code, err.msg);
}

static void done(struct worker_job *j)
{
    log_info("initial_values_there", "job=%s elements=%" PRIu64, j->id,
             worker_fill_filled(&j->fill.core));
    worker_model_brought(&j->model);
    worker_job_begin(j, j->fill.generation);
    worker_job_fill_end(j, 0, NULL);
}

/* Sends values. They are read when a shard lacks some for the first time: when a job goes on from a
 * checkpoint the shards have all, and nobody asks for the source. */
static void send(struct worker_job *j, const struct worker_fill_part *part)
{
    struct err err = {0};
    int rc = part->count == 0 ? 0
                              : worker_model_bring(&j->model, dataset_cache_roots(j->data),
                                                   j->fill.from_fingerprint, &err);
    if (rc != 0 && rc != ERR_UNAVAILABLE) {
        give_up(j, part->shard, rc, err.msg);
        return;
    }
    const struct ps_client_given given = {
        .shard = part->shard,
        .generation = j->fill.generation,
        .values = j->model.initial,
        .first = part->first,
        .count = part->count,
    };
    rc = rc != 0 ? rc : ps_client_fill(j->client, &given, &err);
    if (rc != 0) { /* the shard cannot be reached: it may be later */
        (void)worker_fill_answered(&j->fill.core, part->shard, ERR_UNAVAILABLE, 0, chrono_now_ms());
    }
}

static void go_on(struct worker_job *j)
{
    struct worker_fill_part part;
    if (worker_fill_done(&j->fill.core)) {
        done(j);
        return;
    }
    while (j->fill.active && worker_fill_next(&j->fill.core, chrono_now_ms(), &part)) {
        send(j, &part);
    }
    if (!j->fill.active) {
        return;
    }
    uint64_t due_ms = worker_fill_timer(&j->fill.core);
    if (due_ms == UINT64_MAX) {
        loop_timer_clear(j->loop, &j->fill.timer);
    } else {
        loop_timer_set(j->loop, &j->fill.timer, due_ms, on_due, j);
    }
}

void worker_job_filled(void *ctx, const struct ps_client_filled *a)
{
    struct worker_job *j = ctx;
    if (!j->fill.active) {
        return; /* an answer of an attempt that was given up */
    }
    int rc = worker_fill_answered(&j->fill.core, a->shard, a->code, a->filled, chrono_now_ms());
    if (rc != 0) {
        give_up(j, a->shard, rc,
                a->code != 0 ? a->message : "it says that it has more elements than the plan");
        return;
    }
    work_advance(&j->tells->fills, worker_fill_filled(&j->fill.core) * sizeof(float));
    go_on(j);
}

/* Sets the places of all shards. */
static int place_all(struct worker_job *j, const Gradus__V1__StartJobRequest *r, struct err *err)
{
    struct worker_place *places = mem_new(j->plan.shard_count, sizeof *places);
    int rc = worker_job_places_from_proto(r->shards, r->n_shards, j->plan.shard_count, places, err);
    for (uint32_t s = 0; s < j->plan.shard_count && rc == 0; s++) {
        const struct ps_client_place place = {places[s].address, places[s].opening};
        rc = ps_client_place(j->client, s, &place, err);
    }
    free(places);
    return rc;
}

static void begin(struct worker_job *j)
{
    struct job_fill *f = &j->fill;
    uint64_t elements = 0;
    for (uint32_t s = 0; s < j->plan.shard_count; s++) {
        elements += j->plan.shard_elements[s];
    }
    size_t chunk = j->message_bytes_max / 2;
    chunk = chunk == 0 || chunk > FILL_CHUNK_BYTES ? FILL_CHUNK_BYTES : chunk;
    f->active = true;
    worker_fill_init(&f->core, j->plan.shard_elements, j->plan.shard_count, chunk / sizeof(float));
    work_begin(&j->tells->fills, "StartJob", elements * sizeof(float), "bytes");
}

void worker_job_fill_start(struct worker_job *j, struct rpc_call *call,
                           const Gradus__V1__StartJobRequest *r)
{
    struct job_fill *f = &j->fill;
    struct err err = {0};
    if (!worker_model_brings(&j->model)) {
        j->failed = true;
        worker_job_fail_call(call, ERR_STATE,
                             "the plan wants initial values from this worker, which has none");
        return;
    }
    if (place_all(j, r, &err) != 0) {
        (void)rpc_fail(call, &err);
        return;
    }
    f->from_fingerprint = r->data == NULL ? 0 : r->data->from_fingerprint;
    f->generation = r->generation > f->generation ? r->generation : f->generation;
    if (f->call_count == STARTS_KEPT) {
        worker_job_fail_call(call, ERR_EXHAUSTED, "too many calls wait already");
        return;
    }
    f->calls[f->call_count++] = rpc_call_ref(call);
    if (!f->active) {
        begin(j);
        go_on(j);
    }
}
