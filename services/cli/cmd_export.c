/* SPDX-License-Identifier: Apache-2.0 */
/* gradus export: write the parameters of a checkpoint, which lie in one file for each server, to
 * one safetensors file that other programs can read. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_dir.h"
#include "cli/cli.h"
#include "cli/find_checkpoint.h"
#include "cli/job_file.h"
#include "cli/saved_tables.h"
#include "json/json_write.h"

enum format { FORMAT_SAFETENSORS };
static const char *const formats[] = {"safetensors", NULL};

struct options {
    struct cli_common common;
    char *from;
    int format;
    bool average;
};

static const struct field fields[] = {
    {.path = "format",
     .type = FIELD_ENUM,
     .offset = offsetof(struct options, format),
     .def = "safetensors",
     .choices = formats,
     .help = "Format of OUT"},
    {.path = "from",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, from),
     .def = "",
     .help = "A checkpoint's directory, instead of JOB"},
    {.path = "average",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, average),
     .def = "false",
     .help = "The moving average of the parameters (update.average) instead of the parameters"},
    CLI_MASTER_ROWS(struct options),
    CLI_RULES_DIR_ROW(struct options),
    CLI_JSON_ROW(struct options),
};

/* Rows of tables are written as they read, which the job file says how to find. */
static int export(struct checkpoint *c, const char *path, const char *slot, const char *out_path,
                  struct err *err)
{
    struct job_spec spec = {0};
    struct saved_tables tables = {0};
    int rc = 0;
    if (checkpoint_manifest(c)->table_count > 0) {
        rc = job_file_of_checkpoint(c, path, NULL, 0, &spec, err);
        rc = rc != 0 ? rc : saved_tables_open(&tables, c, &spec, err);
    }
    rc = rc != 0 ? rc : checkpoint_export(c, slot, out_path, err);
    saved_tables_release(&tables);
    job_spec_release(&spec);
    return rc;
}

static void print_json(const char *path, const char *out_path, const struct manifest *m)
{
    struct buf out = {0};
    json_t *object = json_object(), *tables = json_array();
    json_put(object, "checkpoint", json_text(path));
    json_put(object, "file", json_text(out_path));
    for (size_t i = 0; i < m->table_count; i++) {
        const struct table_file_info *t = &m->tables[i].info;
        json_t *table = json_object();
        json_put(table, "name", json_text(t->name));
        json_put(table, "rows", json_integer((json_int_t)t->rows));
        json_put(table, "dim", json_integer((json_int_t)t->dim));
        json_append(tables, table);
    }
    if (m->table_count > 0) {
        json_put(object, "tables", tables);
    } else {
        json_decref(tables);
    }
    json_print(object, 9, true, &out);
    (void)fputs(buf_str(&out), stdout);
    buf_release(&out);
}

/* "  table ads: 1234 rows of 16 floats" for each. */
static void print_tables(const struct manifest *m)
{
    for (size_t i = 0; i < m->table_count; i++) {
        const struct table_file_info *t = &m->tables[i].info;
        (void)printf("  table %s: %" PRIu64 " rows of %" PRIu64 " floats\n", t->name, t->rows,
                     t->dim);
    }
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    int loaded = cli_load_rules(&o->common);
    if (loaded != CLI_OK) {
        return loaded;
    }
    struct err err = {0};
    bool from = o->from[0] != '\0';
    if (args->positional_count != (from ? 1U : 2U)) {
        (void)err_set(&err, ERR_INVALID, "%s",
                      from ? "with --from give OUT alone: gradus export --from DIR OUT"
                           : "give the job and the file to write: gradus export JOB OUT");
        return cli_fail(&err);
    }
    const char *out_path = args->positional[from ? 0 : 1];
    char *path = NULL;
    struct checkpoint *checkpoint = NULL;
    int rc = from ? checkpoint_resolve(o->from, &path, &err)
                  : find_checkpoint(args->positional[0], &o->common, &path, &err);
    if (rc == 0) {
        rc = checkpoint_open(path, CHECKPOINT_FULL, &checkpoint, &err);
    }
    if (rc == 0) {
        rc = export(checkpoint, path, o->average ? "average" : NULL, out_path, &err);
    }
    if (rc == 0 && o->common.json) {
        print_json(path, out_path, checkpoint_manifest(checkpoint));
    } else if (rc == 0) {
        (void)printf("%s written from %s\n", out_path, path);
        print_tables(checkpoint_manifest(checkpoint));
    }
    checkpoint_close(checkpoint);
    free(path);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}

const struct cli_command cmd_export = {
    .name = "export",
    .summary = "Merge a checkpoint into one safetensors file of whole variables",
    .usage = "[JOB] OUT",
    .examples =
        "  gradus export digits-1 model.safetensors\n"
        "  gradus export --from state/checkpoints/digits-1/step-000009380 out.safetensors\n",
    .notes = "Equal values give equal bytes, however many servers wrote the checkpoint. Of a table "
             "T there are T.keys and T.values, a row for each key.\n" CLI_PLACES_NOTE,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 2,
    .run = run,
};
