/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of jobs that have ended go: by number and by age, and never one that somebody may need. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "master/core/job_record.h"
#include "master/store/store.h"
#include "os/file.h"
#include "store_rig.h"

#define NOW 1000000

/* Job @name-@number, which ended at @ended_ms; 0: it runs. */
static void put(struct store *s, const char *name, uint64_t number, int64_t ended_ms)
{
    char id[32], request[40];
    (void)snprintf(id, sizeof id, "%s-%u", name, (unsigned)number);
    (void)snprintf(request, sizeof request, "r-%s", id);
    const struct store_row row = {.id = id,
                                  .name = name,
                                  .request_id = request,
                                  .number = number,
                                  .state = ended_ms == 0 ? JOB_RUNNING : JOB_FAILED,
                                  .ended_ms = ended_ms,
                                  .job = id,
                                  .job_bytes = strlen(id)};
    assert_int_equal(s->ops->put(s, &row, NULL), 0);
}

static int collect(void *ctx, const struct store_row *row, struct err *err)
{
    (void)err;
    assert_null(row->damage);
    buf_add_str(ctx, row->id);
    buf_add_str(ctx, " ");
    return 0;
}

static void check_rows(struct store *s, const char *expected)
{
    struct buf rows = {0};
    assert_int_equal(s->ops->load(s, 1000000, collect, &rows, NULL), 0);
    assert_string_equal(buf_str(&rows), expected);
    buf_release(&rows);
}

static size_t trim(struct store *s, struct store_trim what)
{
    size_t removed = 77;
    struct err err = {0};
    what.now_ms = NOW;
    what.settled_ms = what.settled_ms == 0 ? NOW : what.settled_ms;
    what.old_ms = what.old_ms == 0 ? INT64_MIN : what.old_ms;
    assert_int_equal(s->ops->trim(s, &what, &removed, &err), 0);
    return removed;
}

/* Those that ended first, whenever they were submitted; what runs is not counted. */
static void too_many_go_in_the_order_of_their_ends(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    put(s, "a", 1, 500);
    put(s, "a", 2, 100);
    put(s, "b", 1, 0);
    put(s, "a", 3, 400);
    put(s, "a", 4, 200);
    put(s, "a", 5, 300);
    assert_int_equal(trim(s, (struct store_trim){.rows_max = 5}), 0);
    assert_int_equal(trim(s, (struct store_trim){.rows_max = 3}), 2);
    check_rows(s, "a-1 b-1 a-3 a-5 ");
    assert_int_equal(trim(s, (struct store_trim){.rows_max = 0}), 3);
    check_rows(s, "b-1 ");
    s->ops->close(s);
    s = store_rig_open(); /* and they do not come back */
    check_rows(s, "b-1 ");
    s->ops->close(s);
}

static void old_ones_go_however_few(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    put(s, "a", 1, 100);
    put(s, "a", 2, 300);
    put(s, "a", 3, 200);
    put(s, "a", 4, 0);
    assert_int_equal(trim(s, (struct store_trim){.rows_max = 99, .old_ms = 201}), 2);
    check_rows(s, "a-2 a-4 ");
    put(s, "a", 4, 150); /* it has ended, long after it was submitted */
    assert_int_equal(trim(s, (struct store_trim){.rows_max = 99, .old_ms = 150}), 0);
    assert_int_equal(trim(s, (struct store_trim){.rows_max = 99, .old_ms = 151}), 1);
    check_rows(s, "a-2 ");
    s->ops->close(s);
}

static void what_somebody_may_need_stays(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    put(s, "a", 1, 100);
    put(s, "a", 2, 200);
    put(s, "a", 3, 50); /* the last one that was submitted, so it is in memory */
    assert_int_equal(trim(s, (struct store_trim){.listed = 3, .old_ms = NOW}), 0);
    assert_int_equal(trim(s, (struct store_trim){.listed = 1, .settled_ms = 150}), 1);
    check_rows(s, "a-2 a-3 ");
    s->ops->close(s);
}

/* No other job gets the id, and with it the checkpoints, of one that is forgotten. */
static void a_number_is_not_given_again(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    struct buf text = {0};
    uint64_t number = 0;
    for (uint64_t i = 1; i <= 12; i++) {
        put(s, "a", i, (int64_t)i);
    }
    put(s, "b", 7, 5);
    assert_int_equal(s->ops->put_text(s, STORE_OWNER_OF "a-9", "ann", NULL), 0);
    assert_int_equal(s->ops->put_text(s, STORE_BAD_RECORDS_OF "a-9", "3", NULL), 0);
    assert_int_equal(s->ops->put_text(s, "other", "kept", NULL), 0);
    assert_int_equal(trim(s, (struct store_trim){.rows_max = 0}), 13);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(s->ops->next_number(s, "a", &number, NULL), 0);
        assert_int_equal(number, 13);
        assert_int_equal(s->ops->next_number(s, "b", &number, NULL), 0);
        assert_int_equal(number, 8);
        assert_int_equal(s->ops->next_number(s, "c", &number, NULL), 0);
        assert_int_equal(number, 1);
        s->ops->close(s);
        s = store_rig_open();
    }
    /* An earlier number that goes later changes nothing: ten is more than nine. */
    put(s, "a", 2, 1);
    assert_int_equal(trim(s, (struct store_trim){.rows_max = 0}), 1);
    assert_int_equal(s->ops->next_number(s, "a", &number, NULL), 0);
    assert_int_equal(number, 13);
    assert_int_equal(s->ops->get_text(s, STORE_OWNER_OF "a-9", &text, NULL), ERR_NOT_FOUND);
    assert_int_equal(s->ops->get_text(s, STORE_BAD_RECORDS_OF "a-9", &text, NULL), ERR_NOT_FOUND);
    assert_int_equal(s->ops->get_text(s, "other", &text, NULL), 0);
    assert_int_equal(s->ops->find_request(s, "r-a-9", &text, NULL), ERR_NOT_FOUND);
    buf_release(&text);
    s->ops->close(s);
}

