/* SPDX-License-Identifier: Apache-2.0 */
/* How shards begin and change: replaced, closed before they are there, in other modes; over real
 * gRPC. */
#include "ps_rig.h"

#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/shard_file.h"
#include "ps/rpc/ps_shell.h"

static char job[] = "a-1";

/* ---- generations ---- */

static int set_membership(struct ps_rig *rig, uint64_t generation, size_t workers,
                          const struct consistency *consistency, const struct ledger *ledger,
                          uint64_t version, struct rpc_msg **reply, struct err *err)
{
    Gradus__V1__SetMembershipRequest r = GRADUS__V1__SET_MEMBERSHIP_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, generation);
    Gradus__V1__Consistency consistency_message;
    Gradus__V1__Ledger ledger_message;
    char *names[] = {(char[]){"w0"}, (char[]){"w1"}, (char[]){"w2"}, (char[]){"w3"}};
    r.shard = &ref;
    r.workers = names;
    r.n_workers = workers;
    r.version = version;
    if (consistency != NULL) {
        wire_consistency_to_proto(consistency, &consistency_message);
        r.consistency = &consistency_message;
    }
    if (ledger != NULL) {
        wire_ledger_to_proto(ledger, &ledger_message);
        r.ledger = &ledger_message;
    }
    return ps_rig_call(rig, "SetMembership", &r.base, NULL, 0, reply, err);
}

static uint64_t version_of(struct rpc_msg *reply)
{
    uint64_t version = ((const Gradus__V1__ShardState *)reply->body)->version;
    rpc_msg_unref(reply);
    return version;
}

/* A shard that a newer generation has made its own is not replaced by the order to begin that one
 * before gave. */
static void test_a_late_order_to_open(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    struct rpc_msg *reply;
    static const float gradient[ELEMENTS];
    struct ps_rig_opening o = {
        .job = job, .rule = "sgd", .generation = 1, .consistency = ps_rig_consistency("sync", 1)};
    ps_rig_start(&rig, 0);
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), 0, &err, "");
    ps_rig_expect(ps_rig_push(&rig, job, 0, 0, 1, gradient, ELEMENTS, 10, NULL, &err), 0, &err, "");
    ps_rig_expect(set_membership(&rig, 7, 2, NULL, NULL, 0, &reply, &err), 0, &err, "");
    assert_int_equal(version_of(reply), 1);
    for (o.generation = 1; o.generation < 7; o.generation += 2) {
        ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), ERR_ABORTED, &err,
                      "job a-1 shard 0: generation ");
    }
    ps_rig_expect(ps_rig_open_as(&rig, &o, &reply, &err), 0, &err, "");
    assert_int_equal(version_of(reply), 1);
    o.generation = 8;
    ps_rig_expect(ps_rig_open_as(&rig, &o, &reply, &err), 0, &err, "");
    assert_int_equal(version_of(reply), 0);
    ps_rig_stop(&rig);
}

static int call_shard(struct ps_rig *rig, const char *method, uint64_t generation, uint64_t opening,
                      const ProtobufCBinaryData *secret, struct err *err)
{
    Gradus__V1__ShardRef ref = ps_rig_ref(job, generation);
    Gradus__V1__SetMembershipRequest membership = GRADUS__V1__SET_MEMBERSHIP_REQUEST__INIT;
    Gradus__V1__CloseShardRequest close = GRADUS__V1__CLOSE_SHARD_REQUEST__INIT;
    Gradus__V1__PinRequest pin = GRADUS__V1__PIN_REQUEST__INIT;
    char id[] = "p";
    ref.opening = opening;
    ref.secret = *secret;
    membership.shard = close.shard = pin.shard = &ref;
    pin.pin_id = id;
    const ProtobufCMessage *body = strcmp(method, "SetMembership") == 0 ? &membership.base
                                   : strcmp(method, "CloseShard") == 0  ? &close.base
                                                                        : &pin.base;
    return ps_rig_call(rig, method, body, NULL, 0, NULL, err);
}

/* The shard of a master with a secret: nobody else raises its generation, pins or closes it, opens
 * it anew, or pushes what is meant for another one of the same name. */
