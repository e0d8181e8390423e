/* SPDX-License-Identifier: Apache-2.0 */
/* Worker.Assign: what a master may say, and each thing that it may not. */
#include "support/test.h"

#include <string.h>

#include "wire/wire.h"
#include "worker/job/worker_job_assign.h"

#define PRESENT 4 /* the worker's generation */
#define RECORDS 100
#define BATCH 8
#define SPLIT_BATCHES 5 /* three splits: 5, 5 and 3 batches */

static const struct ledger_shape data = {.records = RECORDS, .batch_records = BATCH};

/* A request that is right, with room to make it wrong. */
struct asked {
    Gradus__V1__AssignRequest r;
    Gradus__V1__Consistency consistency;
    struct ledger ledger;
    Gradus__V1__Ledger packed_ledger;
    Gradus__V1__Lease leases[WORKER_LEASES_MAX + 1];
    Gradus__V1__Lease *pointers[WORKER_LEASES_MAX + 1];
    uint64_t generation;
};

static void ask(struct asked *a, enum training_mode mode)
{
    const struct ledger_shape shape = {RECORDS, BATCH, SPLIT_BATCHES};
    const struct consistency c = {
        .mode = mode,
        .replicas = 4,
        .aggregate = 4,
        .staleness = mode == TRAINING_BOUNDED ? 2 : 0,
        .push_every = 1,
        .pull_every = 1,
    };
    memset(a, 0, sizeof *a);
    gradus__v1__assign_request__init(&a->r);
    wire_consistency_to_proto(&c, &a->consistency);
    assert_int_equal(ledger_init(&a->ledger, &shape, 2, NULL), 0);
    a->ledger.done[1] = 3;
    wire_ledger_to_proto(&a->ledger, &a->packed_ledger);
    for (size_t i = 0; i < WORKER_LEASES_MAX + 1; i++) {
        gradus__v1__lease__init(&a->leases[i]);
        a->leases[i].epoch = 2;
        a->leases[i].split = 1 + (uint32_t)i;
        a->leases[i].batch_end = 3;
        a->pointers[i] = &a->leases[i];
    }
    a->leases[1].fresh = true;
    a->r.generation = PRESENT + 1;
    a->r.consistency = &a->consistency;
    a->r.ledger = &a->packed_ledger;
    a->r.replica_first = 1;
    a->r.replica_end = 3;
    a->r.step = 20;
    a->r.ledger_step = 10;
    a->r.step_limit = 30;
    a->r.leases = a->pointers;
    a->r.n_leases = mode == TRAINING_SYNC ? 0 : 2;
    a->generation = PRESENT;
}

static int take(struct asked *a, struct ledger *ledger, struct worker_assignment *out,
                struct err *err)
{
    return worker_job_assign_from_proto(&a->r, a->generation, &data, ledger, out, err);
}

static void refused(struct asked *a, const char *part)
{
    struct ledger ledger = {0};
    struct worker_assignment out = {.generation = 77};
    struct err err = {0};
    assert_int_equal(take(a, &ledger, &out, &err), ERR_INVALID);
    if (strstr(err.msg, part) == NULL) {
        fail_msg("expected \"%s\", got \"%s\"", part, err.msg);
    }
    assert_null(ledger.done);
    assert_int_equal(out.generation, 77);
    ledger_release(&a->ledger);
}

static void test_a_new_generation_in_sync(void **state)
{
    (void)state;
    struct asked a;
    ask(&a, TRAINING_SYNC);
    a.r.hold = true;
    struct ledger ledger = {0};
    struct worker_assignment out;
    assert_int_equal(take(&a, &ledger, &out, NULL), 0);
    assert_int_equal(out.generation, PRESENT + 1);
    assert_int_equal(out.consistency.mode, TRAINING_SYNC);
    assert_int_equal(out.consistency.replicas, 4);
    assert_int_equal(out.replica_first, 1);
    assert_int_equal(out.replica_end, 3);
    assert_int_equal(out.step, 20);
    assert_int_equal(out.step_limit, 30);
    assert_int_equal(out.ledger_step, 10);
    assert_true(out.hold);
    assert_ptr_equal(out.ledger, &ledger);
    assert_int_equal(ledger.epoch, 2);
    assert_int_equal(ledger.done[1], 3);
    assert_int_equal(out.lease_count, 0);
    ledger_release(&ledger);
    a.r.n_leases = 3; /* nobody looks at them in this mode */
    assert_int_equal(take(&a, &ledger, &out, NULL), 0);
    assert_int_equal(out.lease_count, 0);
    ledger_release(&ledger);
    ledger_release(&a.ledger);
}

static void test_a_new_generation_with_leases(void **state)
{
    (void)state;
    struct asked a;
    ask(&a, TRAINING_BOUNDED);
    struct ledger ledger = {0};
    struct worker_assignment out;
    assert_int_equal(take(&a, &ledger, &out, NULL), 0);
    assert_int_equal(out.consistency.staleness, 2);
    assert_int_equal(out.lease_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(out.leases[i].epoch, 2);
        assert_int_equal(out.leases[i].split, 1 + i);
        assert_int_equal(out.leases[i].batch_end, 3);
        assert_int_equal(out.leases[i].fresh, i == 1);
    }
    ledger_release(&ledger);
    ledger_release(&a.ledger);
}

