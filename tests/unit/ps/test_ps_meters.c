/* SPDX-License-Identifier: Apache-2.0 */
/* What the page of meters says after each kind of request: pushes by what became of them, bytes by
 * their direction, and what is held now. */
#include "ps_rig.h"

#include <pthread.h>

#include "os/chrono.h"
#include "ps/rpc/ps_shell.h"
#include "support/wait_until.h"

static float values[ELEMENTS], gradient[ELEMENTS];
static char job[] = "a-1";

/* @line: "updates_total" or "pushes_total{result=\"stale\"}". */
static double meter(const struct ps_rig *rig, const char *line)
{
    struct buf page = {0};
    char begin[96];
    meter_expose(rig->meters, &page);
    (void)snprintf(begin, sizeof begin, "\ngradus_ps_%s ", line);
    const char *at = strstr(buf_str(&page), begin);
    if (at == NULL) {
        fail_msg("no%s in %s", begin, buf_str(&page));
        return 0;
    }
    const double value = strtod(at + strlen(begin), NULL);
    buf_release(&page);
    return value;
}

static void assert_meter(const struct ps_rig *rig, const char *line, double value)
{
    const double found = meter(rig, line);
    if (found != value) {
        fail_msg("%s is %g, expected %g", line, found, value);
    }
}

/* At least so many; no meter of one thread can have more. */
static double seconds_since(uint64_t begun_ms)
{
    return (double)(chrono_now_ms() - begun_ms + 1) / 1000;
}

/* Gauges follow when the request is over. */
static void await(const struct ps_rig *rig, const char *line, double value)
{
    wait_until(meter(rig, line) == value);
}

static void push(struct ps_rig *rig, uint64_t step, uint32_t replica, int code,
                 Gradus__V1__PushResult result)
{
    struct err err;
    Gradus__V1__PushResult found = GRADUS__V1__PUSH_RESULT__PUSH_NONE;
    assert_int_equal(
        ps_rig_push(rig, job, step, replica, replica + 1, gradient, ELEMENTS, 4, &found, &err),
        code);
    assert_int_equal(found, result);
}

static void start(struct ps_rig *rig, uint32_t replicas)
{
    struct err err;
    ps_rig_start(rig, 0);
    assert_meter(rig, "shards", 0);
    ps_rig_expect(ps_rig_open(rig, job, "sync", "sgd", 1, replicas, &err), 0, &err, "");
    assert_meter(rig, "shards", 1);
}

static void test_pushes(void **state)
{
    (void)state;
    struct ps_rig rig;
    const double bytes = ELEMENTS * sizeof(float);
    const uint64_t begun_ms = chrono_now_ms();
    start(&rig, 2);
    push(&rig, 0, 0, 0, GRADUS__V1__PUSH_RESULT__ACCEPTED);
    await(&rig, "gradients_held", 1);
    assert_meter(&rig, "pushes_total{result=\"accepted\"}", 1);
    assert_meter(&rig, "updates_total", 0);
    push(&rig, 0, 0, 0, GRADUS__V1__PUSH_RESULT__DUPLICATE);
    push(&rig, 0, 1, 0, GRADUS__V1__PUSH_RESULT__APPLIED);
    await(&rig, "gradients_held", 0);
    push(&rig, 1, 2, ERR_INVALID, GRADUS__V1__PUSH_RESULT__PUSH_NONE); /* there are two */
    assert_meter(&rig, "pushes_total{result=\"accepted\"}", 1);
    assert_meter(&rig, "pushes_total{result=\"duplicate\"}", 1);
    assert_meter(&rig, "pushes_total{result=\"applied\"}", 1);
    assert_meter(&rig, "pushes_total{result=\"refused\"}", 1);
    assert_meter(&rig, "pushes_total{result=\"stale\"}", 0);
    assert_meter(&rig, "pushes_total{result=\"dropped\"}", 0);
    assert_meter(&rig, "updates_total", 1);
    assert_meter(&rig, "updates_skipped_total", 0);
    assert_meter(&rig, "apply_seconds_count", 1);
    assert_meter(&rig, "wait_seconds_count", 3); /* of those that were not refused */
    assert_true(meter(&rig, "apply_seconds_sum") > 0);
    assert_true(meter(&rig, "apply_seconds_sum") <= seconds_since(begun_ms));
    assert_meter(&rig, "value_bytes_received_total", 4 * bytes);
    assert_meter(&rig, "value_bytes_sent_total", 0);
    ps_rig_stop(&rig);
}

