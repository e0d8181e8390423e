/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker tells its program, what process that is, and programs that answer something wrong:
 * each is told apart. The program is this one, as another process. */
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "program/channel.h"
#include "support/tmp_dir.h"
#include "worker/program/worker_program.h"

#define AS_PROGRAM "as-program"

/* ---- the program ---- */

struct program {
    const char *mode, *file; /* what it has done before, or found out */
    int socket;
};

static bool is(const struct program *p, const char *mode)
{
    return strcmp(p->mode, mode) == 0;
}

static void say(const struct program *p, struct program_message *m, int fd)
{
    struct err err;
    if (program_send(p->socket, m, fd, &err) != 0) {
        _exit(90);
    }
}

static void spoil(const struct program *p, struct program_variable v[2],
                  struct program_description *d, float *values)
{
    const uint64_t huge = UINT64_C(1) << 40;
    v[1].name[0] = is(p, "unnamed") ? '\0' : v[1].name[0];
    v[1].name[1] = is(p, "blank") ? ' ' : is(p, "deleted") ? 127 : v[1].name[1];
    v[0].rank = is(p, "rank") ? 5 : is(p, "huge") ? 2 : 1;
    v[0].kind = is(p, "kind") ? 2 : 0;
    v[0].dims[0] = is(p, "zero") ? 0 : is(p, "huge") || is(p, "all") ? huge : 3;
    v[0].dims[1] = 2;
    if (is(p, "long")) {
        memset(v[1].name, 'n', sizeof v[1].name);
    } else if (is(p, "twice")) {
        memcpy(v[1].name, v[0].name, sizeof v[1].name);
    }
    values[PROGRAM_VARIABLE_ALIGN] = is(p, "nan") ? NAN : values[PROGRAM_VARIABLE_ALIGN];
    const char *again = strncmp(p->mode, "again-", 6) == 0 && access(p->file, F_OK) == 0
                            ? p->mode + strlen("again-")
                            : "";
    values[2] += strcmp(again, "value") == 0 ? 1 : 0;
    v[0].dims[0] -= strcmp(again, "shape") == 0 ? 1 : 0;
    v[1].kind = strcmp(again, "kind") == 0 ? 0 : 1;
    d->fingerprint += strcmp(again, "records") == 0 ? 1 : 0;
    d->variable_count = is(p, "none") ? 0 : is(p, "many") ? PROGRAM_VARIABLES_MAX + 1 : 2;
    d->memory_bytes -= is(p, "short") ? 1 : 0;
    d->memory_bytes = is(p, "tiny") ? program_values_at(2, 0) - 1 : d->memory_bytes;
}

static void describe(const struct program *p, uint64_t number)
{
    struct program_memory memory;
    struct program_message m;
    struct err err;
    const uint64_t at = program_values_at(2, 0);
    const size_t bytes = (size_t)at + 2 * PROGRAM_VARIABLE_ALIGN * sizeof(float);
    if (program_memory_new(bytes, &memory, &err) != 0) {
        _exit(91);
    }
    struct program_variable *v = memory.bytes;
    float *values = (float *)(void *)((char *)memory.bytes + at);
    (void)strcpy(v[0].name, "w");
    (void)strcpy(v[1].name, "mean");
    v[1].kind = 1;
    for (size_t i = 0; i < 2 * PROGRAM_VARIABLE_ALIGN; i++) {
        values[i] = (float)i;
    }
    program_message_init(&m, PROGRAM_DESCRIBE, number);
    m.description.memory_bytes = bytes;
    m.description.train_records = 11;
    m.description.test_records = 12;
    m.description.fingerprint = 13;
    spoil(p, v, &m.description, values);
    const int loose = memfd_create("loose", MFD_CLOEXEC);
    if (is(p, "loose") && ftruncate(loose, (off_t)bytes) != 0) {
        _exit(92);
    }
    say(p, &m, is(p, "nothing") ? -1 : is(p, "loose") ? loose : memory.fd);
}

static void say_why(const struct program *p, uint64_t number)
{
    struct program_message m;
    program_message_init(&m, PROGRAM_FAILED, number);
    int fd = open(p->file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, m.failed.text, sizeof m.failed.text - 1) < 0) {
        _exit(93);
    }
    say(p, &m, -1);
    (void)close(fd);
}

