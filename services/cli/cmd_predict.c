/* SPDX-License-Identifier: Apache-2.0 */
/* gradus predict: what a trained model says of records in files. This process computes it alone, as
 * `gradus evaluate` does. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "checkpoint/checkpoint_dir.h"
#include "cli/answer_text.h"
#include "cli/cli.h"
#include "cli/find_checkpoint.h"
#include "cli/job_file.h"
#include "cli/open_saved.h"
#include "cli/output.h"
#include "os/file.h"
#include "saved/saved_predict.h"
#include "storage/storage.h"

enum format { FORMAT_AUTO, FORMAT_CSV, FORMAT_JSON };
static const char *const formats[] = {"auto", "csv", "json", NULL};
enum data_as { DATA_AS_AUTO, DATA_AS_JOB, DATA_AS_JSON };
static const char *const data_formats[] = {"auto", "job", "json", NULL};

struct options {
    struct cli_common common;
    char *data, *out, *id;
    int format, data_format;
    bool unlabelled;
    int64_t step;
};

static const struct field fields[] = {
    {.path = "data",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, data),
     .def = "",
     .help = "The file with the records, or a pattern of files; also in an object store; -: "
             "standard input; any of them may be packed with gzip, zlib or zstd"},
    {.path = "data_format",
     .type = FIELD_ENUM,
     .offset = offsetof(struct options, data_format),
     .def = "auto",
     .choices = data_formats,
     .help =
         "Of the records: job, the format of the job's own; json, an object in each line; auto: "
         "by the name (.jsonl, .ndjson, .json), else the job's"},
    {.path = "id",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, id),
     .def = "",
     .help = "The column, or feature, that says which record it is, by name or number: it stands "
             "in front of each answer; the model need not know it"},
    {.path = "out",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, out),
     .def = "-",
     .help = "The file to write, also in an object store; -: standard output"},
    {.path = "format",
     .type = FIELD_ENUM,
     .offset = offsetof(struct options, format),
     .def = "auto",
     .choices = formats,
     .help = "Of OUT: csv, or json, an object in each line; auto: by its name (.csv, .jsonl, "
             ".ndjson, .json), and csv for standard output"},
    {.path = "unlabelled",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, unlabelled),
     .def = "false",
     .help = "The records have no labels"},
    {.path = "step",
     .type = FIELD_INT,
     .offset = offsetof(struct options, step),
     .def = "-1",
     .min = -1,
     .max = 9e18,
     .help = "The checkpoint of that step; -1: the newest"},
};

/* ---- where answers go ---- */

#define SINK_BYTES (256U << 10) /* of answers that wait until a file gets them */

struct sink {
    const struct saved_model *model;
    enum answer_format format;
    const char *id;             /* NULL: none */
    struct storage_writer file; /* closed: standard output */
    struct buf text;
    uint64_t records;
    struct encoder_left left;
};

static bool is_stdout(const struct options *o)
{
    return strcmp(o->out, "-") == 0 || strcmp(o->out, FILE_STDOUT) == 0;
}

static int sink_flush(struct sink *s, struct err *err)
{
    int rc = 0;
    if (s->file.kind != NULL) {
        rc = storage_add(&s->file, buf_str(&s->text), s->text.len, err);
    } else if (fwrite(buf_str(&s->text), 1, s->text.len, stdout) != s->text.len ||
               fflush(stdout) != 0) {
        rc = err_set(err, ERR_INTERNAL, "cannot write to stdout");
    }
    buf_reset(&s->text);
    return rc;
}

static int take(void *context, const float *answers, const char *ids, size_t count, struct err *err)
{
    struct sink *s = context;
    s->records += count;
    answer_text_add(s->model, s->format, answers, s->id, ids, count, &s->text);
    const bool waits = s->file.kind != NULL && s->text.len < SINK_BYTES;
    return waits ? 0 : sink_flush(s, err);
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcasecmp(text + n - m, end) == 0;
}

