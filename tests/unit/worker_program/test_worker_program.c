/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's program, as tests/support/logistic_program.c: a batch comes out right whatever happens
 * to the process, and what cannot come right is said. */
#include "support/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "support/tmp_dir.h"
#include "support/wait_until.h"
#include "worker/program/worker_program.h"

#define FLOATS 32 /* 16 weights and, at the next line, a bias */
#define RECORDS 20

/* ---- the clock ---- */

#define PATIENCE_MS 500 /* for a program that stands still */

/* The file that a program makes before it stands still, and whether it has been started again. */
static const char *hang_file;
static bool hang_over;

int __real_program_receive(int socket, unsigned spin_us, int timeout_ms, struct program_message *m,
                           int *fd, struct err *err);
int __wrap_program_receive(int socket, unsigned spin_us, int timeout_ms, struct program_message *m,
                           int *fd, struct err *err);

/* Who waits for a program that works has all the time it takes: the clock runs while it stands
 * still. */
int __wrap_program_receive(int socket, unsigned spin_us, int timeout_ms, struct program_message *m,
                           int *fd, struct err *err)
{
    for (;;) {
        const bool hangs = hang_file != NULL && !hang_over && access(hang_file, F_OK) == 0;
        const int rc = __real_program_receive(socket, spin_us, timeout_ms, m, fd, err);
        if (rc != ERR_TIMEOUT || hangs || hang_file == NULL) {
            hang_over |= hangs && rc == 0;
            return rc;
        }
    }
}

struct rig {
    char *dir, *file;
    struct worker_program *program;
    const struct worker_program_model *model;
    float *parameters, *gradients;
    uint64_t *records;
};

static void make(struct rig *r, const char *mode, uint64_t answer_ms)
{
    struct err err = {0};
    r->dir = tmp_dir_make("worker-program");
    r->file = mem_printf("%s/happened", r->dir);
    char *command =
        mem_printf("%s/../tests/logistic_program %s %s", getenv("GRADUS_BIN_DIR"), mode, r->file);
    assert_int_equal(worker_program_new(command, answer_ms, &r->program, &err), 0);
    free(command);
}

static int describe(struct rig *r, struct err *err)
{
    static const struct worker_program_job job = {.id = "j-1",
                                                  .program = "logistic",
                                                  .text = "name: j",
                                                  .seed = 7,
                                                  .batch_records = RECORDS,
                                                  .evaluation_records = 256};
    return worker_program_describe(r->program, &job, &r->model, err);
}

static void begin(struct rig *r)
{
    struct err err = {0};
    const struct program_start start = {.has_data = 0};
    assert_int_equal(describe(r, &err), 0);
    assert_int_equal(worker_program_begin(r->program, &start, NULL, &err), 0);
    r->parameters = worker_program_array(r->program, 0, FLOATS * sizeof(float), &err);
    r->gradients = worker_program_array(r->program, 5, FLOATS * sizeof(float), &err);
    r->records = worker_program_array(r->program, 9, RECORDS * sizeof(uint64_t), &err);
    assert_true(r->parameters != NULL && r->gradients != NULL && r->records != NULL);
    memcpy(r->parameters, r->model->initial, FLOATS * sizeof(float));
    for (uint64_t i = 0; i < RECORDS; i++) {
        r->records[i] = 3 * i;
    }
}

static int compute(struct rig *r, enum program_kind kind, struct program_result *out,
                   struct err *err)
{
    const struct program_work work = {
        .parameters = 0, .gradients = 5, .batch = 9, .count = RECORDS, .epoch = 2, .step = 11};
    memset(r->gradients, 0xff, FLOATS * sizeof(float));
    return worker_program_compute(r->program, kind, &work, out, err);
}

static void release(struct rig *r)
{
    worker_program_free(r->program);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    tmp_dir_remove(r->dir);
    free(r->file);
}