struct puller {
    struct ps_rig *rig;
    uint64_t version;
};

static void *pull_version_one(void *arg)
{
    struct puller *p = arg;
    struct err err;
    assert_int_equal(ps_rig_pull(p->rig, job, GRADUS__V1__PULL__KIND__VERSION, 1, NULL, values,
                                 &p->version, &err),
                     0);
    return NULL;
}

static void test_pulls(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    uint64_t version;
    pthread_t thread;
    struct puller p = {.rig = &rig};
    const double bytes = ELEMENTS * sizeof(float);
    start(&rig, 1);
    assert_int_equal(
        ps_rig_pull(&rig, job, GRADUS__V1__PULL__KIND__LATEST, 0, NULL, values, &version, &err), 0);
    assert_meter(&rig, "value_bytes_sent_total", bytes);
    assert_meter(&rig, "value_bytes_received_total", 0);
    assert_meter(&rig, "requests_parked", 0);
    assert_int_equal(pthread_create(&thread, NULL, pull_version_one, &p), 0);
    await(&rig, "requests_parked", 1);
    push(&rig, 0, 0, 0, GRADUS__V1__PUSH_RESULT__APPLIED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(p.version, 1);
    await(&rig, "requests_parked", 0);
    assert_meter(&rig, "value_bytes_sent_total", 2 * bytes);
    ps_rig_stop(&rig);
}

static double snapshots_after_push(struct ps_rig *rig, uint64_t step)
{
    push(rig, step, 0, 0, GRADUS__V1__PUSH_RESULT__APPLIED);
    return meter(rig, "snapshots");
}

/* A pin holds a version; a file is counted; nothing is left of a shard that is closed. */
static void test_what_is_held(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    struct rpc_msg *reply;
    char id[] = "step-0", directory[] = "a-1/step-000000000";
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    Gradus__V1__PinRequest pin = GRADUS__V1__PIN_REQUEST__INIT;
    Gradus__V1__CheckpointShardRequest file = GRADUS__V1__CHECKPOINT_SHARD_REQUEST__INIT;
    const double bytes = ELEMENTS * sizeof(float);
    start(&rig, 1);
    await(&rig, "snapshots", 1);
    assert_true(meter(&rig, "memory_bytes") >= 2 * bytes);
    pin.shard = file.shard = &ref;
    pin.pin_id = file.pin_id = id;
    file.directory = directory;
    assert_int_equal(ps_rig_call(&rig, "Pin", &pin.base, NULL, 0, NULL, &err), 0);
    for (uint64_t step = 0; step < 2; step++) {
        push(&rig, step, 0, 0, GRADUS__V1__PUSH_RESULT__APPLIED);
    }
    await(&rig, "snapshots", 3); /* the version before is readable, too */
    const uint64_t asked_ms = chrono_now_ms();
    assert_int_equal(ps_rig_call(&rig, "Checkpoint", &file.base, NULL, 0, &reply, &err), 0);
    assert_meter(&rig, "checkpoint_seconds_count", 1);
    assert_true(meter(&rig, "checkpoint_seconds_sum") <= seconds_since(asked_ms));
    assert_meter(&rig, "checkpoint_bytes_total",
                 (double)((const Gradus__V1__CheckpointShardResponse *)reply->body)->bytes);
    rpc_msg_unref(reply);
    assert_int_equal(ps_rig_call(&rig, "Unpin", &pin.base, NULL, 0, NULL, &err), 0);
    uint64_t step = 2; /* the file's thread lets go of the version, too */
    wait_until(snapshots_after_push(&rig, step++) == 2);
    ps_drop(rig.ps, job, 0);
    await(&rig, "shards", 0);
    await(&rig, "snapshots", 0);
    await(&rig, "memory_bytes", 0);
    ps_rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pushes),
        cmocka_unit_test(test_pulls),
        cmocka_unit_test(test_what_is_held),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
