/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker process answers its master, and what it holds back: starts, data, evaluations,
 * metrics, traces. */
#include "worker_shell_rig.h"

#include "support/wait_until.h"

static void assert_refused(struct fixture *f, const char *method, const ProtobufCMessage *body,
                           int code)
{
    struct err err = {0};
    int rc = shell_call(f, method, body, &err);
    if (rc != code) {
        fail_msg("%s: %d, not %d: %s", method, rc, code, err.msg);
    }
}

/* Whoever does not know what only its master knows, whatever generation it names. */
static void test_it_obeys_its_master_alone(void **state)
{
    (void)state;
    struct fixture f;
    char other_job[] = "job-2";
    uint8_t other[FENCE_SECRET_BYTES] = {4, 5, 7};
    const ProtobufCBinaryData secrets[] = {{0}, {sizeof other, other}, {3, other}};
    shell_begin(&f, "async", "600s");
    shell_start_job(&f);
    shell_hold_pushes(&f);
    assert_int_equal(shell_assign(&f, GENERATION, false, NULL), 0);
    shell_wait_held(&f);
    for (size_t i = 0; i < 3; i++) {
        Gradus__V1__StopJobRequest stop = GRADUS__V1__STOP_JOB_REQUEST__INIT;
        stop.job = job_id;
        stop.start = UINT64_MAX;
        stop.secret = secrets[i];
        assert_refused(&f, "StopJob", &stop.base, ERR_UNAUTHENTICATED);
        Gradus__V1__AssignRequest hold = GRADUS__V1__ASSIGN_REQUEST__INIT;
        hold.job = job_id;
        hold.generation = 999;
        hold.secret = secrets[i];
        assert_refused(&f, "Assign", &hold.base, ERR_UNAUTHENTICATED);
        Gradus__V1__EvaluateRequest evaluate = GRADUS__V1__EVALUATE_REQUEST__INIT;
        evaluate.job = job_id;
        evaluate.secret = secrets[i];
        assert_refused(&f, "Evaluate", &evaluate.base, ERR_UNAUTHENTICATED);
        Gradus__V1__StartJobRequest start = GRADUS__V1__START_JOB_REQUEST__INIT;
        start.job = job_id;
        start.generation = 999;
        start.start = 999;
        start.secret = secrets[i];
        start.incarnation = atomic_load(&f.incarnation);
        assert_refused(&f, "StartJob", &start.base, ERR_UNAUTHENTICATED);
    }
    /* A job of another name would push this one out. */
    Gradus__V1__InspectDataRequest inspect = GRADUS__V1__INSPECT_DATA_REQUEST__INIT;
    inspect.job = other_job;
    inspect.text = f.text;
    inspect.secret = secret;
    for (uint64_t i = 0; i < 2; i++) {
        inspect.incarnation = i == 0 ? 0 : atomic_load(&f.incarnation) + 1;
        assert_refused(&f, "InspectData", &inspect.base, ERR_ABORTED);
        Gradus__V1__StartJobRequest start = GRADUS__V1__START_JOB_REQUEST__INIT;
        start.job = other_job;
        start.text = f.text;
        start.generation = 1;
        start.start = 1;
        start.secret = secret;
        start.incarnation = inspect.incarnation;
        assert_refused(&f, "StartJob", &start.base, ERR_ABORTED);
    }
    shell_let_go(&f);
    shell_wait_for(&f, NOTE_ANSWERED); /* and goes on */
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    shell_end(&f);
}

