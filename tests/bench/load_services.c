/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes of the load answer the master: as workers and parameter servers would whose calls
 * all go well. One server listens at the addresses of all nodes; which of them is meant says the
 * request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench/load.h"
#include "checkpoint/shard_file.h"
#include "gradus/v1/ps.pb-c.h"
#include "gradus/v1/worker.pb-c.h"
#include "os/chrono.h"
#include "os/file.h"
#include "wire/wire.h"

#define SPLITS_PER_WORKER 16 /* of an epoch; a split is one batch of one record */
#define FEATURES 16
#define CLASSES 10
#define FILE_BYTES 64 /* of a shard's checkpoint */

struct served {
    struct load *load;
    struct rpc_call *call;
    struct rpc_msg *msg;
    void (*run)(struct served *s);
    struct loop_timer timer;
};

static void served_free(struct served *s)
{
    rpc_msg_unref(s->msg);
    rpc_call_unref(s->call);
    free(s);
}

static void reply(struct served *s, const ProtobufCMessage *message)
{
    (void)rpc_reply(s->call, message, NULL);
    served_free(s);
}

static void refuse(struct served *s, int code, const char *why)
{
    struct err err;
    err_set(&err, code, "%s", why);
    (void)rpc_fail(s->call, &err);
    served_free(s);
}

static void on_loop(void *ctx)
{
    struct served *s = ctx;
    if (loop_discarding(s->load->loop) || s->load->ending) {
        refuse(s, ERR_UNAVAILABLE, "the load ends");
    } else {
        s->run(s);
    }
}

/* On a thread of gRPC. */
static void serve(void *service, struct rpc_call *call, struct rpc_msg *msg,
                  void (*run)(struct served *s))
{
    struct served *s = mem_new(1, sizeof *s);
    *s = (struct served){
        .load = service, .call = rpc_call_ref(call), .msg = rpc_msg_ref(msg), .run = run};
    if (loop_post(s->load->loop, on_loop, s, NULL) != 0) {
        refuse(s, ERR_UNAVAILABLE, "the load has ended");
    }
}

/* ---- workers ---- */

static void run_inspect(struct served *s)
{
    const struct dataset_info train = {
        .records = s->load->options.job_workers * SPLITS_PER_WORKER,
        .features = {1, {FEATURES}},
        .label_is_class = true,
        .classes = CLASSES,
        .label_scale = 1,
        .fingerprint = 1,
    };
    Gradus__V1__DataInfo info;
    wire_data_to_proto(&train, NULL, &info);
    reply(s, &info.base);
}

static void started(void *ctx)
{
    Gradus__V1__StartJobResponse r = GRADUS__V1__START_JOB_RESPONSE__INIT;
    reply(ctx, &r.base);
}

static void run_start(struct served *s)
{
    const Gradus__V1__StartJobRequest *q = (const Gradus__V1__StartJobRequest *)s->msg->body;
    struct load_node *n = load_node_of(s->load, q->incarnation);
    struct load_job *j = load_job(s->load, q->job);
    if (n == NULL || j == NULL || q->secret.len != LOAD_SECRET_BYTES) {
        refuse(s, ERR_ABORTED, "another process is here");
        return;
    }
    if (n->job != j || n->start < q->start) {
        load_node_drop(n);
        n->job = j;
        n->start = q->start;
        memcpy(n->secret, q->secret.data, sizeof n->secret);
    }
    loop_timer_set(s->load->loop, &s->timer, chrono_now_ms() + s->load->options.start_ms, started,
                   s);
}

static void take_leases(struct load_node *n, const Gradus__V1__AssignRequest *q)
{
    n->leased = q->n_leases > 0;
    if (n->leased) {
        n->epoch = q->leases[0]->epoch;
        n->split = q->leases[0]->split;
        n->batch_end = q->leases[0]->batch_end;
    }
}

static void run_assign(struct served *s)
{
    const Gradus__V1__AssignRequest *q = (const Gradus__V1__AssignRequest *)s->msg->body;
    struct load_node *n = load_node_of(s->load, q->incarnation);
    if (n == NULL || n->job == NULL || strcmp(n->job->id, q->job) != 0 || n->start != q->start) {
        refuse(s, n == NULL ? ERR_ABORTED : ERR_NOT_FOUND, "that start is not here");
        return;
    }
    if (q->generation < n->generation) {
        refuse(s, ERR_ABORTED, "an older generation");
        return;
    }
    if (q->generation > n->generation) {
        n->generation = q->generation;
        take_leases(n, q);
    }
    if (q->hold) {
        load_node_hold(n);
    } else {
        load_node_work(n);
    }
    Gradus__V1__AssignResponse r = GRADUS__V1__ASSIGN_RESPONSE__INIT;
    r.position = n->batches;
    reply(s, &r.base);
}

