/* SPDX-License-Identifier: Apache-2.0 */
/* The core's calls to nodes, as gRPC calls; their answers become events. */
#include <stdlib.h>
#include <string.h>

#include "auth/shard_key.h"
#include "base/mem.h"
#include "gradus/v1/ps.pb-c.h"
#include "gradus/v1/worker.pb-c.h"
#include "master/shell/boards.h"
#include "master/shell/history_wire.h"
#include "master/shell/shell.h"
#include "wire/wire.h"

/* ---- answers ---- */

struct call { /* in flight */
    struct shell *shell;
    uint64_t number;
    enum master_call_kind kind;
    char *job; /* owned */
    struct err err;
    struct rpc_msg *reply;
};

static int take_shard_state(const Gradus__V1__ShardState *r, struct master_call_done *done,
                            struct ledger *ledger, struct err *err)
{
    if (r->ledger != NULL) {
        int rc = wire_ledger_from_proto(r->ledger, ledger, err);
        if (rc < 0) {
            return rc;
        }
        done->ledger = ledger;
    }
    done->version = r->version;
    done->examples = r->examples;
    done->pushes = r->pushes;
    done->duplicates = r->duplicates;
    done->dropped = r->dropped;
    done->problem = r->checkpoint_problem;
    for (size_t i = 0; i < r->n_pins && i < MASTER_PINS_MAX; i++) {
        done->pins[done->pin_count].id = r->pins[i]->pin_id;
        done->pins[done->pin_count].version = r->pins[i]->version;
        done->pins[done->pin_count++].slots = r->pins[i]->slots != 0;
    }
    return 0;
}

static int take_inspection(const Gradus__V1__DataInfo *r, struct master_call_done *done,
                           struct variable_spec **given, struct err *err)
{
    int rc = wire_data_from_proto(r, &done->train, &done->test, err);
    done->from = r->from;
    done->encoding = r->encoding;
    done->from_fingerprint = r->from_fingerprint;
    done->rows_from = r->rows_from;
    done->rows_manifest = r->rows_manifest;
    done->slots_version = r->slots_version;
    return rc != 0 || r->program == NULL
               ? rc
               : wire_program_from_proto(r->program, given, &done->given, err);
}

/* Takes an answer; @ledger and @given become the caller's, where there are any. */
static int take_answer(const struct call *c, struct master_call_done *done, struct ledger *ledger,
                       struct variable_spec **given, struct err *err)
{
    const ProtobufCMessage *body = c->reply->body;
    switch (c->kind) {
    case MASTER_CALL_INSPECT:
        return take_inspection((const Gradus__V1__DataInfo *)body, done, given, err);
    case MASTER_CALL_OPEN:
    case MASTER_CALL_MEMBERSHIP:
    case MASTER_CALL_PIN:
    case MASTER_CALL_UNPIN:
        return take_shard_state((const Gradus__V1__ShardState *)body, done, ledger, err);
    case MASTER_CALL_ASSIGN:
        done->position = ((const Gradus__V1__AssignResponse *)body)->position;
        return 0;
    case MASTER_CALL_EVALUATE: {
        const Gradus__V1__EvaluateResponse *r = (const Gradus__V1__EvaluateResponse *)body;
        if (r->sums == NULL) {
            return err_set(err, ERR_INTERNAL, "the answer has no sums");
        }
        done->sums = r->sums->values;
        done->sum_count = r->sums->n_values;
        return 0;
    }
    case MASTER_CALL_CHECKPOINT: {
        const Gradus__V1__CheckpointShardResponse *r =
            (const Gradus__V1__CheckpointShardResponse *)body;
        done->file = r->file;
        done->bytes = r->bytes;
        done->checksum = r->checksum;
        done->version = r->version;
        done->delta = r->delta;
        if (r->ledger == NULL) {
            return 0;
        }
        int rc = wire_ledger_from_proto(r->ledger, ledger, err);
        done->ledger = rc < 0 ? NULL : ledger;
        return rc;
    }
    default:
        return 0;
    }
}

static void deliver(void *ctx)
{
    struct call *c = ctx;
    struct ledger ledger = {0};
    struct variable_spec *given = NULL;
    struct master_event e = {.kind = MASTER_CALL_DONE};
    e.call.number = c->number;
    if (!loop_discarding(c->shell->loop)) {
        struct err err = {0};
        if (c->err.code != 0) {
            e.call.err = &c->err;
        } else if (take_answer(c, &e.call, &ledger, &given, &err) < 0) {
            e.call = (struct master_call_done){.number = c->number, .err = &err};
        } else if (c->kind == MASTER_CALL_INSPECT) {
            bad_records_store(c->shell, c->job,
                              ((const Gradus__V1__DataInfo *)c->reply->body)->bad_records);
        }
        shell_event(c->shell, &e);
    }
    ledger_release(&ledger);
    free(given);
    rpc_msg_unref(c->reply);
    free(c->job);
    free(c);
}

