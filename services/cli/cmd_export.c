/* SPDX-License-Identifier: Apache-2.0 */
/* gradus export: write the parameters of a checkpoint, which lie in one file for each server, to
 * one file that other programs can read: safetensors, or the whole model as ONNX; or the
 * evaluations of a job for other programs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_dir.h"
#include "cli/cli.h"
#include "cli/export_events.h"
#include "cli/find_checkpoint.h"
#include "cli/job_file.h"
#include "cli/open_saved.h"
#include "json/json_write.h"
#include "onnx/onnx_graph.h"
#include "saved/saved_file.h"
#include "saved/saved_onnx.h"

enum format { FORMAT_AUTO, FORMAT_SAFETENSORS, FORMAT_ONNX, FORMAT_TENSORBOARD, FORMAT_CSV };
static const char *const formats[] = {"auto", "safetensors", "onnx", "tensorboard", "csv", NULL};

struct options {
    struct cli_common common;
    char *from;
    int format;
    bool average, external, texts, bare, histograms;
};

static const struct field fields[] = {
    {.path = "format",
     .type = FIELD_ENUM,
     .offset = offsetof(struct options, format),
     .def = "auto",
     .choices = formats,
     .help = "Of OUT: safetensors, the parameters; onnx, the model that computes with them; "
             "tensorboard, the evaluations and hyperparameters of JOB as event files in a "
             "directory; csv, the evaluations as a table; auto: onnx when its name ends with "
             ".onnx, csv with .csv, else safetensors"},
    {.path = "histograms",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, histograms),
     .def = "false",
     .help = "With tensorboard: a histogram of each variable, too, for each checkpoint that there "
             "is of the job, in JOB/parameters"},
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
    {.path = "external",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, external),
     .def = "false",
     .help = "Of onnx: the parameters in a file of their own, OUT" ONNX_EXTERNAL_SUFFIX
             ", which those of more than 2 GB are in any case"},
    {.path = "texts",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, texts),
     .def = "false",
     .help = "Of onnx: categories come in as their texts, by the operators of ai.onnx.ml, instead "
             "of as their places in a list"},
    {.path = "bare",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, bare),
     .def = "false",
     .help = "Of safetensors: without metadata, so that equal values give equal bytes"},
};

static int export(struct checkpoint *c, const char *path, const struct options *o,
                  const char *out_path, struct err *err)
{
    struct err less;
    int rc = saved_file_write(c, path, o->average, o->bare, out_path, &less, err);
    if (less.code != 0) {
        cli_note("the metadata say nothing of inputs, outputs and metrics: %s", less.msg);
    }
    return rc;
}

/* The whole model. */
static int export_onnx(const struct cli_args *args, const char *path, const char *out_path,
                       bool *external, struct err *err)
{
    const struct options *o = args->options;
    struct saved_model *model = NULL;
    const struct saved_model_request request = {.path = path,
                                                .sets = args->sets,
                                                .set_count = args->set_count,
                                                .average = o->average,
                                                .cache_dir = getenv(JOB_FILE_CACHE_DIR)};
    int rc = open_saved(&request, &model, err);
    const struct saved_onnx_options how = {.external = o->external, .texts = o->texts};
    rc = rc != 0 ? rc : saved_onnx_write(model, out_path, &how, external, err);
    saved_model_free(model);
    return rc;
}

static bool is_format(const struct options *o, enum format format, const char *ending,
                      const char *out_path)
{
    const size_t n = strlen(out_path), m = strlen(ending);
    return o->format == (int)format ||
           (o->format == FORMAT_AUTO && n > m && strcasecmp(out_path + n - m, ending) == 0);
}

static bool is_onnx(const struct options *o, const char *out_path)
{
    return is_format(o, FORMAT_ONNX, ".onnx", out_path);
}

/* The evaluations of a job instead of its parameters. */
static int run_events(const struct cli_args *args, bool csv)
{
    const struct options *o = args->options;
    struct err err = {0};
    if (o->from[0] != '\0' || args->positional_count != 2) {
        (void)err_set(&err, ERR_INVALID,
                      "give the job and the %s to write: gradus export --format %s JOB OUT",
                      csv ? "file" : "directory", formats[csv ? FORMAT_CSV : FORMAT_TENSORBOARD]);
        return cli_fail(&err);
    }
    if (o->average || o->bare || o->external || o->texts || args->set_count > 0 || o->common.best) {
        (void)err_set(&err, ERR_INVALID,
                      "%s has the evaluations of a job: --average, --bare, --best, --external, "
                      "--texts and --set are for its parameters",
                      csv ? "csv" : "tensorboard");
        return cli_fail(&err);
    }
    const enum export_events_what what = csv             ? EXPORT_CSV
                                         : o->histograms ? EXPORT_HISTOGRAMS
                                                         : EXPORT_TENSORBOARD;
    return export_events(&o->common, args->positional[0], what, args->positional[1]);
}

/* Checks that no option is given that belongs to another format than that of OUT. */
static int check(const struct cli_args *args, const char *out_path, struct err *err)
{
    const struct options *o = args->options;
    const bool onnx = is_onnx(o, out_path);
    if (onnx || (!o->external && !o->texts && args->set_count == 0)) {
        return 0;
    }
    return err_set(err, ERR_INVALID,
                   "%s is for ONNX alone: --format onnx, or a name that ends with .onnx",
                   o->external ? "--external"
                   : o->texts  ? "--texts"
                               : "--set");
}