static void find_out(const struct program *p)
{
    extern char **environ;
    FILE *out = fopen(p->file, "w");
    struct stat one = {0}, two = {0};
    struct sigaction ignored;
    sigset_t blocked;
    unsigned named = 0, open_fds = 0;
    for (char **e = environ; *e != NULL; e++) {
        named += strncmp(*e, "GRADUS_PROGRAM_SOCKET=", 22) == 0;
    }
    for (int fd = 4; fd < 200; fd++) {
        open_fds += fd != fileno(out) && fcntl(fd, F_GETFD) >= 0;
    }
    (void)fstat(STDOUT_FILENO, &one);
    (void)fstat(STDERR_FILENO, &two);
    (void)sigaction(SIGUSR1, NULL, &ignored);
    (void)sigprocmask(SIG_SETMASK, NULL, &blocked);
    (void)fprintf(out, "socket=%d named=%u bin=%s leader=%d alike=%d open=%u default=%d free=%d\n",
                  p->socket, named, getenv("GRADUS_BIN"), getpgrp() == getpid(),
                  one.st_ino == two.st_ino && one.st_dev == two.st_dev, open_fds,
                  ignored.sa_handler == SIG_DFL, sigismember(&blocked, SIGUSR2) == 0);
    (void)fclose(out);
}

static void note_job(const struct program *p, const struct program_message *m, int fd)
{
    FILE *out = fopen(p->file, "w");
    struct program_memory text;
    struct err err;
    if (program_memory_map(fd, (size_t)m->job.text_bytes + 1, false, &text, &err) != 0) {
        _exit(94);
    }
    (void)fprintf(out, "%s %s '%s' %" PRIu64 " %" PRIu32 " %" PRIu32 "\n", m->job.id,
                  m->job.program, (const char *)text.bytes, m->job.seed, m->job.batch_records,
                  m->job.evaluation_records);
    (void)fclose(out);
}

static void on_job(const struct program *p, const struct program_message *m, int fd)
{
    struct program_message other;
    program_message_init(&other, PROGRAM_DONE, m->number);
    if (is(p, "number")) {
        other.number++;
    } else if (is(p, "hello")) {
        program_message_init(&other, PROGRAM_HELLO, 0);
    } else if (is(p, "late")) {
        other.number--;
        say(p, &other, fd);
    }
    if (is(p, "number") || is(p, "hello") || is(p, "else")) {
        say(p, &other, -1);
    } else if (is(p, "exit")) {
        _exit(3);
    } else if (is(p, "kill")) {
        (void)raise(SIGKILL);
    } else if (is(p, "fail")) {
        say_why(p, m->number);
    } else {
        if (is(p, "job")) {
            note_job(p, m, fd);
        }
        describe(p, m->number);
    }
}

static int program(const char *mode, const char *file)
{
    const struct program p = {mode, file, atoi(getenv("GRADUS_PROGRAM_SOCKET"))};
    struct program_message m;
    struct err err;
    int fd;
    program_message_init(&m, is(&p, "stranger") ? PROGRAM_DONE : PROGRAM_HELLO, 0);
    if (is(&p, "environment")) {
        find_out(&p);
    }
    say(&p, &m, -1);
    while (program_receive(p.socket, 0, -1, &m, &fd, &err) == 0) {
        if (m.kind == PROGRAM_JOB) {
            on_job(&p, &m, fd);
        } else if (m.kind == PROGRAM_START && strncmp(mode, "again-", 6) == 0 &&
                   access(file, F_OK) != 0) {
            (void)close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
            _exit(0);
        } else if (m.kind == PROGRAM_START) {
            program_message_init(&m, PROGRAM_DONE, m.number);
            say(&p, &m, -1);
        }
    }
    return 0;
}

/* ---- the worker ---- */

struct rig {
    char *dir, *file;
};

static int setup(void **state)
{
    static struct rig r;
    r.dir = tmp_dir_make("says");
    r.file = file_join(r.dir, "found");
    *state = &r;
    return 0;
}

static int teardown(void **state)
{
    struct rig *r = *state;
    tmp_dir_remove(r->dir);
    free(r->file);
    return 0;
}

static void read_found(const struct rig *r, struct buf *out)
{
    buf_reset(out);
    assert_int_equal(file_read(r->file, 1 << 16, out, NULL), 0);
}

static struct worker_program *start(const struct rig *r, const char *mode)
{
    char self[4096];
    struct worker_program *p = NULL;
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    char *command = mem_printf("%s " AS_PROGRAM " %s %s", self, mode, r->file);
    assert_int_equal(worker_program_new(command, 20000, &p, NULL), 0);
    free(command);
    return p;
}

static const struct worker_program_job job = {.id = "j-1",
                                              .program = "toy",
                                              .text = "name: j",
                                              .seed = UINT64_MAX - 1,
                                              .batch_records = 21,
                                              .evaluation_records = 22};