/* Posts an answer to the loop. When the mailbox is full or gone the answer is lost; the core has
 * deadlines of its own. */
static void post(struct call *c)
{
    if (loop_post(c->shell->loop, deliver, c, NULL) < 0) {
        rpc_msg_unref(c->reply);
        free(c->job);
        free(c);
    }
}

static void on_done(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    struct call *c = ctx;
    c->err = status->err;
    if (c->err.code == 0) {
        c->reply = rpc_msg_ref(reply);
    }
    post(c);
}

/* ---- requests ---- */

/* The messages have no pointers to const; nobody writes through these. */
static char *borrow(const char *s)
{
    union {
        const char *in;
        char *out;
    } u = {.in = s};
    return u.out;
}

static char **borrow_list(const char *const *list)
{
    union {
        const char *const *in;
        char **out;
    } u = {.in = list};
    return u.out;
}

static void start(struct shell *s, const struct master_call *call, bool ps,
                  const ProtobufCMessage *body)
{
    struct call *c = mem_new(1, sizeof *c);
    *c = (struct call){
        .shell = s, .number = call->number, .kind = call->kind, .job = mem_strdup(call->job)};
    struct rpc_channel *channel = peer_channel(s, call->address, call->incarnation, &c->err);
    struct rpc_request request = {
        .service = ps ? &gradus__v1__parameter_server__descriptor : &gradus__v1__worker__descriptor,
        .method = master_call_name(call->kind),
        .body = body,
        .terse = true,
        /* No deadline: how long the work takes depends on bytes and batches, and the node says in
         * its heartbeats that it is at it. */
    };
    if (channel == NULL || rpc_call_start(channel, &request, on_done, c, &c->err) < 0) {
        post(c);
    }
}

/* The places of the shards. The list and what it points to are one allocation, the caller's. */
static Gradus__V1__ShardLocation **locations(const struct master_call *call)
{
    size_t n = call->shard_count;
    Gradus__V1__ShardLocation **list = mem_new(1, n * (sizeof *list + sizeof **list) + 1);
    Gradus__V1__ShardLocation *shards = (Gradus__V1__ShardLocation *)(void *)(list + n);
    for (size_t i = 0; i < n; i++) {
        gradus__v1__shard_location__init(&shards[i]);
        shards[i].shard = call->shards[i].shard;
        shards[i].node = borrow(call->shards[i].node);
        shards[i].address = borrow(call->shards[i].address);
        shards[i].opening = call->shards[i].opening;
        list[i] = &shards[i];
    }
    return list;
}

/* A worker gets one of its own (shard_key.h), which stays the same for all calls about a job.
 * @fence holds it for the message. */
static ProtobufCBinaryData worker_secret(const struct master_call *call, struct fence *fence)
{
    *fence = call->fence;
    shard_worker_secret(call->fence.secret, call->node, fence->secret);
    return wire_secret_to_proto(fence);
}

static void evaluate(struct shell *s, const struct master_call *call)
{
    Gradus__V1__EvaluateRequest q = GRADUS__V1__EVALUATE_REQUEST__INIT;
    q.job = borrow(call->job);
    q.pin_id = borrow(call->pin_id);
    q.first = call->first;
    q.count = call->count;
    struct fence fence;
    q.secret = worker_secret(call, &fence);
    q.generation = call->generation;
    q.start = call->start;
    q.shards = locations(call);
    q.n_shards = call->shard_count;
    start(s, call, false, &q.base);
    free(q.shards);
}

