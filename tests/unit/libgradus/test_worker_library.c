/* SPDX-License-Identifier: Apache-2.0 */
/* libgradus with a worker that behaves: whole conversations, and what programs may do wrong. */
#include "unit/libgradus/far_end.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void answer(struct far_end *f)
{
    struct gradus_result result = {.size = sizeof result,
                                   .examples = 4,
                                   .loss_sum = 0.5,
                                   .correct = 3,
                                   .squared_error_sum = 2,
                                   .absolute_error_sum = 1};
    assert_int_equal(gradus_worker_done(f->worker, &result), GRADUS_OK);
    struct program_message m = far_end_heard(f, PROGRAM_DONE, NULL);
    assert_int_equal(m.result.examples, 4);
    assert_true(m.result.loss_sum == 0.5 && m.result.correct == 3);
    assert_true(m.result.squared_error_sum == 2 && m.result.absolute_error_sum == 1);
}

/* The library's own answer to START, the second message of a job. */
static void heard_start(struct far_end *f)
{
    struct far_end then = {.socket = f->socket, .number = 2};
    (void)far_end_heard(&then, PROGRAM_DONE, NULL);
}

static void test_a_job_is_described(void **state)
{
    (void)state;
    struct far_end f;
    far_end_open(&f);
    far_end_job(&f, "mine-1");
    struct gradus_work work = far_end_next(&f, GRADUS_WORK_JOB);
    assert_string_equal(work.job->id, "mine-1");
    assert_string_equal(work.job->program, "tiny");
    assert_string_equal(work.job->text, "name: mine\n");
    assert_int_equal(work.job->seed, 11);
    assert_int_equal(work.job->batch_records, FAR_RECORDS);
    assert_int_equal(work.job->evaluation_records, 2 * FAR_RECORDS);
    struct gradus_description d = far_end_model();
    assert_int_equal(gradus_worker_describe(f.worker, &d), GRADUS_OK);
    int fd = -1;
    struct program_message m = far_end_heard(&f, PROGRAM_DESCRIBE, &fd);
    assert_int_equal(m.description.variable_count, 3);
    assert_int_equal(m.description.train_records, 100);
    assert_int_equal(m.description.test_records, 10);
    assert_int_equal(m.description.fingerprint, 42);
    const uint64_t at = program_values_at(3, 0);
    assert_int_equal(m.description.memory_bytes, at + FAR_FLOATS * sizeof(float));
    struct program_memory memory;
    assert_int_equal(program_memory_map(fd, m.description.memory_bytes, false, &memory, NULL), 0);
    const struct program_variable *v = memory.bytes;
    const float *values = (const float *)((const char *)memory.bytes + at);
    assert_string_equal(v[0].name, "a");
    assert_int_equal(v[0].rank, 2);
    assert_int_equal(v[0].dims[1], 3);
    assert_int_equal(v[1].rank, 0);
    assert_int_equal(v[2].kind, GRADUS_STATISTIC);
    assert_true(values[0] == 1 && values[5] == 6 && values[16] == -7 && values[47] == 8);
    program_memory_release(&memory);
    far_end_close(&f);
}

static void test_batches_lie_in_memory_that_both_have(void **state)
{
    (void)state;
    struct far_end f;
    far_end_open(&f);
    far_end_job_begins(&f, true, true);
    uint64_t *records = (uint64_t *)((char *)f.batch.bytes + 64);
    float *features = (float *)((char *)f.batch.bytes + 256);
    float *targets = (float *)((char *)f.batch.bytes + 1024);
    int32_t *classes = (int32_t *)((char *)f.batch.bytes + 2048);
    records[3] = UINT64_MAX - 1;
    features[FAR_RECORDS * FAR_FEATURES - 1] = 0.25F;
    targets[3] = 9;
    classes[3] = -9;
    ((float *)f.parameters.bytes)[16] = 2.5F;
    far_end_work(&f, PROGRAM_GRADIENT, FAR_RECORDS);
    struct gradus_work work = far_end_next(&f, GRADUS_WORK_GRADIENT);
    heard_start(&f);
    assert_int_equal(work.count, FAR_RECORDS);
    assert_int_equal(work.epoch, 5);
    assert_int_equal(work.step, 77);
    assert_int_equal(work.replica, 2);
    assert_true(work.seed == UINT64_MAX);
    assert_string_equal(work.job->id, "mine-1");
    assert_true(work.records[3] == UINT64_MAX - 1);
    assert_int_equal(work.feature_count, FAR_FEATURES);
    assert_int_equal(work.feature_rank, 2);
    assert_int_equal(work.feature_dims[1], 3);
    assert_true(work.features[FAR_RECORDS * FAR_FEATURES - 1] == 0.25F);
    assert_true(work.targets[3] == 9 && work.classes[3] == -9);
    assert_true(work.parameters[1][0] == 2.5F);
    assert_int_equal((uintptr_t)work.gradients[1] % 64, 0);
    const float *const *parameters = work.parameters;
    work.gradients[2][15] = 1.5F;
    answer(&f);
    assert_true(((float *)f.gradients.bytes)[47] == 1.5F);

    far_end_work(&f, PROGRAM_EVALUATION, 2 * FAR_RECORDS); /* the addresses come again */
    work = far_end_next(&f, GRADUS_WORK_EVALUATION);
    assert_ptr_equal(work.parameters, parameters);
    assert_null(work.gradients);
    answer(&f);
    far_end_array(&f, FAR_PARAMETERS, &f.parameters, FAR_FLOATS * sizeof(float)); /* anew */
    ((float *)f.parameters.bytes)[0] = 3.5F;
    far_end_work(&f, PROGRAM_EVALUATION, 1);
    work = far_end_next(&f, GRADUS_WORK_EVALUATION);
    assert_true(work.parameters[0][0] == 3.5F);
    answer(&f);
    far_end_close(&f);
}

