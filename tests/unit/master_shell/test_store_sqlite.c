/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/mem.h"
#include "master/core/job_record.h"
#include "master/store/store.h"
#include "os/file.h"
#include "store_rig.h"

static size_t syncs; /* of SQLite, in place of the C library's */

int fsync(int fd)
{
    syncs++;
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    syncs++;
    return (int)syscall(SYS_fdatasync, fd);
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
    char item[192];
    if (row->damage != NULL) {
        snprintf(item, sizeof item, "%s: %s. ", row->id, row->damage);
    } else {
        snprintf(item, sizeof item, "%s/%d/%s/%.*s ", row->id, row->state, row->request_id,
                 (int)row->job_bytes, (const char *)row->job);
    }
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
    struct store *s = store_rig_open();
    uint64_t number = 0;
    assert_int_equal(s->ops->next_number(s, "a", &number, NULL), 0);
    assert_int_equal(number, 1);
    assert_int_equal(put(s, "a-1", "a", 1, "r1", 1, NULL), 0);
    assert_int_equal(put(s, "b-1", "b", 1, "", 1, NULL), 0);
    assert_int_equal(put(s, "a-2", "a", 2, "", 1, NULL), 0);
    assert_int_equal(put(s, "a-1", "a", 1, "r1", 5, NULL), 0); /* replaces, keeps its place */
    s->ops->close(s);
    s = store_rig_open();
    check_rows(s, 10, "a-1/5/r1/a-1 b-1/1//b-1 a-2/1//a-2 ");
    check_rows(s, 0, "b-1/1//b-1 a-2/1//a-2 ");
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

/* However many ended after them. */
static void jobs_that_have_not_ended_are_always_loaded(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    for (int i = JOB_PENDING; i < JOB_STATE_END; i++) {
        char id[16];
        snprintf(id, sizeof id, "a-%d", i);
        assert_int_equal(put(s, id, "a", (uint64_t)i, "", i, NULL), 0);
    }
    assert_int_equal(put(s, "b-1", "b", 1, "", JOB_FAILED, NULL), 0);
    assert_int_equal(put(s, "b-2", "b", 2, "", 99, NULL), 0); /* no state at all */
    for (int i = JOB_PENDING; i < JOB_STATE_END; i++) {
        assert_int_equal(job_state_is_final((enum job_state)i),
                         i >= JOB_SUCCEEDED && i != JOB_PAUSED);
    }
    check_rows(s, 2,
               "a-1/1//a-1 a-2/2//a-2 a-3/3//a-3 a-4/4//a-4 a-7/7//a-7 a-8/8//a-8 b-1/6//b-1 "
               "b-2/99//b-2 ");
    check_rows(s, 0, "a-1/1//a-1 a-2/2//a-2 a-3/3//a-3 a-4/4//a-4 a-8/8//a-8 b-2/99//b-2 ");
    s->ops->close(s);
}

static void a_row_is_durable_when_it_is_put(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    for (int i = 1; i < 4; i++) {
        size_t before = syncs;
        assert_int_equal(put(s, "a-1", "a", 1, "", i, NULL), 0);
        assert_true(syncs > before);
    }
    s->ops->close(s);
}

static void sql(const char *text)
{
    char *path = file_join(store_rig_dir(), "master.db");
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    char *message = NULL;
    if (sqlite3_exec(db, text, NULL, NULL, &message) != SQLITE_OK) {
        fail_msg("%s: %s", text, message);
    }
    sqlite3_close(db);
    free(path);
}

static void a_damaged_row_is_told_apart(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    for (int i = 1; i < 5; i++) {
        char id[16];
        snprintf(id, sizeof id, "a-%d", i);
        assert_int_equal(put(s, id, "a", (uint64_t)i, "", 1, NULL), 0);
    }
    sql("UPDATE job SET job = x'612d78' WHERE id = 'a-2'");
    sql("UPDATE job SET number = -3 WHERE id = 'a-3'");
    check_rows(s, 10,
               "a-1/1//a-1 a-2: its checksum is not that of its content. "
               "a-3: its number is negative. a-4/1//a-4 ");
    sql("UPDATE job SET number = 0 WHERE id = 'a-3'"); /* not negative */
    check_rows(s, 10,
               "a-1/1//a-1 a-2: its checksum is not that of its content. a-3/1//a-3 a-4/1//a-4 ");
    struct buf text = {0};
    struct err err = {0};
    assert_int_equal(s->ops->get(s, "a-2", &text, &err), ERR_CORRUPT);
    assert_non_null(strstr(err.msg, "the row of job a-2 is damaged"));
    assert_int_equal(s->ops->get(s, "a-1", &text, &err), 0);
    assert_int_equal(put(s, "a-2", "a", 2, "", 1, NULL), 0); /* a new one is whole again */
    buf_reset(&text);
    assert_int_equal(s->ops->get(s, "a-2", &text, &err), 0);
    buf_release(&text);
    s->ops->close(s);
}

static void numbers_stay_in_their_range(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    uint64_t number = 0;
    assert_int_equal(put(s, "a-1", "a", 1, "", 1, NULL), 0);
    sql("UPDATE job SET number = -3 WHERE id = 'a-1'");
    assert_int_equal(s->ops->next_number(s, "a", &number, NULL), 0);
    assert_int_equal(number, 1);
    sql("UPDATE job SET number = 9223372036854775807 WHERE id = 'a-1'");
    struct err err = {0};
    assert_int_equal(s->ops->next_number(s, "a", &number, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "no number is left for jobs named a"));
    s->ops->close(s);
}

static void texts_outlive_the_store(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    struct buf value = {0};
    assert_int_equal(s->ops->get_text(s, "who", &value, NULL), ERR_NOT_FOUND);
    assert_int_equal(s->ops->put_text(s, "who", "me", NULL), 0);
    assert_int_equal(s->ops->put_text(s, "who", "you", NULL), 0);
    s->ops->close(s);
    s = store_rig_open();
    assert_int_equal(s->ops->get_text(s, "who", &value, NULL), 0);
    assert_string_equal(buf_str(&value), "you");
    buf_release(&value);
    s->ops->close(s);
}

/* A file of the first version: its rows are there, without checksums. */
static void an_older_schema_is_brought_up_to_date(void **state)
{
    (void)state;
    sql("CREATE TABLE job (id TEXT PRIMARY KEY, name TEXT NOT NULL, number INTEGER NOT NULL,"
        " request_id TEXT UNIQUE, state INTEGER NOT NULL, submitted_ms INTEGER NOT NULL,"
        " job BLOB NOT NULL);"
        "CREATE INDEX job_by_name ON job(name, number);"
        "INSERT INTO job VALUES('a-1', 'a', 1, 'r', 5, 0, x'6f6c64');"
        "PRAGMA application_id = 1196572996; PRAGMA user_version = 1;");
    for (int i = 0; i < 2; i++) {
        struct store *s = store_rig_open();
        check_rows(s, 10, "a-1/5/r/old ");
        assert_int_equal(s->ops->put_text(s, "who", "me", NULL), 0);
        s->ops->close(s);
    }
}

static void one_master_per_directory(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    struct store *second = NULL;
    struct err err = {0};
    assert_int_equal(store_sqlite_open(store_rig_dir(), "another", &second, &err), ERR_STATE);
    assert_non_null(strstr(err.msg, "is in use by the test"));
    s->ops->close(s);
    s = store_rig_open();
    s->ops->close(s);
}

static void write_db(const void *data, size_t n)
{
    char *path = file_join(store_rig_dir(), "master.db");
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
    assert_int_equal(store_sqlite_open(store_rig_dir(), "t", &s, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "master.db is not a database of gradus-master"));
    char *path = file_join(store_rig_dir(), "master.db");
    assert_int_equal(unlink(path), 0);
    free(path);
    sql("CREATE TABLE cheese(smell)"); /* somebody's, who gave no application id */
    for (int i = 0; i < 2; i++) {      /* also the second time: nothing was made in it */
        assert_int_equal(store_sqlite_open(store_rig_dir(), "t", &s, &err), ERR_INVALID);
        assert_non_null(strstr(err.msg, "master.db is a database of another program"));
    }
}

/* ---- damaged pages ---- */

#define LEAF 13 /* the first byte of a page with rows (sqlite.org/fileformat2.html 1.6) */
#define INDEX_LEAF 10

/* Damages the first page after the file's own that begins with @type. */
static void damage(struct buf *file, unsigned char type)
{
    for (size_t at = 4096; at + 4096 <= file->len; at += 4096) {
        if ((unsigned char)file->data[at] == type) {
            memset(file->data + at, 0xff, 64);
            return;
        }
    }
    fail_msg("no page of type %u", type);
}

static void read_db(struct buf *file)
{
    char *path = file_join(store_rig_dir(), "master.db");
    buf_reset(file);
    assert_int_equal(file_read(path, 1u << 24, file, NULL), 0);
    free(path);
}

/* Whatever page it is: the operator hears what to type, and has what there was. */
static void a_damaged_file_is_refused_and_stays(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    for (int i = 0; i < 200; i++) {
        char id[32];
        snprintf(id, sizeof id, "a-%d", i);
        assert_int_equal(put(s, id, "a", (uint64_t)i, "", 1, NULL), 0);
    }
    s->ops->close(s);
    struct buf whole = {0}, file = {0}, after = {0};
    read_db(&whole);
    for (int i = 0; i < 4; i++) {
        buf_reset(&file);
        buf_add(&file, whole.data, whole.len);
        if (i < 2) {
            damage(&file, i == 0 ? LEAF : INDEX_LEAF);
        } else { /* all rows; the schema */
            memset(file.data + (i == 2 ? 4096 : 100), 0xee, i == 2 ? file.len - 4096 : 3996);
        }
        write_db(file.data, file.len);
        for (int again = 0; again < 2; again++) {
            struct err err = {0};
            assert_int_equal(store_sqlite_open(store_rig_dir(), "t", &s, &err), ERR_CORRUPT);
            assert_non_null(strstr(err.msg, "open the store: "));
            assert_non_null(strstr(err.msg, store_rig_dir()));
            assert_non_null(strstr(err.msg, "master.db is damaged, and was not changed"));
            assert_non_null(strstr(err.msg, "sqlite3 master.db .dump"));
            assert_non_null(strstr(err.msg, "another --state-dir"));
        }
        read_db(&after);
        assert_int_equal(after.len, file.len);
        assert_memory_equal(after.data, file.data, file.len);
    }
    write_db(whole.data, whole.len);
    s = store_rig_open();
    s->ops->close(s);
    buf_release(&whole);
    buf_release(&file);
    buf_release(&after);
}

static void a_newer_schema_is_refused(void **state)
{
    (void)state;
    struct store *s = store_rig_open();
    s->ops->close(s);
    struct buf file = {0};
    char *path = file_join(store_rig_dir(), "master.db");
    assert_int_equal(file_read(path, 1u << 24, &file, NULL), 0);
    file.data[63] = 9; /* user_version, big-endian at 60 (sqlite.org/fileformat2.html 1.3) */
    write_db(file.data, file.len);
    struct err err = {0};
    assert_int_equal(store_sqlite_open(store_rig_dir(), "t", &s, &err), ERR_UNSUPPORTED);
    file.data[63] = 2;
    file.data[71] = 'X'; /* application_id */
    write_db(file.data, file.len);
    assert_int_equal(store_sqlite_open(store_rig_dir(), "t", &s, &err), ERR_INVALID);
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

#define TEST(f) cmocka_unit_test_setup_teardown(f, store_rig_make, store_rig_remove)

/* Whoever only looks sees what is there, with a master or without one, and changes nothing. */
static void reading_takes_no_lock(void **state)
{
    (void)state;
    struct store *reader = NULL;
    struct err err = {0};
    struct buf text = {0};
    assert_int_equal(store_sqlite_read(store_rig_dir(), &reader, &err), ERR_NOT_FOUND);
    assert_null(reader);
    struct store *s = store_rig_open();
    assert_int_equal(put(s, "x-1", "x", 1, "", JOB_SUCCEEDED, NULL), 0);
    assert_int_equal(store_sqlite_read(store_rig_dir(), &reader, NULL), 0); /* a master has it */
    reader->ops->close(reader);
    s->ops->close(s);
    assert_int_equal(store_sqlite_read(store_rig_dir(), &reader, NULL), 0);
    assert_int_equal(reader->ops->get(reader, "x-1", &text, NULL), 0);
    assert_string_equal(buf_str(&text), "x-1");
    assert_int_equal(reader->ops->get(reader, "x-2", &text, NULL), ERR_NOT_FOUND);
    assert_true(put(reader, "x-2", "x", 2, "", JOB_SUCCEEDED, &err) < 0);
    s = store_rig_open(); /* nobody has a lock */
    s->ops->close(s);
    reader->ops->close(reader);
    buf_release(&text);
}

/* To bring it up to date is for a master. */
static void another_version_is_not_read(void **state)
{
    (void)state;
    struct store *s = store_rig_open(), *reader = NULL;
    s->ops->close(s);
    char *path = file_join(store_rig_dir(), "master.db");
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version = 1", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(store_sqlite_read(store_rig_dir(), &reader, NULL), ERR_UNSUPPORTED);
    assert_null(reader);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_row_is_durable_when_it_is_put),
        TEST(a_damaged_row_is_told_apart),
        TEST(numbers_stay_in_their_range),
        TEST(an_older_schema_is_brought_up_to_date),
        TEST(reading_takes_no_lock),
        TEST(another_version_is_not_read),
        TEST(one_master_per_directory),
        TEST(other_files_are_refused),
        TEST(a_damaged_file_is_refused_and_stays),
        TEST(a_newer_schema_is_refused),
        TEST(a_directory_that_cannot_be_is_refused),
    };
    const struct CMUnitTest both[] = {
        TEST(rows_outlive_the_store),
        TEST(jobs_that_have_not_ended_are_always_loaded),
        TEST(texts_outlive_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) + store_rig_run(both);
}