/* A limit or a hold in the generation that is in force, and what is late: for the core alone. */
static void test_the_same_and_older_generations(void **state)
{
    (void)state;
    for (uint64_t generation = PRESENT - 1; generation <= PRESENT; generation++) {
        struct asked a;
        ask(&a, TRAINING_ASYNC);
        a.r.generation = generation;
        a.r.consistency = NULL;
        a.leases[0].split = 99;
        for (int with_ledger = 0; with_ledger <= 1; with_ledger++) {
            struct ledger ledger = {0};
            struct worker_assignment out;
            a.r.ledger = with_ledger ? &a.packed_ledger : NULL;
            assert_int_equal(take(&a, &ledger, &out, NULL), 0);
            assert_int_equal(out.generation, generation);
            assert_int_equal(out.step_limit, 30);
            assert_null(out.ledger);
            assert_null(ledger.done);
            assert_int_equal(out.lease_count, 0);
        }
        ledger_release(&a.ledger);
    }
}

static void test_what_is_refused(void **state)
{
    (void)state;
    struct asked a;
    ask(&a, TRAINING_SYNC);
    a.r.generation = a.generation = 0;
    refused(&a, "generation 0");
    ask(&a, TRAINING_SYNC);
    a.r.consistency = NULL;
    refused(&a, "consistency");
    ask(&a, TRAINING_SYNC);
    a.consistency.replicas = 0;
    refused(&a, "0 replicas");
    ask(&a, TRAINING_SYNC);
    a.consistency.mode = 9;
    refused(&a, "9");
    ask(&a, TRAINING_SYNC);
    a.r.replica_end = 5;
    refused(&a, "replicas [1, 5) of 4");
    ask(&a, TRAINING_SYNC);
    a.r.replica_first = 4;
    refused(&a, "replicas [4, 3) of 4");
    ask(&a, TRAINING_SYNC);
    a.r.step = 9;
    refused(&a, "step 9 is before the ledger's, 10");
    ask(&a, TRAINING_SYNC);
    a.r.ledger = NULL;
    refused(&a, "ledger");
    ask(&a, TRAINING_SYNC);
    a.packed_ledger.records = RECORDS + 1;
    refused(&a, "101 records in batches of 8, this worker's data has 100 in batches of 8");
    ask(&a, TRAINING_SYNC);
    a.ledger.done[2] = 4;
    refused(&a, "split 2");
}

static void test_leases_that_cannot_be(void **state)
{
    (void)state;
    struct asked a;
    ask(&a, TRAINING_ASYNC);
    a.r.n_leases = 3;
    a.leases[2].split = 0;
    refused(&a, "3 leases; a worker holds 2 at most");
    ask(&a, TRAINING_ASYNC);
    a.leases[1].split = 3;
    refused(&a, "split 3 of epoch 2");
    ask(&a, TRAINING_ASYNC);
    a.leases[1].split = UINT32_MAX;
    refused(&a, "which the data does not have");
    ask(&a, TRAINING_ASYNC);
    a.leases[1].batch_end = 4; /* the last split has 3 */
    refused(&a, "up to batch 4");
    ask(&a, TRAINING_ASYNC);
    a.leases[0].batch_end = 0;
    refused(&a, "up to batch 0");
    ask(&a, TRAINING_ASYNC);
    a.leases[1].split = 1;
    refused(&a, "split 1 is leased twice");
}

static void test_each_shard_is_named_once(void **state)
{
    (void)state;
    enum { COUNT = 3 };
    static const struct {
        uint32_t shards[COUNT + 1];
        size_t count;
        const char *says; /* NULL: it is right */
    } cases[] = {
        {{2, 0, 1}, 3, NULL},
        {{0, 1}, 2, "the location of shard 2 is missing"},
        {{1, 2}, 2, "the location of shard 0 is missing"},
        {{0, 1, 1}, 3, "the location of shard 1 is given twice or unknown"},
        {{0, 1, 2, 0}, 4, "the location of shard 0 is given twice or unknown"},
        {{0, 1, 3}, 3, "the location of shard 3 is given twice or unknown"},
        {{0}, 0, "the location of shard 0 is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Gradus__V1__ShardLocation at[COUNT + 1], *list[COUNT + 1];
        char addresses[COUNT + 1][2] = {"a", "b", "c", "d"};
        struct worker_place places[COUNT];
        struct err err = {0};
        for (size_t k = 0; k < COUNT + 1; k++) {
            gradus__v1__shard_location__init(&at[k]);
            at[k].shard = cases[i].shards[k];
            at[k].address = addresses[k];
            at[k].opening = 5 + k;
            list[k] = &at[k];
        }
        int rc = worker_job_places_from_proto(list, cases[i].count, COUNT, places, &err);
        if (cases[i].says != NULL) {
            assert_int_equal(rc, ERR_INVALID);
            assert_string_equal(err.msg, cases[i].says);
            continue;
        }
        assert_int_equal(rc, 0);
        for (size_t k = 0; k < COUNT; k++) {
            const struct worker_place *p = &places[cases[i].shards[k]];
            assert_string_equal(p->address, addresses[k]);
            assert_int_equal(p->opening, 5 + k);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_generation_in_sync),
        cmocka_unit_test(test_a_new_generation_with_leases),
        cmocka_unit_test(test_the_same_and_older_generations),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_leases_that_cannot_be),
        cmocka_unit_test(test_each_shard_is_named_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