static void test_batches_without_data(void **state)
{
    (void)state;
    struct far_end f;
    far_end_open(&f);
    far_end_job_begins(&f, false, false);
    far_end_work(&f, PROGRAM_GRADIENT, 1);
    struct gradus_work work = far_end_next(&f, GRADUS_WORK_GRADIENT);
    assert_null(work.features);
    assert_null(work.targets);
    assert_null(work.classes);
    assert_null(work.feature_dims);
    far_end_close(&f);
}

/* Real labels: no classes. */
static void test_targets_alone(void **state)
{
    (void)state;
    struct far_end f;
    far_end_open(&f);
    far_end_job_begins(&f, true, false);
    far_end_work(&f, PROGRAM_GRADIENT, 1);
    struct gradus_work work = far_end_next(&f, GRADUS_WORK_GRADIENT);
    assert_non_null(work.targets);
    assert_null(work.classes);
    far_end_close(&f);
}

static void test_empty_batches_are_answered_at_once(void **state)
{
    (void)state;
    struct far_end f;
    far_end_open(&f);
    far_end_job_begins(&f, true, false);
    ((float *)f.gradients.bytes)[0] = ((float *)f.gradients.bytes)[47] = 5;
    far_end_work(&f, PROGRAM_GRADIENT, 0);
    far_end_work(&f, PROGRAM_EVALUATION, 0);
    struct program_message end;
    program_message_init(&end, PROGRAM_JOB_END, 0);
    far_end_send(&f, &end, -1);
    (void)far_end_next(&f, GRADUS_WORK_JOB_END);
    for (f.number = 2; f.number <= 4; f.number++) { /* of START, and of both */
        struct program_message m = far_end_heard(&f, PROGRAM_DONE, NULL);
        assert_int_equal(m.result.examples, 0);
    }
    assert_true(((float *)f.gradients.bytes)[0] == 0 && ((float *)f.gradients.bytes)[47] == 0);
    far_end_close(&f);
}

static void test_jobs_end_before_others_begin(void **state)
{
    (void)state;
    struct far_end f;
    far_end_open(&f);
    far_end_job_begins(&f, false, false);
    far_end_job(&f, "mine-2");
    (void)far_end_next(&f, GRADUS_WORK_JOB_END);
    struct gradus_work work = far_end_next(&f, GRADUS_WORK_JOB);
    assert_string_equal(work.job->id, "mine-2");
    assert_int_equal(gradus_worker_fail(f.worker, "not today"), GRADUS_OK);
    heard_start(&f);
    assert_string_equal(far_end_heard(&f, PROGRAM_FAILED, NULL).failed.text, "not today");
    struct program_message end;
    program_message_init(&end, PROGRAM_JOB_END, 0);
    far_end_send(&f, &end, -1);
    (void)far_end_next(&f, GRADUS_WORK_JOB_END);
    far_end_send(&f, &end, -1); /* of nothing: not shown */
    far_end_hang_up(&f);
    (void)far_end_next(&f, GRADUS_WORK_STOP);
    (void)far_end_next(&f, GRADUS_WORK_STOP);
    far_end_close(&f);
}

/* The descriptor of a kept job that was shown is closed once: by then its number is another's. */
static void test_a_kept_job_is_released_once(void **state)
{
    (void)state;
    struct far_end f;
    far_end_open(&f);
    far_end_job_begins(&f, false, false);
    far_end_job(&f, "mine-2");
    (void)far_end_next(&f, GRADUS_WORK_JOB_END);
    (void)far_end_next(&f, GRADUS_WORK_JOB);
    int others[8]; /* they get the numbers that are free */
    for (size_t i = 0; i < 8; i++) {
        others[i] = dup(0);
        assert_true(others[i] >= 0);
    }
    gradus_worker_close(f.worker);
    f.worker = NULL;
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(close(others[i]), 0);
    }
    far_end_close(&f);
}