static void run_stop(struct served *s)
{
    const Gradus__V1__StopJobRequest *q = (const Gradus__V1__StopJobRequest *)s->msg->body;
    Gradus__V1__StopJobResponse r = GRADUS__V1__STOP_JOB_RESPONSE__INIT;
    for (size_t i = 0; i < s->load->node_count; i++) {
        struct load_node *n = &s->load->nodes[i];
        if (n->job != NULL && n->start <= q->start && strcmp(n->job->id, q->job) == 0 &&
            q->secret.len == LOAD_SECRET_BYTES &&
            memcmp(n->secret, q->secret.data, sizeof n->secret) == 0) {
            load_node_drop(n);
        }
    }
    reply(s, &r.base);
}

/* ---- shards ---- */

static struct load_shard *shard_of(struct load *l, const Gradus__V1__ShardRef *ref)
{
    for (size_t i = 0; ref != NULL && i < l->node_count && l->nodes[i].server; i++) {
        struct load_node *n = &l->nodes[i];
        for (size_t k = 0; k < n->shard_count; k++) {
            struct load_shard *shard = &n->shards[k];
            if (shard->number == ref->shard && shard->opening == ref->opening &&
                strcmp(shard->job->id, ref->job) == 0) {
                return shard;
            }
        }
    }
    return NULL;
}

static void reply_state(struct served *s, const struct load_shard *shard)
{
    Gradus__V1__ShardState r = GRADUS__V1__SHARD_STATE__INIT;
    Gradus__V1__Ledger ledger;
    wire_ledger_to_proto(&shard->job->ledger, &ledger);
    r.generation = shard->generation;
    r.version = shard->job->version;
    r.ledger = &ledger;
    r.examples = ledger_records(&shard->job->ledger);
    r.pushes = shard->job->version;
    reply(s, &r.base);
}

/* The position of a job is as its master says. */
static int take_position(struct load_job *j, const Gradus__V1__Ledger *ledger, uint64_t version,
                         struct err *err)
{
    struct ledger taken;
    int rc = ledger == NULL ? 0 : wire_ledger_from_proto(ledger, &taken, err);
    if (ledger != NULL && rc == 0) {
        ledger_release(&j->ledger);
        j->ledger = taken;
        j->version = version;
        j->taken = 0;
    }
    return rc;
}

static void run_open(struct served *s)
{
    const Gradus__V1__OpenShardRequest *q = (const Gradus__V1__OpenShardRequest *)s->msg->body;
    struct load_node *n = load_node_of(s->load, q->incarnation);
    struct load_job *j = q->shard == NULL ? NULL : load_job(s->load, q->shard->job);
    struct err err = {0};
    struct load_shard *shard = shard_of(s->load, q->shard);
    if (n == NULL || j == NULL || (shard == NULL && n->shard_count == LOAD_SHARDS_MAX)) {
        refuse(s, ERR_ABORTED, "another process is here");
        return;
    }
    if (shard == NULL) {
        shard = &n->shards[n->shard_count++];
        *shard = (struct load_shard){j, q->shard->shard, q->shard->opening, 0};
    }
    shard->generation = q->shard->generation;
    if (take_position(j, q->ledger, q->version, &err) != 0) {
        refuse(s, err.code, err.msg);
        return;
    }
    reply_state(s, shard);
}

static void run_membership(struct served *s)
{
    const Gradus__V1__SetMembershipRequest *q =
        (const Gradus__V1__SetMembershipRequest *)s->msg->body;
    struct load_shard *shard = shard_of(s->load, q->shard);
    struct err err = {0};
    if (shard == NULL) {
        refuse(s, ERR_NOT_FOUND, "no such shard");
        return;
    }
    shard->generation = q->shard->generation;
    if (take_position(shard->job, q->ledger, q->version, &err) != 0) {
        refuse(s, err.code, err.msg);
        return;
    }
    reply_state(s, shard);
}

static void run_pin(struct served *s) /* or unpin */
{
    const Gradus__V1__PinRequest *q = (const Gradus__V1__PinRequest *)s->msg->body;
    struct load_shard *shard = shard_of(s->load, q->shard);
    if (shard == NULL) {
        refuse(s, ERR_NOT_FOUND, "no such shard");
        return;
    }
    reply_state(s, shard);
}

