/* SPDX-License-Identifier: Apache-2.0 */
/* What a manifest says of tables: their declarations, and how many of their rows each file has. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_file.h"
#include "json/json_doc.h"

static struct manifest_table *add(struct manifest *m)
{
    struct manifest_table *tables = mem_new(m->table_count + 1, sizeof *tables);
    if (m->table_count > 0) {
        memcpy(tables, m->tables, m->table_count * sizeof *tables);
    }
    free(m->tables);
    m->tables = tables;
    struct manifest_table *t = &m->tables[m->table_count++];
    t->rows = mem_new(m->shard_count + 1, sizeof *t->rows);
    t->counts = mem_new(m->shard_count + 1, sizeof *t->counts);
    return t;
}

void manifest_add_table(struct manifest *m, const char *name, uint64_t dim, int admission)
{
    struct manifest_table *t = add(m);
    t->info =
        (struct table_file_info){.name = mem_strdup(name), .dim = dim, .admission = admission};
}

void manifest_tables_release(struct manifest *m)
{
    for (size_t i = 0; i < m->table_count; i++) {
        free(m->tables[i].info.name);
        free(m->tables[i].rows);
        free(m->tables[i].counts);
    }
    free(m->tables);
    m->tables = NULL;
    m->table_count = 0;
}

void manifest_table_slots(const struct manifest *m, struct table_file_slots *out)
{
    *out = (struct table_file_slots){.count = m->slot_count};
    for (size_t k = 0; k < m->slot_count && k < RULE_SLOTS_MAX; k++) {
        out->names[k] = m->slots[k];
        out->kinds[k] = m->slot_kinds[k];
    }
}

/* ---- the member "tables" ---- */

static void add_numbers(const char *key, const uint64_t *numbers, uint32_t count, struct buf *out)
{
    buf_printf(out, ", \"%s\": [", key);
    for (uint32_t i = 0; i < count; i++) {
        buf_printf(out, "%s%" PRIu64, i == 0 ? "" : ", ", numbers[i]);
    }
    buf_add_char(out, ']');
}

void manifest_tables_format(const struct manifest *m, struct buf *out)
{
    if (m->table_count == 0) {
        return;
    }
    buf_add_str(out, "  \"tables\": [\n");
    for (size_t i = 0; i < m->table_count; i++) {
        buf_add_str(out, "    {");
        table_file_format_info(&m->tables[i].info, out);
        add_numbers("rows", m->tables[i].rows, m->shard_count, out);
        add_numbers("counts", m->tables[i].counts, m->shard_count, out);
        buf_printf(out, "}%s\n", i + 1 < m->table_count ? "," : "");
    }
    buf_add_str(out, "  ],\n");
}

static int read_numbers(const struct json_t *object, const char *key, uint32_t count, uint64_t *out,
                        uint64_t *sum, struct err *err)
{
    const struct json_t *list = NULL;
    size_t n = 0;
    int rc = json_doc_array(object, key, PLAN_SHARDS_MAX, &list, &n, err);
    if (rc == 0 && n != count) {
        rc = err_set(err, ERR_CORRUPT, "%s: %zu numbers for %" PRIu32 " shards", key, n, count);
    }
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (!json_doc_item_u64(list, i, &out[i]) || __builtin_add_overflow(*sum, out[i], sum)) {
            rc = err_set(err, ERR_CORRUPT, "%s[%zu]: a whole number is expected", key, i);
        }
    }
    return rc;
}

static int read_table(const struct json_t *object, struct manifest *m, struct err *err)
{
    struct manifest_table *t = add(m);
    int rc = table_file_read_info(object, &t->info, err);
    for (size_t i = 0; rc == 0 && i + 1 < m->table_count; i++) {
        if (strcmp(m->tables[i].info.name, t->info.name) == 0) {
            rc = err_set(err, ERR_CORRUPT, "name: %s, as table %zu", t->info.name, i);
        }
    }
    rc = rc != 0 ? rc : read_numbers(object, "rows", m->shard_count, t->rows, &t->info.rows, err);
    return rc != 0
               ? rc
               : read_numbers(object, "counts", m->shard_count, t->counts, &t->info.counts, err);
}

/* Checks the slots of rows: they are the rule's, all per parameter or per row. */
static int check_slots(const struct manifest *m, struct err *err)
{
    bool fits = m->slot_count <= RULE_SLOTS_MAX;
    for (size_t k = 0; k < m->slot_count; k++) {
        fits = fits && strlen(m->slots[k]) < SHARD_FILE_SLOT_BYTES &&
               (m->slot_kinds[k] == RULE_SLOT_PARAMETER || m->slot_kinds[k] == RULE_SLOT_ROW);
    }
    return fits ? 0 : err_set(err, ERR_CORRUPT, "slots: rows of tables cannot have these");
}

int manifest_tables_read(const struct json_t *root, struct manifest *m, struct err *err)
{
    const struct json_t *list = NULL;
    size_t count = 0;
    uint64_t version = 0;
    int rc = json_doc_u64(root, "format_version", INT64_MAX, &version, err);
    if (rc != 0 || version == MANIFEST_FORMAT_VERSION) {
        return rc; /* the job has none */
    }
    rc = json_doc_array(root, "tables", TABLE_FILE_TABLES_MAX, &list, &count, err);
    rc = rc != 0 ? rc : check_slots(m, err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = read_table(json_doc_item(list, i), m, err);
        if (rc != 0) {
            (void)err_wrap(err, "tables[%zu]", i);
        }
    }
    return rc;
}