static void test_a_kept_job_is_released(void **state)
{
    (void)state;
    struct far_end f;
    far_end_open(&f);
    far_end_job_begins(&f, false, false);
    far_end_job(&f, "mine-2");
    (void)far_end_next(&f, GRADUS_WORK_JOB_END);
    far_end_hang_up(&f);
    int free_before = dup(0);
    assert_int_equal(close(free_before), 0);
    far_end_close(&f); /* and its memory's descriptor */
    int free_now = dup(0);
    assert_int_equal(close(free_now), 0);
    assert_true(free_now <= free_before);
}

static void test_long_reasons_lose_their_middle(void **state)
{
    (void)state;
    struct far_end f;
    far_end_open(&f);
    far_end_job(&f, "mine-1");
    (void)far_end_next(&f, GRADUS_WORK_JOB);
    static char text[3 * GRADUS_MESSAGE_BYTES_MAX];
    for (size_t i = 0; i + 2 < sizeof text; i += 2) {
        memcpy(text + i, "\xc3\xa9", 2); /* cut between characters, never in one */
    }
    memcpy(text, "begin", 5);
    memcpy(text + 5, "x", 1);
    strcpy(text + sizeof text - 5, "end!");
    assert_int_equal(gradus_worker_fail(f.worker, text), GRADUS_OK);
    struct program_message m = far_end_heard(&f, PROGRAM_FAILED, NULL);
    const size_t n = strlen(m.failed.text);
    assert_in_range(n, GRADUS_MESSAGE_BYTES_MAX - 4, GRADUS_MESSAGE_BYTES_MAX);
    assert_memory_equal(m.failed.text, "begin", 5);
    assert_string_equal(m.failed.text + n - 4, "end!");
    const char *cut = strstr(m.failed.text, "\n... (cut) ...\n");
    assert_non_null(cut);
    assert_int_equal((unsigned char)cut[-1], 0xa9);
    assert_int_equal((unsigned char)cut[strlen("\n... (cut) ...\n")], 0xc3);
    far_end_close(&f);
}

static void test_calls_out_of_order(void **state)
{
    (void)state;
    struct far_end f;
    struct gradus_work work;
    struct gradus_result result = {.size = sizeof result};
    struct gradus_description d = far_end_model();
    far_end_open(&f);
    assert_int_equal(gradus_worker_describe(f.worker, &d), GRADUS_ERROR_USE);
    assert_string_equal(gradus_worker_error(f.worker), "no job waits for a description");
    assert_int_equal(gradus_worker_done(f.worker, &result), GRADUS_ERROR_USE);
    assert_string_equal(gradus_worker_error(f.worker), "no batch waits for an answer");
    assert_int_equal(gradus_worker_fail(f.worker, "x"), GRADUS_ERROR_USE);
    assert_string_equal(gradus_worker_error(f.worker), "nothing waits for an answer");
    far_end_job(&f, "mine-1");
    (void)far_end_next(&f, GRADUS_WORK_JOB);
    assert_int_equal(gradus_worker_next(f.worker, &work), GRADUS_ERROR_USE);
    assert_non_null(strstr(gradus_worker_error(f.worker), "gradus_worker_describe() or _fail()"));
    assert_int_equal(gradus_worker_done(f.worker, &result), GRADUS_ERROR_USE);
    assert_non_null(strstr(gradus_worker_error(f.worker), "gradus_worker_describe()"));
    assert_int_equal(gradus_worker_fail(f.worker, NULL), GRADUS_OK);
    assert_string_equal(far_end_heard(&f, PROGRAM_FAILED, NULL).failed.text, "no reason was given");
    far_end_close(&f);

    far_end_open(&f);
    far_end_job_begins(&f, false, false);
    far_end_work(&f, PROGRAM_GRADIENT, 1);
    (void)far_end_next(&f, GRADUS_WORK_GRADIENT);
    assert_int_equal(gradus_worker_next(f.worker, &work), GRADUS_ERROR_USE);
    assert_non_null(strstr(gradus_worker_error(f.worker), "gradus_worker_done() or _fail()"));
    assert_int_equal(gradus_worker_done(f.worker, NULL), GRADUS_ERROR_USE);
    result.size = 8;
    assert_int_equal(gradus_worker_done(f.worker, &result), GRADUS_ERROR_USE);
    assert_non_null(strstr(gradus_worker_error(f.worker), "sizeof(struct gradus_result)"));
    result.size = sizeof result + 8; /* of a newer header */
    assert_int_equal(gradus_worker_done(f.worker, &result), GRADUS_OK);
    assert_int_equal(gradus_worker_next(NULL, &work), GRADUS_ERROR_USE);
    assert_int_equal(gradus_worker_next(f.worker, NULL), GRADUS_ERROR_USE);
    assert_int_equal(gradus_worker_describe(NULL, &d), GRADUS_ERROR_USE);
    assert_int_equal(gradus_worker_done(NULL, &result), GRADUS_ERROR_USE);
    assert_int_equal(gradus_worker_fail(NULL, "x"), GRADUS_ERROR_USE);
    gradus_worker_close(NULL);
    far_end_close(&f);
}

