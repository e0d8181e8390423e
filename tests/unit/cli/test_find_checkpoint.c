/* SPDX-License-Identifier: Apache-2.0 */
/* From what people type to the directory of a checkpoint. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/find_checkpoint.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/store/store.h"
#include "os/file.h"

/* Which of several checkpoints is the newest is tested with them; here the job has one. */
struct place {
    char *state, *all, *job, *manifest;
};

static int setup(void **state)
{
    struct place *p = mem_new(1, sizeof *p);
    p->state = tmp_dir_make("find");
    p->all = file_join(p->state, "checkpoints");
    p->job = file_join(p->all, "digits-1");
    p->manifest = file_join(p->job, "manifest.json");
    assert_int_equal(file_make_dirs(p->job, NULL), 0);
    FILE *f = fopen(p->manifest, "we");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    tmp_dir_remove(p->state);
    free(p->manifest);
    free(p->job);
    free(p->all);
    free(p);
    return 0;
}

/* Strings of options are owned by the rows; nobody writes through these. */
static struct cli_common common_of(const char *master, const char *state_dir)
{
    static char strings[2][256];
    (void)snprintf(strings[0], sizeof strings[0], "%s", master);
    (void)snprintf(strings[1], sizeof strings[1], "%s", state_dir);
    return (struct cli_common){.master = strings[0], .state_dir = strings[1]};
}

static void assert_found(const char *what, const char *state_dir, const char *expected)
{
    char *path = NULL;
    struct err err = {0};
    const struct cli_common common = common_of("", state_dir);
    assert_int_equal(find_checkpoint(what, &common, false, &path, &err), 0);
    assert_string_equal(path, expected);
    free(path);
}

static void assert_not_found(const char *what, const char *state_dir, int code, const char *says)
{
    char *path = NULL;
    struct err err = {0};
    const struct cli_common common = common_of("", state_dir);
    assert_int_equal(find_checkpoint(what, &common, false, &path, &err), code);
    assert_null(path);
    if (strstr(err.msg, says) == NULL) {
        fail_msg("'%s' does not say '%s'", err.msg, says);
    }
}

static void test_a_job(void **state)
{
    struct place *p = *state;
    assert_found("digits-1", p->state, p->job);
}

static void test_a_directory(void **state)
{
    struct place *p = *state;
    assert_found(p->job, "", p->job);
}

static void test_what_is_not_there(void **state)
{
    struct place *p = *state;
    assert_not_found("digits-2", p->state, ERR_NOT_FOUND,
                     "the directory of a checkpoint does as well");
    assert_not_found("/no/such/place", p->state, ERR_NOT_FOUND,
                     "/no/such/place: no such directory");
    assert_not_found("", p->state, ERR_INVALID, "empty");
    assert_not_found(p->state, "", ERR_NOT_FOUND, p->state);
}

static void test_a_model_in_a_file(void **state)
{
    struct place *p = *state;
    struct err err = {0};
    char *path = NULL, *best = mem_printf("%s@best", p->manifest);
    const struct cli_common common = common_of("", p->state);
    assert_int_equal(find_model(p->manifest, &common, false, &path, &err), 0);
    assert_string_equal(path, p->manifest);
    free(path);
    path = NULL;
    assert_int_equal(find_model(p->manifest, &common, true, &path, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "is one model in a file"));
    assert_int_equal(find_model(best, &common, false, &path, &err), ERR_INVALID);
    assert_int_equal(find_model("/no/such/file", &common, false, &path, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "/no/such/file: no such file or directory"));
    assert_null(path);
    /* Anything else is found as a checkpoint is. */
    assert_int_equal(find_model("digits-1", &common, false, &path, &err), 0);
    assert_string_equal(path, p->job);
    free(path);
    free(best);
}

