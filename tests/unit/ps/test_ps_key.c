/* SPDX-License-Identifier: Apache-2.0 */
/* Who reads or trains shows that the job's master has sent it, once for a call or a stream. */
#include "exchange_rig.h"

static char job[] = "k-1";
static uint8_t secret[] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 9, 8, 7, 6, 5, 4, 3};
static const char none_says[] = "job k-1 shard 0: who reads or trains shows the key that the job's "
                                "master gives to its workers (gradus-shard-key), and there is none";
static const char wrong_says[] = "job k-1 shard 0: this is not the key that the job's master gives";

static int open_job(struct ps_rig *rig, uint64_t generation, uint64_t opening, size_t secret_bytes,
                    struct err *err)
{
    const struct ps_rig_opening o = {.job = job,
                                     .rule = "sgd",
                                     .generation = generation,
                                     .opening = opening,
                                     .secret = {secret_bytes, secret},
                                     .consistency = ps_rig_consistency("sync", 1)};
    return ps_rig_open_as(rig, &o, NULL, err);
}

static void key_of(const char *worker, uint64_t opening, char key[SHARD_KEY_BYTES])
{
    uint8_t own[SHARD_KEY_SECRET_BYTES];
    shard_worker_secret(secret, worker, own);
    shard_key(own, job, 0, opening, key);
}

static int pull(struct ps_rig *rig, const char *key, uint64_t opening, struct err *err)
{
    char worker[] = "w0";
    Gradus__V1__PullRequest q = GRADUS__V1__PULL_REQUEST__INIT;
    Gradus__V1__Pull latest = GRADUS__V1__PULL__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    ref.opening = opening;
    q.shard = &ref;
    q.worker = worker;
    q.what_case = GRADUS__V1__PULL_REQUEST__WHAT_PULL;
    q.pull = &latest;
    rig->key = key;
    return ps_rig_call(rig, "Pull", &q.base, NULL, 0, NULL, err);
}

static int push(struct ps_rig *rig, const char *key, struct err *err)
{
    Gradus__V1__Push replica = GRADUS__V1__PUSH__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    ref.opening = 7;
    replica.replica_end = 1;
    rig->key = key;
    return ps_rig_push_to(rig, &ref, &replica, NULL, 0, NULL, err);
}

static void test_calls(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    char key[SHARD_KEY_BYTES], other[SHARD_KEY_BYTES + 8];
    ps_rig_start(&rig, 0);
    ps_rig_expect(open_job(&rig, 1, 7, sizeof secret, &err), 0, &err, "");
    key_of("w0", 7, key);
    ps_rig_expect(pull(&rig, NULL, 7, &err), ERR_UNAUTHENTICATED, &err, none_says);
    ps_rig_expect(push(&rig, NULL, &err), ERR_UNAUTHENTICATED, &err, none_says);
    ps_rig_expect(pull(&rig, "", 7, &err), ERR_UNAUTHENTICATED, &err, wrong_says);
    (void)snprintf(other, sizeof other, "%s", key);
    other[0] = key[0] == 'A' ? 'B' : 'A';
    ps_rig_expect(pull(&rig, other, 7, &err), ERR_UNAUTHENTICATED, &err, wrong_says);
    (void)snprintf(other, sizeof other, "%sx", key);
    ps_rig_expect(push(&rig, other, &err), ERR_UNAUTHENTICATED, &err, wrong_says);
    (void)snprintf(other, sizeof other, "%.42s", key);
    ps_rig_expect(pull(&rig, other, 7, &err), ERR_UNAUTHENTICATED, &err, wrong_says);
    assert_int_equal(atomic_load(&rig.refused), 6);
    key_of("w1", 7, other); /* another worker of the job */
    ps_rig_expect(push(&rig, other, &err), ERR_UNAUTHENTICATED, &err,
                  "master gives to its worker w0");
    shard_key(secret, job, 0, 7, other); /* no worker has the job's secret itself */
    ps_rig_expect(push(&rig, other, &err), ERR_UNAUTHENTICATED, &err, wrong_says);
    assert_int_equal(atomic_load(&rig.refused), 8);
    /* Who means another opening, as a worker that was told of a move too late, tries again. */
    ps_rig_expect(pull(&rig, NULL, 8, &err), ERR_ABORTED, &err, "opened another time");
    ps_rig_expect(pull(&rig, key, 7, &err), 0, &err, "");
    ps_rig_expect(push(&rig, key, &err), 0, &err, "");
    assert_int_equal(atomic_load(&rig.refused), 8);
    ps_rig_stop(&rig);
}

