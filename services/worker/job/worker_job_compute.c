/* SPDX-License-Identifier: Apache-2.0 */
/* The computation of a gradient: it may begin before the last of its parameters are there, and is
 * given up when they do not come. */
#include "os/chrono.h"
#include "os/log.h"
#include "worker/job/worker_compute.h"
#include "worker/job/worker_job_state.h"

/* ---- the end of a computation ---- */

static void computed(void *ctx)
{
    struct worker_job *j = ctx;
    if (!loop_discarding(j->loop)) {
        struct worker_event event = {.kind = WORKER_COMPUTED,
                                     .computed = {j->computed_code, j->computed_rows_lost}};
        worker_job_step(j, &event);
    }
}

/* Tells the core behind the messages that came while the gradient was computed: they may say that
 * the next computation, which begins with this event, is not wanted any more. */
void worker_job_tell_computed(struct worker_job *j, int code, bool rows_lost)
{
    j->computed_code = code;
    j->computed_rows_lost = rows_lost;
    if (loop_post(j->loop, computed, j, NULL) == ERR_EXHAUSTED) {
        computed(j);
    }
}

/* ---- what is measured ---- */

/* Where the master was away for epochs, the oldest ones go without train metrics. */
static struct epoch_sums *sums_of(struct worker_job *j, uint64_t epoch)
{
    struct epoch_sums *room = NULL;
    for (size_t i = 0; i < EPOCHS_MAX; i++) {
        struct epoch_sums *e = &j->measured.epochs[i];
        if (e->used && e->epoch == epoch) {
            return e;
        }
        bool better = room == NULL || (room->used && (!e->used || e->epoch < room->epoch));
        room = better ? e : room;
    }
    if (room->used) {
        metrics_release(&room->sums);
    }
    *room = (struct epoch_sums){.used = true, .epoch = epoch};
    metrics_init(&room->sums, metrics_of_training(j->model.spec.model.metrics));
    return room;
}

/* A batch more is in them, or was to be. */
static void sums_end(struct epoch_sums *e, bool counts)
{
    e->batches += counts ? 1 : 0;
    if (e->batches == 0) {
        metrics_release(&e->sums);
        e->used = false;
    }
}

void worker_job_count_times(struct worker_job *j)
{
    const struct step_times *t = &j->clock.times;
    meter_add(j->meters->steps, t->steps);
    for (int part = 0; part < STEP_PART_COUNT; part++) {
        meter_change(j->meters->step_seconds[part], (double)t->ns[part] * 1e-9);
    }
    step_times_add(&j->measured.times, t);
    j->clock.times = (struct step_times){0};
}

/* The thread loaded or computed until now. */
static void account(struct worker_job *j, uint64_t now_ns)
{
    struct job_compute *c = &j->compute;
    if (!c->loaded) {
        uint64_t loaded_ns = c->since_ns + j->model.load_ns;
        worker_job_busy(j, STEP_LOAD, TRACE_LOAD, c->since_ns, loaded_ns);
        c->since_ns = loaded_ns;
        c->loaded = true;
    }
    worker_job_busy(j, STEP_COMPUTE, TRACE_COMPUTE, c->since_ns, now_ns);
    c->since_ns = now_ns;
}

/* ---- parameters ---- */

static int need(void *ctx, size_t variable)
{
    struct worker_job *j = ctx;
    struct job_compute *c = &j->compute;
    if (ps_client_has_values(j->client, c->values, variable)) {
        return 0;
    }
    uint64_t begin_ns = chrono_now_ns();
    account(j, begin_ns);
    int rc = ps_client_wait_values(j->client, c->values, variable, &c->lost);
    c->since_ns = chrono_now_ns();
    worker_job_busy(j, STEP_WIRE, TRACE_WAIT, begin_ns, c->since_ns);
    return rc;
}

/* ---- rows of tables ---- */

void worker_job_rows_begin(struct worker_job *j, const struct worker_request *r)
{
    const struct worker_rows *rows = &j->model.rows;
    struct ps_client_request request = {
        .exchange = r->exchange, .generation = r->generation, .ask = r->ask};
    for (uint32_t s = 0; s < rows->shard_count && rows->count > 0; s++) {
        if (rows->shards[s].count > 0) {
            request.shard = s;
            request.rows = rows->shards[s];
            ps_client_rows_begin(j->client, &request);
        }
    }
}

int worker_job_rows_wait(struct worker_job *j, struct err *err)
{
    return ps_client_rows_wait(j->client, err);
}

