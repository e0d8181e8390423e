/* SPDX-License-Identifier: Apache-2.0 */
/* The master's calls to a job: any thread posts them, the job's thread answers. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gradus/v1/worker.pb-c.h"
#include "os/chrono.h"
#include "os/log.h"
#include "wire/wire.h"
#include "worker/job/worker_job_assign.h"
#include "worker/job/worker_job_state.h"

/* ---- messages to the job's thread ---- */

struct request {
    struct worker_job *job;
    struct rpc_call *call;
    struct rpc_msg *msg;
    void (*handle)(struct worker_job *j, struct rpc_call *call, const ProtobufCMessage *body);
};

static void request_run(void *ctx)
{
    struct request *r = ctx;
    if (loop_discarding(r->job->loop)) {
        worker_job_fail_call(r->call, ERR_CANCELLED, "the job was stopped");
    } else {
        r->handle(r->job, r->call, r->msg->body);
    }
    rpc_msg_unref(r->msg);
    rpc_call_unref(r->call);
    free(r);
}

static void post_request(struct worker_job *j, struct rpc_call *call, struct rpc_msg *msg,
                         void (*handle)(struct worker_job *, struct rpc_call *,
                                        const ProtobufCMessage *))
{
    struct request *r = mem_new(1, sizeof *r);
    *r = (struct request){j, rpc_call_ref(call), rpc_msg_ref(msg), handle};
    struct err err = {0};
    if (loop_post(j->loop, request_run, r, &err) != 0) {
        (void)rpc_fail(call, &err);
        rpc_msg_unref(r->msg);
        rpc_call_unref(r->call);
        free(r);
    }
}

/* ---- the master's calls ---- */

static uint64_t bad_records(const struct dataset *d)
{
    return d == NULL ? 0 : dataset_bad_records(d, NULL);
}

static void tell_bad_records(const struct worker_job *j, const char *part, const struct dataset *d)
{
    const char *first = NULL;
    uint64_t count = d == NULL ? 0 : dataset_bad_records(d, &first);
    if (count > 0) {
        char quoted[ERR_MESSAGE_BYTES];
        if (!j->model.data_known) { /* known data were counted by an earlier job */
            meter_add(j->meters->bad_records, count);
        }
        log_warn("bad_records_left_out", "job=%s part=%s count=%llu first=%s", j->id, part,
                 (unsigned long long)count, log_quote(first, quoted, sizeof quoted));
    }
}

static void log_loaded(const struct worker_job *j, uint64_t ms)
{
    const struct worker_model *m = &j->model;
    char format[256], loading[512];
    const char *from = m->train == NULL ? "program" : dataset_format(m->train);
    const char *where = m->train == NULL ? "program" : dataset_loading(m->train);
    log_info("data_loaded",
             "job=%s records=%llu test_records=%llu known=%d format=%s loading=%s ms=%llu", j->id,
             (unsigned long long)m->train_info.records, (unsigned long long)m->test_info.records,
             (int)m->data_known, log_quote(from, format, sizeof format),
             log_quote(where, loading, sizeof loading), (unsigned long long)ms);
}

/* A store that does not answer is asked again with the next call, which the master makes after
 * that error; any other one stays. */
static int load(struct worker_job *j, const char *encoding, bool begins, struct err *err)
{
    const struct worker_job_file file = {j->id, j->text, encoding, begins};
    if (!j->loaded) {
        j->loaded = true;
        j->load_err = (struct err){0};
        uint64_t begin = chrono_now_ms();
        if (worker_model_load(&j->model, &file, j->data, &j->load_err) == 0) {
            log_loaded(j, chrono_now_ms() - begin);
            tell_bad_records(j, "train", j->model.train);
            tell_bad_records(j, "test", j->model.test);
            if (dataset_lacks_weights(j->model.test, &j->model.spec.data)) {
                log_warn("no_weights", "job=%s reason=\"" DATA_NO_WEIGHTS "\"", j->id);
            }
            if (j->model.train != NULL && dataset_of_one_class(j->model.train)) {
                log_warn("one_class", "job=%s reason=\"" DATA_ONE_CLASS "\"", j->id);
            }
        } else if (j->load_err.code == ERR_UNAVAILABLE) {
            worker_model_release(&j->model);
            j->loaded = false;
        }
    }
    return j->load_err.code == 0 ? 0 : err_set(err, j->load_err.code, "%s", j->load_err.msg);
}