/* The keys of a job that was stopped open nothing when it, or another of its name, is there again.
 */
static void test_keys_end_with_their_opening(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    char key[SHARD_KEY_BYTES], next[SHARD_KEY_BYTES];
    key_of("w0", 7, key);
    key_of("w0", 9, next);
    ps_rig_start(&rig, 0);
    ps_rig_expect(open_job(&rig, 1, 7, sizeof secret, &err), 0, &err, "");
    Gradus__V1__CloseShardRequest close = GRADUS__V1__CLOSE_SHARD_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    ref.secret = (ProtobufCBinaryData){sizeof secret, secret};
    ref.opening = 7;
    close.shard = &ref;
    rig.key = NULL;
    ps_rig_expect(ps_rig_call(&rig, "CloseShard", &close.base, NULL, 0, NULL, &err), 0, &err, "");
    assert_int_not_equal(pull(&rig, key, 7, &err), 0);
    ps_rig_expect(open_job(&rig, 1, 9, sizeof secret, &err), 0, &err, "");
    ps_rig_expect(pull(&rig, key, 9, &err), ERR_UNAUTHENTICATED, &err, wrong_says);
    ps_rig_expect(pull(&rig, next, 9, &err), 0, &err, "");
    ps_rig_stop(&rig);
}

static void test_without_a_secret_nobody_is_asked(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    ps_rig_start(&rig, 0);
    ps_rig_expect(open_job(&rig, 1, 7, 0, &err), 0, &err, "");
    ps_rig_expect(pull(&rig, NULL, 7, &err), 0, &err, "");
    ps_rig_expect(pull(&rig, "whatever", 7, &err), 0, &err, "");
    ps_rig_stop(&rig);
}

static void exchange_pull(struct client *c, uint64_t exchange)
{
    const struct chunk m = {.exchange = exchange, .job = job, .first = true, .pull = true};
    send_chunk(c, &m);
}

static void test_streams(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    struct client stranger, worker;
    char key[SHARD_KEY_BYTES];
    ps_rig_start(&rig, 0);
    ps_rig_expect(open_job(&rig, 1, 0, sizeof secret, &err), 0, &err, "");
    exchange_open(&stranger, &rig);
    for (uint64_t i = 1; i <= 2; i++) {
        exchange_pull(&stranger, i);
        struct answer *a = wait_answer(&stranger, i);
        assert_int_equal(a->code, -ERR_UNAUTHENTICATED);
        assert_non_null(strstr(a->message, none_says));
        assert_int_equal(a->received, 0);
    }
    exchange_close(&stranger);
    assert_int_equal(atomic_load(&rig.refused), 2);
    key_of("w0", 0, key);
    rig.key = key;
    for (int again = 0; again < 2; again++) { /* a worker that comes back */
        exchange_open(&worker, &rig);
        exchange_pull(&worker, 1);
        struct answer *a = wait_answer(&worker, 1);
        assert_int_equal(a->code, 0);
        assert_int_equal(a->received, ELEMENTS);
        char other[] = "w1";
        const struct chunk m = {
            .exchange = 2, .job = job, .worker = other, .first = true, .pull = true};
        send_chunk(&worker, &m);
        a = wait_answer(&worker, 2);
        assert_int_equal(a->code, -ERR_PERMISSION);
        assert_non_null(strstr(a->message, "this stream is of worker w0, and not of w1"));
        exchange_close(&worker);
        assert_int_equal(atomic_load(&rig.refused), 3 + again);
    }
    ps_rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_keys_end_with_their_opening),
        cmocka_unit_test(test_without_a_secret_nobody_is_asked),
        cmocka_unit_test(test_streams),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