static bool is_json(const char *name)
{
    return ends_with(name, ".jsonl") || ends_with(name, ".ndjson") || ends_with(name, ".json");
}

static int choose_format(const struct options *o, enum answer_format *format, struct err *err)
{
    *format = o->format == FORMAT_JSON ? ANSWER_JSON : ANSWER_CSV;
    if (o->format != FORMAT_AUTO || is_stdout(o) || ends_with(o->out, ".csv")) {
        return 0;
    }
    *format = ANSWER_JSON;
    return is_json(o->out) ? 0
                           : err_set(err, ERR_INVALID,
                                     "--out %s says no format; a name with .csv or .jsonl does, or "
                                     "--format csv",
                                     o->out);
}

/* Also packed: new.jsonl.gz. */
static bool reads_json(const struct options *o)
{
    static const char *const packed[] = {".gz", ".zst"};
    char *name = mem_strdup(o->data);
    for (size_t i = 0; i < sizeof packed / sizeof packed[0]; i++) {
        if (ends_with(name, packed[i])) {
            name[strlen(name) - strlen(packed[i])] = '\0';
        }
    }
    const bool json = is_json(name);
    free(name);
    return o->data_format == DATA_AS_JSON || (o->data_format == DATA_AS_AUTO && json);
}

/* ---- the checkpoint ---- */

