/* SPDX-License-Identifier: Apache-2.0 */
/* Triggers of SQLite call a function of ours with the columns of a row before and after each
 * change. */
#include "master/store/store_journal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gradus/v1/store.pb-c.h"

#define COLUMNS_MAX 10

struct table {
    const char *name, *prefix;
    const char *columns[COLUMNS_MAX + 1];
    size_t key, keys; /* the columns that make its key: the first one, and how many */
};
static const struct table TABLES[] = {
    {"job",
     "job/",
     {"rowid", "id", "name", "number", "request_id", "state", "submitted_ms", "job", "checksum",
      "ended_ms"},
     1,
     1},
    {"text", "text/", {"key", "value"}, 0, 1},
    {"point", "point/", {"job", "step", "time_ms", "point"}, 0, 2},
};
#define TABLE_COUNT (sizeof TABLES / sizeof TABLES[0])

const char *store_journal_prefix(size_t table)
{
    return table < TABLE_COUNT ? TABLES[table].prefix : NULL;
}

static size_t column_count(const struct table *t)
{
    size_t n = 0;
    while (n < COLUMNS_MAX && t->columns[n] != NULL) {
        n++;
    }
    return n;
}

/* ---- changes ---- */

void journal_changes_release(struct journal_change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(changes[i].key);
        buf_release(&changes[i].before);
        buf_release(&changes[i].after);
    }
}

static void forget(struct store_journal *j)
{
    journal_changes_release(j->changes, j->count);
    j->count = 0;
}

/* Steps are written with all their digits, so that keys have the order of rows. */
static char *key_of(const struct table *t, sqlite3_value **row)
{
    struct buf key = {0};
    buf_add_str(&key, t->prefix);
    for (size_t i = 0; i < t->keys; i++) {
        sqlite3_value *v = row[t->key + i];
        if (i > 0) {
            buf_add_char(&key, '/');
        }
        if (sqlite3_value_type(v) == SQLITE_INTEGER) {
            buf_printf(&key, "%016" PRIx64, (uint64_t)sqlite3_value_int64(v));
        } else {
            buf_add(&key, sqlite3_value_text(v), (size_t)sqlite3_value_bytes(v));
        }
    }
    return buf_take(&key);
}

static void fill_cell(Gradus__V1__StoredCell *cell, sqlite3_value *v)
{
    const union {
        const void *in;
        uint8_t *out; /* protobuf's structs have no const: nobody writes to them */
    } data = {.in = sqlite3_value_type(v) == SQLITE_BLOB ? sqlite3_value_blob(v)
                                                         : (const void *)sqlite3_value_text(v)};
    const ProtobufCBinaryData bytes = {(size_t)sqlite3_value_bytes(v), data.out};
    gradus__v1__stored_cell__init(cell);
    switch (sqlite3_value_type(v)) {
    case SQLITE_INTEGER:
        cell->value_case = GRADUS__V1__STORED_CELL__VALUE_INTEGER;
        cell->integer = sqlite3_value_int64(v);
        break;
    case SQLITE_BLOB:
        cell->value_case = GRADUS__V1__STORED_CELL__VALUE_BLOB;
        cell->blob = bytes;
        break;
    case SQLITE_NULL:
        break;
    default:
        cell->value_case = GRADUS__V1__STORED_CELL__VALUE_TEXT;
        cell->text = bytes;
    }
}

static void pack(const struct table *t, sqlite3_value **row, struct buf *out)
{
    Gradus__V1__StoredCell cells[COLUMNS_MAX];
    Gradus__V1__StoredCell *list[COLUMNS_MAX];
    Gradus__V1__StoredRow packed = GRADUS__V1__STORED_ROW__INIT;
    packed.cells = list;
    packed.n_cells = column_count(t);
    for (size_t i = 0; i < packed.n_cells; i++) {
        fill_cell(&cells[i], row[i]);
        list[i] = &cells[i];
    }
    size_t bytes = gradus__v1__stored_row__get_packed_size(&packed);
    unsigned char *data = mem_new(bytes + 1, 1);
    gradus__v1__stored_row__pack(&packed, data);
    buf_add(out, data, bytes);
    free(data);
}

/* changed(table, kind, the row's columns before it, and after it, of a row that goes: whether it is
 * the last one of its kind); kinds as in TRIGGERS. */
static void changed(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct store_journal *j = sqlite3_user_data(context);
    const struct table *t = &TABLES[sqlite3_value_int(argv[0])];
    const int kind = sqlite3_value_int(argv[1]);
    struct journal_change c = {.was = kind != 0, .is = kind != 2};
    sqlite3_value **row = argv + 2;
    c.key = key_of(t, row);
    c.last = kind == 2 && t->keys > 1 && sqlite3_value_int(argv[argc - 1]) != 0;
    if (c.was) {
        pack(t, row, &c.before);
        row += column_count(t);
    }
    if (c.is) {
        pack(t, row, &c.after);
    }
    j->changes = mem_grow(j->changes, &j->capacity, j->count + 1, sizeof *j->changes);
    j->changes[j->count++] = c;
}

static int on_commit(void *ctx)
{
    struct store_journal *j = ctx;
    j->refused.code = 0;
    int rc = j->count == 0 ? 0 : j->commit(j->ctx, j->changes, j->count, &j->refused);
    forget(j);
    return rc != 0;
}

