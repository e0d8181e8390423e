/* SPDX-License-Identifier: Apache-2.0 */
/* Fill: a server whose shards get their initial values from workers. */
#include "ps_rig.h"

#include <math.h>

static char job[] = "a-1";
static uint8_t secret[] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 9, 8, 7, 6, 5, 4, 3};
static float values[ELEMENTS], got[ELEMENTS];

static void open_given(struct ps_rig *rig, const char *rule, char *restore, size_t secret_bytes)
{
    const struct ps_rig_opening o = {.job = job,
                                     .rule = rule,
                                     .generation = 1,
                                     .opening = 7,
                                     .given = true,
                                     .restore = restore,
                                     .secret = {secret_bytes, secret},
                                     .consistency = ps_rig_consistency("sync", 1)};
    struct err err;
    for (size_t i = 0; i < ELEMENTS; i++) {
        values[i] = (float)i - 0.5F;
    }
    ps_rig_expect(ps_rig_open_as(rig, &o, NULL, &err), 0, &err, "");
}

static int fill(struct ps_rig *rig, uint64_t opening, uint64_t first, const float *from,
                uint64_t count, uint64_t *filled, struct err *err)
{
    char worker[] = "w0";
    Gradus__V1__FillRequest q = GRADUS__V1__FILL_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    struct rpc_msg *reply = NULL;
    ref.opening = opening;
    q.shard = &ref;
    q.worker = worker;
    q.first = first;
    int rc = ps_rig_call(rig, "Fill", &q.base, count == 0 ? NULL : from, count, &reply, err);
    if (rc == 0) {
        *filled = ((const Gradus__V1__FillResponse *)reply->body)->filled;
        rpc_msg_unref(reply);
    }
    return rc;
}

static int pull(struct ps_rig *rig, char *pin_id, struct err *err)
{
    Gradus__V1__PullRequest q = GRADUS__V1__PULL_REQUEST__INIT;
    Gradus__V1__Pull latest = GRADUS__V1__PULL__INIT;
    Gradus__V1__PinnedPull pinned = GRADUS__V1__PINNED_PULL__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    char worker[] = "w0";
    struct rpc_msg *reply = NULL;
    ref.opening = 7;
    q.shard = &ref;
    q.worker = worker;
    q.what_case = GRADUS__V1__PULL_REQUEST__WHAT_PULL;
    q.pull = &latest;
    if (pin_id != NULL) {
        q.what_case = GRADUS__V1__PULL_REQUEST__WHAT_PINNED;
        pinned.pin_id = pin_id;
        q.pinned = &pinned;
    }
    int rc = ps_rig_call(rig, "Pull", &q.base, NULL, 0, &reply, err);
    if (rc == 0) {
        assert_true(rpc_spans_read_floats(reply->bulk, got, ELEMENTS));
        rpc_msg_unref(reply);
    }
    return rc;
}

static void test_workers_bring_the_values(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    uint64_t filled = 1;
    ps_rig_start(&rig, 0);
    open_given(&rig, "momentum", NULL, 0);
    ps_rig_expect(fill(&rig, 7, 0, NULL, 0, &filled, &err), 0, &err, "");
    assert_int_equal(filled, 0);
    ps_rig_expect(pull(&rig, NULL, &err), ERR_STATE, &err,
                  "job a-1 shard 0: 60060 of 60060 elements have no initial values yet");
    ps_rig_expect(fill(&rig, 7, 0, values, 1000, &filled, &err), 0, &err, "");
    assert_int_equal(filled, 1000);
    /* Another worker has begun at the beginning, too, and gets further. */
    ps_rig_expect(fill(&rig, 7, 0, values, ELEMENTS - 3, &filled, &err), 0, &err, "");
    assert_int_equal(filled, ELEMENTS - 3);
    ps_rig_expect(pull(&rig, NULL, &err), ERR_STATE, &err, "3 of 60060 elements have no");
    ps_rig_expect(fill(&rig, 7, ELEMENTS - 3, values + ELEMENTS - 3, 3, &filled, &err), 0, &err,
                  "");
    assert_int_equal(filled, ELEMENTS);
    ps_rig_expect(pull(&rig, NULL, &err), 0, &err, "");
    assert_memory_equal(got, values, sizeof got);
    /* What comes late changes nothing. */
    values[0] = 77;
    ps_rig_expect(fill(&rig, 7, 0, values, ELEMENTS, &filled, &err), 0, &err, "");
    assert_int_equal(filled, ELEMENTS);
    ps_rig_expect(pull(&rig, NULL, &err), 0, &err, "");
    assert_true(got[0] == -0.5F);
    ps_rig_stop(&rig);
}