static void test_a_shard_is_its_masters(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    uint8_t own[16] = {1, 2, 3};
    uint8_t others[16] = {1, 2, 4};
    const ProtobufCBinaryData secret = {sizeof own, own};
    const ProtobufCBinaryData strangers[] = {{0}, {sizeof others, others}, {15, own}};
    static const char *const methods[] = {"SetMembership", "CloseShard", "Pin", "Unpin"};
    struct ps_rig_opening o = {.job = job,
                               .rule = "sgd",
                               .generation = 1,
                               .opening = 77,
                               .secret = secret,
                               .consistency = ps_rig_consistency("sync", 1)};
    ps_rig_start(&rig, 0);
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), 0, &err, "");
    for (size_t i = 0; i < 12; i++) {
        const ProtobufCBinaryData *said = &strangers[i % 3];
        const uint64_t generations[] = {1, 999, UINT64_MAX};
        for (size_t g = 0; g < 3; g++) {
            ps_rig_expect(call_shard(&rig, methods[i / 3], generations[g], 77, said, &err),
                          ERR_UNAUTHENTICATED, &err,
                          "job a-1 shard 0: this is not asked by the master");
        }
        o.generation = UINT64_MAX;
        o.secret = *said;
        ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), ERR_UNAUTHENTICATED, &err,
                      "not asked by");
    }
    Gradus__V1__PullRequest pull = GRADUS__V1__PULL_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    Gradus__V1__Pull latest = GRADUS__V1__PULL__INIT;
    pull.shard = &ref;
    pull.what_case = GRADUS__V1__PULL_REQUEST__WHAT_PULL;
    pull.pull = &latest;
    ref.opening = 78;
    ps_rig_expect(ps_rig_call(&rig, "Pull", &pull.base, NULL, 0, NULL, &err), ERR_ABORTED, &err,
                  "or by another cluster");
    ref.opening = 77;
    char key[SHARD_KEY_BYTES];
    uint8_t of_nobody[SHARD_KEY_SECRET_BYTES]; /* the call names no worker */
    shard_worker_secret(own, "", of_nobody);
    shard_key(of_nobody, job, 0, 77, key);
    rig.key = key;
    ps_rig_expect(ps_rig_call(&rig, "Pull", &pull.base, NULL, 0, NULL, &err), 0, &err, "");
    rig.key = NULL;
    ps_rig_expect(call_shard(&rig, "SetMembership", 2, 77, &secret, &err), 0, &err, "");
    ps_set_incarnation(rig.ps, 5); /* it has joined */
    o.generation = 9;
    o.secret = secret;
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), ERR_ABORTED, &err, "another process");
    ps_rig_expect(call_shard(&rig, "CloseShard", 2, 1, &secret, &err), 0, &err, "");
    ps_rig_stop(&rig);
}

/* An OpenShard waits for its turn, its master gives it up, and CloseShard is there first: it is not
 * opened any more, or nobody would know of it. A later opening is another one. */
static void test_a_closing_overtakes_its_opening(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    struct ps_shard *shards[PS_SHARDS_MAX];
    uint8_t own[16] = {1, 2, 3};
    struct ps_rig_opening o = {.job = job,
                               .rule = "sgd",
                               .generation = 1,
                               .opening = 77,
                               .secret = {sizeof own, own},
                               .consistency = ps_rig_consistency("sync", 1)};
    ps_rig_start(&rig, 0);
    ps_rig_expect(call_shard(&rig, "CloseShard", 1, 77, &o.secret, &err), 0, &err, "");
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), ERR_ABORTED, &err, "is closed");
    assert_int_equal(ps_list(rig.ps, NULL, shards), 0);
    o.generation = 2;
    o.opening = 78;
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), 0, &err, "");
    ps_drop(rig.ps, NULL, 77); /* as a heartbeat may say: not this one's */
    assert_int_equal(ps_list(rig.ps, NULL, shards), 1);
    ps_shard_unref(shards[0]);
    ps_rig_expect(call_shard(&rig, "CloseShard", 3, 79, &o.secret, &err), 0, &err, "");
    o.generation = 3; /* nor where another one was in its place */
    o.opening = 79;
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), ERR_ABORTED, &err, "is closed");
    assert_int_equal(ps_list(rig.ps, NULL, shards), 0);
    ps_rig_stop(&rig);
}

struct racer {
    pthread_t thread;
    struct ps_rig *rig;
    uint64_t generation;
    int rc;
};

static void *race(void *arg)
{
    struct racer *r = arg;
    struct err err;
    struct ps_rig_opening o = {.job = job,
                               .rule = "sgd",
                               .generation = r->generation,
                               .consistency = ps_rig_consistency("sync", 1)};
    r->rc = ps_rig_open_as(r->rig, &o, NULL, &err);
    return NULL;
}

