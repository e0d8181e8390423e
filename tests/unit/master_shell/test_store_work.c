/* SPDX-License-Identifier: Apache-2.0 */
/* What a request costs the store does not grow with the jobs that have ended: the steps of SQLite's
 * machine are counted, not the time. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "master/core/job_record.h"
#include "master/store/store.h"

#define FEW 10
#define MANY 10000
#define STEPS_MORE 60 /* that an index over a thousand times as many rows may take */

static unsigned steps;

static int count(void *ctx)
{
    (void)ctx;
    steps++;
    return 0;
}

/* Of each database that is opened. */
static int watch(sqlite3 *db, char **error, const struct sqlite3_api_routines *api)
{
    (void)error;
    (void)api;
    sqlite3_progress_handler(db, 1, count, NULL);
    return SQLITE_OK;
}

/* Jobs of one name that have ended, in one transaction. */
static void fill(const char *dir, int rows)
{
    sqlite3 *db = NULL;
    char *path = mem_printf("%s/master.db", dir);
    char *sql = mem_printf(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
        " INSERT INTO job(id, name, number, request_id, state, submitted_ms, job, ended_ms)"
        " SELECT 'a-' || i, 'a', i, 'r-' || i, %d, i, zeroblob(2000), i FROM n",
        rows, JOB_SUCCEEDED);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    free(sql);
    free(path);
}

struct work {
    unsigned get, find_request, next_number, put;
};

static unsigned since(unsigned *before)
{
    unsigned n = steps - *before;
    *before = steps;
    return n;
}

static void work_with(int rows, struct work *out)
{
    char *dir = tmp_dir_make("work");
    struct store *s = NULL;
    struct buf text = {0};
    uint64_t number = 0;
    assert_int_equal(store_sqlite_open(dir, "the test", &s, NULL), 0);
    fill(dir, rows);
    const struct store_row row = {.id = "b-1",
                                  .name = "b",
                                  .request_id = "r",
                                  .number = 1,
                                  .state = JOB_RUNNING,
                                  .job = "b",
                                  .job_bytes = 1};
    unsigned before = steps;
    assert_int_equal(s->ops->get(s, "a-7", &text, NULL), 0);
    out->get = since(&before);
    assert_int_equal(s->ops->find_request(s, "r-7", &text, NULL), 0);
    out->find_request = since(&before);
    assert_int_equal(s->ops->next_number(s, "a", &number, NULL), 0);
    out->next_number = since(&before);
    assert_int_equal(number, rows + 1);
    assert_int_equal(s->ops->put(s, &row, NULL), 0);
    out->put = since(&before);
    s->ops->close(s);
    buf_release(&text);
    tmp_dir_remove(dir);
}

static void test_more_rows_are_no_more_work(void **state)
{
    (void)state;
    struct work few, many;
    assert_int_equal(sqlite3_auto_extension((void (*)(void))watch), SQLITE_OK);
    work_with(FEW, &few);
    work_with(MANY, &many);
    sqlite3_reset_auto_extension();
    assert_true(few.get > 0 && few.next_number > 0); /* they are counted */
    assert_in_range(many.get, 1, few.get + STEPS_MORE);
    assert_in_range(many.find_request, 1, few.find_request + STEPS_MORE);
    assert_in_range(many.next_number, 1, few.next_number + STEPS_MORE);
    assert_in_range(many.put, 1, few.put + STEPS_MORE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_more_rows_are_no_more_work)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