/* @program is for the model of one; wire_program_release(). */
static void describe_data(const struct worker_job *j, Gradus__V1__DataInfo *out,
                          Gradus__V1__ProgramModel *program)
{
    const struct worker_model *m = &j->model;
    wire_data_to_proto(&m->train_info, m->test_info.records > 0 ? &m->test_info : NULL, out);
    wire_program_to_proto(&m->given, program);
    out->program = m->given.count == 0 ? NULL : program;
    out->bad_records = bad_records(j->model.train) + bad_records(j->model.test);
}

static void handle_inspect(struct worker_job *j, struct rpc_call *call,
                           const ProtobufCMessage *body)
{
    const Gradus__V1__InspectDataRequest *r = (const Gradus__V1__InspectDataRequest *)body;
    struct err err = {0};
    struct worker_source from = {0};
    work_begin(&j->tells->work, "InspectData", 0, "");
    int rc = load(j, r->encoding, r->begins != 0, &err);
    if (rc == 0 && r->begins && job_spec_has_from(&j->model.spec)) {
        rc = worker_model_look(&j->model, dataset_cache_roots(j->data), &from, &err);
    }
    work_end(&j->tells->work);
    if (rc != 0) {
        (void)rpc_fail(call, &err);
        return;
    }
    Gradus__V1__DataInfo info;
    Gradus__V1__ProgramModel program;
    describe_data(j, &info, &program);
    worker_source_describe(&from, &info);
    char *measured = j->model.train == NULL ? NULL : mem_strdup(dataset_measured(j->model.train));
    if (measured != NULL) {
        info.encoding = measured;
    }
    (void)rpc_reply(call, &info.base, NULL);
    wire_program_release(&program);
    free(measured);
    worker_source_release(&from);
}

static size_t staleness_bucket(uint64_t staleness)
{
    size_t bucket = 0;
    if (staleness <= 2) {
        return (size_t)staleness;
    }
    for (uint64_t top = 2; top < staleness && bucket < STALENESS_BUCKETS - 3; top *= 2) {
        bucket++;
    }
    return bucket + 2;
}

/* The answer of one shard stands for all: a push counts once. */
static void note_staleness(struct worker_job *j, const struct ps_answer *a)
{
    const struct exchange_trained *t = &a->answer.train;
    if (a->code == 0 && a->shard == 0 && a->batches && t->push == PUSH_APPLIED) {
        j->measured.staleness[staleness_bucket(t->staleness)]++;
    }
}

static void note_time(struct worker_job *j, const struct ps_answer *a)
{
    const struct step_exchange x = {.sent_ns = a->sent_ns,
                                    .answered_ns = chrono_now_ns(),
                                    .waited_ns = (uint64_t)a->waited_us * 1000,
                                    .applied_ns = (uint64_t)a->applied_us * 1000};
    uint64_t begin_ns = x.answered_ns;
    if (a->answer.kind != EXCHANGE_PINNED && a->sent_ns != 0) {
        begin_ns = step_clock_answered(&j->clock, &x);
    }
    worker_job_trace_answered(j, a, &x, begin_ns);
}

/* The next batch has no keys that lie there. */
static bool needs_none(const struct worker_job *j, uint32_t shard)
{
    return j->model.has_ahead && j->model.ahead.shards[shard].count == 0;
}

static void on_answer(void *ctx, const struct ps_answer *a)
{
    struct worker_job *j = ctx;
    if (a->code != 0) {
        meter_add(j->meters->exchanges_failed, 1);
    }
    note_staleness(j, a);
    note_time(j, a);
    struct worker_event event = {
        .kind = WORKER_EXCHANGED,
        .exchanged = {.exchange = a->exchange,
                      .code = a->code,
                      .message = a->message,
                      .version = a->version,
                      .partial = a->partial,
                      .rows = a->rows || needs_none(j, a->shard),
                      .answer = a->answer},
    };
    if (a->code == 0) {
        worker_job_sums_take(&j->sums, a);
    }
    worker_job_step(j, &event);
    if (a->code == ERR_ABORTED) {
        worker_job_drain_over(j); /* its generation is over */
    }
}