static void assign(struct shell *s, const struct master_call *call)
{
    struct era_wire eras;
    Gradus__V1__AssignRequest q = GRADUS__V1__ASSIGN_REQUEST__INIT;
    Gradus__V1__Consistency consistency;
    Gradus__V1__Ledger ledger;
    wire_consistency_to_proto(call->consistency, &consistency);
    wire_ledger_to_proto(call->ledger, &ledger);
    Gradus__V1__Lease *leases = mem_new(call->lease_count + 1, sizeof *leases);
    Gradus__V1__Lease **list = mem_new(call->lease_count + 1, sizeof(Gradus__V1__Lease *));
    for (size_t i = 0; i < call->lease_count; i++) {
        gradus__v1__lease__init(&leases[i]);
        leases[i].epoch = call->leases[i].epoch;
        leases[i].split = call->leases[i].split;
        leases[i].batch_end = call->leases[i].batch_end;
        leases[i].fresh = call->leases[i].fresh;
        list[i] = &leases[i];
    }
    q.job = borrow(call->job);
    q.generation = call->generation;
    q.consistency = &consistency;
    q.replica_first = call->replica_first;
    q.replica_end = call->replica_end;
    q.step = call->step;
    q.step_limit = call->step_limit;
    q.ledger = &ledger;
    q.ledger_step = call->ledger_step;
    q.hold = call->hold;
    q.leases = list;
    q.n_leases = call->lease_count;
    q.number = call->number;
    q.incarnation = call->incarnation;
    q.start = call->start;
    struct fence fence;
    q.secret = worker_secret(call, &fence);
    q.shards = locations(call);
    q.n_shards = call->shard_count;
    era_wire_init(&eras, call->eras, call->era_count);
    q.eras = eras.list;
    q.n_eras = call->era_count;
    start(s, call, false, &q.base);
    era_wire_release(&eras);
    free(q.shards);
    free(list);
    free(leases);
}

static void worker_call(struct shell *s, const struct master_call *call)
{
    struct fence fence;
    switch (call->kind) {
    case MASTER_CALL_INSPECT: {
        Gradus__V1__InspectDataRequest q = GRADUS__V1__INSPECT_DATA_REQUEST__INIT;
        q.job = borrow(call->job);
        q.text = borrow(call->text);
        q.secret = worker_secret(call, &fence);
        q.incarnation = call->incarnation;
        q.begins = call->begins;
        q.encoding = borrow(call->encoding);
        start(s, call, false, &q.base);
        return;
    }
    case MASTER_CALL_START: {
        Gradus__V1__StartJobRequest q = GRADUS__V1__START_JOB_REQUEST__INIT;
        Gradus__V1__Plan plan;
        Gradus__V1__DataInfo data;
        wire_plan_to_proto(call->plan, &plan);
        wire_data_to_proto(call->train, call->test->records == 0 ? NULL : call->test, &data);
        Gradus__V1__ProgramModel program = GRADUS__V1__PROGRAM_MODEL__INIT; /* the plan has it */
        program.fingerprint = call->given_fingerprint;
        data.program = call->given_fingerprint == 0 ? NULL : &program;
        data.from_fingerprint = call->from_fingerprint;
        data.encoding = borrow(call->encoding);
        q.job = borrow(call->job);
        q.text = borrow(call->text);
        q.plan = &plan;
        q.data = &data;
        q.generation = call->generation;
        q.start = call->start;
        q.secret = worker_secret(call, &fence);
        q.incarnation = call->incarnation;
        q.shards = locations(call);
        q.n_shards = call->shard_count;
        struct era_wire eras;
        era_wire_init(&eras, call->eras, call->era_count);
        q.eras = eras.list;
        q.n_eras = call->era_count;
        start(s, call, false, &q.base);
        era_wire_release(&eras);
        free(q.shards);
        wire_plan_release(&plan);
        return;
    }
    case MASTER_CALL_ASSIGN:
        assign(s, call);
        return;
    case MASTER_CALL_EVALUATE:
        evaluate(s, call);
        return;
    default: {
        Gradus__V1__StopJobRequest q = GRADUS__V1__STOP_JOB_REQUEST__INIT;
        q.job = borrow(call->job);
        q.reason = borrow(call->reason);
        q.start = call->start;
        q.secret = worker_secret(call, &fence);
        start(s, call, false, &q.base);
    }
    }
}

/* The place of a backup, into @room; NULL: there is none. */
static Gradus__V1__ShardLocation *backup_of(const struct master_call *call,
                                            Gradus__V1__ShardLocation *room)
{
    const struct master_shard_location *at = &call->standby.backup;
    if (at->node == NULL) {
        return NULL;
    }
    gradus__v1__shard_location__init(room);
    room->shard = at->shard;
    room->node = borrow(at->node);
    room->address = borrow(at->address);
    room->opening = at->opening;
    return room;
}

