/* SPDX-License-Identifier: Apache-2.0 */
/* Points of curves outlive the store, go with their job, and are bounded for all jobs together. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "base/mem.h"
#include "master/core/job_record.h"
#include "master/store/store.h"
#include "os/file.h"
#include "store_rig.h"

/* @ended_ms 0: it runs. */
static void put_job(struct store *s, const char *id, int64_t ended_ms)
{
    const struct store_row row = {.id = id,
                                  .name = "a",
                                  .request_id = "",
                                  .number = 1,
                                  .state = ended_ms == 0 ? JOB_RUNNING : JOB_FAILED,
                                  .ended_ms = ended_ms,
                                  .job = id,
                                  .job_bytes = strlen(id)};
    assert_int_equal(s->ops->put(s, &row, NULL), 0);
}

static struct store_point point(const char *job, uint64_t step, const char *data)
{
    return (struct store_point){.job = job,
                                .step = step,
                                .time_ms = (int64_t)step * 10,
                                .data = data,
                                .bytes = strlen(data)};
}

static void add(struct store *s, const char *job, uint64_t step, const char *data)
{
    const struct store_point p = point(job, step, data);
    assert_int_equal(s->ops->add_points(s, &p, 1, NULL), 0);
}

static void collect(void *ctx, const struct store_point *p)
{
    assert_int_equal(p->time_ms, p->step * 10);
    buf_printf(ctx, "%u%.*s ", (unsigned)p->step, (int)p->bytes, (const char *)p->data);
}

static void check(struct store *s, const char *job, const char *expected)
{
    struct buf points = {0};
    assert_int_equal(s->ops->each_point(s, job, collect, &points, NULL), 0);
    assert_string_equal(buf_str(&points), expected);
    buf_release(&points);
}

static void points_outlive_the_store(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    put_job(s, "a-1", 0);
    const struct store_point two[] = {point("a-1", 5, "x"), point("b-1", 7, "other")};
    assert_int_equal(s->ops->add_points(s, two, 2, NULL), 0);
    add(s, "a-1", 9, "y");
    s->ops->close(s);
    s = store_rig_open();
    check(s, "a-1", "5x 9y ");
    check(s, "b-1", "7other ");
    check(s, "c-1", "");
    s->ops->close(s);
}

static void a_job_that_goes_back_has_each_step_once(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    const struct store_point all[] = {point("a-1", 1, "a"), point("a-1", 2, "b"),
                                      point("a-1", 3, "c"), point("b-1", 3, "z"),
                                      point("a-1", 2, "d")};
    assert_int_equal(s->ops->add_points(s, all, 5, NULL), 0);
    check(s, "a-1", "1a 2d ");
    check(s, "b-1", "3z ");
    s->ops->close(s);
}

static void points_go_with_their_job(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    put_job(s, "a-1", 100);
    put_job(s, "a-2", 200);
    put_job(s, "a-3", 0);
    for (unsigned i = 1; i <= 3; i++) {
        char id[] = "a-0";
        id[2] = (char)('0' + i);
        add(s, id, i, "p");
    }
    assert_int_equal(s->ops->remove(s, "a-1", NULL), 0);
    check(s, "a-1", "");
    const struct store_trim all_that_ended = {
        .rows_max = 0, .old_ms = INT64_MIN, .settled_ms = 1000, .now_ms = 1000};
    size_t removed = 0;
    assert_int_equal(s->ops->trim(s, &all_that_ended, &removed, NULL), 0);
    assert_int_equal(removed, 1);
    check(s, "a-2", "");
    check(s, "a-3", "3p ");
    s->ops->close(s);
}

static void chosen_points_are_removed(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    for (uint64_t step = 1; step <= 5; step++) {
        add(s, "a-1", step, "p");
    }
    const uint64_t steps[] = {2, 4, 77};
    assert_int_equal(s->ops->thin_points(s, "a-1", steps, 3, NULL), 0);
    check(s, "a-1", "1p 3p 5p ");
    s->ops->close(s);
}

static void sql(const char *text)
{
    char *path = file_join(store_rig_dir(), "master.db");
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    free(path);
}

/* A point of @job for each of so many steps, as nobody could add them one by one in a test. */
static void fill(const char *job, int count)
{
    char *text = mem_printf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE"
                            " i < %d) INSERT INTO point SELECT '%s', i, i * 10, x'70' FROM n",
                            count, job);
    sql(text);
    free(text);
}

static void all_jobs_together_have_a_limit(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    char id[] = "e-a";
    put_job(s, "runs-1", 0);
    for (int i = 0; i < 20; i++) { /* the later in the alphabet, the earlier it ended */
        id[2] = (char)('a' + i);
        put_job(s, id, 100 - i);
        add(s, id, 1, "p");
    }
    s->ops->close(s);
    fill("runs-1", STORE_POINTS_MAX - 21);
    s = store_rig_open();
    add(s, "e-t", 2, "p");
    check(s, "e-t", "1p 2p "); /* all have room */
    add(s, "e-t", 3, "p");     /* too many: those that ended first go, some at a time */
    check(s, "e-t", "");
    check(s, "e-s", "");
    check(s, "e-a", "1p ");
    add(s, "e-t", 4, "p"); /* now there is room */
    check(s, "e-t", "4p ");
    check(s, "e-a", "1p ");
    s->ops->close(s);
}

static void jobs_that_run_keep_theirs(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    put_job(s, "runs-1", 0);
    s->ops->close(s);
    fill("runs-1", STORE_POINTS_MAX);
    s = store_rig_open();
    struct err err = {0};
    const struct store_point more = point("runs-2", 1, "p");
    assert_int_equal(s->ops->add_points(s, &more, 1, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "500000 points"));
    check(s, "runs-2", "");
    const struct store_point again = point("runs-1", STORE_POINTS_MAX, "q"); /* in place of one */
    assert_int_equal(s->ops->add_points(s, &again, 1, &err), 0);
    s->ops->close(s);
}

/* A file of the version before, and one that was repaired by hand without a table of points. */
static void older_files_get_the_table(void **state)
{
    (void)state;
    const char *const before[] = {"DROP TABLE point; PRAGMA user_version = 3", "DROP TABLE point"};
    for (size_t i = 0; i < 2; i++) {
        struct store *s = store_rig_open();
        put_job(s, "a-1", 0);
        s->ops->close(s);
        sql(before[i]);
        s = store_rig_open();
        struct buf job = {0};
        assert_int_equal(s->ops->get(s, "a-1", &job, NULL), 0);
        buf_release(&job);
        add(s, "a-1", 1, "p");
        check(s, "a-1", "1p ");
        s->ops->close(s);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, store_rig_make, store_rig_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_jobs_together_have_a_limit),
        TEST(jobs_that_run_keep_theirs),
        TEST(older_files_get_the_table),
    };
    const struct CMUnitTest both[] = {
        TEST(points_outlive_the_store),
        TEST(a_job_that_goes_back_has_each_step_once),
        TEST(points_go_with_their_job),
        TEST(chosen_points_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) + store_rig_run(both);
}
