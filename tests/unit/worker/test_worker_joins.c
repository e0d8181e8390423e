/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that waits for its program before it joins, and what it answers meanwhile. */
#include "worker_shell_rig.h"

#include "os/file.h"

/* Who calls is no master that it has joined, whatever incarnation is named; it may ask again. */
static void assert_starting(struct fixture *f, uint64_t incarnation)
{
    struct err err = {0};
    Gradus__V1__InspectDataRequest inspect = GRADUS__V1__INSPECT_DATA_REQUEST__INIT;
    inspect.job = job_id;
    inspect.text = f->text;
    inspect.secret = secret;
    inspect.incarnation = incarnation;
    assert_int_equal(shell_call(f, "InspectData", &inspect.base, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "this worker is starting"));
    Gradus__V1__StartJobRequest start = GRADUS__V1__START_JOB_REQUEST__INIT;
    start.job = job_id;
    start.text = f->text;
    start.generation = GENERATION;
    start.start = START;
    start.secret = secret;
    start.incarnation = incarnation;
    assert_int_equal(shell_call(f, "StartJob", &start.base, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "this worker is starting"));
}

/* What needs no master that it has joined is answered as ever. */
static void assert_has_nothing(struct fixture *f)
{
    struct err err = {0};
    assert_int_equal(shell_assign(f, GENERATION, true, &err), ERR_NOT_FOUND);
    Gradus__V1__StopJobRequest stop = GRADUS__V1__STOP_JOB_REQUEST__INIT;
    stop.job = job_id;
    stop.start = START - 1;
    stop.secret = secret;
    assert_int_equal(shell_call(f, "StopJob", &stop.base, &err), 0);
}

static void test_no_job_before_it_has_joined(void **state)
{
    (void)state;
    struct fixture f;
    char *gate = tmp_dir_make("joins"), *open = file_join(gate, "open"), address[64];
    char *program = mem_printf("sh -c 'while [ ! -e %s ]; do sleep 0.01; done; "
                               "exec %s/../tests/logistic_program'",
                               open, getenv("GRADUS_BIN_DIR"));
    shell_begin_early(&f, "async", program);
    assert_starting(&f, 0);
    assert_starting(&f, 1);
    assert_has_nothing(&f);
    assert_int_equal(atomic_load(&f.incarnation), 0); /* nor has anybody heard of it */

    assert_int_equal(file_write_atomic(open, "", 0, NULL), 0);
    shell_wait_ready(&f, address);
    assert_non_null(strstr(address, "unix:"));
    shell_start_job(&f);
    assert_int_equal(shell_assign(&f, GENERATION, true, NULL), 0);
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    shell_end(&f);
    free(program);
    free(open);
    tmp_dir_remove(gate);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], AS_WORKER) == 0) {
        return shell_be_a_worker(argc - 1, argv + 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_job_before_it_has_joined),
    };
    rpc_init();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return failed;
}
