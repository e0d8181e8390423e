/* SPDX-License-Identifier: Apache-2.0 */
/* What the master's shell says to workers for each call of the core, field by field, and what
 * becomes of refusals. */
#include "shell_call_rig.h"

#include <stdatomic.h>
#include <sys/socket.h>

#include "support/held_port.h"

static void data_are_inspected(void **state)
{
    (void)state;
    Gradus__V1__DataInfo well;
    wire_data_to_proto(&train, &test, &well);
    struct master_call call = call_of(MASTER_CALL_INSPECT);
    const Gradus__V1__InspectDataRequest *q =
        (const Gradus__V1__InspectDataRequest *)call_carry_out(&call, "InspectData", &well.base);
    assert_string_equal(q->job, "demo-1");
    assert_string_equal(q->text, TEXT);
    assert_int_equal(q->incarnation, 21);
    call_expect_worker_secret(&q->secret);
    call_expect_well();
    assert_int_equal(rig.done.train.records, 50);
    assert_int_equal(rig.done.train.fingerprint, 11);
    assert_int_equal(rig.done.test.records, 20);
    well.train_records = 0; /* of nothing */
    (void)call_carry_out(&call, "InspectData", &well.base);
    call_expect_failed(ERR_INVALID, "");
}

static const struct master_shard_location places[] = {{0, "ps-1", "a:1", 71},
                                                      {1, "ps-2", "b:2", 72}};

static void expect_places(Gradus__V1__ShardLocation *const *heard, size_t count)
{
    assert_int_equal(count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(heard[i]->shard, i);
        assert_string_equal(heard[i]->node, places[i].node);
        assert_string_equal(heard[i]->address, places[i].address);
        assert_int_equal(heard[i]->opening, places[i].opening);
    }
}

static void a_start_says_what_the_job_is(void **state)
{
    (void)state;
    static const struct dataset_info none = {0};
    Gradus__V1__StartJobResponse well = GRADUS__V1__START_JOB_RESPONSE__INIT;
    struct master_call call = call_of(MASTER_CALL_START);
    call.plan = &plan;
    call.train = &train;
    call.test = &test;
    const Gradus__V1__StartJobRequest *q =
        (const Gradus__V1__StartJobRequest *)call_carry_out(&call, "StartJob", &well.base);
    assert_string_equal(q->job, "demo-1");
    assert_string_equal(q->text, TEXT);
    call_expect_plan(q->plan);
    assert_int_equal(q->data->train_records, 50);
    assert_int_equal(q->data->test_records, 20);
    assert_int_equal(q->generation, 23);
    assert_int_equal(q->start, 24);
    assert_int_equal(q->incarnation, 21);
    call_expect_worker_secret(&q->secret);
    call_expect_well();
    call.test = &none;
    q = (const Gradus__V1__StartJobRequest *)call_carry_out(&call, "StartJob", &well.base);
    assert_int_equal(q->data->test_records, 0);
    assert_int_equal(q->data->test_fingerprint, 0);
    assert_int_equal(q->n_shards, 0);
    call.shards = places; /* the worker brings initial values */
    call.shard_count = 2;
    q = (const Gradus__V1__StartJobRequest *)call_carry_out(&call, "StartJob", &well.base);
    expect_places(q->shards, q->n_shards);
}

static void an_assignment_says_all(void **state)
{
    (void)state;
    const struct lease leases[] = {{.epoch = 51, .split = 52, .batch_end = 53, .fresh = true},
                                   {.epoch = 54, .split = 55, .batch_end = 56, .fresh = false}};
    Gradus__V1__AssignResponse well = GRADUS__V1__ASSIGN_RESPONSE__INIT;
    well.position = 57;
    for (int hold = 0; hold < 2; hold++) {
        struct master_call call = call_of(MASTER_CALL_ASSIGN);
        call.consistency = &consistency;
        call.ledger = &ledger;
        call.replica_first = 61;
        call.replica_end = 62;
        call.step = 63;
        call.step_limit = 64;
        call.ledger_step = 65;
        call.hold = hold != 0;
        call.leases = leases;
        call.lease_count = 2;
        call.shards = places;
        call.shard_count = 2;
        const Gradus__V1__AssignRequest *q =
            (const Gradus__V1__AssignRequest *)call_carry_out(&call, "Assign", &well.base);
        assert_string_equal(q->job, "demo-1");
        assert_int_equal(q->generation, 23);
        assert_int_equal(q->start, 24);
        call_expect_consistency(q->consistency);
        call_expect_ledger(q->ledger);
        assert_int_equal(q->replica_first, 61);
        assert_int_equal(q->replica_end, 62);
        assert_int_equal(q->step, 63);
        assert_int_equal(q->step_limit, 64);
        assert_int_equal(q->ledger_step, 65);
        assert_int_equal(q->hold != 0, hold);
        assert_int_equal(q->n_leases, 2);
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(q->leases[i]->epoch, leases[i].epoch);
            assert_int_equal(q->leases[i]->split, leases[i].split);
            assert_int_equal(q->leases[i]->batch_end, leases[i].batch_end);
            assert_int_equal(q->leases[i]->fresh != 0, leases[i].fresh);
        }
        expect_places(q->shards, q->n_shards);
        assert_int_equal(q->number, call.number);
        assert_int_equal(q->incarnation, 21);
        call_expect_worker_secret(&q->secret);
        call_expect_well();
        assert_int_equal(rig.done.position, 57);
    }
}

