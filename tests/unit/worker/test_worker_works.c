/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker says in its heartbeats that it is at while something takes long, by which its
 * master knows that it has not got stuck; and that data are read once. */
#include "worker_shell_rig.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "support/wait_until.h"
#include "worker/job/slow_down.h"

/* In the worker. It is held up at a point whose name a pipe in the test's directory has, until the
 * test opens the other end. The linker puts these in the place of the functions
 * (tests/CMakeLists.txt). */
static const char *hold_dir;
static int hold_fd = -1; /* of the test: what holds it up no more */

static void stop_at(const char *point)
{
    char *path = file_join(hold_dir, point);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)close(fd);
    }
    free(path);
}

int __real_dataset_cache_open(struct dataset_cache *c, const struct data_spec *spec,
                              enum data_label_kind label_kind, struct dataset **train,
                              struct dataset **test, bool *known, struct err *err);
int __wrap_dataset_cache_open(struct dataset_cache *c, const struct data_spec *spec,
                              enum data_label_kind label_kind, struct dataset **train,
                              struct dataset **test, bool *known, struct err *err);
void __wrap_slow_down_wait(struct slow_down *s, uint64_t begin_ns, uint64_t used_ns);

int __wrap_dataset_cache_open(struct dataset_cache *c, const struct data_spec *spec,
                              enum data_label_kind label_kind, struct dataset **train,
                              struct dataset **test, bool *known, struct err *err)
{
    stop_at("loading");
    return __real_dataset_cache_open(c, spec, label_kind, train, test, known, err);
}

/* Every computation ends with it. */
void __wrap_slow_down_wait(struct slow_down *s, uint64_t begin_ns, uint64_t used_ns)
{
    (void)s;
    (void)begin_ns;
    (void)used_ns;
    stop_at("computing");
}

/* In the test. */
static void hold_at(const struct fixture *f, const char *point)
{
    char *path = file_join(f->dir, point);
    assert_int_equal(mkfifo(path, 0600), 0);
    free(path);
}

static void go_on_from(struct fixture *f, const char *point)
{
    char *path = file_join(f->dir, point);
    hold_fd = open(path, O_WRONLY | O_CLOEXEC); /* waits until the worker is there */
    assert_true(hold_fd >= 0);
    assert_int_equal(unlink(path), 0);
    free(path);
}

/* When the worker has ended. */
static void close_hold(void)
{
    (void)close(hold_fd);
    hold_fd = -1;
}

static void expect_works(struct fixture *f, const char *works)
{
    pthread_mutex_lock(&f->lock);
    wait_until_signalled(strcmp(f->works, works) == 0, &f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
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

static void *run_start(void *f)
{
    shell_start_job(f);
    return NULL;
}

static void *run_inspect(void *ctx)
{
    struct fixture *f = ctx;
    struct err err = {0};
    Gradus__V1__InspectDataRequest q = GRADUS__V1__INSPECT_DATA_REQUEST__INIT;
    q.job = job_id;
    q.text = f->text;
    q.secret = secret;
    q.incarnation = atomic_load(&f->incarnation);
    assert_int_equal(shell_call(f, "InspectData", &q.base, &err), 0);
    return NULL;
}

static void *run_evaluate(void *ctx)
{
    struct fixture *f = ctx;
    struct err err = {0};
    char pin[] = "pin-1";
    Gradus__V1__EvaluateRequest q = GRADUS__V1__EVALUATE_REQUEST__INIT;
    q.job = job_id;
    q.secret = secret;
    q.count = RECORDS;
    q.pin_id = pin;
    struct shell_location location;
    shell_locate(f, &location);
    q.generation = GENERATION;
    q.start = f->start;
    q.shards = &location.list;
    q.n_shards = 1;
    assert_int_equal(shell_call(f, "Evaluate", &q.base, &err), 0);
    free(location.address);
    return NULL;
}

static void load_as(void *(*run)(void *ctx), const char *works)
{
    struct fixture f;
    pthread_t asking;
    shell_begin(&f, "sync", "600s");
    shell_wait_joined(&f);
    hold_at(&f, "loading");
    assert_int_equal(pthread_create(&asking, NULL, run, &f), 0);
    expect_works(&f, works);
    go_on_from(&f, "loading");
    pthread_join(asking, NULL);
    expect_works(&f, "");
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    close_hold();
    shell_end(&f);
}

static void test_heartbeats_say_that_it_loads(void **state)
{
    (void)state;
    load_as(run_inspect, "job-1 InspectData;");
    load_as(run_start, "job-1 StartJob;");
}

static void test_heartbeats_say_that_it_computes(void **state)
{
    (void)state;
    struct fixture f;
    shell_begin(&f, "sync", "600s");
    shell_start_job(&f);
    hold_at(&f, "computing");
    shell_hold_pushes(&f);
    assert_int_equal(shell_assign(&f, GENERATION, false, NULL), 0);
    expect_works(&f, "job-1 step;");
    go_on_from(&f, "computing");
    shell_wait_held(&f);
    expect_works(&f, ""); /* it waits for the server, which is no work */
    shell_let_go(&f);
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    close_hold();
    shell_end(&f);
}

/* First it waits for the parameters, then it computes; the second is two works. */
static void test_heartbeats_say_that_it_evaluates(void **state)
{
    (void)state;
    struct fixture f;
    pthread_t asking;
    shell_begin(&f, "sync", "600s");
    shell_start_job(&f);
    assert_int_equal(shell_assign(&f, GENERATION, true, NULL), 0);
    hold_at(&f, "computing");
    pthread_mutex_lock(&f.lock);
    f.hold_pins = true;
    pthread_mutex_unlock(&f.lock);
    assert_int_equal(pthread_create(&asking, NULL, run_evaluate, &f), 0);
    expect_works(&f, "job-1 Evaluate;");
    shell_wait_held(&f);
    shell_answer_pin(&f);
    expect_works(&f, "job-1 Evaluate;job-1 Evaluate;");
    go_on_from(&f, "computing");
    pthread_join(asking, NULL);
    expect_works(&f, "");
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    close_hold();
    shell_end(&f);
}

/* A job that starts again, here or as another one of the same data, does not read them again. */
static void test_data_are_read_once(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = {0};
    struct buf log = {0};
    shell_begin(&f, "sync", "600s");
    for (int again = 0; again < 2; again++) {
        shell_start_job(&f);
        stop_job(&f, f.start++);
    }
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    assert_int_equal(file_read(f.log_path, 1 << 20, &log, &err), 0);
    const char *first = strstr(buf_str(&log), "event=data_loaded ");
    assert_non_null(first);
    assert_non_null(strstr(first, " known=0 "));
    const char *second = strstr(first + 1, "event=data_loaded ");
    assert_non_null(second);
    assert_non_null(strstr(second, " known=1 "));
    buf_release(&log);
    shell_end(&f);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], AS_WORKER) == 0) {
        hold_dir = argv[2];
        return shell_be_a_worker(argc - 1, argv + 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heartbeats_say_that_it_loads),
        cmocka_unit_test(test_heartbeats_say_that_it_computes),
        cmocka_unit_test(test_heartbeats_say_that_it_evaluates),
        cmocka_unit_test(test_data_are_read_once),
    };
    rpc_init();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return failed;
}