/* Makes the client without places: they are set when there is something to ask of the shards. */
static int make_client(struct worker_job *j, const char *worker, struct err *err)
{
    struct ps_client_options options = {
        .job = j->id,
        .worker = worker,
        .plan = &j->plan,
        .variable_offsets = j->model.offsets,
        .message_bytes_max = j->message_bytes_max,
        .exchanges_max = WORKER_EXCHANGES_MAX,
        .gradients_max = WORKER_BUFFERS_MAX,
        .tables = (uint32_t)j->model.rows.count,
        .gradients = (enum value_type)j->model.spec.training.wire_gradients,
        .parameters = (enum value_type)j->model.spec.training.wire_parameters,
        .credentials = j->credentials,
        .secret = j->secret,
        .local_sockets = j->local_sockets,
        .shared_memory = j->shared_memory,
        .polling = j->polling,
        .trace = &j->trace.recorder,
        .loop = j->loop,
        .answered = on_answer,
        .filled = worker_job_filled,
        .ctx = j,
    };
    struct ps_client *client = NULL;
    int rc = ps_client_new(&options, &client, err);
    pthread_mutex_lock(&j->mail->mutex);
    j->client = client;
    pthread_mutex_unlock(&j->mail->mutex);
    return rc;
}

static int start(struct worker_job *j, const Gradus__V1__StartJobRequest *r,
                 const struct membership_node *node, struct err *err)
{
    int rc = load(j, r->data == NULL ? "" : r->data->encoding, false, err);
    rc = rc != 0 ? rc : wire_plan_from_proto(r->plan, &j->plan, err);
    if (rc == 0) { /* says more than that a fingerprint differs */
        rc = worker_model_check_variables(&j->model, &j->plan, err);
    }
    if (rc == 0 && r->data != NULL) {
        Gradus__V1__DataInfo found;
        Gradus__V1__ProgramModel program;
        describe_data(j, &found, &program);
        rc = wire_data_compare(r->data, &found, err);
        wire_program_release(&program);
    }
    if (rc == 0) {
        rc = plan_check_shards(&j->plan, j->model.spec.model.table_count, err);
    }
    if (rc == 0) {
        rc = worker_model_build(&j->model, &j->plan, err);
    }
    if (rc == 0) {
        rc = worker_job_sums_init(&j->sums, &j->plan, &j->model.spec, r->eras, r->n_eras, err);
    }
    if (rc == 0) {
        rc = make_client(j, node->id, err);
    }
    return rc;
}

/* Everything that this worker needs for itself; done once. */
static int build(struct worker_job *j, const Gradus__V1__StartJobRequest *r,
                 const struct membership_node *node, struct err *err)
{
    int rc = 0;
    if (!j->built) {
        work_begin(&j->tells->work, "StartJob", 0, "");
        rc = start(j, r, node, err);
        work_end(&j->tells->work);
        j->built = rc == 0;
        j->failed = rc != 0;
    }
    return rc;
}

static void handle_start(struct worker_job *j, struct rpc_call *call, const ProtobufCMessage *body)
{
    const Gradus__V1__StartJobRequest *r = (const Gradus__V1__StartJobRequest *)body;
    struct err err = {0};
    if (!j->started && j->failed) {
        worker_job_fail_call(call, ERR_STATE,
                             "an earlier start of this job failed here; stop it first");
        return;
    }
    struct membership_node node;
    if (!membership_node(j->membership, &node)) { /* away: the next attempt may succeed */
        worker_job_fail_call(call, ERR_UNAVAILABLE, "this worker has not joined the master");
        return;
    }
    if (build(j, r, &node, &err) != 0) {
        (void)rpc_fail(call, &err);
        return;
    }
    if (!j->started && plan_is_given(&j->plan)) {
        worker_job_fill_start(j, call, r);
        return;
    }
    if (!j->started) {
        worker_job_begin(j, r->generation);
    }
    Gradus__V1__StartJobResponse response = GRADUS__V1__START_JOB_RESPONSE__INIT;
    (void)rpc_reply(call, &response.base, NULL);
}

