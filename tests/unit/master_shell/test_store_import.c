/* SPDX-License-Identifier: Apache-2.0 */
/* The jobs of a state directory are moved into etcd, once, whatever happens meanwhile. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "master/core/job_record.h"
#include "master/store/store_import.h"
#include "os/file.h"
#include "store_rig.h"
#include "support/tmp_dir.h"

#define JOBS 130 /* more than one transaction of etcd takes */

static void put(struct store *s, const char *name, uint64_t number, int state)
{
    char *id = mem_printf("%s-%d", name, (int)number);
    char *request = mem_printf("r-%s", id);
    const struct store_row row = {.id = id,
                                  .name = name,
                                  .request_id = request,
                                  .number = number,
                                  .state = state,
                                  .submitted_ms = 5,
                                  .ended_ms = job_state_is_final((enum job_state)state) ? 9 : 0,
                                  .job = id,
                                  .job_bytes = strlen(id)};
    assert_int_equal(s->ops->put(s, &row, NULL), 0);
    free(request);
    free(id);
}

/* A state directory of a master that has ended. */
static char *make_source(void)
{
    char *dir = tmp_dir_make("source");
    struct store *s = NULL;
    const struct store_point points[] = {{"a-1", 1, 7, "x", 1}, {"a-1", 2, 8, "y", 1}};
    assert_int_equal(store_sqlite_open(dir, "the first", &s, NULL), 0);
    for (uint64_t i = 1; i <= JOBS; i++) {
        put(s, "a", i, i == 2 ? JOB_RUNNING : JOB_FAILED);
    }
    assert_int_equal(s->ops->put_text(s, "owner", "0123", NULL), 0);
    assert_int_equal(s->ops->add_points(s, points, 2, NULL), 0);
    s->ops->close(s);
    return dir;
}

static int collect(void *ctx, const struct store_row *row, struct err *err)
{
    (void)err;
    assert_null(row->damage);
    assert_int_equal(row->submitted_ms, 5);
    ((size_t *)ctx)[row->state == JOB_RUNNING ? 1 : 0]++;
    return 0;
}

static void count(void *ctx, const struct store_point *point)
{
    (void)point;
    ++*(size_t *)ctx;
}

static void check_all(struct store *s)
{
    size_t jobs[2] = {0, 0}, points = 0;
    uint64_t number = 0;
    struct buf text = {0};
    assert_int_equal(s->ops->load(s, 10000, collect, jobs, NULL), 0);
    assert_int_equal(jobs[0], JOBS - 1);
    assert_int_equal(jobs[1], 1);
    assert_int_equal(s->ops->each_point(s, "a-1", count, &points, NULL), 0);
    assert_int_equal(points, 2);
    assert_int_equal(s->ops->next_number(s, "a", &number, NULL), 0);
    assert_int_equal(number, JOBS + 1);
    assert_int_equal(s->ops->find_request(s, "r-a-7", &text, NULL), 0);
    assert_string_equal(buf_str(&text), "a-7");
    buf_reset(&text);
    assert_int_equal(s->ops->get_text(s, "owner", &text, NULL), 0);
    assert_string_equal(buf_str(&text), "0123");
    buf_release(&text);
}

static bool has_file(const char *dir, const char *name)
{
    char *path = file_join(dir, name);
    const bool there = file_exists(path);
    free(path);
    return there;
}

