/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes, as JSON, which tables a file or a checkpoint has. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/table_file.h"
#include "json/json_doc.h"
#include "json/json_write.h"

const char *const table_file_admissions[] = {[TABLE_ADMIT_ALL] = "all",
                                             [TABLE_ADMIT_COUNTED] = "counted",
                                             [TABLE_ADMIT_BLOOM] = "bloom",
                                             [TABLE_ADMIT_PROBABILITY] = "probability",
                                             NULL};

void table_file_format_info(const struct table_file_info *t, struct buf *out)
{
    buf_add_str(out, "\"name\": ");
    json_add_string(out, t->name);
    buf_printf(out, ", \"dim\": %" PRIu64 ", \"admission\": \"%s\"", t->dim,
               table_file_admissions[t->admission]);
}

int table_file_read_info(const struct json_t *object, struct table_file_info *t, struct err *err)
{
    const char *name = NULL, *admission = NULL;
    int rc = json_doc_string(object, "name", &name, err);
    if (rc == 0 && (name[0] == '\0' || strlen(name) > TABLE_FILE_NAME_BYTES_MAX)) {
        rc = err_set(err, ERR_CORRUPT, "name: from 1 to %d bytes", TABLE_FILE_NAME_BYTES_MAX);
    }
    rc = rc != 0 ? rc : json_doc_u64(object, "dim", TABLE_DIM_MAX, &t->dim, err);
    if (rc == 0 && t->dim == 0) {
        rc = err_set(err, ERR_CORRUPT, "dim: from 1 to %d", TABLE_DIM_MAX);
    }
    rc = rc != 0 ? rc : json_doc_string(object, "admission", &admission, err);
    for (t->admission = 0; rc == 0 && strcmp(table_file_admissions[t->admission], admission) != 0;
         t->admission++) {
        if (table_file_admissions[t->admission + 1] == NULL) {
            return err_set(err, ERR_CORRUPT, "admission: %.40s is not known", admission);
        }
    }
    if (rc == 0) {
        t->name = mem_strdup(name);
    }
    return rc;
}

char *table_file_format(const struct table_file_info *tables, size_t count, bool delta)
{
    struct buf out = {0};
    buf_add_str(&out, "{\"tables\": [");
    for (size_t i = 0; i < count; i++) {
        buf_add_str(&out, i == 0 ? "{" : ", {");
        table_file_format_info(&tables[i], &out);
        buf_printf(&out, ", \"rows\": %" PRIu64 ", \"counts\": %" PRIu64, tables[i].rows,
                   tables[i].counts);
        if (delta) {
            buf_printf(&out, ", \"evicted\": %" PRIu64 ", \"all\": %" PRIu64, tables[i].evicted,
                       tables[i].all);
        }
        buf_add_char(&out, '}');
    }
    buf_add_str(&out, "]}");
    return buf_take(&out);
}

static int read_one(const struct json_t *object, bool delta, struct table_file_info *t,
                    struct err *err)
{
    int rc = table_file_read_info(object, t, err);
    rc = rc != 0 ? rc : json_doc_u64(object, "rows", INT64_MAX, &t->rows, err);
    rc = rc != 0 ? rc : json_doc_u64(object, "counts", INT64_MAX, &t->counts, err);
    t->all = t->rows;
    if (rc == 0 && delta) {
        rc = json_doc_u64(object, "evicted", INT64_MAX, &t->evicted, err);
        rc = rc != 0 ? rc : json_doc_u64(object, "all", INT64_MAX, &t->all, err);
    }
    return rc;
}

int table_file_parse(const char *text, bool delta, struct table_file_info **out, size_t *count,
                     struct err *err)
{
    struct json_t *root = NULL;
    const struct json_t *list = NULL;
    size_t n = 0;
    int rc = json_doc_parse(text, strlen(text), &root, err);
    rc = rc != 0 ? rc : json_doc_array(root, "tables", TABLE_FILE_TABLES_MAX, &list, &n, err);
    struct table_file_info *made = mem_new(n + 1, sizeof *made);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = read_one(json_doc_item(list, i), delta, &made[i], err);
        if (rc != 0) {
            (void)err_wrap(err, "tables[%zu]", i);
        }
    }
    json_doc_free(root);
    if (rc != 0) {
        table_file_infos_free(made, n);
        return rc;
    }
    *out = made;
    *count = n;
    return 0;
}

void table_file_infos_free(struct table_file_info *tables, size_t count)
{
    for (size_t i = 0; tables != NULL && i < count; i++) {
        free(tables[i].name);
    }
    free(tables);
}
