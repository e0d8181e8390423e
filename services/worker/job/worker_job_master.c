/* SPDX-License-Identifier: Apache-2.0 */
/* The job's calls to the master: leases, reports. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gradus/v1/cluster.pb-c.h"
#include "os/log.h"
#include "wire/wire.h"
#include "worker/job/worker_job_state.h"

#define LEASE_TIMEOUT_MS 10000
#define REPORT_TIMEOUT_MS 3000

void worker_job_mail_drop(struct job_mail *mail)
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
    enum worker_event_kind kind; /* kind of the event that brings the answer */
    uint64_t generation;         /* of the request */
    int code;
    enum worker_lease_kind lease; /* of LEASED */
    struct worker_lease granted;
};

static void master_call_free(struct master_call *m);

/* Errors that the core does not send the report again for. */
static bool is_heard(int code)
{
    return code == 0 || code == ERR_NOT_FOUND || code == ERR_ABORTED;
}

/* Notes that the worker is idle, before the core hears of it: the core may begin something, or
 * report again. */
static void note_idle(const struct master_call *m)
{
    if (m->kind == WORKER_PROGRESS_REPORTED && is_heard(m->code)) {
        m->job->idle = m->job->report_idle;
    }
}

static struct epoch_sums *epoch_of(struct measurements *m, uint64_t epoch)
{
    struct epoch_sums *unused = NULL;
    for (size_t i = 0; i < EPOCHS_MAX; i++) {
        if (m->epochs[i].used && m->epochs[i].epoch == epoch) {
            return &m->epochs[i];
        }
        unused = unused == NULL && !m->epochs[i].used ? &m->epochs[i] : unused;
    }
    return unused;
}

/* The master took nothing of the report, as the core knows: the next one says it all. */
static void measure_again(struct worker_job *j)
{
    for (size_t i = 0; i < EPOCHS_MAX; i++) {
        struct epoch_sums *from = &j->reporting.epochs[i];
        struct epoch_sums *to = from->used ? epoch_of(&j->measured, from->epoch) : NULL;
        if (to == NULL) {
            continue; /* no ledger, or no room: an epoch so old goes without */
        }
        if (!to->used) {
            *to = *from;
            *from = (struct epoch_sums){0};
            continue;
        }
        metrics_merge(&to->sums, &from->sums);
        to->batches += from->batches;
    }
    for (size_t i = 0; i < STALENESS_BUCKETS; i++) {
        j->measured.staleness[i] += j->reporting.staleness[i];
    }
    step_times_add(&j->measured.times, &j->reporting.times);
    worker_job_measurements_clear(&j->reporting);
}

static void end_drain(const struct master_call *m)
{
    if (m->job->idle || (m->kind == WORKER_FAILURE_REPORTED && is_heard(m->code))) {
        worker_job_drain_over(m->job);
    }
}

static void master_answered(void *ctx)
{
    struct master_call *m = ctx;
    if (!loop_discarding(m->job->loop)) {
        if (m->code == ERR_NOT_FOUND) {
            /* The node is unknown, or only this job is over: a heartbeat tells which. */
            membership_hurry(m->job->membership);
        }
        struct worker_event event = {.kind = m->kind};
        if (m->kind == WORKER_LEASED) {
            event.leased = (struct worker_leased){m->generation, m->code, m->lease, m->granted};
        } else {
            event.reported = (struct worker_reported){m->generation, m->code};
        }
        note_idle(m);
        if (m->kind == WORKER_PROGRESS_REPORTED && m->code == ERR_ABORTED &&
            !m->job->report_again) {
            measure_again(m->job);
        }
        worker_job_step(m->job, &event);
        end_drain(m);
    }
    master_call_free(m);
}

/* Reads a lease. One that cannot be right counts as no answer, and is asked for again. */
static void take_lease(struct master_call *m, const Gradus__V1__LeaseSplitResponse *r)
{
    switch (r->kind) {
    case GRADUS__V1__LEASE_SPLIT_RESPONSE__KIND__LEASE:
        if (r->lease == NULL) {
            m->code = ERR_INTERNAL;
            break;
        }
        m->lease = WORKER_LEASE_GRANTED;
        m->granted = (struct worker_lease){
            .epoch = r->lease->epoch,
            .split = r->lease->split,
            .batch_end = r->lease->batch_end,
            .fresh = r->lease->fresh != 0,
        };
        break;
    case GRADUS__V1__LEASE_SPLIT_RESPONSE__KIND__WAIT:
        m->lease = WORKER_LEASE_WAIT;
        break;
    case GRADUS__V1__LEASE_SPLIT_RESPONSE__KIND__DONE:
        m->lease = WORKER_LEASE_DONE;
        break;
    default:
        m->code = ERR_INTERNAL;
        break;
    }
}