static void open_shard(struct shell *s, const struct master_call *call, Gradus__V1__ShardRef *ref)
{
    Gradus__V1__OpenShardRequest q = GRADUS__V1__OPEN_SHARD_REQUEST__INIT;
    Gradus__V1__Plan plan;
    Gradus__V1__Consistency consistency;
    Gradus__V1__Ledger ledger;
    wire_plan_to_proto(call->plan, &plan);
    wire_consistency_to_proto(call->consistency, &consistency);
    wire_ledger_to_proto(call->ledger, &ledger);
    q.shard = ref;
    q.text = borrow(call->text);
    q.plan = &plan;
    q.consistency = &consistency;
    q.ledger = &ledger;
    q.version = call->version;
    q.restore = borrow(call->restore);
    q.rows_from = borrow(call->rows_from);
    q.rows_manifest = call->rows_manifest;
    q.owner = s->checkpoints.owner;
    q.workers = borrow_list(call->workers);
    q.n_workers = call->worker_count;
    q.incarnation = call->incarnation;
    Gradus__V1__ShardLocation backup;
    q.backup = backup_of(call, &backup);
    q.is_backup = call->standby.is_backup;
    q.joins = call->standby.joins;
    struct era_wire eras;
    era_wire_init(&eras, call->eras, call->era_count);
    q.eras = eras.list;
    q.n_eras = call->era_count;
    start(s, call, true, &q.base);
    era_wire_release(&eras);
    wire_plan_release(&plan);
}

static void set_membership(struct shell *s, const struct master_call *call,
                           Gradus__V1__ShardRef *ref)
{
    Gradus__V1__SetMembershipRequest q = GRADUS__V1__SET_MEMBERSHIP_REQUEST__INIT;
    Gradus__V1__Consistency consistency;
    Gradus__V1__Ledger ledger;
    q.shard = ref;
    q.workers = borrow_list(call->workers);
    q.n_workers = call->worker_count;
    q.forget_pins = call->forget_pins;
    q.keep_pin = borrow(call->keep_pin == NULL ? "" : call->keep_pin);
    Gradus__V1__ShardLocation backup;
    q.backup = backup_of(call, &backup);
    q.promote = call->standby.promote;
    if (call->ledger != NULL) { /* otherwise nothing but the membership changes */
        wire_consistency_to_proto(call->consistency, &consistency);
        wire_ledger_to_proto(call->ledger, &ledger);
        q.consistency = &consistency;
        q.ledger = &ledger;
        q.version = call->version;
    }
    struct era_wire eras;
    era_wire_init(&eras, call->eras, call->era_count);
    q.eras = eras.list;
    q.n_eras = call->era_count;
    start(s, call, true, &q.base);
    era_wire_release(&eras);
}

static void shard_call(struct shell *s, const struct master_call *call)
{
    Gradus__V1__ShardRef ref = GRADUS__V1__SHARD_REF__INIT;
    ref.job = borrow(call->job);
    ref.shard = call->shard;
    ref.generation = call->generation;
    ref.opening = call->fence.opening;
    ref.secret = wire_secret_to_proto(&call->fence);
    switch (call->kind) {
    case MASTER_CALL_OPEN:
        open_shard(s, call, &ref);
        return;
    case MASTER_CALL_MEMBERSHIP:
        set_membership(s, call, &ref);
        return;
    case MASTER_CALL_PIN:
    case MASTER_CALL_UNPIN: {
        Gradus__V1__PinRequest q = GRADUS__V1__PIN_REQUEST__INIT;
        q.shard = &ref;
        q.pin_id = borrow(call->pin_id);
        q.slots = call->slots;
        q.gradients = call->kind == MASTER_CALL_PIN && boards_has_histograms(s, call->job);
        start(s, call, true, &q.base);
        return;
    }
    case MASTER_CALL_CHECKPOINT: {
        Gradus__V1__CheckpointShardRequest q = GRADUS__V1__CHECKPOINT_SHARD_REQUEST__INIT;
        q.shard = &ref;
        q.pin_id = borrow(call->pin_id);
        q.directory = borrow(call->directory);
        q.owner = s->checkpoints.owner;
        Gradus__V1__CheckpointBase base = GRADUS__V1__CHECKPOINT_BASE__INIT;
        base.directory = borrow(call->base.directory);
        base.file = borrow(call->base.file);
        base.checksum = call->base.checksum;
        base.version = call->base.version;
        q.base_file = call->base.directory == NULL ? NULL : &base;
        start(s, call, true, &q.base);
        return;
    }
    default: {
        Gradus__V1__CloseShardRequest q = GRADUS__V1__CLOSE_SHARD_REQUEST__INIT;
        q.shard = &ref;
        start(s, call, true, &q.base);
    }
    }
}

void shell_call(struct shell *s, const struct master_call *call)
{
    switch (call->kind) {
    case MASTER_CALL_INSPECT:
    case MASTER_CALL_START:
    case MASTER_CALL_ASSIGN:
    case MASTER_CALL_EVALUATE:
    case MASTER_CALL_STOP:
        worker_call(s, call);
        return;
    default:
        shard_call(s, call);
    }
}