static void test_model(void **state)
{
    (void)state;
    struct rig r = {0};
    struct err err = {0};
    make(&r, "", 60000);
    assert_int_equal(describe(&r, &err), 0);
    assert_int_equal(r.model->given.count, 2);
    assert_string_equal(r.model->given.variables[0].name, "weights");
    assert_int_equal(r.model->given.variables[0].shape.dims[0], 16);
    assert_int_equal(r.model->given.variables[0].init.kind, INIT_GIVEN);
    assert_int_equal(r.model->given.variables[1].shape.rank, 0);
    assert_int_equal(r.model->offsets[1], 16);
    assert_true(r.model->initial[3] == 0.03F);
    assert_int_equal(r.model->train_records, 6000);
    assert_int_equal(r.model->test_records, 600);
    const uint64_t fingerprint = r.model->given.fingerprint;
    assert_int_not_equal(fingerprint, 0);
    assert_int_equal(describe(&r, &err), 0); /* another job, of the same process */
    assert_true(r.model->given.fingerprint == fingerprint);
    release(&r);
}

/* What each way to misbehave comes to must be what an orderly program says. */
static void batches(const char *mode, uint64_t answer_ms, struct program_result *last,
                    float gradient[FLOATS])
{
    struct rig r = {0};
    struct err err = {0};
    make(&r, mode, answer_ms);
    hang_file = answer_ms == PATIENCE_MS ? r.file : NULL;
    hang_over = false;
    begin(&r);
    for (int i = 0; i < 40; i++) {
        r.parameters[0] = 0.1F * (float)i;
        assert_int_equal(compute(&r, PROGRAM_GRADIENT, last, &err), 0);
        assert_int_equal(last->examples, RECORDS);
    }
    memcpy(gradient, r.gradients, FLOATS * sizeof(float));
    assert_int_equal(access(r.file, F_OK) == 0,
                     strcmp(mode, "crash") == 0 || strcmp(mode, "hang") == 0);
    hang_file = NULL;
    release(&r);
}

static void test_batches(void **state)
{
    (void)state;
    struct program_result orderly, other;
    float expected[FLOATS], found[FLOATS];
    batches("", 60000, &orderly, expected);
    assert_true(orderly.loss_sum > 0 && orderly.correct > 0);
    static const char *const modes[] = {"crash", "fail-once", "hang"};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        batches(modes[i], strcmp(modes[i], "hang") == 0 ? PATIENCE_MS : 60000, &other, found);
        assert_memory_equal(&other, &orderly, sizeof other);
        assert_memory_equal(found, expected, 17 * sizeof(float));
    }
}

static void test_evaluation(void **state)
{
    (void)state;
    struct rig r = {0};
    struct err err = {0};
    struct program_result result;
    make(&r, "", 60000);
    begin(&r);
    assert_int_equal(compute(&r, PROGRAM_EVALUATION, &result, &err), 0);
    assert_int_equal(result.examples, RECORDS);
    unsigned char untouched[FLOATS * sizeof(float)];
    memset(untouched, 0xff, sizeof untouched);
    assert_memory_equal(r.gradients, untouched, sizeof untouched);
    release(&r);
}

static void test_failures(void **state)
{
    (void)state;
    struct rig r = {0};
    struct err err = {0};
    struct program_result result;
    make(&r, "fail", 60000);
    begin(&r);
    int rc = 0;
    for (int i = 0; i < 25 && rc == 0; i++) {
        rc = compute(&r, PROGRAM_GRADIENT, &result, &err);
    }
    assert_int_equal(rc, ERR_STATE);
    assert_string_equal(err.msg, "the program failed 3 times on one batch (epoch 2, step 11): "
                                 "Traceback:\nValueError: no");
    release(&r);

    make(&r, "refuse", 60000);
    assert_int_equal(describe(&r, &err), ERR_STATE);
    assert_non_null(strstr(err.msg, "no such model here"));
    release(&r);
}

static void test_commands(void **state)
{
    (void)state;
    struct rig r = {.dir = NULL};
    struct err err = {0};
    assert_int_equal(worker_program_new("/nonexistent/program", 60000, &r.program, &err), 0);
    assert_int_equal(describe(&r, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "it ended with exit code 127"));
    worker_program_free(r.program);
    assert_int_equal(worker_program_new("echo", 60000, &r.program, &err), 0);
    assert_int_equal(describe(&r, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "did not report for work: it ended with exit code 0"));
    worker_program_free(r.program);
}

