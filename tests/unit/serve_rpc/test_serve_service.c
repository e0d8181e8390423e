/* SPDX-License-Identifier: Apache-2.0 */
/* gradus-serve as a program: which settings go together, and what it says when there is nothing
 * that it could serve. Each start is a process of its own. */
#include "unit/saved/saved_rig.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "serve/rpc/serve_service.h"

extern const unsigned char gradus_descriptors[];
extern const unsigned char gradus_descriptors_end[];

static char empty[] = "";

static void checked(char *checkpoint, char *job, char *dir, int code, const char *says)
{
    const struct serve_settings c = {
        .checkpoint = checkpoint, .job = job, .checkpoint_dir = dir, .master = empty};
    struct err err = {0};
    assert_int_equal(serve_service_check(&c, &err), code);
    assert_string_equal(err.msg, says);
}

static void test_settings(void **state)
{
    (void)state;
    char here[] = "c", job[] = "t-1", store[] = "ftp://c", master[] = "m:7000";
    checked(here, empty, here, 0, "");
    checked(empty, job, here, 0, "");
    checked(here, job, here, ERR_INVALID, "--checkpoint and --job exclude each other");
    checked(empty, empty, here, ERR_INVALID,
            "--checkpoint DIR or FILE is missing, or --job ID with --checkpoint-dir DIR");
    checked(store, empty, here, ERR_UNSUPPORTED,
            "ftp://c: a path, or a URL with file:// or s3://, is expected");
    checked(empty, job, store, ERR_UNSUPPORTED,
            "ftp://c: a path, or a URL with file:// or s3://, is expected");
    checked(here, empty, store, 0, "");
    struct err err = {0};
    struct serve_settings live = {
        .checkpoint = empty, .job = job, .checkpoint_dir = here, .master = master};
    assert_int_equal(serve_service_check(&live, &err), ERR_INVALID);
    assert_string_equal(err.msg, "--master follows a job that runs: --job ID and --follow belong "
                                 "to it");
    live.follow = true;
    assert_int_equal(serve_service_check(&live, &err), 0);
}

/* In the child. */
static void serve_here(const struct saved_rig *r, const char *const *args, size_t count)
{
    const struct service service = {
        .name = "serve",
        .summary = "Answers",
        .fields = serve_fields,
        .field_count = serve_field_count,
        .config_bytes = sizeof(struct serve_settings),
        .descriptors = gradus_descriptors,
        .descriptors_bytes = (size_t)(gradus_descriptors_end - gradus_descriptors),
        .check = serve_service_check,
        .start = serve_service_start,
        .ready = serve_service_ready,
        .drain = serve_service_drain,
        .stop = serve_service_stop,
    };
    char *argv[8] = {mem_strdup("gradus-serve"), mem_strdup("--listen=127.0.0.1:0"),
                     mem_strdup("--http-listen=127.0.0.1:0")};
    int argc = 3;
    char *log = file_join(r->dir, "log");
    const int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    for (size_t i = 0; i < count; i++) {
        argv[argc++] = mem_strdup(args[i]);
    }
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0) {
        _exit(99);
    }
    const int code = service_main(argc, argv, &service);
    (void)fflush(NULL);
    _exit(code);
}

static void ends(const struct saved_rig *r, const char *const *args, size_t count, const char *says)
{
    int status = 0;
    struct buf log = {0};
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        serve_here(r, args, count);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    char *path = file_join(r->dir, "log");
    assert_int_equal(file_read(path, 1 << 20, &log, NULL), 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) == 0 || WEXITSTATUS(status) >= 99 ||
        strstr(buf_str(&log), says) == NULL) {
        fail_msg("status %d, expected one that is not 0, and \"%s\" in:\n%s", status, says,
                 buf_str(&log));
    }
    buf_release(&log);
    free(path);
}

static void test_nothing_to_serve(void **state)
{
    struct saved_rig *r = *state;
    char *by_place = mem_printf("--checkpoint=%s", r->checkpoints);
    char *dir = mem_printf("--checkpoint-dir=%s", r->dir);
    const char *place[] = {by_place}, *job[] = {dir, "--job=checkpoints"};
    ends(r, NULL, 0, "--checkpoint DIR or FILE is missing");
    ends(r, place, 1, "no checkpoint in ");
    ends(r, job, 2, "no checkpoint in "); /* the job's directory is below */
    /* What cannot be read is no reason to wait for something better. */
    saved_rig_file(r, "train", "a,price\n1,100\n3,300\n5,800\n");
    char *text =
        saved_rig_job(r, "csv", ", label: price",
                      "layers: [{dense: {units: 1}}], loss: mean_squared_error", ", rule: sgd");
    char *path = saved_rig_checkpoint(r, text, 3, 0);
    saved_rig_file(r, "train", "a,price\nx,y\n");
    const char *follow[] = {by_place, "--follow"};
    ends(r, follow, 2, "what was measured on the train data");
    free(path);
    free(text);
    free(dir);
    free(by_place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings),
        cmocka_unit_test_setup_teardown(test_nothing_to_serve, saved_rig_setup, saved_rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
