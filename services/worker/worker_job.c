#include "worker/worker_job.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/chrono.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "gradus/v1/cluster.pb-c.h"
#include "gradus/v1/worker.pb-c.h"
#include "service/loop.h"
#include "wire/wire.h"
#include "worker/ps_client.h"
#include "worker/worker_model.h"

#define LOOP_MESSAGES 16384 /* more than exchanges, calls and reports can be open at once */
#define LEASE_TIMEOUT_MS 10000
#define REPORT_TIMEOUT_MS 3000
#define EPOCHS_MAX 8 /* epochs in one report: reports go out far more often than epochs end */
#define STALENESS_BUCKETS 24 /* 0, 1, 2, 3–4, 5–8, …: enough for every 64-bit lag we can meet */

struct epoch_sums {
    bool used;
    uint64_t epoch, batches;
    struct metrics sums;
};

/* What was measured: one in the making, one being reported. */
struct measurements {
    struct epoch_sums epochs[EPOCHS_MAX];
    uint64_t staleness[STALENESS_BUCKETS];
};

/* How answers of the master find the job: it may be gone when they come. */
struct job_mail {
    pthread_mutex_t mutex; /* guards what follows, and the job's pointer to its client */
    struct loop *loop;     /* NULL: the job is gone */
    unsigned refs;
};

struct worker_job {
    char *id, *text;
    struct membership *membership;
    const struct worker_meters *meters;
    size_t message_bytes_max;
    struct loop *loop;
    struct loop_timer timer;
    bool loaded, started, failed;
    bool halted; /* the job failed here: what was still to be computed or sent is not */
    struct err load_err;
    struct worker_model model;
    struct plan plan;
    struct ps_client *client; /* set once, under the mail's mutex: worker_job_free() looks */
    struct worker *core;
    struct worker_actions actions; /* of the running step */
    bool stepping;
    struct measurements measured, reporting;
    uint64_t push_exchange, push_base; /* the last push to shard 0 and the version it is based on */
    uint64_t computed_ns;              /* when the last computation ended */
    struct job_mail *mail;
    /* calls that wait for the core or for a computation */
    struct {
        uint64_t tag;
        struct rpc_call *call;
    } calls[WORKER_EVALUATIONS_MAX + 8];
    uint64_t tag_last;
};

static void step(struct worker_job *j, struct worker_event *event);

/* ---- messages to the job's thread ---- */

struct request {
    struct worker_job *job;
    struct rpc_call *call;
    struct rpc_msg *msg;
    void (*handle)(struct worker_job *j, struct rpc_call *call, const ProtobufCMessage *body);
};

static void fail_call(struct rpc_call *call, int code, const char *message)
{
    struct err err;
    err_set(&err, code, "%s", message);
    (void)rpc_fail(call, &err);
}