static void refused(const struct rig *r, const char *mode, int code, const char *says)
{
    const struct worker_program_model *m = NULL;
    struct err err = {0};
    struct worker_program *p = start(r, mode);
    const int rc = worker_program_describe(p, &job, &m, &err);
    if (rc != code || strstr(err.msg, says) == NULL) {
        fail_msg("%s: code %d, expected %d with '%s': %s", mode, rc, code, says, err.msg);
    }
    assert_int_equal(err.code, code);
    assert_null(m);
    assert_int_equal(strncmp(err.msg, "program '", 9), 0);
    worker_program_free(p);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

static void test_a_model(void **state)
{
    const struct rig *r = *state;
    const struct worker_program_model *m = NULL;
    struct buf found = {0};
    struct err err;
    struct worker_program *p = start(r, "job");
    assert_int_equal(worker_program_describe(p, &job, &m, &err), 0);
    assert_int_equal(m->given.count, 2);
    assert_string_equal(m->given.variables[0].name, "w");
    assert_int_equal(m->given.variables[0].shape.rank, 1);
    assert_int_equal(m->given.variables[0].shape.dims[0], 3);
    assert_int_equal(m->given.variables[0].init.kind, INIT_GIVEN);
    assert_true(m->given.variables[0].statistic == 0);
    assert_string_equal(m->given.variables[1].name, "mean");
    assert_int_equal(m->given.variables[1].shape.rank, 0);
    assert_true(m->given.variables[1].statistic == 1);
    assert_int_equal(m->offsets[1], PROGRAM_VARIABLE_ALIGN);
    assert_int_equal(m->floats, 2 * PROGRAM_VARIABLE_ALIGN);
    assert_true(m->initial[2] == 2 && m->initial[PROGRAM_VARIABLE_ALIGN] == PROGRAM_VARIABLE_ALIGN);
    assert_true(m->train_records == 11 && m->test_records == 12 && m->fingerprint == 13);
    read_found(r, &found);
    assert_string_equal(buf_str(&found), "j-1 toy 'name: j' 18446744073709551614 21 22\n");
    buf_release(&found);
    worker_program_free(p);
}

static void test_its_process(void **state)
{
    const struct rig *r = *state;
    struct buf found = {0};
    struct err err;
    char self[4096];
    sigset_t set;
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    /* What this process has of all that is no business of the program's. */
    const int stray = fcntl(0, F_DUPFD, 50);
    assert_true(stray >= 50);
    assert_int_equal(setenv("GRADUS_PROGRAM_SOCKET", "77", 1), 0);
    assert_int_equal(unsetenv("GRADUS_BIN"), 0);
    (void)signal(SIGUSR1, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    assert_int_equal(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    struct worker_program *p = start(r, "environment");
    assert_int_equal(worker_program_await(p, NULL, NULL, &err), 0);
    char *expected =
        mem_printf("socket=3 named=1 bin=%s leader=1 alike=1 open=0 default=1 free=1\n", self);
    read_found(r, &found);
    assert_string_equal(buf_str(&found), expected);
    worker_program_free(p);
    assert_int_equal(setenv("GRADUS_BIN", "/elsewhere", 1), 0); /* somebody's choice stays */
    p = start(r, "environment");
    assert_int_equal(worker_program_await(p, NULL, NULL, &err), 0);
    read_found(r, &found);
    assert_non_null(strstr(buf_str(&found), " bin=/elsewhere "));
    worker_program_free(p);
    assert_int_equal(unsetenv("GRADUS_BIN"), 0);
    assert_int_equal(unsetenv("GRADUS_PROGRAM_SOCKET"), 0);
    assert_int_equal(sigprocmask(SIG_UNBLOCK, &set, NULL), 0);
    (void)close(stray);
    buf_release(&found);
    free(expected);
}

static bool at_the_third_time(void *ctx)
{
    int *asked = ctx;
    return ++*asked == 3;
}

static void test_a_worker_that_ends_does_not_wait_for_its_program(void **state)
{
    (void)state;
    struct worker_program *p = NULL;
    struct err err = {0};
    int asked = 0;
    assert_int_equal(worker_program_new("sleep 1000", 0, &p, &err), 0);
    assert_int_equal(worker_program_await(p, at_the_third_time, &asked, &err), ERR_CANCELLED);
    assert_int_equal(asked, 3);
    worker_program_free(p); /* it does not wait for a closed socket, so a signal ends it */
}

static void test_models_that_are_none(void **state)
{
    const struct rig *r = *state;
    static const struct {
        const char *mode, *says;
    } cases[] = {
        {"unnamed", "': variable 1 has no name of 1 to 127 bytes without blanks"},
        {"long", "': variable 1 has no name of 1 to 127 bytes without blanks"},
        {"blank", "': variable 1 has no name of 1 to 127 bytes without blanks"},
        {"deleted", "': variable 1 has no name of 1 to 127 bytes without blanks"},
        {"rank", "': variable w: 5 dimensions of kind 0"},
        {"kind", "': variable w: 1 dimensions of kind 2"},
        {"zero", "': variable w: dimension 0 is 0"},
        {"huge", "': variable w: dimension 1 is 2"},
        {"all", "': all variables together are too large"},
        {"twice", "': two variables have the name w"},
        {"nan", "': variable mean: initial value 0 is not finite"},
        {"short", "': it brought fewer initial values than variables have"},
        {"tiny", "': it described 2 variables in "},
        {"none", "': it described 0 variables in "},
        {"many", "': it described 4097 variables in "},
        {"nothing", "': it described 2 variables in "},
        {"loose", "': the memory that came is not "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        refused(r, cases[i].mode, ERR_STATE, cases[i].says);
    }
}

static void test_answers_that_are_none(void **state)
{
    const struct rig *r = *state;
    refused(r, "stranger", ERR_UNAVAILABLE,
            "did not report for work: it began with something else than its name");
    refused(r, "number", ERR_STATE,
            "': it failed 3 times as the job began: it answered what nobody asked");
    refused(r, "hello", ERR_STATE, " as the job began: it answered what nobody asked");
    refused(r, "else", ERR_STATE, " as the job began: it answered something else");
    refused(r, "exit", ERR_STATE, " as the job began: it ended with exit code 3");
    refused(r, "kill", ERR_STATE, " as the job began: it ended with signal 9 (Killed)");
    const struct worker_program_model *m = NULL;
    struct err err;
    struct worker_program *p = start(r, "late"); /* an answer of before is passed over */
    assert_int_equal(worker_program_describe(p, &job, &m, &err), 0);
    worker_program_free(p);
}

static void differs(const struct rig *r, const char *mode, const char *says)
{
    const struct worker_program_model *m = NULL;
    const struct program_start nothing = {.has_data = 0};
    struct err err;
    struct worker_program *p = start(r, mode);
    assert_int_equal(worker_program_describe(p, &job, &m, &err), 0);
    assert_int_equal(worker_program_begin(p, &nothing, NULL, &err), ERR_STATE);
    assert_non_null(strstr(err.msg, "': started again, it describes another model or other initial "
                                    "values: "));
    assert_non_null(strstr(err.msg, says));
    assert_non_null(strstr(err.msg, ". They must be a function of the job and its seed alone"));
    assert_true(m->initial[1] == 1); /* what was told first stays where it was */
    worker_program_free(p);
    assert_int_equal(unlink(r->file), 0);
}

/* Started again, it has to say the same. */
static void test_another_model(void **state)
{
    const struct rig *r = *state;
    differs(r, "again-value", "variable w: initial value 2 is 3, and was 2");
    differs(r, "again-shape", "variable 0 is w [2], and was w [3]");
    differs(r, "again-kind", "variable 1 is mean [], and was mean [], a statistic");
    differs(r, "again-records",
            "2 variables, 11 train and 12 test records of fingerprint "
            "000000000000000e, and before 2, 11 and 12 of 000000000000000d");
}

static void failing(const struct rig *r, const char *text, const char *says)
{
    struct buf expected = {0};
    FILE *f = fopen(r->file, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    buf_printf(&expected, "': %s", says);
    refused(r, "fail", ERR_STATE, buf_str(&expected));
    buf_release(&expected);
}

static void repeat(struct buf *out, const char *what, size_t times)
{
    for (size_t i = 0; i < times; i++) {
        buf_add_str(out, what);
    }
}

/* As many whole lines from the end as are short enough, and no half of a character. */
static void test_what_a_failure_says(void **state)
{
    const struct rig *r = *state;
    struct buf text = {0}, says = {0};
    failing(r, "one\ntwo \n\n", "one\ntwo");
    for (size_t first = 548; first <= 549; first++) {
        buf_reset(&text);
        buf_reset(&says);
        repeat(&text, "a", first);
        buf_add_str(&text, "\n");
        repeat(&says, "b", 30);
        buf_add_str(&says, "\n");
        repeat(&says, "c", 20);
        buf_add_str(&text, buf_str(&says)); /* 51 of 600 */
        char *tail = first == 548 ? mem_strdup(buf_str(&text)) : mem_printf("… %s", buf_str(&says));
        failing(r, buf_str(&text), tail);
        free(tail);
    }
    for (size_t first = 0; first <= 1; first++) {
        buf_reset(&text);
        buf_reset(&says);
        repeat(&text, "x", first);
        repeat(&text, "é", 400);
        repeat(&says, "x", first);
        repeat(&says, "é", 300 - first);
        buf_add_str(&says, "…");
        failing(r, buf_str(&text), buf_str(&says));
    }
    buf_release(&text);
    buf_release(&says);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], AS_PROGRAM) == 0) {
        _exit(program(argv[2], argv[3]));
    }
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(test_a_model),
        TEST(test_its_process),
        TEST(test_a_worker_that_ends_does_not_wait_for_its_program),
        TEST(test_models_that_are_none),
        TEST(test_answers_that_are_none),
        TEST(test_another_model),
        TEST(test_what_a_failure_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