/* Replaces @path, the newest checkpoint, by that of --step beside it. */
static int choose_step(const struct options *o, char **path, struct err *err)
{
    if (o->step < 0) {
        return 0;
    }
    enum storage_thing thing = STORAGE_NOTHING;
    int rc = storage_look(*path, &thing, err);
    if (rc == 0 && thing == STORAGE_FILE) {
        rc = err_set(err, ERR_INVALID,
                     "%s is one model in a file; --step is for a job, or a directory of "
                     "checkpoints",
                     *path);
    }
    if (rc != 0) {
        return rc;
    }
    char *dir = mem_strdup(*path);
    char *slash = strrchr(dir, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    char *chosen = checkpoint_step_path(slash != NULL ? dir : ".", (uint64_t)o->step);
    char *manifest = file_join(chosen, MANIFEST_NAME);
    rc = storage_look(manifest, &thing, err);
    if (rc == 0 && thing != STORAGE_FILE) {
        rc = err_set(err, ERR_NOT_FOUND,
                     "%s: there is no checkpoint of step %" PRId64 "; the newest is %s", dir,
                     o->step, *path);
    }
    if (rc == 0) {
        free(*path);
        *path = chosen;
        chosen = NULL;
    }
    free(chosen);
    free(manifest);
    free(dir);
    return rc;
}

/* ---- the command ---- */

static int predict(const struct options *o, struct saved_model *model, struct sink *sink,
                   struct err *err)
{
    char *file = strcmp(o->data, "-") == 0 ? mem_strdup(o->data)
                                           : storage_absolute(o->data); /* not from data.dir */
    const struct encoder_files files = {
        .file = file, .unlabelled = o->unlabelled, .json = reads_json(o), .id = sink->id};
    const int threads = (int)saved_model_spec(model)->cluster.blas_threads;
    sink->model = model;
    int rc = is_stdout(o) ? 0 : storage_create(&sink->file, o->out, err);
    answer_text_begin(model, sink->format, sink->id, &sink->text);
    rc = rc != 0 ? rc : sink_flush(sink, err);
    rc = rc != 0 ? rc : saved_predict(model, &files, threads, take, sink, &sink->left, err);
    rc = rc != 0 ? rc : sink_flush(sink, err);
    if (sink->file.kind != NULL && rc == 0) {
        rc = storage_commit(&sink->file, err);
    } else if (sink->file.kind != NULL) {
        storage_abort(&sink->file);
    }
    free(file);
    return rc;
}

static void print(const struct options *o, const char *path, const struct sink *sink)
{
    char records[24], left[24];
    (void)snprintf(records, sizeof records, "%" PRIu64, sink->records);
    (void)snprintf(left, sizeof left, "%" PRIu64, sink->left.count);
    if (sink->left.count > 0) {
        (void)fprintf(stderr, "gradus predict: bad records without an answer: %s; the first: %s\n",
                      left, sink->left.first);
    }
    for (size_t i = 0; i < sink->left.unknown_count; i++) {
        const struct encoder_unknown *u = &sink->left.unknown[i];
        if (u->records > 0) {
            cli_note("warning: column %s: %" PRIu64 " record%s a category that the training data "
                     "did not have; the first: %s",
                     u->column, u->records, u->records == 1 ? " has" : "s have", u->first);
        }
    }
    if (is_stdout(o)) {
        return;
    }
    if (o->common.json) {
        struct buf out = {0};
        output_object(&out, "checkpoint", path, "file", o->out, "records", records, "bad_records",
                      left, NULL);
        (void)fputs(buf_str(&out), stdout);
        buf_release(&out);
    } else {
        (void)printf("%s: answers of %s to %s records\n", o->out, path, records);
    }
}

static int check(const struct options *o, struct sink *sink, struct err *err)
{
    if (o->data[0] == '\0') {
        return err_set(err, ERR_INVALID,
                       "--data FILE is missing: gradus predict JOB --data FILE --out FILE");
    }
    sink->id = o->id[0] != '\0' ? o->id : NULL;
    if (o->common.best && o->step >= 0) {
        return err_set(err, ERR_INVALID, "--step and --best name a version each; allowed: one");
    }
    return choose_format(o, &sink->format, err);
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    struct sink sink = {0};
    struct err err = {0};
    int loaded = cli_load_rules(&o->common);
    if (loaded != CLI_OK) {
        return loaded;
    }
    char *path = NULL;
    struct saved_model *model = NULL;
    int rc = check(o, &sink, &err);
    rc = rc != 0 ? rc : find_model(args->positional[0], &o->common, o->common.best, &path, &err);
    rc = rc != 0 ? rc : choose_step(o, &path, &err);
    if (rc == 0) {
        const struct saved_model_request request = {.path = path,
                                                    .sets = args->sets,
                                                    .set_count = args->set_count,
                                                    .cache_dir = getenv(JOB_FILE_CACHE_DIR)};
        rc = open_saved(&request, &model, &err);
    }
    rc = rc != 0 ? rc : predict(o, model, &sink, &err);
    if (rc == 0) {
        print(o, path, &sink);
    }
    saved_model_free(model);
    buf_release(&sink.text);
    encoder_left_release(&sink.left);
    free(path);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}

const struct cli_command cmd_predict = {
    .name = "predict",
    .summary = "Ask a trained model about records in files, in this process",
    .usage = "JOB[@best]|DIR|FILE --data FILE [--out FILE]",
    .examples = "  gradus predict iris-1 --data new.csv --unlabelled --out answers.csv\n"
                "  gradus predict state/checkpoints/iris-1 --data - --unlabelled < new.csv\n",
    .notes =
        "Each line of OUT is the answer to a record, in their order: the class and the probability "
        "of each class, or the value in the units of the data. The records are read as the job's "
        "own, with its format, and the scaling, categories and classes of its train data, which "
        "lie in the checkpoint, and in MODEL_FILE, which `gradus export` wrote as safetensors. "
        "Labels are not looked at. With "
        "--unlabelled there are none: CSV without that column, lines of LIBSVM, libFFM and Criteo "
        "that begin with the first feature; IDX and JSON never need any. OUT appears when it is "
        "complete.\n" CLI_PLACES_NOTE,
    .shares = CLI_MASTER | CLI_RULES_DIR | CLI_JSON | CLI_BEST,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .sets = true,
    .computes = true,
    .run = run,
};
