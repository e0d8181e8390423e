/* SPDX-License-Identifier: Apache-2.0 */
/* All requests to a worker (worker.proto), one after the other, and what parameter servers answer
 * to its exchanges: the codec, the handlers of worker_shell_calls.c, what a job checks of them
 * (worker_job_assign.c, wire/), the core behind them, and the answers (wire/wire_exchange.c). The
 * job computes nothing: its data are those of the rig, its exchanges are answered by the input.
 *
 * Input: a byte with the size of slices, one with flags; then calls (message.h), behind the methods
 * ExchangeResponse. */
#include "fuzz/message.h"
#include "fuzz/plan_rig.h"
#include "fuzz/served.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gradus/v1/worker.pb-c.h"
#include "rpc/rpc_codec.h"
#include "wire/wire_exchange.h"
#include "worker/job/worker_job_assign.h"
#include "worker/job/worker_shell_state.h"

#define HEAD_BYTES 2
#define METHODS_MAX 8
#define STEPS_MAX 300 /* of the core, in one input */

static struct served_method methods[METHODS_MAX];
static const ProtobufCMessageDescriptor *types[METHODS_MAX];
static unsigned method_count, type_count;
static struct worker_shell shell;
static struct service_config common;
static struct worker_settings settings = {.slow_down = 1};
static struct fuzz_call_bytes answers[FUZZ_CALLS_MAX];
static size_t answer_count, answered;
static unsigned steps;

/* ---- in place of the process ---- */

const void *service_config(const struct service_context *sc)
{
    (void)sc;
    return &settings;
}

const struct service_config *service_common(const struct service_context *sc)
{
    (void)sc;
    return &common;
}

const struct rpc_credentials *service_credentials(const struct service_context *sc)
{
    (void)sc;
    return NULL;
}

const char *service_local_dir(const struct service_context *sc)
{
    (void)sc;
    return NULL;
}

bool membership_node(struct membership *m, struct membership_node *out)
{
    (void)m;
    *out = (struct membership_node){.id = "worker-1", .incarnation = 1};
    return true;
}

void worker_shell_set_job(struct worker_shell *w, struct worker_job *job)
{
    w->job = job;
    w->held = (struct worker_held){0};
}

void worker_shell_set_start(struct worker_shell *w, uint64_t start)
{
    w->held.start = start;
    worker_starts_note(&w->starts, &w->held.fence, start);
}

void worker_shell_drop_job(struct worker_shell *w, const char *why)
{
    (void)why;
    worker_job_free(w->job);
    worker_shell_set_job(w, NULL);
}

/* ---- a job ---- */

struct worker_job {
    char *id;
    struct plan plan;
    struct worker *core; /* NULL: not started */
    struct worker_actions actions;
    bool stepping;
};

int worker_job_new(const struct worker_job_options *options, struct worker_job **out,
                   struct err *err)
{
    (void)err;
    *out = mem_new(1, sizeof **out);
    (*out)->id = mem_strdup(options->id);
    return 0;
}

const char *worker_job_id(const struct worker_job *j)
{
    return j->id;
}

static void step(struct worker_job *j, struct worker_event *event);

void worker_job_free(struct worker_job *j)
{
    struct worker_event stop = {.kind = WORKER_STOP};
    if (j == NULL) {
        return;
    }
    if (j->core != NULL) {
        step(j, &stop);
    }
    worker_free(j->core);
    worker_actions_release(&j->actions);
    plan_release(&j->plan);
    free(j->id);
    free(j);
}

/* The next answer of the input, as the client of the servers reads it. */
static void exchange(struct worker_job *j, const struct worker_request *r)
{
    struct worker_event event = {.kind = WORKER_EXCHANGED,
                                 .exchanged = {.exchange = r->exchange,
                                               .code = ERR_UNAVAILABLE,
                                               .message = "no answer",
                                               .answer = {.kind = r->ask.kind}}};
    struct worker_exchanged *e = &event.exchanged;
    struct err err = {0};
    struct rpc_msg *msg = NULL;
    if (answered < answer_count) {
        const struct fuzz_call_bytes *a = &answers[answered++];
        const struct rpc_piece piece = {a->data, a->n};
        const struct rpc_frame frame = {.pieces = &piece, .piece_count = 1, .bytes = a->n};
        const struct rpc_decoding how = {.type = &gradus__v1__exchange_response__descriptor,
                                         .bulk_field = 15};
        msg = rpc_msg_decode(&how, &frame, &err);
    }
    if (msg != NULL) {
        const Gradus__V1__ExchangeResponse *m = (const Gradus__V1__ExchangeResponse *)msg->body;
        e->version = m->version;
        e->code = m->code > 0 && m->code <= 16 ? -m->code : 0;
        e->code = e->code != 0 ? e->code : wire_answer_from_proto(m, &r->ask, &e->answer, &err);
        e->message = e->code == 0 ? NULL : "refused";
        fuzz_require_error(err.code, &err);
    }
    step(j, &event);
    rpc_msg_unref(msg);
}