static void evaluations_have_sums(void **state)
{
    (void)state;
    double sums[] = {7.5, 8.5};
    Gradus__V1__EvaluateResponse well = GRADUS__V1__EVALUATE_RESPONSE__INIT;
    Gradus__V1__MetricSums message = GRADUS__V1__METRIC_SUMS__INIT;
    message.values = sums;
    message.n_values = 2;
    well.sums = &message;
    struct master_call call = call_of(MASTER_CALL_EVALUATE);
    call.pin_id = "p-7";
    call.first = 1024;
    call.count = 77;
    call.shards = places;
    call.shard_count = 2;
    const Gradus__V1__EvaluateRequest *q =
        (const Gradus__V1__EvaluateRequest *)call_carry_out(&call, "Evaluate", &well.base);
    assert_string_equal(q->job, "demo-1");
    assert_string_equal(q->pin_id, "p-7");
    assert_int_equal(q->first, 1024);
    assert_int_equal(q->count, 77);
    assert_int_equal(q->generation, 23);
    assert_int_equal(q->start, 24);
    expect_places(q->shards, q->n_shards);
    call_expect_worker_secret(&q->secret);
    call_expect_well();
    assert_int_equal(rig.done.sum_count, 2);
    assert_true(rig.sums[0] == 7.5 && rig.sums[1] == 8.5);
    well.sums = NULL;
    (void)call_carry_out(&call, "Evaluate", &well.base);
    call_expect_failed(ERR_INTERNAL, "the answer has no sums");
}

static void stops_have_a_reason(void **state)
{
    (void)state;
    Gradus__V1__StopJobResponse well = GRADUS__V1__STOP_JOB_RESPONSE__INIT;
    struct master_call call = call_of(MASTER_CALL_STOP);
    call.reason = "it was cancelled";
    const Gradus__V1__StopJobRequest *q =
        (const Gradus__V1__StopJobRequest *)call_carry_out(&call, "StopJob", &well.base);
    assert_string_equal(q->job, "demo-1");
    assert_string_equal(q->reason, "it was cancelled");
    assert_int_equal(q->start, 24);
    call_expect_worker_secret(&q->secret);
    call_expect_well();
}

static void refusals_reach_the_core(void **state)
{
    (void)state;
    struct master_call call = call_of(MASTER_CALL_CLOSE);
    (void)call_carry_out(&call, "CloseShard", NULL);
    call_expect_failed(ERR_STATE, "not now");
    call = call_of(MASTER_CALL_STOP);
    call.reason = "";
    call.address = "no address";
    (void)call_carry_out(&call, "", NULL);
    assert_true(rig.err.code < 0);
    call.address = "127.0.0.1:1"; /* nobody listens */
    (void)call_carry_out(&call, "", NULL);
    call_expect_failed(ERR_UNAVAILABLE, "127.0.0.1:1");
}

static void a_channel_is_kept(void **state)
{
    (void)state;
    struct err err;
    peers_free(&call_shell);
    struct rpc_channel *first = peer_channel(&call_shell, "127.0.0.1:2", 0, &err);
    struct rpc_channel *second = peer_channel(&call_shell, "127.0.0.1:3", 0, &err);
    assert_true(first != NULL && second != NULL && first != second);
    assert_ptr_equal(peer_channel(&call_shell, "127.0.0.1:2", 0, &err), first);
    assert_ptr_equal(peer_channel(&call_shell, "127.0.0.1:3", 0, &err), second);
    assert_string_equal(rpc_channel_target(first), "127.0.0.1:2");
}

static void ended(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    (void)reply;
    assert_int_not_equal(status->err.code, 0);
    atomic_store((atomic_bool *)ctx, true);
}

/* The host of the first one takes connections and says nothing, as one that is gone. */
static void a_process_that_was_replaced_gets_a_new_channel(void **state)
{
    (void)state;
    struct err err;
    struct held_port port;
    atomic_bool done = false;
    held_port_take(&port);
    assert_int_equal(listen(port.fd, 8), 0);
    const char *address = port.address;
    struct rpc_channel *channel = peer_channel(&call_shell, address, 7, &err);
    assert_ptr_equal(peer_channel(&call_shell, address, 0, &err), channel);
    assert_ptr_equal(peer_channel(&call_shell, address, 7, &err), channel);
    const Gradus__V1__StatsRequest q = GRADUS__V1__STATS_REQUEST__INIT;
    const struct rpc_request request = {
        .service = &gradus__v1__parameter_server__descriptor, .method = "Stats", .body = &q.base};
    assert_int_equal(rpc_call_start(channel, &request, ended, &done, &err), 0);
    assert_ptr_equal(peer_channel(&call_shell, address, 7, &err), channel);
    assert_non_null(peer_channel(&call_shell, address, 8, &err));
    assert_true(atomic_load(&done));
    held_port_release(&port);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_are_inspected),
        cmocka_unit_test(a_start_says_what_the_job_is),
        cmocka_unit_test(an_assignment_says_all),
        cmocka_unit_test(evaluations_have_sums),
        cmocka_unit_test(stops_have_a_reason),
        cmocka_unit_test(refusals_reach_the_core),
        cmocka_unit_test(a_channel_is_kept),
        cmocka_unit_test(a_process_that_was_replaced_gets_a_new_channel),
    };
    return cmocka_run_group_tests_name("shell_call", tests, call_set_up, call_tear_down);
}
