/* SPDX-License-Identifier: Apache-2.0 */
/* StartJob of a job whose initial values the worker brings: it is answered when the shards have
 * them, and keeps nobody waiting when the job is dropped. */
#include "worker_shell_rig.h"

#include "os/file.h"
#include "support/wait_until.h"

#define ELEMENTS 6 /* of the model */

/* In the worker: the program's values. The linker puts this in the place of worker_model_build()
 * (tests/CMakeLists.txt). */
static const char *test_dir;

int __real_worker_model_build(struct worker_model *m, const struct plan *plan, struct err *err);
int __wrap_worker_model_build(struct worker_model *m, const struct plan *plan, struct err *err);

int __wrap_worker_model_build(struct worker_model *m, const struct plan *plan, struct err *err)
{
    static float values[1024];
    int rc = __real_worker_model_build(m, plan, err);
    char *none = file_join(test_dir, "none");
    if (rc == 0 && access(none, F_OK) != 0) {
        assert_true(m->flat_count <= 1024);
        for (size_t v = 0; v < m->variable_count; v++) {
            for (uint64_t i = 0; i < shape_count(&plan->variables[v].shape); i++) {
                values[m->offsets[v] + i] = (float)(10 * v + i + 1);
            }
        }
        m->initial = values;
    }
    free(none);
    return rc;
}

/* In the test: a shard. */
static struct {
    int codes[8]; /* of the first answers; 0: well */
    size_t count; /* requests that came */
    uint64_t filled, opening, generation;
    float values[ELEMENTS];
    bool hold; /* no request is answered; the last one is kept: */
    struct rpc_call *held;
} shard;

static void on_fill(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct fixture *f = service;
    const Gradus__V1__FillRequest *q = (const Gradus__V1__FillRequest *)msg->body;
    const uint64_t n = rpc_spans_bytes(msg->bulk) / sizeof(float);
    pthread_mutex_lock(&f->lock);
    size_t at = shard.count++;
    int code = at < sizeof shard.codes / sizeof shard.codes[0] ? shard.codes[at] : 0;
    shard.opening = q->shard->opening;
    shard.generation = q->shard->generation;
    if (shard.hold) {
        shard.held = rpc_call_ref(call);
    } else if (code != 0) {
        struct err err;
        (void)err_set(&err, code, "told to refuse");
        (void)rpc_fail(call, &err);
    } else {
        Gradus__V1__FillResponse m = GRADUS__V1__FILL_RESPONSE__INIT;
        assert_true(n == 0 || (q->first == shard.filled && n <= ELEMENTS - q->first));
        assert_true(n == 0 || rpc_spans_read_floats(msg->bulk, shard.values + q->first, n));
        m.filled = shard.filled += n;
        (void)rpc_reply(call, &m.base, NULL);
    }
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static void begin(struct fixture *f)
{
    memset(&shard, 0, sizeof shard);
    shell_begin(f, "sync", "600s");
    f->fill = on_fill;
    f->plan.variables[0].init.kind = INIT_GIVEN;
}

static void finish(struct fixture *f)
{
    spawn_ask_end(&f->worker);
    shell_assert_ended(f);
    shell_end(f);
}

/* StartJob, once. */
static int start_once(struct fixture *f, bool placed, uint64_t opening, struct err *err)
{
    struct shell_location place;
    Gradus__V1__Plan plan;
    Gradus__V1__StartJobRequest r;
    shell_wait_joined(f);
    shell_start_request(f, &plan, &r);
    shell_locate(f, &place);
    place.at.opening = opening;
    r.incarnation = atomic_load(&f->incarnation);
    r.shards = &place.list;
    r.n_shards = placed ? 1 : 0;
    int rc = shell_call(f, "StartJob", &r.base, err);
    wire_plan_release(&plan);
    free(place.address);
    return rc;
}

static void assert_filled(void)
{
    static const float expected[ELEMENTS] = {1, 2, 3, 4, 11, 12};
    assert_int_equal(shard.filled, ELEMENTS);
    assert_memory_equal(shard.values, expected, sizeof expected);
}

static void test_it_brings_them_and_answers(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = {0};
    begin(&f);
    shard.codes[0] = ERR_UNAVAILABLE; /* it asks again, */
    shard.codes[2] = ERR_EXHAUSTED;   /* and after it has brought some */
    assert_int_equal(start_once(&f, true, 21, &err), 0);
    assert_filled();
    assert_int_equal(shard.count, 5); /* ask, ask, bring, ask, bring */
    assert_int_equal(shard.opening, 21);
    assert_int_equal(shard.generation, GENERATION);
    assert_int_equal(start_once(&f, true, 21, &err), 0); /* the answer was lost */
    assert_int_equal(shard.count, 5);
    assert_int_equal(shell_assign(&f, GENERATION, true, &err), 0);
    finish(&f);
}

static void test_a_full_shard_gets_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = {0};
    begin(&f);
    shard.filled = ELEMENTS;
    assert_int_equal(start_once(&f, true, 21, &err), 0);
    assert_int_equal(shard.count, 1);
    finish(&f);
}

