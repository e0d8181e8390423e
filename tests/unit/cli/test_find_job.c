/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that masters have left, found without a master. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/find_job.h"
#include "master/store/store.h"
#include "os/file.h"

static int setup(void **state)
{
    char *root = tmp_dir_make("find");
    assert_int_equal(setenv("XDG_STATE_HOME", root, 1), 0);
    *state = root;
    return 0;
}

static int teardown(void **state)
{
    tmp_dir_remove(*state);
    return 0;
}

/* A row as a master leaves it. */
static void leave(const char *dir, const char *id, Gradus__V1__JobState job_state,
                  int64_t submitted_ms)
{
    Gradus__V1__Job job = GRADUS__V1__JOB__INIT;
    char name[64], reason[] = "waits\033[2J for a worker";
    uint8_t packed[512];
    struct store *s = NULL;
    struct err err = {0};
    (void)snprintf(name, sizeof name, "%s", id);
    job.id = name;
    job.name = name;
    job.state = job_state;
    job.reason = reason;
    job.submitted_ms = submitted_ms;
    assert_true(gradus__v1__job__get_packed_size(&job) <= sizeof packed);
    const struct store_row row = {.id = id,
                                  .name = id,
                                  .request_id = "",
                                  .number = 1,
                                  .state = (int)job_state,
                                  .submitted_ms = submitted_ms,
                                  .job = packed,
                                  .job_bytes = gradus__v1__job__pack(&job, packed)};
    if (store_sqlite_open(dir, "the test", &s, &err) != 0 || s->ops->put(s, &row, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    s->ops->close(s);
}

static struct cli_common options(const char *state_dir)
{
    static char none[] = "", given[256];
    (void)snprintf(given, sizeof given, "%s", state_dir);
    return (struct cli_common){.master = none, .state_dir = given};
}

static void test_a_row_is_found(void **state)
{
    char *dir = file_join(*state, "d");
    leave(dir, "kept-1", GRADUS__V1__JOB_STATE__SUCCEEDED, 5);
    leave(dir, "open-1", GRADUS__V1__JOB_STATE__RUNNING, 6);
    struct cli_common common = options(dir);
    struct found_job found = {0};
    struct err err = {0};
    assert_int_equal(find_job(&common, "kept-1", &found, &err), 0);
    assert_string_equal(found.state_dir, dir);
    assert_null(found.client.channel);
    assert_string_equal(found.job->reason, "waits?[2J for a worker"); /* as of any other */
    found_job_release(&found);
    /* What was RUNNING when its master ended does not run; what to type is said. */
    assert_int_equal(find_job(&common, "open-1", &found, &err), 0);
    assert_non_null(strstr(found.job->reason, "no master runs; `gradus-master --state-dir /tmp/"));
    found_job_release(&found);
    assert_int_equal(find_live_job(&common, "open-1", &found, &err), ERR_STATE);
    assert_non_null(strstr(err.msg, "goes on with it"));
    found_job_release(&found);
    assert_int_equal(find_job(&common, "none-1", &found, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, dir));
    assert_int_equal(find_job(&common, "", &found, &err), ERR_INVALID);
    free(dir);
}

/* What to type works as it is: the checkpoints may be somewhere else. */
static void test_the_hint_names_the_checkpoints(void **state)
{
    char *dir = file_join(*state, "e e"), *root = file_join(*state, "ck");
    struct store *s = NULL;
    struct err err = {0};
    leave(dir, "open-2", GRADUS__V1__JOB_STATE__RUNNING, 6);
    assert_int_equal(store_sqlite_open(dir, "test", &s, &err), 0);
    assert_int_equal(s->ops->put_text(s, STORE_CHECKPOINT_ROOT, root, &err), 0);
    s->ops->close(s);
    struct cli_common common = options(dir);
    struct found_job found = {0};
    assert_int_equal(find_job(&common, "open-2", &found, &err), 0);
    char *says = mem_printf("`gradus-master --state-dir '%s' --checkpoint-dir %s", dir, root);
    assert_non_null(strstr(found.job->reason, says));
    found_job_release(&found);
    char *usual = mem_printf("%s/checkpoints", dir);
    assert_int_equal(store_sqlite_open(dir, "test", &s, &err), 0);
    assert_int_equal(s->ops->put_text(s, STORE_CHECKPOINT_ROOT, usual, &err), 0);
    s->ops->close(s);
    assert_int_equal(find_job(&common, "open-2", &found, &err), 0);
    assert_null(strstr(found.job->reason, "--checkpoint-dir"));
    found_job_release(&found);
    free(usual);
    free(says);
    free(root);
    free(dir);
}

static void test_a_name_in_two_places_is_no_job(void **state)
{
    char *one = file_join(*state, "one"), *two = file_join(*state, "two");
    char *link = file_join(*state, "link");
    leave(one, "both-of-this-test-1", GRADUS__V1__JOB_STATE__SUCCEEDED, 1000);
    assert_int_equal(symlink(one, link), 0);
    places_remember(one);
    places_remember(link); /* another way to it is no other place */
    struct cli_common common = options("");
    struct found_job found = {0};
    struct err err = {0};
    assert_int_equal(find_job(&common, "both-of-this-test-1", &found, &err), 0);
    found_job_release(&found);
    leave(two, "both-of-this-test-1", GRADUS__V1__JOB_STATE__FAILED, 2000);
    places_remember(two);
    assert_int_equal(find_job(&common, "both-of-this-test-1", &found, &err), ERR_INVALID);
    char *says = mem_printf("2 places have a job both-of-this-test-1; say which one is meant: "
                            "--state-dir %s, --state-dir %s",
                            two, link);
    assert_string_equal(err.msg, says);
    assert_null(found.job);
    assert_int_equal(find_live_job(&common, "both-of-this-test-1", &found, &err), ERR_INVALID);
    free(says);
    free(link);
    free(one);
    free(two);
}

static void test_rows_newest_first(void **state)
{
    char *dir = file_join(*state, "d");
    leave(dir, "a-1", GRADUS__V1__JOB_STATE__SUCCEEDED, 1);
    leave(dir, "b-1", GRADUS__V1__JOB_STATE__RUNNING, 2);
    leave(dir, "c-1", GRADUS__V1__JOB_STATE__CANCELLED, 3);
    Gradus__V1__Job **jobs = NULL;
    size_t count = 0;
    assert_int_equal(find_rows(dir, 2, &jobs, &count, NULL), 0);
    assert_int_equal(count, 2);
    assert_string_equal(jobs[0]->id, "c-1");
    assert_string_equal(jobs[1]->id, "b-1");
    for (size_t i = 0; i < count; i++) {
        gradus__v1__job__free_unpacked(jobs[i], NULL);
    }
    free(jobs);
    assert_int_equal(find_rows("/no/such/place", 2, &jobs, &count, NULL), ERR_NOT_FOUND);
    assert_int_equal(count, 0);
    free(dir);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_row_is_found),
        TEST(test_the_hint_names_the_checkpoints),
        TEST(test_a_name_in_two_places_is_no_job),
        TEST(test_rows_newest_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