static void handle_assign(struct worker_job *j, struct rpc_call *call, const ProtobufCMessage *body)
{
    if (!j->started) {
        worker_job_fail_call(call, ERR_STATE, "the job is not started on this worker");
        return;
    }
    const Gradus__V1__AssignRequest *r = (const Gradus__V1__AssignRequest *)body;
    struct membership_node node;
    (void)membership_node(j->membership, &node);
    if (r->incarnation != 0 && r->incarnation != node.incarnation) {
        worker_job_fail_call(call, ERR_ABORTED, "this was meant for another process");
        return;
    }
    if (worker_job_assign_while_draining(j, call, r->generation, r->hold != 0)) {
        return;
    }
    struct err err = {0};
    struct ledger ledger = {0};
    struct worker_event event = {.kind = WORKER_ASSIGN};
    struct worker_assign *assign = &event.assign;
    const struct ledger_shape data = {
        .records = worker_model_records(&j->model),
        .batch_records = (uint32_t)j->model.spec.training.batch_size,
    };
    struct worker_place *places = mem_new(j->plan.shard_count, sizeof *places);
    int rc = worker_job_assign_from_proto(r, worker_generation(j->core), &data, &ledger,
                                          &assign->assignment, &err);
    if (rc == 0 && assign->assignment.ledger != NULL) { /* of a new generation */
        assign->places = places;
        rc =
            worker_job_places_from_proto(r->shards, r->n_shards, j->plan.shard_count, places, &err);
    }
    if (rc == 0 && assign->assignment.ledger != NULL) {
        rc = worker_job_sums_eras(&j->sums, r->eras, r->n_eras, &err);
        assign->eras = j->sums.eras;
        assign->era_count = j->sums.era_count;
    }
    if (rc != 0) {
        (void)rpc_fail(call, &err);
    } else if (worker_job_keep_call(j, call, &assign->tag)) {
        j->assigned = true;
        j->idle = false;
        worker_job_step(j, &event);
    }
    ledger_release(&ledger);
    free(places);
}

static void handle_evaluate(struct worker_job *j, struct rpc_call *call,
                            const ProtobufCMessage *body)
{
    const Gradus__V1__EvaluateRequest *r = (const Gradus__V1__EvaluateRequest *)body;
    if (!j->started) {
        worker_job_fail_call(call, ERR_STATE, "the job is not started on this worker");
        return;
    }
    if (j->draining) {
        worker_job_fail_call(call, ERR_UNAVAILABLE, "this worker is leaving");
        return;
    }
    struct worker_event event = {
        .kind = WORKER_EVALUATE,
        .evaluate = {.generation = r->generation,
                     .pin_id = r->pin_id,
                     .first = r->first,
                     .count = r->count},
    };
    if (strlen(r->pin_id) + 2 > EXCHANGE_PIN_ID_BYTES || r->pin_id[0] == '\0') {
        worker_job_fail_call(call, ERR_INVALID, "pin_id must have 1 to 128 bytes");
        return;
    }
    struct err err = {0};
    struct worker_place *places = mem_new(j->plan.shard_count, sizeof *places);
    if (worker_job_places_from_proto(r->shards, r->n_shards, j->plan.shard_count, places, &err) !=
        0) {
        (void)rpc_fail(call, &err);
    } else if (worker_job_keep_call(j, call, &event.evaluate.tag)) {
        event.evaluate.places = places;
        worker_job_step(j, &event);
    }
    free(places);
}

static void handle_trace(struct worker_job *j, struct rpc_call *call, const ProtobufCMessage *body)
{
    const Gradus__V1__TraceRequest *q = (const Gradus__V1__TraceRequest *)body;
    if (q->action == GRADUS__V1__TRACE_REQUEST__ACTION__TAKE) {
        worker_job_trace_stop(j, call, q);
    } else {
        worker_job_trace_begin(j, call, q);
    }
}

/* ---- any thread ---- */

void worker_job_inspect(struct worker_job *j, struct rpc_call *call, struct rpc_msg *msg)
{
    post_request(j, call, msg, handle_inspect);
}

void worker_job_start(struct worker_job *j, struct rpc_call *call, struct rpc_msg *msg)
{
    post_request(j, call, msg, handle_start);
}

void worker_job_assign(struct worker_job *j, struct rpc_call *call, struct rpc_msg *msg)
{
    post_request(j, call, msg, handle_assign);
}

void worker_job_evaluate(struct worker_job *j, struct rpc_call *call, struct rpc_msg *msg)
{
    post_request(j, call, msg, handle_evaluate);
}

void worker_job_trace(struct worker_job *j, struct rpc_call *call, struct rpc_msg *msg)
{
    post_request(j, call, msg, handle_trace);
}