static void on_rollback(void *ctx)
{
    forget(ctx);
}

static const struct {
    const char *event;
    bool was, is;
} TRIGGERS[] = {{"INSERT", false, true}, {"UPDATE", true, true}, {"DELETE", true, false}};
#define TRIGGER_COUNT (sizeof TRIGGERS / sizeof TRIGGERS[0])

static void add_columns(struct buf *sql, const struct table *t, const char *of)
{
    for (size_t i = 0; i < column_count(t); i++) {
        buf_printf(sql, ", %s.%s", of, t->columns[i]);
    }
}

int store_journal_watch(struct store_journal *j, sqlite3 *db)
{
    struct buf sql = {0};
    int rc =
        sqlite3_create_function_v2(db, "changed", -1, SQLITE_UTF8, j, changed, NULL, NULL, NULL);
    for (size_t t = 0; t < TABLE_COUNT; t++) {
        for (size_t k = 0; k < TRIGGER_COUNT; k++) {
            buf_printf(&sql,
                       "CREATE TEMP TRIGGER changed_%zu_%zu AFTER %s ON %s BEGIN"
                       " SELECT changed(%zu, %zu",
                       t, k, TRIGGERS[k].event, TABLES[t].name, t, k);
            if (TRIGGERS[k].was) {
                add_columns(&sql, &TABLES[t], "old");
            }
            if (TRIGGERS[k].is) {
                add_columns(&sql, &TABLES[t], "new");
            }
            if (!TRIGGERS[k].is && TABLES[t].keys > 1) {
                const char *of = TABLES[t].columns[TABLES[t].key];
                buf_printf(&sql, ", NOT EXISTS (SELECT 1 FROM %s WHERE %s = old.%s)",
                           TABLES[t].name, of, of);
            }
            buf_add_str(&sql, "); END;");
        }
    }
    rc = rc != SQLITE_OK ? rc : sqlite3_exec(db, buf_str(&sql), NULL, NULL, NULL);
    buf_release(&sql);
    (void)sqlite3_commit_hook(db, on_commit, j);
    (void)sqlite3_rollback_hook(db, on_rollback, j);
    return rc;
}

/* ---- restoring ---- */

static int bind(sqlite3_stmt *st, int i, const Gradus__V1__StoredCell *cell)
{
    switch (cell->value_case) {
    case GRADUS__V1__STORED_CELL__VALUE_INTEGER:
        return sqlite3_bind_int64(st, i, cell->integer);
    case GRADUS__V1__STORED_CELL__VALUE_TEXT:
        return sqlite3_bind_text64(st, i, cell->text.len == 0 ? "" : (const char *)cell->text.data,
                                   cell->text.len, SQLITE_TRANSIENT, SQLITE_UTF8);
    case GRADUS__V1__STORED_CELL__VALUE_BLOB:
        return cell->blob.len == 0
                   ? sqlite3_bind_zeroblob(st, i, 0)
                   : sqlite3_bind_blob64(st, i, cell->blob.data, cell->blob.len, SQLITE_TRANSIENT);
    default:
        return sqlite3_bind_null(st, i);
    }
}

static int insert(sqlite3 *db, const struct table *t, const Gradus__V1__StoredRow *row)
{
    struct buf sql = {0};
    sqlite3_stmt *st = NULL;
    buf_printf(&sql, "INSERT INTO %s(", t->name);
    for (size_t i = 0; i < row->n_cells; i++) {
        buf_printf(&sql, "%s%s", i > 0 ? ", " : "", t->columns[i]);
    }
    for (size_t i = 0; i < row->n_cells; i++) {
        buf_add_str(&sql, i == 0 ? ") VALUES(?" : ", ?");
    }
    buf_add_char(&sql, ')');
    int rc = sqlite3_prepare_v2(db, buf_str(&sql), -1, &st, NULL);
    for (size_t i = 0; rc == SQLITE_OK && i < row->n_cells; i++) {
        rc = bind(st, (int)i + 1, row->cells[i]);
    }
    rc = rc != SQLITE_OK ? rc : sqlite3_step(st);
    (void)sqlite3_finalize(st);
    buf_release(&sql);
    return rc;
}

int store_journal_restore(sqlite3 *db, const char *key, const void *value, size_t bytes,
                          struct err *err)
{
    const struct table *t = NULL;
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        if (strncmp(key, TABLES[i].prefix, strlen(TABLES[i].prefix)) == 0) {
            t = &TABLES[i];
        }
    }
    Gradus__V1__StoredRow *row = gradus__v1__stored_row__unpack(NULL, bytes, value);
    int rc = 0;
    if (t == NULL || row == NULL || row->n_cells == 0 || row->n_cells > column_count(t)) {
        rc = err_set(err, ERR_CORRUPT, "the value of %.300s is no row of a master's store", key);
    } else if (insert(db, t, row) != SQLITE_DONE) {
        rc = err_set(err, ERR_CORRUPT, "the row of %.300s: %s", key, sqlite3_errmsg(db));
    }
    gradus__v1__stored_row__free_unpacked(row, NULL);
    return rc;
}