static void wait_for_heartbeat(struct fixture *f, const char *held)
{
    pthread_mutex_lock(&f->lock);
    wait_until_signalled(strcmp(f->held, held) == 0, &f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

/* A job is named a moment before its number is. */
static void wait_for_start(struct fixture *f, uint64_t start)
{
    pthread_mutex_lock(&f->lock);
    wait_until_signalled(f->held_start == start, &f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

static void assert_refused_saying(struct fixture *f, const char *method,
                                  const ProtobufCMessage *body, int code, const char *says)
{
    struct err err = {0};
    int rc = shell_call(f, method, body, &err);
    if (rc != code || strstr(err.msg, says) == NULL) {
        fail_msg("%s: %d, not %d with '%s': %s", method, rc, code, says, err.msg);
    }
}

static void stop_job(struct fixture *f, uint64_t start)
{
    struct err err = {0};
    char reason[] = "enough";
    Gradus__V1__StopJobRequest stop = GRADUS__V1__STOP_JOB_REQUEST__INIT;
    stop.job = job_id;
    stop.start = start;
    stop.reason = reason;
    stop.secret = secret;
    if (shell_call(f, "StopJob", &stop.base, &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

/* Heartbeats say which job this is, and of which generation the newest assignment; a stop of a
 * start that is over changes nothing. */
static void test_heartbeats_say_what_it_holds(void **state)
{
    (void)state;
    struct fixture f;
    shell_begin(&f, "async", "600s");
    shell_wait_joined(&f);
    wait_for_heartbeat(&f, "");
    shell_start_job(&f);
    wait_for_heartbeat(&f, "job-1/0");
    assert_int_equal(shell_assign(&f, GENERATION, true, NULL), 0);
    wait_for_heartbeat(&f, "job-1/3");
    assert_int_equal(shell_assign(&f, GENERATION + 1, true, NULL), 0);
    wait_for_heartbeat(&f, "job-1/4");
    stop_job(&f, f.start - 1);
    shell_start_job(&f); /* what is there already is answered well */
    wait_for_heartbeat(&f, "job-1/4");
    stop_job(&f, f.start);
    wait_for_heartbeat(&f, "");
    assert_int_equal(shell_assign(&f, GENERATION + 2, true, NULL), ERR_NOT_FOUND);
    stop_job(&f, f.start); /* unknown is fine */
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    shell_end(&f);
}

static void restart_refused(struct fixture *f, uint64_t start, int code)
{
    Gradus__V1__StartJobRequest r = GRADUS__V1__START_JOB_REQUEST__INIT;
    r.job = job_id;
    r.text = f->text;
    r.start = start;
    r.secret = secret;
    r.incarnation = atomic_load(&f->incarnation);
    assert_refused(f, "StartJob", &r.base, code);
}

static void tell_in_heartbeats(struct fixture *f, char *stop_job, uint64_t stop_opening)
{
    pthread_mutex_lock(&f->lock);
    f->stop_job = stop_job;
    f->stop_opening = stop_opening;
    unsigned answered = f->heartbeats + 3; /* the first of them has been answered by then */
    wait_until_signalled(f->heartbeats >= answered, &f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

/* What was said of another start, by name or by number, is not for what is here now; nor is a start
 * begun again that is over. */
static void test_what_is_of_another_start_changes_nothing(void **state)
{
    (void)state;
    struct fixture f;
    shell_begin(&f, "async", "600s");
    shell_start_job(&f);
    assert_int_equal(shell_assign(&f, GENERATION, true, NULL), 0);
    wait_for_heartbeat(&f, "job-1/3");
    wait_for_start(&f, START);
    tell_in_heartbeats(&f, job_id, START - 1);
    wait_for_heartbeat(&f, "job-1/3");
    tell_in_heartbeats(&f, NULL, 0);
    for (f.start = START - 1; f.start <= START + 1; f.start += 2) {
        assert_int_equal(shell_assign(&f, GENERATION + 1, true, NULL), ERR_NOT_FOUND);
    }
    restart_refused(&f, START - 1, ERR_ABORTED);
    restart_refused(&f, 0, ERR_INVALID);
    wait_for_heartbeat(&f, "job-1/3");

    f.start = START + 1; /* which drops the one before */
    shell_start_job(&f);
    wait_for_start(&f, START + 1);
    wait_for_heartbeat(&f, "job-1/0");
    tell_in_heartbeats(&f, NULL, START + 1);
    tell_in_heartbeats(&f, NULL, 0);
    wait_for_heartbeat(&f, "");
    restart_refused(&f, START + 1, ERR_ABORTED);
    stop_job(&f, START + 5); /* overtakes what it is for */
    restart_refused(&f, START + 5, ERR_ABORTED);
    f.start = START + 6;
    shell_start_job(&f);
    wait_for_heartbeat(&f, "job-1/0");
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    shell_end(&f);
}

/* Until it is started, the name of a job is all that there is to say. */
static void test_what_is_not_started_is_dropped_by_name(void **state)
{
    (void)state;
    struct fixture f;
    shell_begin(&f, "sync", "600s");
    shell_wait_joined(&f);
    Gradus__V1__InspectDataRequest q = GRADUS__V1__INSPECT_DATA_REQUEST__INIT;
    q.job = job_id;
    q.text = f.text;
    q.secret = secret;
    q.incarnation = atomic_load(&f.incarnation);
    assert_int_equal(shell_call(&f, "InspectData", &q.base, NULL), 0);
    wait_for_heartbeat(&f, "job-1/0");
    assert_int_equal(f.held_start, 0);
    tell_in_heartbeats(&f, job_id, 0);
    tell_in_heartbeats(&f, NULL, 0);
    wait_for_heartbeat(&f, "");
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    shell_end(&f);
}

static void test_data_are_inspected(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = {0};
    struct rpc_msg *reply = NULL;
    char bad[] = "name: x\n", odd[] = "no name/";
    shell_begin(&f, "sync", "600s");
    shell_wait_joined(&f);
    Gradus__V1__InspectDataRequest q = GRADUS__V1__INSPECT_DATA_REQUEST__INIT;
    q.job = job_id;
    q.text = f.text;
    q.secret = secret;
    q.incarnation = atomic_load(&f.incarnation);
    for (int i = 0; i < 2; i++) { /* the second time it is loaded already */
        if (shell_call_for(&f, "InspectData", &q.base, &reply, &err) != 0) {
            fail_msg("%s", err.msg);
        }
        const Gradus__V1__DataInfo *info = (const Gradus__V1__DataInfo *)reply->body;
        assert_int_equal(info->train_records, RECORDS);
        assert_int_equal(info->test_records, RECORDS);
        assert_int_equal(info->classes, 2);
        assert_int_equal(info->n_feature_dims, 1);
        assert_int_equal(info->feature_dims[0], 2);
        assert_true(info->train_fingerprint == dataset_info(f.model.train)->fingerprint);
        rpc_msg_unref(reply);
    }
    wait_for_heartbeat(&f, "job-1/0");
    q.job = odd;
    assert_refused_saying(&f, "InspectData", &q.base, ERR_INVALID, "job");
    char other[] = "job-2";
    uint8_t of_other[FENCE_SECRET_BYTES] = {7, 8, 9}; /* each job has its own */
    q.job = other;
    q.secret = (ProtobufCBinaryData){sizeof of_other, of_other};
    q.text = bad;
    assert_refused_saying(&f, "InspectData", &q.base, ERR_INVALID, "");
    wait_for_heartbeat(&f, "job-2/0"); /* which has pushed the other one out */
    assert_int_equal(shell_assign(&f, GENERATION, true, &err), ERR_NOT_FOUND);
    char *large = mem_new((2U << 20) + 1, 1);
    memset(large, '#', 2U << 20);
    char third[] = "job-3";
    q.job = third;
    q.text = large;
    assert_refused_saying(&f, "InspectData", &q.base, ERR_INVALID, "larger than 1 MiB");
    free(large);
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    shell_end(&f);
}

/* One thing is wrong in each start; the job must be stopped before it may be tried again. */
static void test_starts_that_cannot_be(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = {0};
    shell_begin(&f, "sync", "600s");
    shell_wait_joined(&f);
    for (int wrong = 0; wrong < 2; wrong++) {
        Gradus__V1__Plan plan;
        Gradus__V1__DataInfo data;
        wire_plan_to_proto(&f.plan, &plan);
        struct dataset_info train = *dataset_info(f.model.train);
        train.records += wrong == 0 ? 1 : 0;
        wire_data_to_proto(&train, dataset_info(f.model.test), &data);
        Gradus__V1__StartJobRequest r = GRADUS__V1__START_JOB_REQUEST__INIT;
        r.job = job_id;
        r.text = f.text;
        r.plan = wrong == 1 ? NULL : &plan;
        r.data = &data;
        r.generation = GENERATION;
        r.start = f.start;
        r.secret = secret;
        r.incarnation = atomic_load(&f.incarnation);
        static const char *const SAYS[] = {"train records", "plan"};
        assert_refused_saying(&f, "StartJob", &r.base, wrong == 0 ? ERR_STATE : ERR_INVALID,
                              SAYS[wrong]);
        assert_int_equal(shell_assign(&f, GENERATION, true, &err), ERR_STATE);
        assert_non_null(strstr(err.msg, "not started"));
        Gradus__V1__EvaluateRequest evaluate = GRADUS__V1__EVALUATE_REQUEST__INIT;
        evaluate.job = job_id;
        evaluate.start = f.start;
        evaluate.secret = secret;
        assert_refused_saying(&f, "Evaluate", &evaluate.base, ERR_STATE, "not started");
        r.plan = &plan;
        assert_refused_saying(&f, "StartJob", &r.base, ERR_STATE, "an earlier start");
        wire_plan_release(&plan);
        stop_job(&f, f.start++);
    }
    shell_start_job(&f); /* and now nothing is */
    assert_int_equal(shell_assign(&f, GENERATION, true, NULL), 0);
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    shell_end(&f);
}

static void test_evaluations_are_of_a_pin(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = {0};
    struct rpc_msg *reply = NULL;
    char none[] = "", pin[] = "pin-1", longest[WIRE_ID_BYTES_MAX + 2];
    memset(longest, 'p', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    shell_begin(&f, "sync", "600s");
    shell_start_job(&f);
    assert_int_equal(shell_assign(&f, GENERATION, true, NULL), 0);
    Gradus__V1__EvaluateRequest q = GRADUS__V1__EVALUATE_REQUEST__INIT;
    q.job = job_id;
    q.start = f.start;
    q.secret = secret;
    q.first = 10;
    q.count = 20;
    q.pin_id = none;
    assert_refused_saying(&f, "Evaluate", &q.base, ERR_INVALID, "pin_id must have 1 to 128");
    q.pin_id = longest;
    assert_refused_saying(&f, "Evaluate", &q.base, ERR_INVALID, "pin_id must have 1 to 128");
    q.pin_id = pin;
    assert_refused_saying(&f, "Evaluate", &q.base, ERR_INVALID, "of shard 0 is missing");
    struct shell_location location;
    shell_locate(&f, &location);
    q.generation = GENERATION;
    q.shards = &location.list;
    q.n_shards = 1;
    if (shell_call_for(&f, "Evaluate", &q.base, &reply, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    const Gradus__V1__EvaluateResponse *r = (const Gradus__V1__EvaluateResponse *)reply->body;
    struct metrics sums;
    metrics_init(&sums, f.model.spec.model.metrics);
    assert_int_equal(wire_metrics_from_proto(r->sums, &sums, &err), 0);
    assert_int_equal(sums.examples, 20);
    metrics_release(&sums);
    rpc_msg_unref(reply);
    q.first = RECORDS - 5; /* past the end */
    q.count = 10;
    assert_int_equal(shell_call(&f, "Evaluate", &q.base, &err), ERR_RANGE);
    free(location.address);
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    shell_end(&f);
}

/* The page of metrics, into @page. */
static void read_metrics(const struct fixture *f, char *page, size_t bytes)
{
    static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
    struct address at;
    struct err err = {0};
    size_t n = 0;
    assert_int_equal(address_parse(f->http, &at, &err), 0);
    int fd = address_connect(&at, 0, &err);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, request, sizeof request - 1), sizeof request - 1);
    for (ssize_t k; n < bytes - 1 && (k = read(fd, page + n, bytes - 1 - n)) > 0;) {
        n += (size_t)k;
    }
    page[n] = '\0';
    (void)close(fd);
}

static double metric(const char *page, const char *name)
{
    const char *line = strstr(page, name);
    if (line == NULL) {
        fail_msg("no %s in %s", name, page);
        return -1;
    }
    return strtod(line + strlen(name), NULL);
}

/* Wait until all of an epoch is computed and reported. */
static void train_an_epoch(struct fixture *f)
{
    pthread_mutex_lock(&f->lock);
    f->lease = true;
    pthread_mutex_unlock(&f->lock);
    shell_start_job(f);
    assert_int_equal(shell_assign(f, GENERATION, false, NULL), 0);
    shell_wait_for(f, NOTE_IDLE);
}

static void test_metrics_count_what_was_done(void **state)
{
    (void)state;
    static char page[1 << 17];
    static const char *const PARTS[] = {"load", "compute", "wire", "apply", "wait"};
    struct fixture f;
    shell_begin(&f, "async", "600s");
    train_an_epoch(&f);
    read_metrics(&f, page, sizeof page);
    assert_true(metric(page, "\ngradus_worker_batches_total ") == RECORDS / BATCH);
    assert_true(metric(page, "\ngradus_worker_examples_total ") == RECORDS);
    assert_true(metric(page, "\ngradus_worker_steps_total ") == RECORDS / BATCH);
    assert_true(metric(page, "\ngradus_worker_evaluations_total ") == 0);
    assert_true(metric(page, "\ngradus_worker_exchanges_failed_total ") == 0);
    assert_true(metric(page, "\ngradus_worker_batches_given_up_total ") == 0);
    double seconds = 0;
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "\ngradus_worker_step_seconds_total{part=\"%s\"} ",
                       PARTS[i]);
        seconds += metric(page, name);
    }
    assert_true(seconds > 0 && seconds < 60);
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    shell_end(&f);
}

static const Gradus__V1__TraceResponse *trace(struct fixture *f, Gradus__V1__TraceRequest *q,
                                              Gradus__V1__TraceRequest__Action action,
                                              struct rpc_msg **reply)
{
    struct err err = {0};
    q->action = action;
    if (shell_call_for(f, "Trace", &q->base, reply, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    return (const Gradus__V1__TraceResponse *)(*reply)->body;
}

/* All answers tell the clock; a record that nothing happens in ends with its time, or when it is
 * taken. */
static void test_traces(void **state)
{
    (void)state;
    struct fixture f;
    struct rpc_msg *reply = NULL;
    char nobody[] = "job-9";
    shell_begin(&f, "async", "600s");
    Gradus__V1__TraceRequest q = GRADUS__V1__TRACE_REQUEST__INIT;
    q.job = nobody;
    uint64_t before = chrono_now_ns();
    const Gradus__V1__TraceResponse *r =
        trace(&f, &q, GRADUS__V1__TRACE_REQUEST__ACTION__CLOCK, &reply);
    assert_true(r->clock_ns >= before && r->clock_ns <= chrono_now_ns());
    assert_true(r->boot[0] != '\0');
    rpc_msg_unref(reply);
    q.action = GRADUS__V1__TRACE_REQUEST__ACTION__RECORD;
    assert_refused_saying(&f, "Trace", &q.base, ERR_NOT_FOUND, "does not have job job-9");
    q.action = (Gradus__V1__TraceRequest__Action)9;
    assert_refused_saying(&f, "Trace", &q.base, ERR_INVALID, "no such action");
    shell_start_job(&f);
    assert_int_equal(shell_assign(&f, GENERATION, true, NULL), 0);
    q.job = job_id;
    q.id = 77;
    q.action = GRADUS__V1__TRACE_REQUEST__ACTION__RECORD;
    assert_refused_saying(&f, "Trace", &q.base, ERR_INVALID, "a trace of 0 steps");
    q.steps = 3;
    q.timeout_ms = 1;
    q.spans_max = 100;
    r = trace(&f, &q, GRADUS__V1__TRACE_REQUEST__ACTION__RECORD, &reply);
    assert_true(r->clock_ns > before);
    assert_int_equal(r->steps, 0);
    assert_int_equal(r->n_spans, 0);
    rpc_msg_unref(reply);
    r = trace(&f, &q, GRADUS__V1__TRACE_REQUEST__ACTION__TAKE, &reply);
    assert_true(r->clock_ns > before);
    rpc_msg_unref(reply);
    q.action = GRADUS__V1__TRACE_REQUEST__ACTION__RECORD; /* too late: it was taken */
    assert_refused_saying(&f, "Trace", &q.base, ERR_CANCELLED, "stopped before it began");
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    shell_end(&f);
}

/* What a shard refuses for good ends the job here, and the master hears why. */
static void test_failures_are_reported(void **state)
{
    (void)state;
    struct fixture f;
    shell_begin(&f, "async", "600s");
    shell_start_job(&f);
    pthread_mutex_lock(&f.lock);
    f.refuse = true;
    pthread_mutex_unlock(&f.lock);
    assert_int_equal(shell_assign(&f, GENERATION, false, NULL), 0);
    pthread_mutex_lock(&f.lock);
    wait_until_signalled(f.failed, &f.changed, &f.lock);
    assert_int_equal(f.code, -ERR_RANGE);
    assert_non_null(strstr(f.message, "shard 0: told to refuse"));
    f.failed = false;
    pthread_mutex_unlock(&f.lock);
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    shell_end(&f);
}

static void test_places_that_cannot_be(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = {0};
    shell_begin(&f, "async", "600s");
    shell_start_job(&f);
    f.place = PLACE_MISSING;
    assert_int_equal(shell_assign(&f, GENERATION, false, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "the location of shard 0 is missing"));
    f.place = PLACE_RIGHT;
    assert_int_equal(shell_assign(&f, GENERATION, true, &err), 0);
    f.place = PLACE_MISSING; /* of the same generation: nobody looks */
    assert_int_equal(shell_assign(&f, GENERATION, true, &err), 0);
    f.place = PLACE_NO_ADDRESS;
    assert_int_equal(shell_assign(&f, GENERATION + 1, false, &err), 0);
    f.place = PLACE_RIGHT;
    pthread_mutex_lock(&f.lock);
    wait_until_signalled(f.failed, &f.changed, &f.lock);
    assert_int_equal(f.code, -ERR_INVALID);
    assert_non_null(strstr(f.message, "\"ps-1\": expected host:port"));
    f.failed = false;
    pthread_mutex_unlock(&f.lock);
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    shell_end(&f);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], AS_WORKER) == 0) {
        return shell_be_a_worker(argc - 1, argv + 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_obeys_its_master_alone),
        cmocka_unit_test(test_heartbeats_say_what_it_holds),
        cmocka_unit_test(test_what_is_of_another_start_changes_nothing),
        cmocka_unit_test(test_what_is_not_started_is_dropped_by_name),
        cmocka_unit_test(test_data_are_inspected),
        cmocka_unit_test(test_starts_that_cannot_be),
        cmocka_unit_test(test_evaluations_are_of_a_pin),
        cmocka_unit_test(test_metrics_count_what_was_done),
        cmocka_unit_test(test_traces),
        cmocka_unit_test(test_failures_are_reported),
        cmocka_unit_test(test_places_that_cannot_be),
    };
    rpc_init();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return failed;
}
