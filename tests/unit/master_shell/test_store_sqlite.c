/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "master/store.h"

static char *dir;

static int make_dir(void **state)
{
    (void)state;
    char name[] = "/tmp/gradus-store-XXXXXX";
    assert_non_null(mkdtemp(name));
    dir = mem_strdup(name);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    assert_int_equal(file_remove_tree(dir, NULL), 0);
    free(dir);
    return 0;
}

static struct store *open_store(void)
{
    struct store *s = NULL;
    struct err err = {0};
    if (store_sqlite_open(dir, "the test", &s, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    return s;
}

static int put(struct store *s, const char *id, const char *name, uint64_t number,
               const char *request, int state, struct err *err)
{
    struct store_row row = {.id = id,
                            .name = name,
                            .request_id = request,
                            .number = number,
                            .state = state,
                            .job = id,
                            .job_bytes = strlen(id)};
    return s->ops->put(s, &row, err);
}

static int collect(void *ctx, const struct store_row *row, struct err *err)
{
    (void)err;
    char item[128];
    snprintf(item, sizeof item, "%s/%d/%s/%.*s ", row->id, row->state, row->request_id,
             (int)row->job_bytes, (const char *)row->job);
    buf_add_str(ctx, item);
    return 0;
}

static void check_rows(struct store *s, size_t limit, const char *expected)
{
    struct buf rows = {0};
    assert_int_equal(s->ops->load(s, limit, collect, &rows, NULL), 0);
    assert_string_equal(buf_str(&rows), expected);
    buf_release(&rows);
}

static void rows_outlive_the_store(void **state)
{
    (void)state;
    struct store *s = open_store();
    uint64_t number = 0;
    assert_int_equal(s->ops->next_number(s, "a", &number, NULL), 0);
    assert_int_equal(number, 1);
    assert_int_equal(put(s, "a-1", "a", 1, "r1", 1, NULL), 0);
    assert_int_equal(put(s, "b-1", "b", 1, "", 1, NULL), 0);
    assert_int_equal(put(s, "a-2", "a", 2, "", 1, NULL), 0);
    assert_int_equal(put(s, "a-1", "a", 1, "r1", 5, NULL), 0); /* replaces, keeps its place */
    s->ops->close(s);
    s = open_store();
    check_rows(s, 10, "a-1/5/r1/a-1 b-1/1//b-1 a-2/1//a-2 ");
    check_rows(s, 2, "b-1/1//b-1 a-2/1//a-2 ");
    assert_int_equal(s->ops->next_number(s, "a", &number, NULL), 0);
    assert_int_equal(number, 3);
    struct buf text = {0};
    assert_int_equal(s->ops->find_request(s, "r1", &text, NULL), 0);
    assert_string_equal(buf_str(&text), "a-1");
    buf_reset(&text);
    assert_int_equal(s->ops->get(s, "b-1", &text, NULL), 0);
    assert_string_equal(buf_str(&text), "b-1");
    assert_int_equal(s->ops->find_request(s, "nobody", &text, NULL), ERR_NOT_FOUND);
    assert_int_equal(s->ops->get(s, "x'; DROP TABLE job; --", &text, NULL), ERR_NOT_FOUND);
    assert_int_equal(put(s, "c-1", "c", 1, "r1", 1, NULL),
                     ERR_EXISTS); /* a request makes one job */
    buf_release(&text);
    s->ops->close(s);
}

static void one_master_per_directory(void **state)
{
    (void)state;
    struct store *s = open_store();
    struct store *second = NULL;
    struct err err = {0};
    assert_int_equal(store_sqlite_open(dir, "another", &second, &err), ERR_STATE);
    assert_non_null(strstr(err.msg, "is in use by the test"));
    s->ops->close(s);
    s = open_store();
    s->ops->close(s);
}

static void write_db(const void *data, size_t n)
{
    char *path = file_join(dir, "master.db");
    assert_int_equal(file_write_atomic(path, data, n, NULL), 0);
    free(path);
}

static void other_files_are_refused(void **state)
{
    (void)state;
    char junk[8192];
    memset(junk, 'x', sizeof junk);
    write_db(junk, sizeof junk);
    struct store *s = NULL;
    struct err err = {0};
    assert_int_equal(store_sqlite_open(dir, "t", &s, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "master.db is not a database of gradus-master"));
}

static void a_damaged_file_is_refused(void **state)
{
    (void)state;
    struct store *s = open_store();
    for (int i = 0; i < 200; i++) {
        char id[32];
        snprintf(id, sizeof id, "a-%d", i);
        assert_int_equal(put(s, id, "a", (uint64_t)i, "", 1, NULL), 0);
    }
    s->ops->close(s);
    struct buf file = {0};
    char *path = file_join(dir, "master.db");
    assert_int_equal(file_read(path, 1u << 24, &file, NULL), 0);
    assert_true(file.len > 8192);
    memset(file.data + 4096, 0xee, file.len - 4096);
    write_db(file.data, file.len);
    buf_release(&file);
    free(path);
    struct err err = {0};
    int rc = store_sqlite_open(dir, "t", &s, &err);
    if (rc == 0) { /* found when the rows are read, at the latest */
        struct buf rows = {0};
        rc = s->ops->load(s, 1000, collect, &rows, &err);
        buf_release(&rows);
        s->ops->close(s);
    }
    assert_int_equal(rc, ERR_CORRUPT);
    assert_non_null(strstr(err.msg, "is damaged"));
}

static void a_newer_schema_is_refused(void **state)
{
    (void)state;
    struct store *s = open_store();
    s->ops->close(s);
    struct buf file = {0};
    char *path = file_join(dir, "master.db");
    assert_int_equal(file_read(path, 1u << 24, &file, NULL), 0);
    file.data[63] = 9; /* user_version, big-endian at 60 (sqlite.org/fileformat2.html 1.3) */
    write_db(file.data, file.len);
    struct err err = {0};
    assert_int_equal(store_sqlite_open(dir, "t", &s, &err), ERR_UNSUPPORTED);
    file.data[63] = 1;
    file.data[71] = 'X'; /* application_id */
    write_db(file.data, file.len);
    assert_int_equal(store_sqlite_open(dir, "t", &s, &err), ERR_INVALID);
    buf_release(&file);
    free(path);
}

static void a_directory_that_cannot_be_is_refused(void **state)
{
    (void)state;
    struct store *s = NULL;
    struct err err = {0};
    assert_true(store_sqlite_open("/proc/nowhere", "t", &s, &err) < 0);
    assert_true(err.msg[0] != '\0');
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_outlive_the_store),    TEST(one_master_per_directory),
        TEST(other_files_are_refused),   TEST(a_damaged_file_is_refused),
        TEST(a_newer_schema_is_refused), TEST(a_directory_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests_name("store_sqlite", tests, NULL, NULL);
}