/* A row as a master leaves it of job digits-1, whose newest checkpoint is @checkpoint. */
static void leave_row(const struct place *p, const char *checkpoint)
{
    Gradus__V1__Job job = GRADUS__V1__JOB__INIT;
    char id[] = "digits-1", name[] = "digits";
    char *at = mem_strdup(checkpoint);
    uint8_t packed[1024];
    struct store *s = NULL;
    struct err err = {0};
    job.id = id;
    job.name = name;
    job.checkpoint = at;
    job.state = GRADUS__V1__JOB_STATE__SUCCEEDED;
    assert_true(gradus__v1__job__get_packed_size(&job) <= sizeof packed);
    const struct store_row row = {.id = id,
                                  .name = name,
                                  .request_id = "",
                                  .number = 1,
                                  .state = (int)job.state,
                                  .job = packed,
                                  .job_bytes = gradus__v1__job__pack(&job, packed)};
    if (store_sqlite_open(p->state, "the test", &s, &err) != 0 || s->ops->put(s, &row, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    s->ops->close(s);
    free(at);
}

/* What the row says goes before what lies in the state directory. */
static void test_the_checkpoint_of_a_row(void **state)
{
    struct place *p = *state;
    char *other = file_join(p->state, "other"), *url = mem_printf("file://%s", other);
    assert_int_equal(file_make_dirs(other, NULL), 0);
    leave_row(p, other);
    assert_found("digits-1", p->state, other);
    leave_row(p, url);
    assert_found("digits-1", p->state, url);
    free(url);
    free(other);
}

/* The state directory was moved, with the checkpoints in it: what the row says is gone, or cannot
 * be looked at here. */
static void test_checkpoints_that_were_moved(void **state)
{
    struct place *p = *state;
    char longest[400]; /* longer than a name may be, so nobody can look for it */
    memset(longest, 'x', sizeof longest - 1);
    longest[0] = '/';
    longest[sizeof longest - 1] = '\0';
    const char *const gone[] = {"/no/such/place", "file:///no/such/place", p->manifest, "",
                                longest};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        leave_row(p, gone[i]);
        assert_found("digits-1", p->state, p->job);
    }
}

/* A store that does not let us look may have newer ones than lie here. */
static void test_a_store_that_cannot_be_looked_at(void **state)
{
    struct place *p = *state;
    leave_row(p, "gs://bucket/digits-1");
    assert_not_found("digits-1", p->state, ERR_UNSUPPORTED, "the checkpoint of job digits-1: ");
    assert_not_found("digits-1", p->state, ERR_UNSUPPORTED, "gs://bucket/digits-1");
}

static void test_a_row_without_its_checkpoint(void **state)
{
    struct place *p = *state;
    tmp_dir_remove(mem_strdup(p->all));
    leave_row(p, "/no/such/place");
    assert_not_found("digits-1", p->state, ERR_NOT_FOUND,
                     "the checkpoint of job digits-1 is /no/such/place where its cluster runs, and "
                     "not on this machine; the directory of a checkpoint does as well");
    leave_row(p, "");
    assert_not_found("digits-1", p->state, ERR_NOT_FOUND, "job digits-1 has no checkpoint yet");
}

/* The one that was measured best is asked of the manifest, which says here that it is none. */
static void test_the_best_of_a_checkpoint_that_is_none(void **state)
{
    struct place *p = *state;
    char *path = NULL;
    struct err err = {0};
    const struct cli_common common = common_of("", p->state);
    assert_int_not_equal(find_checkpoint(p->job, &common, true, &path, &err), 0);
    assert_null(path);
    assert_non_null(strstr(err.msg, p->job));
    assert_non_null(strstr(err.msg, "manifest.json"));
}

static void test_a_master_that_is_not_one(void **state)
{
    (void)state;
    char *path = NULL;
    struct err err = {0};
    const struct cli_common common = common_of("non:sense", "");
    assert_int_equal(find_checkpoint("digits-1", &common, false, &path, &err), ERR_INVALID);
    assert_null(path);
}

static void test_the_state_directory(void **state)
{
    (void)state;
    assert_int_equal(setenv("XDG_STATE_HOME", "/x", 1), 0);
    assert_int_equal(setenv("HOME", "/home/me", 1), 0);
    char *given = cli_state_dir("here"), *xdg = cli_state_dir("");
    assert_int_equal(setenv("XDG_STATE_HOME", "relative", 1), 0); /* to be ignored */
    char *home = cli_state_dir(NULL);
    assert_string_equal(given, "here");
    assert_string_equal(xdg, "/x/gradus");
    assert_string_equal(home, "/home/me/.local/state/gradus");
    free(given);
    free(xdg);
    free(home);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_job, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_not_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_model_in_a_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_checkpoint_of_a_row, setup, teardown),
        cmocka_unit_test_setup_teardown(test_checkpoints_that_were_moved, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_store_that_cannot_be_looked_at, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_row_without_its_checkpoint, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_best_of_a_checkpoint_that_is_none, setup,
                                        teardown),
        cmocka_unit_test(test_a_master_that_is_not_one),
        cmocka_unit_test(test_the_state_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