static void sql(const char *text)
{
    sqlite3 *db = NULL;
    char *path = file_join(store_rig_dir(), "master.db");
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    free(path);
}

static void many_go_in_several_turns(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    struct buf rows = {0};
    put(s, "a", 1, 1);
    s->ops->close(s);
    sql("WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 1005)"
        " INSERT INTO job(id, name, number, state, submitted_ms, job, ended_ms)"
        " SELECT 'a-' || i, 'a', i, state, 0, 'x', 1 FROM job, n");
    s = store_rig_open();
    assert_int_equal(trim(s, (struct store_trim){.rows_max = 2}), STORE_TRIM_MAX);
    assert_int_equal(trim(s, (struct store_trim){.rows_max = 2}), 3);
    assert_int_equal(s->ops->load(s, 10, collect, &rows, NULL), 0);
    assert_string_equal(buf_str(&rows), "a-1004 a-1005 ");
    buf_release(&rows);
    s->ops->close(s);
}

/* Rows of earlier versions do not say when a job ended: their time begins now. */
static void rows_without_a_time_begin_to_age(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    put(s, "a", 1, 5);
    put(s, "a", 2, 0);
    s->ops->close(s);
    sql("ALTER TABLE job DROP COLUMN ended_ms; PRAGMA user_version = 2");
    s = store_rig_open();
    assert_int_equal(trim(s, (struct store_trim){.rows_max = 9, .old_ms = NOW}), 0);
    check_rows(s, "a-1 a-2 ");
    assert_int_equal(
        trim(s, (struct store_trim){.rows_max = 9, .old_ms = NOW + 1, .settled_ms = NOW + 1}), 1);
    check_rows(s, "a-2 ");
    s->ops->close(s);
}

/* A row that cannot be removed is still there, with all others. */
static void a_failure_changes_nothing(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    put(s, "a", 1, 1);
    put(s, "a", 2, 2);
    s->ops->close(s);
    sql("CREATE TRIGGER no BEFORE DELETE ON job WHEN old.number = 2 BEGIN SELECT raise(FAIL, 'no');"
        " END");
    s = store_rig_open();
    const struct store_trim what = {.old_ms = NOW, .settled_ms = NOW, .now_ms = NOW};
    size_t removed = 77;
    struct err err = {0};
    assert_int_equal(s->ops->trim(s, &what, &removed, &err), ERR_EXISTS);
    assert_non_null(strstr(err.msg, "remove rows of jobs that have ended: "));
    assert_int_equal(removed, 0);
    check_rows(s, "a-1 a-2 ");
    put(s, "a", 3, 3); /* and what is stored afterwards is */
    s->ops->close(s);
    s = store_rig_open();
    check_rows(s, "a-1 a-2 a-3 ");
    s->ops->close(s);
}

/* One that has ended, by its id; its number is not given again. */
static void one_goes_by_its_id(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    struct err err = {0};
    uint64_t number = 0;
    put(s, "a", 1, 100);
    put(s, "a", 2, 200);
    put(s, "a", 3, 0);
    assert_int_equal(s->ops->put_text(s, STORE_OWNER_OF "a-2", "ann", NULL), 0);
    assert_int_equal(s->ops->remove(s, "a-2", &err), 0);
    check_rows(s, "a-1 a-3 ");
    assert_int_equal(s->ops->get_text(s, STORE_OWNER_OF "a-2", &(struct buf){0}, NULL),
                     ERR_NOT_FOUND);
    assert_int_equal(s->ops->remove(s, "a-2", &err), ERR_NOT_FOUND);
    assert_int_equal(s->ops->remove(s, "a-3", &err), ERR_NOT_FOUND); /* it runs */
    put(s, "a", 4, 50);
    assert_int_equal(s->ops->remove(s, "a-4", &err), 0);
    assert_int_equal(s->ops->next_number(s, "a", &number, NULL), 0);
    assert_int_equal(number, 5);
    s->ops->close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, store_rig_make, store_rig_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(many_go_in_several_turns),
        TEST(rows_without_a_time_begin_to_age),
        TEST(a_failure_changes_nothing),
    };
    const struct CMUnitTest both[] = {
        TEST(too_many_go_in_the_order_of_their_ends),
        TEST(old_ones_go_however_few),
        TEST(what_somebody_may_need_stays),
        TEST(a_number_is_not_given_again),
        TEST(one_goes_by_its_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) + store_rig_run(both);
}
