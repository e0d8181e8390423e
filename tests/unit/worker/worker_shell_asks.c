/* SPDX-License-Identifier: Apache-2.0 */
/* What the master of a worker under test asks of it. */
#include "worker_shell_rig.h"

#include "support/wait_until.h"

int shell_call_for(struct fixture *f, const char *method, const ProtobufCMessage *body,
                   struct rpc_msg **reply, struct err *err)
{
    const struct rpc_request request = {
        .service = &gradus__v1__worker__descriptor,
        .method = method,
        .body = body,
        .timeout_ms = WAIT_MS,
        .wait_for_ready = f->http[0] == '\0', /* it may not listen yet */
    };
    return rpc_call_blocking(f->channel, &request, reply, err);
}

int shell_call(struct fixture *f, const char *method, const ProtobufCMessage *body, struct err *err)
{
    struct rpc_msg *reply = NULL;
    int rc = shell_call_for(f, method, body, &reply, err);
    rpc_msg_unref(reply);
    return rc;
}

char job_id[] = "job-1";
static uint8_t secret_bytes[FENCE_SECRET_BYTES] = {4, 5, 6};
ProtobufCBinaryData secret = {sizeof secret_bytes, secret_bytes};

void shell_start_request(struct fixture *f, Gradus__V1__Plan *plan, Gradus__V1__StartJobRequest *r)
{
    wire_plan_to_proto(&f->plan, plan);
    gradus__v1__start_job_request__init(r);
    r->job = job_id;
    r->text = f->text;
    r->plan = plan;
    r->generation = GENERATION;
    r->start = f->start;
    r->secret = secret;
}

/* It may not know yet that it has joined, or not have asked. */
static bool start_answered(struct fixture *f, Gradus__V1__StartJobRequest *r, int *rc,
                           struct err *err)
{
    r->incarnation = atomic_load(&f->incarnation);
    *rc = shell_call(f, "StartJob", &r->base, err);
    return *rc != ERR_UNAVAILABLE && r->incarnation != 0;
}

void shell_start_job(struct fixture *f)
{
    Gradus__V1__Plan plan;
    Gradus__V1__StartJobRequest r;
    shell_start_request(f, &plan, &r);
    struct err err = {0};
    int rc = 0;
    wait_until(start_answered(f, &r, &rc, &err));
    if (rc != 0) {
        fail_msg("%s", err.msg);
    }
    wire_plan_release(&plan);
}

void shell_locate(struct fixture *f, struct shell_location *l)
{
    *l = (struct shell_location){
        .node = "ps-1", .address = mem_strdup(rpc_server_address(f->server, 0)), .list = &l->at};
    gradus__v1__shard_location__init(&l->at);
    l->at.node = l->node;
    l->at.address = l->address;
}

int shell_assign(struct fixture *f, uint64_t generation, bool hold, struct err *err)
{
    const struct ledger_shape shape = {RECORDS, BATCH, SPLIT_BATCHES};
    struct ledger ledger;
    struct consistency c;
    assert_int_equal(ledger_init(&ledger, &shape, 0, NULL), 0);
    consistency_of(&f->model.spec, &c);
    Gradus__V1__Ledger packed_ledger;
    Gradus__V1__Consistency consistency;
    Gradus__V1__Lease lease = GRADUS__V1__LEASE__INIT, *leases = &lease;
    wire_ledger_to_proto(&ledger, &packed_ledger);
    wire_consistency_to_proto(&c, &consistency);
    lease.batch_end = SPLIT_BATCHES;
    lease.fresh = true;
    Gradus__V1__AssignRequest r = GRADUS__V1__ASSIGN_REQUEST__INIT;
    r.job = job_id;
    r.generation = generation;
    r.consistency = &consistency;
    r.replica_end = 1;
    r.step_limit = 1000;
    r.ledger = &packed_ledger;
    r.leases = &leases;
    r.n_leases = 1;
    r.hold = hold;
    r.start = f->start;
    r.secret = secret;
    struct shell_location location;
    shell_locate(f, &location);
    location.at.address = f->place == PLACE_NO_ADDRESS ? location.node : location.address;
    r.shards = &location.list;
    r.n_shards = f->place == PLACE_MISSING ? 0 : 1;
    int rc = shell_call(f, "Assign", &r.base, err);
    free(location.address);
    ledger_release(&ledger);
    return rc;
}