static int need_rows(void *ctx)
{
    struct worker_job *j = ctx;
    struct job_compute *c = &j->compute;
    uint64_t begin_ns = chrono_now_ns();
    account(j, begin_ns);
    int rc = 0;
    if (c->rows_open) {
        rc = worker_job_rows_wait(j, &c->lost);
        c->rows_open = false;
        c->rows_lost = rc != 0;
        c->since_ns = chrono_now_ns();
        worker_job_busy(j, STEP_WIRE, TRACE_WAIT, begin_ns, c->since_ns);
    }
    return rc != 0 ? rc : worker_model_rows(&j->model, c->buffer, &c->exhausted);
}

static void begin(struct worker_job *j, const struct worker_do_compute *a, uint64_t now_ns)
{
    const bool tables = j->model.rows.count > 0;
    j->compute = (struct job_compute){.since_ns = now_ns,
                                      .values = j->model.sets[a->set],
                                      .buffer = a->buffer,
                                      .rows_open = tables && !a->has_rows,
                                      .need = {need, tables ? need_rows : NULL, j}};
}

/* Gives up a computation: backward was not reached, so its pushes were not begun. */
static void give_up(struct worker_job *j, const struct worker_do_compute *a)
{
    log_info("batch_given_up", "job=%s step=%llu reason=\"%s\"", j->id, (unsigned long long)a->step,
             j->compute.lost.msg);
    meter_add(j->meters->given_up, 1);
    worker_job_tell_computed(j, j->compute.lost.code, j->compute.rows_lost);
}

/* Computes the gradient of the action's batch, with all that it needs. Errors: those in
 * j->compute.lost; of the batch; of memory. */
static int gradient(struct worker_job *j, const struct worker_do_compute *a,
                    struct metrics *metrics, struct err *err)
{
    struct job_compute *c = &j->compute;
    int rc = worker_model_take(&j->model, &a->batch, err);
    if (rc != 0) {
        return rc;
    }
    if (a->has_rows && !j->model.was_ahead) {
        return err_set(err, ERR_INTERNAL, "rows came for another batch than is computed");
    }
    if (c->rows_open) {
        worker_job_rows_begin(j, &a->request);
    }
    const struct worker_gradient g = {
        .step = {(uint64_t)j->model.spec.training.seed, a->step, a->replica},
        .set = a->set,
        .buffer = a->buffer,
        .metrics = metrics,
        .need = j->client != NULL ? &c->need : NULL,
        .ready = worker_job_push_begin(j, a),
    };
    rc = worker_model_gradient(&j->model, &g, err);
    if (c->rows_open) { /* no layer reads them: the batch is empty, or parameters were lost */
        struct err unused = {0};
        (void)worker_job_rows_wait(j, &unused);
    }
    return c->exhausted.code == 0 ? rc : err_set(err, c->exhausted.code, "%s", c->exhausted.msg);
}

/* ---- the action ---- */

void worker_job_compute(struct worker_job *j, const struct worker_do_compute *a)
{
    struct err err = {0};
    if (worker_model_buffer(&j->model, a->buffer, &err) == NULL) {
        worker_job_fail(j, &err);
        return;
    }
    uint64_t began = chrono_now_ns();
    step_clock_begin(&j->clock, a->step, began);
    worker_job_trace_step(j, a->step, began);
    if (j->client != NULL) {
        ps_client_wait_sent(j->client, a->buffer);
    }
    worker_job_sums_changed(&j->sums, a->buffer);
    uint64_t begin_ns = chrono_now_ns();
    uint64_t used = chrono_thread_ns();
    worker_job_busy(j, STEP_WIRE, TRACE_WAIT, began, begin_ns);
    /* A replica of another worker is that one's to measure. */
    struct epoch_sums *sums = a->spare ? NULL : sums_of(j, a->batch.epoch);
    begin(j, a, begin_ns);
    struct metrics_before before;
    if (sums != NULL) {
        metrics_open(&sums->sums, &before);
    }
    int rc = gradient(j, a, sums != NULL ? &sums->sums : NULL, &err);
    if (sums != NULL) {
        metrics_close(&sums->sums, &before);
        sums_end(sums, rc == 0);
    }
    if (rc == ERR_CANCELLED && j->model.compute->interrupted) {
        j->halted = true; /* the job is dropped: nobody asks for the rest */
        return;
    }
    if (rc != 0 && j->compute.lost.code == 0) {
        worker_job_fail(j, &err);
        return;
    }
    slow_down_wait(&j->slow_down, begin_ns, chrono_thread_ns() - used);
    account(j, chrono_now_ns());
    if (rc != 0) {
        give_up(j, a);
        return;
    }
    worker_job_push_end(j);
    worker_job_count_times(j);
    meter_add(j->meters->batches, 1);
    meter_add(j->meters->examples, a->batch.count);
    worker_job_tell_computed(j, 0, false);
}