/* The file is there, with its size, which is all that the master looks at. */
static void run_checkpoint(struct served *s)
{
    const Gradus__V1__CheckpointShardRequest *q =
        (const Gradus__V1__CheckpointShardRequest *)s->msg->body;
    struct load_shard *shard = shard_of(s->load, q->shard);
    if (shard == NULL) {
        refuse(s, ERR_NOT_FOUND, "no such shard");
        return;
    }
    static const char zeros[FILE_BYTES];
    char name[SHARD_FILE_NAME_BYTES];
    (void)shard_file_name(shard->number, (uint32_t)s->load->options.job_servers,
                          q->shard->generation, name);
    char *path = mem_printf("%s/%s/%s", s->load->options.checkpoint_dir, q->directory, name);
    FILE *f = fopen(path, "w");
    bool written = f != NULL && fwrite(zeros, 1, sizeof zeros, f) == sizeof zeros;
    written = f != NULL && fclose(f) == 0 && written;
    free(path);
    if (!written) {
        refuse(s, ERR_UNAVAILABLE, "the file of the checkpoint cannot be written");
        return;
    }
    Gradus__V1__CheckpointShardResponse r = GRADUS__V1__CHECKPOINT_SHARD_RESPONSE__INIT;
    Gradus__V1__Ledger ledger;
    wire_ledger_to_proto(&shard->job->ledger, &ledger);
    r.file = name;
    r.bytes = FILE_BYTES;
    r.checksum = 1;
    r.version = shard->job->version;
    r.ledger = &ledger;
    reply(s, &r.base);
}

static void run_close(struct served *s)
{
    const Gradus__V1__CloseShardRequest *q = (const Gradus__V1__CloseShardRequest *)s->msg->body;
    for (size_t i = 0; q->shard != NULL && i < s->load->node_count; i++) {
        struct load_node *n = &s->load->nodes[i];
        for (size_t k = n->shard_count; k-- > 0;) {
            struct load_shard *shard = &n->shards[k];
            if (shard->number == q->shard->shard && shard->generation <= q->shard->generation &&
                strcmp(shard->job->id, q->shard->job) == 0) {
                n->shards[k] = n->shards[--n->shard_count];
            }
        }
    }
    Gradus__V1__CloseShardResponse r = GRADUS__V1__CLOSE_SHARD_RESPONSE__INIT;
    reply(s, &r.base);
}

/* ---- tables ---- */

static void run_unknown(struct served *s)
{
    refuse(s, ERR_UNSUPPORTED, "the load does not do that");
}

#define METHODS(X)                                                                                 \
    X(inspect)                                                                                     \
    X(start)                                                                                       \
    X(assign)                                                                                      \
    X(stop)                                                                                        \
    X(open)                                                                                        \
    X(membership)                                                                                  \
    X(pin)                                                                                         \
    X(checkpoint)                                                                                  \
    X(close)                                                                                       \
    X(unknown)
#define X(name)                                                                                    \
    static void on_##name(struct rpc_call *call, struct rpc_msg *msg, void *service)               \
    {                                                                                              \
        serve(service, call, msg, run_##name);                                                     \
    }
METHODS(X)
#undef X

static const struct rpc_method WORKER_METHODS[] = {
    {.name = "InspectData", .request = on_inspect}, {.name = "StartJob", .request = on_start},
    {.name = "Assign", .request = on_assign},       {.name = "Evaluate", .request = on_unknown},
    {.name = "StopJob", .request = on_stop},        {.name = "Trace", .request = on_unknown},
};
static const struct rpc_method PS_METHODS[] = {
    {.name = "OpenShard", .request = on_open},
    {.name = "Fill", .request = on_unknown},
    {.name = "SetMembership", .request = on_membership},
    {.name = "Pull", .request = on_unknown},
    {.name = "Read", .request = on_unknown},
    {.name = "Exchange", .request = on_unknown},
    {.name = "Pin", .request = on_pin},
    {.name = "Unpin", .request = on_pin},
    {.name = "Checkpoint", .request = on_checkpoint},
    {.name = "CloseShard", .request = on_close},
    {.name = "Stats", .request = on_unknown},
    {.name = "Record", .request = on_unknown},
    {.name = "Trace", .request = on_unknown},
};

int load_services_add(struct load *l, struct err *err)
{
    int rc = rpc_server_add(l->server, &gradus__v1__worker__descriptor, WORKER_METHODS,
                            sizeof WORKER_METHODS / sizeof WORKER_METHODS[0], l, err);
    return rc != 0 ? rc
                   : rpc_server_add(l->server, &gradus__v1__parameter_server__descriptor,
                                    PS_METHODS, sizeof PS_METHODS / sizeof PS_METHODS[0], l, err);
}