static void request_run(void *ctx)
{
    struct request *r = ctx;
    if (loop_discarding(r->job->loop)) {
        fail_call(r->call, ERR_CANCELLED, "the job was stopped");
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

static uint64_t keep_call(struct worker_job *j, struct rpc_call *call)
{
    for (size_t i = 0; i < sizeof j->calls / sizeof j->calls[0]; i++) {
        if (j->calls[i].call == NULL) {
            j->calls[i].call = rpc_call_ref(call);
            j->calls[i].tag = ++j->tag_last;
            return j->tag_last;
        }
    }
    return 0;
}

/* The call of @tag, whose reference goes to the caller; NULL when it is gone. */
static struct rpc_call *take_call(struct worker_job *j, uint64_t tag)
{
    for (size_t i = 0; i < sizeof j->calls / sizeof j->calls[0]; i++) {
        if (j->calls[i].call != NULL && j->calls[i].tag == tag) {
            struct rpc_call *call = j->calls[i].call;
            j->calls[i].call = NULL;
            return call;
        }
    }
    return NULL;
}

/* ---- the master's calls ---- */

static int load(struct worker_job *j, struct err *err)
{
    if (!j->loaded) {
        j->loaded = true;
        uint64_t begin = chrono_now_ms();
        if (worker_model_load(&j->model, j->text, &j->load_err) == 0) {
            log_info("data_loaded", "job=%s records=%llu test_records=%llu ms=%llu", j->id,
                     (unsigned long long)dataset_info(j->model.train)->records,
                     (unsigned long long)(j->model.test != NULL
                                              ? dataset_info(j->model.test)->records
                                              : 0),
                     (unsigned long long)(chrono_now_ms() - begin));
        }
    }
    return j->load_err.code == 0 ? 0 : err_set(err, j->load_err.code, "%s", j->load_err.msg);
}

static void describe_data(const struct worker_job *j, Gradus__V1__DataInfo *out)
{
    gradus__v1__data_info__init(out);
    wire_data_to_proto(dataset_info(j->model.train),
                       j->model.test != NULL ? dataset_info(j->model.test) : NULL, out);
}

static void handle_inspect(struct worker_job *j, struct rpc_call *call,
                           const ProtobufCMessage *body)
{
    (void)body;
    struct err err = {0};
    if (load(j, &err) != 0) {
        (void)rpc_fail(call, &err);
        return;
    }
    Gradus__V1__DataInfo info;
    describe_data(j, &info);
    (void)rpc_reply(call, &info.base, NULL);
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

/* The push was applied on top of the version before the one that came back with it. */
static void note_staleness(struct worker_job *j, const struct ps_answer *a)
{
    if (a->exchange == j->push_exchange && a->code == 0) {
        uint64_t before = a->version > 0 ? a->version - 1 : 0;
        uint64_t staleness = before > j->push_base ? before - j->push_base : 0;
        j->measured.staleness[staleness_bucket(staleness)]++;
    }
}

static void on_answer(void *ctx, const struct ps_answer *a)
{
    struct worker_job *j = ctx;
    if (a->code != 0) {
        meter_add(j->meters->exchanges_failed, 1);
    }
    note_staleness(j, a);
    struct worker_event event = {
        .kind = WORKER_EXCHANGED,
        .exchange = a->exchange,
        .code = a->code,
        .message = a->message,
        .version = a->version,
        .progress = a->progress,
    };
    step(j, &event);
}

static int connect_shards(struct worker_job *j, const Gradus__V1__StartJobRequest *r,
                          const char *worker, struct err *err)
{
    const char **addresses = mem_new(j->plan.shard_count, sizeof *addresses);
    int rc = 0;
    for (size_t i = 0; i < r->n_shards && rc == 0; i++) {
        uint32_t shard = r->shards[i]->shard;
        if (shard >= j->plan.shard_count || addresses[shard] != NULL) {
            rc = err_set(err, ERR_INVALID, "the location of shard %u is given twice or unknown",
                         shard);
        } else {
            addresses[shard] = r->shards[i]->address;
        }
    }
    for (uint32_t s = 0; s < j->plan.shard_count && rc == 0; s++) {
        if (addresses[s] == NULL) {
            rc = err_set(err, ERR_INVALID, "the location of shard %u is missing", s);
        }
    }
    struct ps_client_options options = {
        .job = j->id,
        .worker = worker,
        .plan = &j->plan,
        .variable_offsets = j->model.offsets,
        .addresses = addresses,
        .message_bytes_max = j->message_bytes_max,
        .loop = j->loop,
        .answered = on_answer,
        .ctx = j,
    };
    struct ps_client *client = NULL;
    if (rc == 0) {
        rc = ps_client_new(&options, &client, err);
    }
    pthread_mutex_lock(&j->mail->mutex);
    j->client = client;
    pthread_mutex_unlock(&j->mail->mutex);
    free(addresses);
    return rc;
}

static int start(struct worker_job *j, const Gradus__V1__StartJobRequest *r,
                 const struct membership_node *node, struct err *err)
{
    int rc = load(j, err);
    if (rc == 0 && r->data != NULL) {
        Gradus__V1__DataInfo found;
        describe_data(j, &found);
        rc = wire_data_compare(r->data, &found, err);
    }
    if (rc == 0) {
        rc = wire_plan_from_proto(r->plan, &j->plan, err);
    }
    if (rc == 0) {
        rc = worker_model_build(&j->model, &j->plan, err);
    }
    if (rc == 0) {
        rc = connect_shards(j, r, node->id, err);
    }
    return rc;
}

static uint32_t split_batches_of(const struct worker_job *j)
{
    int64_t n = j->model.spec.training.split_batches;
    return n > 0 ? (uint32_t)n : 1;
}

static void handle_start(struct worker_job *j, struct rpc_call *call, const ProtobufCMessage *body)
{
    struct err err = {0};
    if (!j->started && j->failed) {
        fail_call(call, ERR_STATE, "an earlier start of this job failed here; stop it first");
        return;
    }
    struct membership_node node;
    if (!membership_node(j->membership, &node)) { /* it was away: the next attempt may do */
        fail_call(call, ERR_UNAVAILABLE, "this worker has not joined the master");
        return;
    }
    if (!j->started) {
        if (start(j, (const Gradus__V1__StartJobRequest *)body, &node, &err) != 0) {
            j->failed = true;
            (void)rpc_fail(call, &err);
            return;
        }
        struct worker_config config = {
            .shard_count = j->plan.shard_count,
            .shape = {.records = dataset_info(j->model.train)->records,
                      .batch_records = (uint32_t)j->model.spec.training.batch_size,
                      .split_batches = split_batches_of(j)},
            .overlap = j->model.spec.training.overlap,
        };
        j->core = worker_new(&config);
        j->started = true;
    }
    Gradus__V1__StartJobResponse response = GRADUS__V1__START_JOB_RESPONSE__INIT;
    (void)rpc_reply(call, &response.base, NULL);
}

static int assignment_of(const struct worker_job *j, const Gradus__V1__AssignRequest *r,
                         struct ledger *ledger, struct worker_assignment *a, struct err *err)
{
    enum training_mode mode;
    int rc = wire_mode_from_proto(r->mode, &mode, err);
    if (rc != 0) {
        return rc;
    }
    if (r->replica_first > r->replica_end || r->replica_end > r->replicas) {
        return err_set(err, ERR_INVALID, "replicas [%u, %u) of %u", r->replica_first,
                       r->replica_end, r->replicas);
    }
    if (r->ledger != NULL && r->step < r->ledger_step) {
        return err_set(err, ERR_INVALID, "step %llu is before the ledger's, %llu",
                       (unsigned long long)r->step, (unsigned long long)r->ledger_step);
    }
    if (r->ledger != NULL) {
        rc = wire_ledger_from_proto(r->ledger, ledger, err);
        if (rc == 0 && (ledger->shape.records != dataset_info(j->model.train)->records ||
                        ledger->shape.batch_records != j->model.spec.training.batch_size)) {
            ledger_release(ledger);
            rc = err_set(err, ERR_INVALID, "the ledger is not of this job's data");
        }
    } else if (r->generation != worker_generation(j->core)) {
        rc = err_set(err, ERR_INVALID, "a new generation needs a ledger");
    }
    *a = (struct worker_assignment){
        .generation = r->generation,
        .mode = mode,
        .replicas = r->replicas,
        .replica_first = r->replica_first,
        .replica_end = r->replica_end,
        .step = r->step,
        .step_limit = r->step_limit,
        .ledger = r->ledger != NULL ? ledger : NULL,
        .ledger_step = r->ledger_step,
        .hold = r->hold,
    };
    return rc;
}

static void handle_assign(struct worker_job *j, struct rpc_call *call, const ProtobufCMessage *body)
{
    if (!j->started) {
        fail_call(call, ERR_STATE, "the job is not started on this worker");
        return;
    }
    struct err err = {0};
    struct ledger ledger = {0};
    struct worker_event event = {.kind = WORKER_ASSIGN};
    if (assignment_of(j, (const Gradus__V1__AssignRequest *)body, &ledger, &event.assign, &err) !=
        0) {
        (void)rpc_fail(call, &err);
        return;
    }
    event.tag = keep_call(j, call);
    if (event.tag == 0) {
        fail_call(call, ERR_EXHAUSTED, "too many calls wait already");
    } else {
        step(j, &event);
    }
    ledger_release(&ledger);
}

static void handle_evaluate(struct worker_job *j, struct rpc_call *call,
                            const ProtobufCMessage *body)
{
    const Gradus__V1__EvaluateRequest *r = (const Gradus__V1__EvaluateRequest *)body;
    if (!j->started) {
        fail_call(call, ERR_STATE, "the job is not started on this worker");
        return;
    }
    struct worker_event event = {
        .kind = WORKER_EVALUATE,
        .pin_id = r->pin_id,
        .first = r->first,
        .count = r->count,
    };
    if (strlen(r->pin_id) >= sizeof(((struct worker_action *)NULL)->pin_id) ||
        r->pin_id[0] == '\0') {
        fail_call(call, ERR_INVALID, "pin_id must have 1 to 63 bytes");
        return;
    }
    event.tag = keep_call(j, call);
    if (event.tag == 0) {
        fail_call(call, ERR_EXHAUSTED, "too many calls wait already");
        return;
    }
    step(j, &event);
}

/* ---- calls to the master ---- */

static void mail_drop(struct job_mail *mail)
{
    pthread_mutex_lock(&mail->mutex);
    bool last = --mail->refs == 0;
    pthread_mutex_unlock(&mail->mutex);
    if (last) {
        pthread_mutex_destroy(&mail->mutex);
        free(mail);
    }
}

struct master_call {
    struct worker_job *job; /* valid on the job's thread only */
    struct job_mail *mail;
    enum worker_event_kind kind; /* of the event that brings the answer */
    int code;
    enum worker_lease_kind lease;
    uint64_t epoch;
    uint32_t split, batch_end;
    bool fresh;
    uint64_t generation; /* of the request */
};

static void master_call_free(struct master_call *m);

static void master_answered(void *ctx)
{
    struct master_call *m = ctx;
    if (!loop_discarding(m->job->loop)) {
        if (m->code == ERR_NOT_FOUND) {
            /* The node is unknown, or only this job is over: a heartbeat tells which. */
            membership_hurry(m->job->membership);
        }
        struct worker_event event = {
            .kind = m->kind,
            .code = m->code,
            .generation = m->generation,
            .lease = m->lease,
            .epoch = m->epoch,
            .split = m->split,
            .batch_end = m->batch_end,
            .fresh = m->fresh,
        };
        step(m->job, &event);
    }
    master_call_free(m);
}

static void take_lease(struct master_call *m, const Gradus__V1__LeaseSplitResponse *r)
{
    m->epoch = r->epoch;
    m->split = r->split;
    m->batch_end = r->batch_end;
    m->fresh = r->fresh;
    switch (r->kind) {
    case GRADUS__V1__LEASE_SPLIT_RESPONSE__KIND__LEASE:
        m->lease = WORKER_LEASE_GRANTED;
        break;
    case GRADUS__V1__LEASE_SPLIT_RESPONSE__KIND__DONE:
        m->lease = WORKER_LEASE_DONE;
        break;
    default:
        m->lease = WORKER_LEASE_WAIT;
        break;
    }
}

static void master_call_free(struct master_call *m)
{
    mail_drop(m->mail);
    free(m);
}

static void master_post(struct master_call *m)
{
    struct job_mail *mail = m->mail;
    pthread_mutex_lock(&mail->mutex);
    bool posted = mail->loop != NULL && loop_post(mail->loop, master_answered, m, NULL) == 0;
    pthread_mutex_unlock(&mail->mutex);
    if (!posted) {
        master_call_free(m);
    }
}

/* On the channel's thread. A lease call that runs into its deadline only means that none was free.
 */
static void on_master_reply(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    struct master_call *m = ctx;
    m->code = status->err.code;
    if (m->kind == WORKER_LEASED && m->code == ERR_TIMEOUT) {
        m->code = 0;
        m->lease = WORKER_LEASE_WAIT;
    } else if (m->kind == WORKER_LEASED && m->code == 0) {
        take_lease(m, (const Gradus__V1__LeaseSplitResponse *)reply->body);
    }
    master_post(m);
}

static void call_master(struct worker_job *j, const char *method, const ProtobufCMessage *body,
                        unsigned timeout_ms, enum worker_event_kind kind, uint64_t generation)
{
    struct master_call *m = mem_new(1, sizeof *m);
    m->job = j;
    m->mail = j->mail;
    pthread_mutex_lock(&j->mail->mutex);
    j->mail->refs++;
    pthread_mutex_unlock(&j->mail->mutex);
    m->kind = kind;
    m->generation = generation;
    struct rpc_request request = {
        .service = &gradus__v1__cluster__descriptor,
        .method = method,
        .body = body,
        .timeout_ms = timeout_ms,
    };
    struct err err = {0};
    if (rpc_call_start(membership_channel(j->membership), &request, on_master_reply, m, &err) !=
        0) {
        m->code = err.code;
        master_post(m);
    }
}

/* Who we are for a call; an empty id (the master will say NOT_FOUND) while not joined. */
static void node_ref(struct worker_job *j, struct membership_node *node, Gradus__V1__NodeRef *ref)
{
    if (!membership_node(j->membership, node)) {
        node->id[0] = '\0';
    }
    gradus__v1__node_ref__init(ref);
    ref->id = node->id;
    ref->incarnation = node->incarnation;
}

static void do_lease(struct worker_job *j, const struct worker_action *a)
{
    struct membership_node node;
    Gradus__V1__NodeRef ref;
    node_ref(j, &node, &ref);
    Gradus__V1__LeaseSplitRequest r = GRADUS__V1__LEASE_SPLIT_REQUEST__INIT;
    r.node = &ref;
    r.job = j->id;
    r.generation = a->generation;
    call_master(j, "LeaseSplit", &r.base, LEASE_TIMEOUT_MS, WORKER_LEASED, a->generation);
}

static void do_report_split(struct worker_job *j, const struct worker_action *a)
{
    struct membership_node node;
    Gradus__V1__NodeRef ref;
    node_ref(j, &node, &ref);
    Gradus__V1__ReportSplitRequest r = GRADUS__V1__REPORT_SPLIT_REQUEST__INIT;
    r.node = &ref;
    r.job = j->id;
    r.generation = a->generation;
    r.epoch = a->batch.epoch;
    r.split = a->batch.split;
    call_master(j, "ReportSplit", &r.base, REPORT_TIMEOUT_MS, WORKER_SPLIT_REPORTED, a->generation);
}

static void measurements_clear(struct measurements *m)
{
    for (size_t i = 0; i < EPOCHS_MAX; i++) {
        metrics_release(&m->epochs[i].sums);
    }
    *m = (struct measurements){0};
}

struct report_parts {
    Gradus__V1__EpochProgress epochs[EPOCHS_MAX];
    Gradus__V1__EpochProgress *pointers[EPOCHS_MAX];
    Gradus__V1__MetricSums sums[EPOCHS_MAX];
    size_t count;
};

static void report_fill(const struct measurements *m, struct report_parts *parts)
{
    parts->count = 0;
    for (size_t i = 0; i < EPOCHS_MAX; i++) {
        const struct epoch_sums *e = &m->epochs[i];
        if (!e->used) {
            continue;
        }
        Gradus__V1__EpochProgress *p = &parts->epochs[parts->count];
        gradus__v1__epoch_progress__init(p);
        p->epoch = e->epoch;
        p->batches = e->batches;
        p->examples = e->sums.examples;
        wire_metrics_to_proto(&e->sums, &parts->sums[parts->count]);
        p->sums = &parts->sums[parts->count];
        parts->pointers[parts->count] = p;
        parts->count++;
    }
}

static void do_report_progress(struct worker_job *j, const struct worker_action *a)
{
    struct membership_node node;
    Gradus__V1__NodeRef ref;
    node_ref(j, &node, &ref);
    if (!a->again) {
        measurements_clear(&j->reporting);
        j->reporting = j->measured;
        j->measured = (struct measurements){0};
    }
    struct report_parts parts;
    report_fill(&j->reporting, &parts);
    Gradus__V1__ReportProgressRequest r = GRADUS__V1__REPORT_PROGRESS_REQUEST__INIT;
    r.node = &ref;
    r.job = j->id;
    r.generation = a->generation;
    r.sequence = a->sequence;
    r.position = a->position;
    r.idle = a->idle_report;
    r.epochs = parts.pointers;
    r.n_epochs = parts.count;
    r.staleness = j->reporting.staleness;
    r.n_staleness = STALENESS_BUCKETS;
    call_master(j, "ReportProgress", &r.base, REPORT_TIMEOUT_MS, WORKER_PROGRESS_REPORTED,
                a->generation);
    for (size_t i = 0; i < parts.count; i++) {
        wire_metrics_release(&parts.sums[i]);
    }
}

static void do_fail_job(struct worker_job *j, const struct worker_action *a)
{
    struct membership_node node;
    Gradus__V1__NodeRef ref;
    node_ref(j, &node, &ref);
    if (!a->again) {
        char quoted[512];
        log_error("job_failed", "job=%s error=%s", j->id,
                  log_quote(a->message, quoted, sizeof quoted));
    }
    j->halted = true;
    Gradus__V1__ReportFailureRequest r = GRADUS__V1__REPORT_FAILURE_REQUEST__INIT;
    r.node = &ref;
    r.job = j->id;
    r.code = -a->code;
    char message[sizeof a->message];
    memcpy(message, a->message, sizeof message);
    r.message = message;
    call_master(j, "ReportFailure", &r.base, REPORT_TIMEOUT_MS, WORKER_FAILURE_REPORTED,
                a->generation);
}

static void fail_job(struct worker_job *j, const struct err *err)
{
    struct worker_event event = {.kind = WORKER_FAIL, .code = err->code, .message = err->msg};
    j->halted = true;
    step(j, &event);
}

/* ---- computing ---- */

static struct metrics *sums_of(struct worker_job *j, uint64_t epoch)
{
    struct epoch_sums *free_one = NULL;
    for (size_t i = 0; i < EPOCHS_MAX; i++) {
        struct epoch_sums *e = &j->measured.epochs[i];
        if (e->used && e->epoch == epoch) {
            e->batches++;
            return &e->sums;
        }
        if (!e->used && free_one == NULL) {
            free_one = e;
        }
    }
    if (free_one == NULL) {
        return NULL; /* the master was away for epochs: those in between go without train metrics */
    }
    *free_one = (struct epoch_sums){.used = true, .epoch = epoch, .batches = 1};
    metrics_init(&free_one->sums, j->model.spec.model.metrics);
    return &free_one->sums;
}

static void do_compute(struct worker_job *j, const struct worker_action *a)
{
    struct err err = {0};
    float *slot = worker_model_slot(&j->model, a->slot, &err);
    if (slot == NULL) {
        fail_job(j, &err);
        return;
    }
    if (j->client != NULL) {
        ps_client_wait_sent(j->client, slot);
    }
    uint64_t begin = chrono_now_ns();
    if (j->computed_ns != 0) {
        meter_change(j->meters->wait_seconds, (double)(begin - j->computed_ns) * 1e-9);
    }
    struct runner_step identity = {
        .seed = (uint64_t)j->model.spec.training.seed,
        .step = a->step,
        .replica = a->replica,
    };
    worker_model_gradient(&j->model, &a->batch, &identity, a->set, a->slot,
                          sums_of(j, a->batch.epoch));
    uint64_t end = chrono_now_ns();
    j->computed_ns = end;
    meter_change(j->meters->compute_seconds, (double)(end - begin) * 1e-9);
    meter_add(j->meters->batches, 1);
    meter_add(j->meters->examples, a->batch.count);
    struct worker_event event = {.kind = WORKER_COMPUTED};
    step(j, &event);
}

static void do_evaluate(struct worker_job *j, const struct worker_action *a)
{
    struct err err = {0};
    struct metrics sums;
    metrics_init(&sums, j->model.spec.model.metrics);
    int rc = worker_model_evaluate(&j->model, a->first, a->count, &sums, &err);
    struct rpc_call *call = take_call(j, a->tag);
    if (call != NULL) {
        if (rc == 0) {
            Gradus__V1__EvaluateResponse response = GRADUS__V1__EVALUATE_RESPONSE__INIT;
            Gradus__V1__MetricSums packed;
            wire_metrics_to_proto(&sums, &packed);
            response.sums = &packed;
            (void)rpc_reply(call, &response.base, NULL);
            wire_metrics_release(&packed);
        } else {
            (void)rpc_fail(call, &err);
        }
        rpc_call_unref(call);
    }
    metrics_release(&sums);
    meter_add(j->meters->evaluations, 1);
    struct worker_event event = {.kind = WORKER_COMPUTED};
    step(j, &event);
}

static void do_exchange(struct worker_job *j, const struct worker_action *a)
{
    struct err err = {0};
    float *values = NULL;
    if (a->pull != WORKER_PULL_NONE) {
        values = worker_model_set(&j->model, a->set, &err);
        if (values == NULL) {
            fail_job(j, &err);
            return;
        }
    }
    if (a->push && a->shard == 0 && a->pull == WORKER_PULL_LATEST) {
        j->push_exchange = a->exchange;
        j->push_base = a->base_version;
    }
    const float *gradient = a->push && a->slot != WORKER_SLOT_NONE ? j->model.slots[a->slot] : NULL;
    ps_client_exchange(j->client, a, values, gradient);
}

static void on_timer(void *ctx)
{
    struct worker_event event = {.kind = WORKER_TIMER};
    step(ctx, &event);
}

static void reply_assign(struct worker_job *j, const struct worker_action *a)
{
    struct rpc_call *call = take_call(j, a->tag);
    if (call == NULL) {
        return;
    }
    if (a->code != 0) {
        fail_call(call, a->code, a->message);
    } else {
        Gradus__V1__AssignResponse response = GRADUS__V1__ASSIGN_RESPONSE__INIT;
        response.position = a->position;
        (void)rpc_reply(call, &response.base, NULL);
    }
    rpc_call_unref(call);
}

static bool needs_the_data(enum worker_action_kind kind)
{
    return kind == WORKER_DO_COMPUTE || kind == WORKER_DO_EVALUATE || kind == WORKER_DO_ADD ||
           kind == WORKER_DO_EXCHANGE;
}

static void execute(struct worker_job *j, const struct worker_action *a)
{
    struct rpc_call *call;
    if (j->halted && needs_the_data(a->kind)) {
        return;
    }
    switch (a->kind) {
    case WORKER_DO_COMPUTE:
        do_compute(j, a);
        break;
    case WORKER_DO_EVALUATE:
        do_evaluate(j, a);
        break;
    case WORKER_DO_ADD:
        worker_model_add(&j->model, a->slot, a->slot_from);
        break;
    case WORKER_DO_EXCHANGE:
        do_exchange(j, a);
        break;
    case WORKER_DO_LEASE:
        do_lease(j, a);
        break;
    case WORKER_DO_REPORT_SPLIT:
        do_report_split(j, a);
        break;
    case WORKER_DO_REPORT_PROGRESS:
        do_report_progress(j, a);
        break;
    case WORKER_DO_PREFETCH:
        worker_model_prefetch(&j->model, &a->batch);
        break;
    case WORKER_DO_TIMER:
        loop_timer_set(j->loop, &j->timer, a->at_ms, on_timer, j);
        break;
    case WORKER_DO_REPLY_ASSIGN:
        reply_assign(j, a);
        break;
    case WORKER_DO_FAIL_EVALUATE:
        call = take_call(j, a->tag);
        if (call != NULL) {
            fail_call(call, a->code, a->message);
            rpc_call_unref(call);
        }
        break;
    case WORKER_DO_FAIL_JOB:
        do_fail_job(j, a);
        break;
    }
}

/* Feed one event to the core and carry out what it says. An action may bring the next event at once
 * (a computation is over when it returns): its actions are appended behind those still to do. */
static void step(struct worker_job *j, struct worker_event *event)
{
    if (j->core == NULL) {
        return;
    }
    event->now_ms = chrono_now_ms();
    worker_step(j->core, event, &j->actions);
    if (j->stepping) {
        return;
    }
    j->stepping = true;
    for (size_t i = 0; i < j->actions.count; i++) {
        struct worker_action action = j->actions.items[i];
        execute(j, &action);
    }
    j->actions.count = 0;
    j->stepping = false;
}

/* ---- life ---- */

int worker_job_new(const struct worker_job_options *o, struct worker_job **out, struct err *err)
{
    struct worker_job *j = mem_new(1, sizeof *j);
    j->id = mem_strdup(o->id);
    j->text = mem_strdup(o->text);
    j->membership = o->membership;
    j->meters = o->meters;
    j->message_bytes_max = o->message_bytes_max;
    j->loop = loop_new(LOOP_MESSAGES);
    j->mail = mem_new(1, sizeof *j->mail);
    pthread_mutex_init(&j->mail->mutex, NULL);
    j->mail->loop = j->loop;
    j->mail->refs = 1;
    int rc = loop_start(j->loop, "job", err);
    if (rc != 0) {
        loop_free(j->loop);
        mail_drop(j->mail);
        free(j->id);
        free(j->text);
        free(j);
        return rc;
    }
    *out = j;
    return 0;
}

const char *worker_job_id(const struct worker_job *j)
{
    return j->id;
}

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

static void stop(void *ctx)
{
    struct worker_job *j = ctx;
    struct worker_event event = {.kind = WORKER_STOP};
    step(j, &event);
    loop_stop(j->loop);
}

void worker_job_free(struct worker_job *j)
{
    if (j == NULL) {
        return;
    }
    if (loop_post(j->loop, stop, j, NULL) != 0) {
        loop_stop(j->loop);
    }
    pthread_mutex_lock(&j->mail->mutex);
    if (j->client != NULL) {
        ps_client_cancel(j->client); /* the thread may be waiting for a server */
    }
    pthread_mutex_unlock(&j->mail->mutex);
    loop_join(j->loop);
    pthread_mutex_lock(&j->mail->mutex);
    j->mail->loop = NULL;
    pthread_mutex_unlock(&j->mail->mutex);
    if (j->client != NULL) {
        ps_client_close(j->client);
    }
    loop_free(j->loop);
    ps_client_free(j->client);
    for (size_t i = 0; i < sizeof j->calls / sizeof j->calls[0]; i++) {
        if (j->calls[i].call != NULL) {
            fail_call(j->calls[i].call, ERR_CANCELLED, "the job was stopped");
            rpc_call_unref(j->calls[i].call);
        }
    }
    mail_drop(j->mail);
    worker_free(j->core);
    worker_actions_release(&j->actions);
    measurements_clear(&j->measured);
    measurements_clear(&j->reporting);
    worker_model_release(&j->model);
    plan_release(&j->plan);
    free(j->id);
    free(j->text);
    free(j);
}