/* The master asks again, with places that are true then. */
static void test_a_shard_that_is_gone(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = {0};
    begin(&f);
    shard.codes[0] = ERR_ABORTED;
    shard.codes[1] = ERR_NOT_FOUND;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(start_once(&f, true, 21, &err), ERR_UNAVAILABLE);
        assert_non_null(strstr(err.msg, "initial values for shard 0: "));
        assert_non_null(strstr(err.msg, "told to refuse"));
    }
    assert_int_equal(start_once(&f, true, 22, &err), 0);
    assert_filled();
    assert_int_equal(shard.opening, 22);
    finish(&f);
}

/* What it brings is wrong, and always will be. */
static void test_values_that_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = {0};
    begin(&f);
    shard.codes[1] = ERR_INVALID;
    assert_int_equal(start_once(&f, true, 21, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "initial values for shard 0: "));
    assert_int_equal(start_once(&f, true, 21, &err), ERR_STATE);
    assert_non_null(strstr(err.msg, "an earlier start of this job failed here"));
    finish(&f);
}

static void test_requests_that_cannot_be(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = {0};
    begin(&f);
    assert_int_equal(start_once(&f, false, 21, &err), ERR_INVALID);
    assert_int_equal(start_once(&f, true, 21, &err), 0);
    assert_filled();
    finish(&f);
}

static void test_a_worker_without_values(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = {0};
    begin(&f);
    char *none = file_join(f.dir, "none");
    assert_int_equal(file_write_atomic(none, "", 0, &err), 0);
    free(none);
    assert_int_equal(start_once(&f, true, 21, &err), ERR_STATE);
    assert_non_null(strstr(err.msg, "wants initial values from this worker, which has none"));
    assert_int_equal(shard.count, 0);
    finish(&f);
}

struct starting {
    struct fixture *f;
    int rc;
    struct err err;
};

static void *run_start(void *ctx)
{
    struct starting *s = ctx;
    s->rc = start_once(s->f, true, 21, &s->err);
    return NULL;
}

/* A shard that does not answer keeps neither StopJob waiting nor whoever asks again. */
static void test_the_job_is_dropped_in_the_middle(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = {0};
    pthread_t threads[2];
    begin(&f);
    shard.hold = true;
    struct starting first = {.f = &f}, second = {.f = &f};
    assert_int_equal(pthread_create(&threads[0], NULL, run_start, &first), 0);
    pthread_mutex_lock(&f.lock);
    wait_until_signalled(shard.held != NULL, &f.changed, &f.lock);
    pthread_mutex_unlock(&f.lock);
    assert_int_equal(pthread_create(&threads[1], NULL, run_start, &second), 0);
    Gradus__V1__StopJobRequest r = GRADUS__V1__STOP_JOB_REQUEST__INIT;
    r.job = job_id;
    r.secret = secret;
    r.start = f.start;
    assert_int_equal(shell_call(&f, "StopJob", &r.base, &err), 0);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    assert_int_equal(first.rc, ERR_CANCELLED);
    assert_non_null(strstr(first.err.msg, "the job was stopped"));
    /* The second one came before StopJob, or after it: then its start is over. */
    assert_true(second.rc == ERR_CANCELLED || second.rc == ERR_ABORTED);
    rpc_call_unref(shard.held);
    shard.hold = false;
    f.start++;
    assert_int_equal(start_once(&f, true, 22, &err), 0);
    assert_filled();
    finish(&f);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], AS_WORKER) == 0) {
        test_dir = argv[2];
        return shell_be_a_worker(argc - 1, argv + 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_brings_them_and_answers),
        cmocka_unit_test(test_a_full_shard_gets_nothing),
        cmocka_unit_test(test_a_shard_that_is_gone),
        cmocka_unit_test(test_values_that_are_refused),
        cmocka_unit_test(test_requests_that_cannot_be),
        cmocka_unit_test(test_a_worker_without_values),
        cmocka_unit_test(test_the_job_is_dropped_in_the_middle),
    };
    rpc_init();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return failed;
}