static void test_refusals(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    uint64_t filled = 1;
    ps_rig_start(&rig, 0);
    open_given(&rig, "sgd", NULL, 0);
    ps_rig_expect(fill(&rig, 8, 0, values, 10, &filled, &err), ERR_ABORTED, &err,
                  "opened another time");
    ps_rig_expect(fill(&rig, 7, 5, values, 10, &filled, &err), ERR_RANGE, &err,
                  "job a-1 shard 0: initial values from element 5 on, of which 0 are filled");
    ps_rig_expect(fill(&rig, 7, 1, values, ELEMENTS, &filled, &err), ERR_INVALID, &err,
                  "initial values of elements 1+60060 of 60060");
    ps_rig_expect(fill(&rig, 7, UINT64_MAX, values, 2, &filled, &err), ERR_INVALID, &err,
                  "of 60060");
    const struct {
        uint64_t at;
        float value;
        const char *says;
    } cases[] = {
        {61, NAN, "job a-1 shard 0: the initial value of element 61 of variable dense_1.kernel"},
        {ELEMENTS - 60, INFINITY, "element 0 of variable dense_1.bias is inf, which is not finite"},
        {ELEMENTS - 1, -INFINITY, "element 59 of variable dense_1.bias is -inf"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float was = values[cases[i].at];
        values[cases[i].at] = cases[i].value;
        ps_rig_expect(fill(&rig, 7, 0, values, ELEMENTS, &filled, &err), ERR_INVALID, &err,
                      cases[i].says);
        values[cases[i].at] = was;
    }
    ps_rig_expect(fill(&rig, 7, 0, NULL, 0, &filled, &err), 0, &err, "");
    assert_int_equal(filled, 0);
    ps_rig_stop(&rig);
}

static void test_values_are_whole(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    char worker[] = "w0";
    Gradus__V1__FillRequest q = GRADUS__V1__FILL_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    ps_rig_start(&rig, 0);
    open_given(&rig, "sgd", NULL, 0);
    ref.opening = 7;
    q.shard = &ref;
    q.worker = worker;
    const struct rpc_piece piece = {values, 7};
    const struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    const struct rpc_request request = {.service = &gradus__v1__parameter_server__descriptor,
                                        .method = "Fill",
                                        .body = &q.base,
                                        .blob = &blob,
                                        .request_bulk = VALUES};
    ps_rig_expect(rpc_call_blocking(rig.channel, &request, NULL, &err), ERR_INVALID, &err,
                  "7 bytes of values are no whole number of floats");
    ps_rig_stop(&rig);
}

static void test_the_key_is_asked_for(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    uint64_t filled;
    uint8_t own[SHARD_KEY_SECRET_BYTES];
    char key[SHARD_KEY_BYTES];
    ps_rig_start(&rig, 0);
    open_given(&rig, "sgd", NULL, sizeof secret);
    ps_rig_expect(fill(&rig, 7, 0, values, 10, &filled, &err), ERR_UNAUTHENTICATED, &err,
                  "gradus-shard-key");
    shard_worker_secret(secret, "w0", own);
    shard_key(own, job, 0, 7, key);
    rig.key = key;
    ps_rig_expect(fill(&rig, 7, 0, values, 10, &filled, &err), 0, &err, "");
    assert_int_equal(filled, 10);
    ps_rig_stop(&rig);
}

static int pin(struct ps_rig *rig, char *id, struct err *err)
{
    Gradus__V1__PinRequest q = GRADUS__V1__PIN_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    ref.opening = 7;
    q.shard = &ref;
    q.pin_id = id;
    q.slots = true;
    return ps_rig_call(rig, "Pin", &q.base, NULL, 0, NULL, err);
}

/* The moving average begins with the values, which were not there when the shard was opened. */
static void test_slots_begin_with_the_values(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    uint64_t filled;
    char id[] = "p";
    ps_rig_start(&rig, 0);
    open_given(&rig, "sgd, average: 0.9, evaluate_average: true", NULL, 0);
    ps_rig_expect(pin(&rig, id, &err), ERR_STATE, &err, "no initial values yet");
    ps_rig_expect(fill(&rig, 7, 0, values, ELEMENTS, &filled, &err), 0, &err, "");
    ps_rig_expect(pin(&rig, id, &err), 0, &err, "");
    ps_rig_expect(pull(&rig, id, &err), 0, &err, "");
    assert_memory_equal(got, values, sizeof got);
    ps_rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workers_bring_the_values),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_values_are_whole),
        cmocka_unit_test(test_the_key_is_asked_for),
        cmocka_unit_test(test_slots_begin_with_the_values),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