static void print_json(FILE *said, const char *path, const char *out_path, const struct manifest *m,
                       bool external)
{
    struct buf out = {0};
    json_t *object = json_object(), *tables = json_array();
    json_put(object, "checkpoint", json_text(path));
    json_put(object, "file", json_text(out_path));
    if (external) {
        struct buf other = {0};
        buf_printf(&other, "%s" ONNX_EXTERNAL_SUFFIX, out_path);
        json_put(object, "external", json_text(buf_str(&other)));
        buf_release(&other);
    }
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
    (void)fputs(buf_str(&out), said);
    buf_release(&out);
}

/* "  table ads: 1234 rows of 16 floats" for each. */
static void print_tables(FILE *said, const struct manifest *m)
{
    for (size_t i = 0; i < m->table_count; i++) {
        const struct table_file_info *t = &m->tables[i].info;
        (void)fprintf(said, "  table %s: %" PRIu64 " rows of %" PRIu64 " floats\n", t->name,
                      t->rows, t->dim);
    }
}

static int write_out(const struct cli_args *args, const char *path, const char *out,
                     struct err *err)
{
    const struct options *o = args->options;
    FILE *said;
    const char *out_path = cli_output(out, &said);
    struct checkpoint *checkpoint = NULL;
    bool external = false;
    int rc = checkpoint_open(path, CHECKPOINT_FULL, &checkpoint, err);
    if (rc == 0) {
        rc = is_onnx(o, out_path) ? export_onnx(args, path, out_path, &external, err)
                                  : export(checkpoint, path, o, out_path, err);
    }
    if (rc == 0 && o->common.json) {
        print_json(said, path, out_path, checkpoint_manifest(checkpoint), external);
    } else if (rc == 0) {
        (void)fprintf(said, "%s written from %s\n", out_path, path);
        if (external) {
            (void)fprintf(
                said, "  parameters in %s" ONNX_EXTERNAL_SUFFIX ", which has to stay beside it\n",
                out_path);
        }
        print_tables(said, checkpoint_manifest(checkpoint));
    }
    checkpoint_close(checkpoint);
    return rc;
}

static int find_source(const struct options *o, const char *job, char **path, struct err *err)
{
    char *found = NULL;
    if (o->from[0] == '\0') {
        return find_checkpoint(job, &o->common, o->common.best, path, err);
    }
    int rc = find_checkpoint_in(o->from, o->common.best ? &found : path, err);
    rc = rc == 0 && o->common.best ? checkpoint_best(found, path, err) : rc;
    free(found);
    return rc;
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    int loaded = cli_load_rules(&o->common);
    if (loaded != CLI_OK) {
        return loaded;
    }
    struct err err = {0};
    const char *last = args->positional[args->positional_count - 1]; /* one at least */
    const bool csv = is_format(o, FORMAT_CSV, ".csv", last);
    if (o->histograms && o->format != FORMAT_TENSORBOARD) {
        (void)err_set(&err, ERR_INVALID, "--histograms is for TensorBoard: --format tensorboard");
        return cli_fail(&err);
    }
    if (o->format == FORMAT_TENSORBOARD || csv) {
        return run_events(args, csv);
    }
    bool from = o->from[0] != '\0';
    if (args->positional_count != (from ? 1U : 2U)) {
        (void)err_set(&err, ERR_INVALID, "%s",
                      from ? "with --from give OUT alone: gradus export --from DIR OUT"
                           : "give the job and the file to write: gradus export JOB OUT");
        return cli_fail(&err);
    }
    const char *out_path = args->positional[from ? 0 : 1];
    char *path = NULL;
    int rc = check(args, out_path, &err);
    if (rc == 0) {
        rc = find_source(o, args->positional[0], &path, &err);
    }
    rc = rc != 0 ? rc : write_out(args, path, out_path, &err);
    free(path);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}

const struct cli_command cmd_export = {
    .name = "export",
    .summary = "Merge a checkpoint into one file: safetensors of whole variables, or ONNX",
    .usage = "[JOB[@best]] OUT",
    .examples = "  gradus export digits-1 model.safetensors\n"
                "  gradus export --from state/checkpoints/digits-1/step-000009380 out.safetensors\n"
                "  gradus export digits-1 digits.onnx\n"
                "  gradus export --format tensorboard --histograms digits-1 logs\n"
                "  gradus export --format csv digits-1 -\n",
    .notes =
        "A safetensors file says of itself what it is (job, step, job file, what was measured on "
        "the train data, inputs, outputs, classes, metrics; docs/serving.md), and is a model that "
        "`gradus predict`, `gradus evaluate` and "
        "gradus-serve take in place of a checkpoint; with --bare equal "
        "values give equal bytes, however many servers wrote the checkpoint. Of a table T there "
        "are T.keys and T.values, a row for each key. An ONNX file is the model: it "
        "takes what gradus-serve takes as `features` and answers as it does "
        "(docs/onnx.md). CSV has a line for each evaluation: step, epoch, wall_time in seconds of "
        "Unix time, train_loss, test_loss and so on; empty is what was not "
        "measured.\n" CLI_PLACES_NOTE,
    .shares = CLI_MASTER | CLI_RULES_DIR | CLI_JSON | CLI_BEST,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 2,
    .sets = true,
    .run = run,
};