static void test_a_process_without_a_worker(void **state)
{
    (void)state;
    struct gradus_worker *w = (struct gradus_worker *)1;
    assert_int_equal(unsetenv(PROGRAM_SOCKET_ENVIRONMENT), 0);
    assert_int_equal(gradus_worker_open(NULL, &w), GRADUS_ERROR_NO_WORKER);
    assert_null(w);
    assert_non_null(strstr(gradus_worker_error(NULL), "GRADUS_PROGRAM_SOCKET is not set"));
    assert_non_null(strstr(gradus_worker_error(NULL), "gradus-worker --program"));
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    char pipe_number[16];
    (void)snprintf(pipe_number, sizeof pipe_number, "%d", ends[0]);
    static const char *const wrong[] = {"-1", "3x", "9999", "99999999999999999999", NULL};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *value = wrong[i] != NULL ? wrong[i] : pipe_number;
        assert_int_equal(setenv(PROGRAM_SOCKET_ENVIRONMENT, value, 1), 0);
        assert_int_equal(gradus_worker_open(NULL, &w), GRADUS_ERROR_NO_WORKER);
        assert_non_null(strstr(gradus_worker_error(NULL), "names no socket"));
    }
    assert_int_equal(gradus_worker_open(NULL, NULL), GRADUS_ERROR_USE);
    (void)close(ends[0]);
    (void)close(ends[1]);
    assert_int_equal(gradus_worker_abi(), GRADUS_WORKER_ABI);
}

static void test_a_worker_that_is_gone_at_once(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(program_channel_pair(ends, NULL), 0);
    char number[16];
    (void)snprintf(number, sizeof number, "%d", ends[1]);
    assert_int_equal(setenv(PROGRAM_SOCKET_ENVIRONMENT, number, 1), 0);
    (void)close(ends[0]);
    struct gradus_worker *w = NULL;
    assert_int_equal(gradus_worker_open(NULL, &w), GRADUS_ERROR_LOST);
    assert_null(w);
    assert_int_equal(fcntl(ends[1], F_GETFD), -1); /* closed */
}

static void test_a_process_opens_once(void **state)
{
    (void)state;
    struct far_end f;
    far_end_open(&f);
    struct gradus_worker *second = NULL;
    assert_int_equal(gradus_worker_open(NULL, &second), GRADUS_ERROR_USE);
    assert_null(second);
    assert_non_null(strstr(gradus_worker_error(NULL), "already"));
    far_end_close(&f);
}

/* It neither speaks nor keeps the socket open. */
static void test_a_child_has_no_worker(void **state)
{
    (void)state;
    struct far_end f;
    far_end_open(&f);
    const int number = atoi(getenv(PROGRAM_SOCKET_ENVIRONMENT));
    assert_int_equal(fcntl(number, F_GETFD), FD_CLOEXEC);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct gradus_work work;
        int rc = gradus_worker_next(f.worker, &work);
        bool said = strstr(gradus_worker_error(f.worker), "only the one that opened") != NULL;
        bool closed = fcntl(number, F_GETFD) == -1;
        gradus_worker_close(f.worker);
        _exit(rc == GRADUS_ERROR_USE && said && closed ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    far_end_job(&f, "mine-1");
    (void)far_end_next(&f, GRADUS_WORK_JOB);
    far_end_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_is_described),
        cmocka_unit_test(test_batches_lie_in_memory_that_both_have),
        cmocka_unit_test(test_batches_without_data),
        cmocka_unit_test(test_targets_alone),
        cmocka_unit_test(test_empty_batches_are_answered_at_once),
        cmocka_unit_test(test_jobs_end_before_others_begin),
        cmocka_unit_test(test_a_kept_job_is_released_once),
        cmocka_unit_test(test_a_kept_job_is_released),
        cmocka_unit_test(test_long_reasons_lose_their_middle),
        cmocka_unit_test(test_calls_out_of_order),
        cmocka_unit_test(test_a_process_without_a_worker),
        cmocka_unit_test(test_a_worker_that_is_gone_at_once),
        cmocka_unit_test(test_a_process_opens_once),
        cmocka_unit_test(test_a_child_has_no_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