/* How many jobs. */
static size_t move(struct store *s, const char *dir)
{
    struct err err = {0};
    size_t moved = 0;
    if (store_import(s, dir, "the next", &moved, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    return moved;
}

static void all_of_it_is_moved_once(void **state)
{
    (void)state;
    char *dir = make_source();
    struct store *s = store_rig_open();
    assert_int_equal(move(s, dir), JOBS);
    check_all(s);
    assert_false(has_file(dir, "master.db"));
    assert_true(has_file(dir, "master.db.moved"));
    assert_int_equal(move(s, dir), 0); /* with each start */
    s->ops->close(s);
    s = store_rig_open(); /* from etcd */
    check_all(s);
    put(s, "a", JOBS + 1, JOB_PENDING);
    s->ops->close(s);
    tmp_dir_remove(dir);
}

static void a_store_with_jobs_takes_no_others(void **state)
{
    (void)state;
    char *dir = make_source();
    struct store *s = store_rig_open();
    struct err err = {0};
    size_t moved = 0;
    put(s, "b", 1, JOB_FAILED);
    assert_int_equal(store_import(s, dir, "the next", &moved, &err), ERR_STATE);
    assert_non_null(strstr(err.msg, "it has 1 job of its own, so those of"));
    assert_true(has_file(dir, "master.db"));
    s->ops->close(s);
    tmp_dir_remove(dir);
}

static void a_master_keeps_its_directory(void **state)
{
    (void)state;
    char *dir = make_source();
    struct store *s = store_rig_open(), *other = NULL;
    struct err err = {0};
    size_t moved = 0;
    assert_int_equal(store_sqlite_open(dir, "gradus-master that runs", &other, NULL), 0);
    assert_int_equal(store_import(s, dir, "the next", &moved, &err), ERR_STATE);
    assert_non_null(strstr(err.msg, "gradus-master that runs"));
    other->ops->close(other);
    assert_int_equal(move(s, dir), JOBS);
    s->ops->close(s);
    tmp_dir_remove(dir);
}

/* As a master that died leaves it: the text, and its number beside the rows. */
static void mark(struct store *s, const char *dir)
{
    static const char number[] = "0123456789abcdef";
    char *path = file_join(dir, "master.db.import"), *text = mem_printf("%s %s", number, dir);
    assert_int_equal(file_write_atomic(path, number, strlen(number), NULL), 0);
    assert_int_equal(s->ops->put_text(s, "import", text, NULL), 0);
    free(text);
    free(path);
}

/* The master died between two of its transactions, or before it gave the file its other name: some
 * rows are there, and the text that says so. */
static void what_was_interrupted_is_begun_again(void **state)
{
    (void)state;
    char *dir = make_source();
    struct store *s = store_rig_open();
    struct err err = {0};
    size_t moved = 0;
    mark(s, dir);
    put(s, "a", 1, JOB_PENDING); /* replaced by what the directory has */
    assert_int_equal(store_import(s, "", "another", &moved, &err), ERR_STATE);
    assert_non_null(strstr(err.msg, "are being moved into it; --store-import /"));
    assert_int_equal(move(s, dir), JOBS);
    check_all(s);
    assert_false(has_file(dir, "master.db.import"));
    mark(s, dir); /* it died behind that */
    assert_int_equal(move(s, dir), 0);
    check_all(s);
    assert_int_equal(move(s, ""), 0);
    s->ops->close(s);
    tmp_dir_remove(dir);
}

static void it_goes_on_at_its_own_host(void **state)
{
    (void)state;
    char *dir = make_source(), *elsewhere = mem_printf("%s.its", dir);
    struct store *s = store_rig_open();
    struct err err = {0};
    size_t moved = 0;
    mark(s, dir);
    put(s, "a", 1, JOB_PENDING);
    /* another host has a directory of this name: without jobs, then with its own */
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(rename(dir, elsewhere), 0);
        char *other = i == 0 ? NULL : make_source();
        assert_int_equal(i == 0 ? file_make_dirs(dir, NULL) : rename(other, dir), 0);
        free(other);
        assert_int_equal(store_import(s, dir, "another", &moved, &err), ERR_STATE);
        assert_non_null(
            strstr(err.msg, "are being moved from another host; start the master ther"));
        assert_true(i == 0 || has_file(dir, "master.db"));
        assert_int_equal(file_remove_tree(dir, NULL), 0);
        assert_int_equal(rename(elsewhere, dir), 0);
    }
    /* its rows are gone, and were not all moved */
    char *rows = file_join(dir, "master.db"), *aside = file_join(dir, "aside");
    assert_int_equal(rename(rows, aside), 0);
    assert_int_equal(store_import(s, dir, "the next", &moved, &err), ERR_STATE);
    assert_int_equal(rename(aside, rows), 0);
    assert_int_equal(move(s, dir), JOBS);
    check_all(s);
    s->ops->close(s);
    free(aside);
    free(rows);
    free(elsewhere);
    tmp_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_of_it_is_moved_once, store_rig_make, store_rig_remove),
        cmocka_unit_test_setup_teardown(a_store_with_jobs_takes_no_others, store_rig_make,
                                        store_rig_remove),
        cmocka_unit_test_setup_teardown(a_master_keeps_its_directory, store_rig_make,
                                        store_rig_remove),
        cmocka_unit_test_setup_teardown(what_was_interrupted_is_begun_again, store_rig_make,
                                        store_rig_remove),
        cmocka_unit_test_setup_teardown(it_goes_on_at_its_own_host, store_rig_make,
                                        store_rig_remove),
    };
    return store_rig_use(STORE_ETCD) ? cmocka_run_group_tests_name("etcd", tests, NULL, NULL) : 0;
}