static void master_call_free(struct master_call *m)
{
    worker_job_mail_drop(m->mail);
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

void worker_job_lease(struct worker_job *j, const struct worker_do_lease *a)
{
    struct membership_node node;
    Gradus__V1__NodeRef ref;
    node_ref(j, &node, &ref);
    Gradus__V1__LeaseSplitRequest r = GRADUS__V1__LEASE_SPLIT_REQUEST__INIT;
    r.node = &ref;
    r.job = j->id;
    r.generation = a->generation;
    Gradus__V1__Lease held[WORKER_HELD_MAX], *pointers[WORKER_HELD_MAX];
    for (size_t i = 0; i < a->held_count; i++) {
        gradus__v1__lease__init(&held[i]);
        held[i].epoch = a->held[i].epoch;
        held[i].split = a->held[i].split;
        held[i].batch_end = a->held[i].batch_end;
        held[i].fresh = a->held[i].fresh;
        pointers[i] = &held[i];
    }
    r.held = pointers;
    r.n_held = a->held_count;
    call_master(j, "LeaseSplit", &r.base, LEASE_TIMEOUT_MS, WORKER_LEASED, a->generation);
}

void worker_job_report_split(struct worker_job *j, const struct worker_do_report_split *a)
{
    struct membership_node node;
    Gradus__V1__NodeRef ref;
    node_ref(j, &node, &ref);
    Gradus__V1__ReportSplitRequest r = GRADUS__V1__REPORT_SPLIT_REQUEST__INIT;
    r.node = &ref;
    r.job = j->id;
    r.generation = a->generation;
    r.epoch = a->epoch;
    r.split = a->split;
    r.batch_end = a->batch_end;
    call_master(j, "ReportSplit", &r.base, REPORT_TIMEOUT_MS, WORKER_SPLIT_REPORTED, a->generation);
}

void worker_job_measurements_clear(struct measurements *m)
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

void worker_job_report_progress(struct worker_job *j, const struct worker_do_report_progress *a)
{
    struct membership_node node;
    Gradus__V1__NodeRef ref;
    node_ref(j, &node, &ref);
    if (!a->again) {
        worker_job_count_times(j);
        worker_job_measurements_clear(&j->reporting);
        j->reporting = j->measured;
        j->measured = (struct measurements){0};
        j->report_idle = a->idle;
    }
    j->report_again = a->again;
    struct report_parts parts;
    report_fill(&j->reporting, &parts);
    Gradus__V1__ReportProgressRequest r = GRADUS__V1__REPORT_PROGRESS_REQUEST__INIT;
    r.node = &ref;
    r.job = j->id;
    r.generation = a->generation;
    r.sequence = a->sequence;
    r.position = a->position;
    r.idle = a->idle;
    r.dropped = a->dropped;
    r.speculated = a->speculated;
    r.epochs = parts.pointers;
    r.n_epochs = parts.count;
    r.staleness = j->reporting.staleness;
    r.n_staleness = STALENESS_BUCKETS;
    Gradus__V1__StepTimes times;
    wire_step_times_to_proto(&j->reporting.times, &times);
    r.times = &times;
    call_master(j, "ReportProgress", &r.base, REPORT_TIMEOUT_MS, WORKER_PROGRESS_REPORTED,
                a->generation);
    for (size_t i = 0; i < parts.count; i++) {
        wire_metrics_release(&parts.sums[i]);
    }
}

void worker_job_report_failure(struct worker_job *j, const struct worker_do_fail_job *a)
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
    r.generation = a->generation;
    r.code = -a->code;
    char message[sizeof a->message];
    memcpy(message, a->message, sizeof message);
    r.message = message;
    call_master(j, "ReportFailure", &r.base, REPORT_TIMEOUT_MS, WORKER_FAILURE_REPORTED,
                a->generation);
}