/* Whatever the order in which they come: the newest stays, everybody has an answer. */
static void test_orders_to_open_race(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct racer racers[8];
    struct ps_shard *shards[PS_SHARDS_MAX];
    ps_rig_start(&rig, 0);
    for (size_t i = 0; i < 8; i++) {
        racers[i] = (struct racer){.rig = &rig, .generation = 1 + i / 2, .rc = 1};
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    for (size_t i = 0; i < 8; i++) {
        pthread_join(racers[i].thread, NULL);
        if (racers[i].rc != ERR_ABORTED) {
            assert_int_equal(racers[i].rc, 0);
        }
    }
    assert_int_equal(racers[7].rc, 0);
    assert_int_equal(ps_list(rig.ps, NULL, shards), 1);
    assert_int_equal(shards[0]->opened_generation, 4);
    ps_shard_unref(shards[0]);
    ps_rig_stop(&rig);
}

/* ---- another consistency ---- */

/* As the shard says, after what it was asked before. */
static uint64_t bytes_in_use(struct ps_rig *rig)
{
    Gradus__V1__StatsRequest r = GRADUS__V1__STATS_REQUEST__INIT;
    struct rpc_msg *reply;
    struct err err;
    assert_int_equal(ps_rig_call(rig, "Stats", &r.base, NULL, 0, &reply, &err), 0);
    uint64_t bytes = ((const Gradus__V1__StatsResponse *)reply->body)->shards[0]->bytes;
    rpc_msg_unref(reply);
    assert_int_equal(bytes, atomic_load(&rig->ps->budget.bytes));
    return bytes;
}

static void test_the_mode_changes(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    struct rpc_msg *reply;
    struct ledger ledger;
    struct ps_rig_opening o = {.job = job,
                               .rule = "sgd",
                               .generation = 1,
                               .consistency = ps_rig_consistency("async", 1),
                               .done = {1, 0, 0},
                               .version = 9};
    struct consistency sync = ps_rig_consistency("sync", 2);
    ps_rig_start(&rig, 0);
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), 0, &err, "");
    ps_rig_ledger(&o, &ledger);
    ps_rig_expect(set_membership(&rig, 2, 2, &sync, &ledger, 8, NULL, &err), ERR_STATE, &err,
                  "job a-1 shard 0: ");
    ledger.done[1] = 1;
    ps_rig_expect(set_membership(&rig, 2, 2, &sync, &ledger, 9, NULL, &err), ERR_STATE, &err,
                  "job a-1 shard 0: ");
    ledger.done[1] = 0;
    struct consistency bad = sync;
    bad.aggregate = 3;
    ps_rig_expect(set_membership(&rig, 2, 2, &bad, &ledger, 9, NULL, &err), ERR_INVALID, &err,
                  "job a-1 shard 0: ");
    ps_rig_expect(set_membership(&rig, 2, 2, NULL, &ledger, 9, NULL, &err), ERR_INVALID, &err,
                  "job a-1 shard 0: ");
    ledger.done[2] = 5;
    ps_rig_expect(set_membership(&rig, 2, 2, &sync, &ledger, 9, NULL, &err), ERR_INVALID, &err,
                  "job a-1 shard 0: ");
    ledger.done[2] = 0;
    /* None of this changed the generation. */
    ps_rig_expect(set_membership(&rig, 1, 2, NULL, NULL, 0, NULL, &err), 0, &err, "");
    ps_rig_expect(set_membership(&rig, 2, 2, &sync, &ledger, 9, &reply, &err), 0, &err, "");
    const Gradus__V1__ShardState *m = (const Gradus__V1__ShardState *)reply->body;
    assert_int_equal(m->generation, 2);
    assert_int_equal(m->version, 9);
    assert_int_equal(m->examples, 10);
    assert_null(m->ledger);
    rpc_msg_unref(reply);
    ledger_release(&ledger);
    struct ps_shard *shards[PS_SHARDS_MAX];
    assert_int_equal(ps_list(rig.ps, NULL, shards), 1);
    (void)bytes_in_use(&rig); /* the answer above leaves before the shard is done with the order */
    assert_true(consistency_equal(&shards[0]->consistency, &sync));
    assert_int_equal(shards[0]->ledger.done[0], 1);
    ps_shard_unref(shards[0]);
    ps_rig_stop(&rig);
}

static void test_openings_that_cannot_be(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    struct consistency sync = ps_rig_consistency("sync", 2);
    struct consistency bad[5];
    ps_rig_start(&rig, 0);
    for (size_t i = 0; i < 5; i++) {
        bad[i] = sync;
    }
    bad[0].aggregate = 0;
    bad[1].speculate = -3;
    bad[2].replicas = bad[2].aggregate = 0;
    bad[3].lambda = -1;
    bad[4].push_every = 0;
    for (size_t i = 0; i < 5; i++) {
        struct ps_rig_opening o = {
            .job = job, .rule = "sgd", .generation = 1, .consistency = bad[i]};
        ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), ERR_INVALID, &err, "job a-1 shard 0: ");
    }
    assert_int_equal(atomic_load(&rig.ps->budget.bytes), 0);
    ps_rig_stop(&rig);
}