static void prints(const char *command, const char *says)
{
    struct worker_program *p = NULL;
    struct err err = {0};
    assert_int_equal(worker_program_new(command, 60000, &p, &err), 0);
    assert_int_equal(worker_program_await(p, NULL, NULL, &err), ERR_UNAVAILABLE);
    const char *found = strstr(err.msg, "it ended with ");
    assert_non_null(found);
    assert_string_equal(found, says);
    worker_program_free(p);
}

/* What a process printed before it ended says why, mostly. */
static void test_the_last_lines_of_who_ends(void **state)
{
    (void)state;
    prints("false", "it ended with exit code 1");
    prints("true", "it ended with exit code 0 and never opened its worker (gradus.torch.worker(), "
                   "gradus.Worker() or gradus_worker_open())");
    prints("sh -c 'echo one; echo \"  ^^^ \"; echo; echo no such module >&2; exit 3'",
           "it ended with exit code 3, and printed last:\none\nno such module");
    prints("sh -c 'echo password=correcthorse42batterystaple; printf last'",
           "it ended with exit code 0 and never opened its worker (gradus.torch.worker(), "
           "gradus.Worker() or gradus_worker_open()), and printed last:\n"
           "(a line that may hold a secret is not shown; it is in the node's log)\nlast");
    struct buf says = {0};
    buf_add_str(&says, "it ended with exit code 1, and printed last:");
    for (int i = 0; i < 3; i++) { /* as many whole lines as fit, and of each its beginning */
        buf_add_str(&says, "\n");
        for (int j = 0; j < 80; j++) {
            buf_add_str(&says, "é");
        }
        buf_add_str(&says, "…");
    }
    prints("sh -c 'for i in 1 2 3 4 5 6; do printf \"é%.0s\" $(seq 150); echo; done; exit 1'",
           buf_str(&says));
    buf_release(&says);
}

/* A process that was started again must describe what the first one did. */
static void test_other_model(void **state)
{
    (void)state;
    struct rig r = {0};
    struct err err = {0};
    struct program_result result;
    make(&r, "other", 60000);
    begin(&r);
    assert_int_equal(compute(&r, PROGRAM_GRADIENT, &result, &err), 0);
    const uint64_t first = r.model->given.fingerprint;
    assert_int_equal(describe(&r, &err),
                     0); /* of a new job: another model is none of its business */
    assert_true(r.model->given.fingerprint != first);
    release(&r);
}

struct question {
    struct rig *rig;
    struct err err;
    int rc;
};

static void *ask(void *arg)
{
    struct question *q = arg;
    struct program_result result;
    for (q->rc = 0; q->rc == 0;) {
        q->rc = compute(q->rig, PROGRAM_GRADIENT, &result, &q->err);
    }
    return NULL;
}

/* Who waits for a program that stands still can be told not to. */
static void test_interrupt(void **state)
{
    (void)state;
    struct rig r = {0};
    struct question q = {.rig = &r};
    pthread_t thread;
    make(&r, "hang", 600000);
    begin(&r);
    assert_int_equal(pthread_create(&thread, NULL, ask, &q), 0);
    wait_until(access(r.file, F_OK) == 0);
    worker_program_interrupt(r.program);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(q.rc, ERR_CANCELLED);
    struct err err = {0};
    struct program_result result;
    worker_program_end(r.program);
    begin(&r); /* of a new process */
    assert_int_equal(compute(&r, PROGRAM_GRADIENT, &result, &err), 0);
    release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),      cmocka_unit_test(test_batches),
        cmocka_unit_test(test_evaluation), cmocka_unit_test(test_failures),
        cmocka_unit_test(test_commands),   cmocka_unit_test(test_other_model),
        cmocka_unit_test(test_interrupt),  cmocka_unit_test(test_the_last_lines_of_who_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