static void execute(struct worker_job *j, const struct worker_action *a)
{
    struct worker_event e = {0};
    switch (a->kind) {
    case WORKER_DO_COMPUTE:
        for (size_t i = 0; i < a->compute.push_count; i++) {
            const struct worker_request push = a->compute.pushes[i];
            exchange(j, &push);
        }
        e.kind = WORKER_COMPUTED;
        break;
    case WORKER_DO_EVALUATE:
        e.kind = WORKER_COMPUTED;
        break;
    case WORKER_DO_EXCHANGE:
        exchange(j, &a->exchange);
        return;
    case WORKER_DO_LEASE:
        e.kind = WORKER_LEASED;
        e.leased.kind = WORKER_LEASE_DONE;
        e.leased.generation = a->lease.generation;
        break;
    case WORKER_DO_REPORT_SPLIT:
        e.kind = WORKER_SPLIT_REPORTED;
        e.reported.generation = a->report_split.generation;
        break;
    case WORKER_DO_REPORT_PROGRESS:
        e.kind = WORKER_PROGRESS_REPORTED;
        break;
    case WORKER_DO_FAIL_JOB:
        e.kind = WORKER_FAILURE_REPORTED;
        break;
    default:
        return;
    }
    step(j, &e);
}

static void step(struct worker_job *j, struct worker_event *event)
{
    if (steps++ > STEPS_MAX) {
        return;
    }
    event->now_ms = 1000000;
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

static void refuse(struct rpc_call *call, const struct err *err)
{
    fuzz_require_error(err->code, err);
    (void)rpc_fail(call, err);
}

/* ---- calls to it ---- */

static const struct dataset_info data = {
    .records = 50, .features = {1, {2}}, .label_is_class = true, .classes = 3, .label_scale = 1};

void worker_job_inspect(struct worker_job *j, struct rpc_call *call, struct rpc_msg *msg)
{
    (void)j;
    (void)msg;
    Gradus__V1__DataInfo info;
    wire_data_to_proto(&data, NULL, &info);
    (void)rpc_reply(call, &info.base, NULL);
}

void worker_job_start(struct worker_job *j, struct rpc_call *call, struct rpc_msg *msg)
{
    const Gradus__V1__StartJobRequest *r = (const Gradus__V1__StartJobRequest *)msg->body;
    Gradus__V1__StartJobResponse response = GRADUS__V1__START_JOB_RESPONSE__INIT;
    Gradus__V1__DataInfo info;
    struct err err = {0};
    wire_data_to_proto(&data, NULL, &info);
    int rc = j->core == NULL && r->data != NULL ? wire_data_compare(r->data, &info, &err) : 0;
    rc = rc != 0 || j->core != NULL ? rc : wire_plan_from_proto(r->plan, &j->plan, &err);
    if (rc != 0) {
        refuse(call, &err);
        return;
    }
    if (j->core == NULL) {
        const struct era only = {.rounds = j->plan.shard_count > 1 ? 1 : 0};
        const struct worker_config config = {
            .generation = r->generation,
            .shard_count = j->plan.shard_count,
            .eras = &only,
            .era_count = 1,
            .shape = {.records = data.records, .batch_records = 10, .split_batches = 2}};
        j->core = worker_new(&config);
    }
    (void)rpc_reply(call, &response.base, NULL);
}

static bool is_started(const struct worker_job *j, struct rpc_call *call)
{
    struct err err = {0};
    if (j->core == NULL) {
        (void)err_set(&err, ERR_STATE, "the job is not started on this worker");
        refuse(call, &err);
    }
    return j->core != NULL;
}

void worker_job_assign(struct worker_job *j, struct rpc_call *call, struct rpc_msg *msg)
{
    const Gradus__V1__AssignRequest *r = (const Gradus__V1__AssignRequest *)msg->body;
    const struct ledger_shape shape = {.records = data.records, .batch_records = 10};
    struct worker_event e = {.kind = WORKER_ASSIGN, .assign.tag = 1};
    struct ledger ledger = {0};
    struct err err = {0};
    if (!is_started(j, call)) {
        return;
    }
    struct worker_place *places = mem_new(j->plan.shard_count, sizeof *places);
    int rc = worker_job_assign_from_proto(r, worker_generation(j->core), &shape, &ledger,
                                          &e.assign.assignment, &err);
    if (rc == 0 && e.assign.assignment.ledger != NULL) {
        e.assign.places = places;
        rc =
            worker_job_places_from_proto(r->shards, r->n_shards, j->plan.shard_count, places, &err);
    }
    if (rc != 0) {
        refuse(call, &err);
    } else {
        Gradus__V1__AssignResponse response = GRADUS__V1__ASSIGN_RESPONSE__INIT;
        step(j, &e);
        (void)rpc_reply(call, &response.base, NULL);
    }
    ledger_release(&ledger);
    free(places);
}

void worker_job_evaluate(struct worker_job *j, struct rpc_call *call, struct rpc_msg *msg)
{
    const Gradus__V1__EvaluateRequest *r = (const Gradus__V1__EvaluateRequest *)msg->body;
    struct worker_event e = {.kind = WORKER_EVALUATE,
                             .evaluate = {.tag = 2,
                                          .generation = r->generation,
                                          .pin_id = r->pin_id,
                                          .first = r->first,
                                          .count = r->count}};
    struct err err = {0};
    if (!is_started(j, call)) {
        return;
    }
    struct worker_place *places = mem_new(j->plan.shard_count, sizeof *places);
    int rc = strlen(r->pin_id) + 2 > EXCHANGE_PIN_ID_BYTES || r->pin_id[0] == '\0'
                 ? err_set(&err, ERR_INVALID, "pin_id must have 1 to 128 bytes")
                 : worker_job_places_from_proto(r->shards, r->n_shards, j->plan.shard_count, places,
                                                &err);
    if (rc != 0) {
        refuse(call, &err);
    } else {
        Gradus__V1__EvaluateResponse response = GRADUS__V1__EVALUATE_RESPONSE__INIT;
        e.evaluate.places = places;
        step(j, &e);
        (void)rpc_reply(call, &response.base, NULL);
    }
    free(places);
}

void worker_job_trace(struct worker_job *j, struct rpc_call *call, struct rpc_msg *msg)
{
    (void)j;
    (void)msg;
    struct wire_trace reply;
    wire_trace_to_proto(NULL, &reply);
    (void)rpc_reply(call, &reply.response.base, NULL);
    wire_trace_release(&reply);
}

/* ---- inputs ---- */

static void begin(void)
{
    served_methods(&gradus__v1__worker__descriptor, worker_shell_methods, worker_shell_method_count,
                   &shell, methods, &method_count);
    for (unsigned i = 0; i < method_count; i++) {
        types[type_count++] = methods[i].input;
    }
    types[type_count++] = &gradus__v1__exchange_response__descriptor;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t n_max, unsigned seed)
{
    if (type_count == 0) {
        begin();
    }
    return fuzz_calls_mutate(types, type_count, plan_rig_words, HEAD_BYTES, bytes, n, n_max, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (type_count == 0) {
        begin();
    }
    struct fuzz_input in = {bytes, n};
    struct fuzz_call_bytes calls[FUZZ_CALLS_MAX];
    static int joined;
    size_t piece = fuzz_below(&in, 64);
    uint8_t flags = fuzz_byte(&in);
    size_t count = fuzz_calls(in.data, in.n, type_count, calls);
    answer_count = answered = steps = 0;
    for (size_t i = 0; i < count; i++) {
        if (calls[i].method >= method_count) {
            answers[answer_count++] = calls[i];
        }
    }
    shell = (struct worker_shell){.draining = (flags & 1) != 0};
    shell.membership = (flags & 2) != 0 ? NULL : (struct membership *)(void *)&joined;
    shell.loop = loop_new(0);
    served_caller("", false);
    for (size_t i = 0; i < count; i++) {
        if (calls[i].method < method_count) {
            (void)served_call(&methods[calls[i].method], calls[i].data, calls[i].n, piece);
        }
    }
    served_end();
    worker_shell_drop_job(&shell, "the end");
    loop_free(shell.loop);
    return 0;
}