/* Memory for the bases of gradients belongs to the generation. */
static void test_memory_for_compensation(void **state)
{
    (void)state;
    const uint64_t array = ELEMENTS * sizeof(float);
    struct ps_rig rig;
    struct err err;
    struct ledger ledger;
    struct consistency async = ps_rig_consistency("async", 1);
    struct ps_rig_opening o = {
        .job = job, .rule = "sgd", .generation = 1, .consistency = async, .workers = 4};
    ps_rig_start(&rig, 6 * array);
    o.consistency.policy = POLICY_DELAY_COMPENSATION;
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), ERR_RANGE, &err,
                  "two snapshots, a version for each of 4 workers, 0 slots and 1 gradient of 60060 "
                  "elements: 1681680 bytes are too many");
    o.workers = 2;
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), 0, &err, "");
    assert_int_equal(bytes_in_use(&rig), 5 * array);
    ps_rig_expect(set_membership(&rig, 2, 4, NULL, NULL, 0, NULL, &err), ERR_EXHAUSTED, &err,
                  "job a-1 shard 0: versions that are kept: ");
    ps_rig_expect(set_membership(&rig, 2, 3, NULL, NULL, 0, NULL, &err), 0, &err, "");
    assert_int_equal(bytes_in_use(&rig), 6 * array);
    ps_rig_ledger(&o, &ledger);
    ps_rig_expect(set_membership(&rig, 3, 2, &async, &ledger, 7, NULL, &err), ERR_STATE, &err, "");
    assert_int_equal(bytes_in_use(&rig), 6 * array);
    ps_rig_expect(set_membership(&rig, 3, 2, &async, &ledger, 0, NULL, &err), 0, &err, "");
    assert_int_equal(bytes_in_use(&rig), 3 * array);
    ledger_release(&ledger);
    ps_rig_stop(&rig);
}

/* Those of a rule that wants its slot as the worker read. */
static void test_memory_for_slots_of_bases(void **state)
{
    (void)state;
    const uint64_t array = ELEMENTS * sizeof(float);
    const uint64_t copy = floats_bytes_max(3 * ELEMENTS);
    struct ps_rig rig;
    struct err err;
    struct ps_rig_opening o = {.job = job,
                               .rule = "adaptive_revision",
                               .generation = 1,
                               .consistency = ps_rig_consistency("async", 1),
                               .workers = 4};
    /* Two snapshots, three slots, their copy (in one array that may lie anywhere in some more
     * bytes) and a gradient; for each worker a version and a slot, and one slot on its way. */
    ps_rig_start(&rig, 13 * array + copy);
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), ERR_RANGE, &err,
                  "two snapshots, a version and a slot for each of 4 workers, 3 slots, their copy "
                  "for checkpoints and 1 gradient of 60060 elements: 4389600 bytes are too many");
    assert_int_equal(atomic_load(&rig.ps->budget.bytes), 0);
    o.workers = 2;
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), 0, &err, "");
    assert_int_equal(bytes_in_use(&rig), copy + 11 * array);
    ps_rig_expect(set_membership(&rig, 2, 4, NULL, NULL, 0, NULL, &err), ERR_EXHAUSTED, &err,
                  "job a-1 shard 0: slots that gradients are based on: ");
    assert_int_equal(bytes_in_use(&rig), copy + 11 * array);
    ps_rig_expect(set_membership(&rig, 2, 3, NULL, NULL, 0, NULL, &err), 0, &err, "");
    assert_int_equal(bytes_in_use(&rig), copy + 13 * array);
    ps_rig_expect(set_membership(&rig, 3, 1, NULL, NULL, 0, NULL, &err), 0, &err, "");
    assert_int_equal(bytes_in_use(&rig), copy + 9 * array);
    ps_rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_late_order_to_open),
        cmocka_unit_test(test_a_shard_is_its_masters),
        cmocka_unit_test(test_a_closing_overtakes_its_opening),
        cmocka_unit_test(test_orders_to_open_race),
        cmocka_unit_test(test_the_mode_changes),
        cmocka_unit_test(test_openings_that_cannot_be),
        cmocka_unit_test(test_memory_for_compensation),
        cmocka_unit_test(test_memory_for_slots_of_bases),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
