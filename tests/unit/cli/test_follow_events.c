/* SPDX-License-Identifier: Apache-2.0 */
/* --tensorboard of who watches: when evaluations are written, and when the job file is asked for.
 */
#include "support/test.h"

#include <string.h>

#include "cli/follow_events.h"
#include "tensorboard/tensorboard.h"

int __wrap_client_call(struct client *c, const char *method, const ProtobufCMessage *body,
                       unsigned timeout_ms, struct rpc_msg **reply, struct err *err);
void __wrap_rpc_msg_unref(struct rpc_msg *msg);
int __wrap_tensorboard_write(const char *dir, const Gradus__V1__Job *job, const char *text,
                             size_t count, struct err *err);

static struct {
    bool refuses;
    unsigned timeout_ms;
    size_t asked, written, count;
    bool told; /* the last time it was written */
} seen;

int __wrap_client_call(struct client *c, const char *method, const ProtobufCMessage *body,
                       unsigned timeout_ms, struct rpc_msg **reply, struct err *err)
{
    static char text[] = "update: {rule: sgd}\n";
    static Gradus__V1__Job job;
    static struct rpc_msg answer;
    (void)c;
    assert_string_equal(method, "Get");
    assert_string_equal(((const Gradus__V1__GetJobRequest *)body)->job, "digits-1");
    seen.asked++;
    seen.timeout_ms = timeout_ms;
    if (seen.refuses) {
        return err_set(err, ERR_UNAVAILABLE, "no answer");
    }
    gradus__v1__job__init(&job);
    job.text = text;
    answer.body = &job.base;
    *reply = &answer;
    return 0;
}

void __wrap_rpc_msg_unref(struct rpc_msg *msg)
{
    (void)msg;
}

int __wrap_tensorboard_write(const char *dir, const Gradus__V1__Job *job, const char *text,
                             size_t count, struct err *err)
{
    (void)job;
    (void)err;
    assert_string_equal(dir, "logs");
    seen.written++;
    seen.told = text != NULL;
    seen.count = count;
    return 0;
}

static struct watched {
    Gradus__V1__Job job;
    Gradus__V1__Evaluation evaluations[3], *list[3];
    struct follow_events events;
} watched;

static int set_up(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof seen);
    memset(&watched.events, 0, sizeof watched.events);
    gradus__v1__job__init(&watched.job);
    watched.job.state = GRADUS__V1__JOB_STATE__RUNNING;
    watched.job.evaluations = watched.list;
    for (size_t i = 0; i < 3; i++) {
        gradus__v1__evaluation__init(&watched.evaluations[i]);
        watched.evaluations[i].step = 10 * (i + 1);
        watched.list[i] = &watched.evaluations[i];
    }
    return 0;
}

/* The master brings @count evaluations: how often was it asked, and was something written? */
static void comes(size_t count, size_t asked, bool written)
{
    static struct client client;
    const struct follow_options options = {.job = "digits-1", .tensorboard = "logs"};
    struct err err = {0};
    const struct {
        size_t asked, written;
    } before = {seen.asked, seen.written};
    watched.job.n_evaluations = count;
    assert_int_equal(
        follow_events_write(&watched.events, &client, &options, &watched.job, count, &err), 0);
    assert_int_equal(seen.asked - before.asked, asked);
    assert_int_equal(seen.written - before.written, written);
    assert_true(!written || seen.count == count);
}

/* ---- tests ---- */

static void it_is_told_once_and_at_the_end(void **state)
{
    (void)state;
    comes(0, 0, false);
    comes(1, 1, true);
    assert_true(seen.told);
    comes(1, 0, false);
    comes(2, 0, true);
    assert_false(seen.told);
    watched.job.state = GRADUS__V1__JOB_STATE__SUCCEEDED;
    comes(2, 1, true);
    assert_true(seen.told);
}

static void what_was_not_said_is_asked_again(void **state)
{
    (void)state;
    seen.refuses = true;
    comes(1, 1, true);
    assert_false(seen.told);
    assert_in_range(seen.timeout_ms, 1, 1000); /* nobody hears Ctrl-C meanwhile */
    comes(1, 0, false);
    seen.refuses = false;
    comes(2, 1, true);
    assert_true(seen.told);
    comes(3, 0, true);
}

static void what_was_changed_is_asked_again(void **state)
{
    (void)state;
    comes(1, 1, true);
    watched.job.n_changes = 1;
    seen.refuses = true;
    comes(1, 1, true);
    comes(1, 0, false);
    seen.refuses = false;
    comes(2, 1, true);
    assert_true(seen.told);
    comes(2, 0, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(it_is_told_once_and_at_the_end, set_up),
        cmocka_unit_test_setup(what_was_not_said_is_asked_again, set_up),
        cmocka_unit_test_setup(what_was_changed_is_asked_again, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
