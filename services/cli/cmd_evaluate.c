/* SPDX-License-Identifier: Apache-2.0 */
/* gradus evaluate: measure a saved model on test or training data. This process computes it alone,
 * as the job file inside the checkpoint says; no worker or parameter server takes part. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "cli/cli.h"
#include "cli/find_checkpoint.h"
#include "cli/job_file.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/text_metrics.h"
#include "saved/saved_job.h"
#include "saved/saved_tables.h"
#include "saved/saved_variables.h"

#define EVALUATE_BATCH 256

enum source { SOURCE_TEST, SOURCE_TRAIN };
static const char *const sources[] = {"test", "train", NULL};

struct options {
    struct cli_common common;
    int on;
    bool best;
};

static const struct field fields[] = {
    {.path = "on",
     .type = FIELD_ENUM,
     .offset = offsetof(struct options, on),
     .def = "test",
     .choices = sources,
     .help = "Which records"},
    CLI_BEST_ROW(struct options),
    CLI_MASTER_ROWS(struct options),
    CLI_RULES_DIR_ROW(struct options),
    CLI_JSON_ROW(struct options),
};

static int measure(const struct model *model, const struct saved_variables *v,
                   struct saved_tables *tables, const struct dataset *data, int threads,
                   struct metrics *sums, struct err *err)
{
    struct runner *runner = NULL;
    struct batch batch = {0};
    struct saved_reader reader = {0};
    uint64_t records[EVALUATE_BATCH];
    uint64_t total = dataset_info(data)->records;
    int rc = runner_new(model, EVALUATE_BATCH, threads, &runner, err);
    if (rc == 0) {
        rc = batch_init(&batch, data, EVALUATE_BATCH, err);
    }
    const float **values = mem_new(v->count, sizeof *values);
    for (size_t i = 0; i < v->count; i++) {
        values[i] = v->values[i];
    }
    for (uint64_t at = 0; at < total && rc == 0;) {
        size_t n = total - at < EVALUATE_BATCH ? (size_t)(total - at) : EVALUATE_BATCH;
        for (size_t i = 0; i < n; i++) {
            records[i] = at + i;
        }
        rc = dataset_read(data, records, n, &batch, err);
        rc = rc != 0 ? rc : saved_tables_read(tables, model, &batch.lists, &reader, err);
        if (rc == 0) {
            runner_set_rows(runner, reader.run);
            runner_evaluate(runner, values, &batch, sums);
        }
        at += n;
    }
    free(values);
    batch_release(&batch);
    saved_reader_release(&reader);
    runner_free(runner);
    return rc;
}

static void print(const struct options *o, const char *path, const struct metrics *sums,
                  double label_scale)
{
    struct buf out = {0};
    if (o->common.json) {
        text_metrics_json(path, sources[o->on], sums, label_scale, &out);
        (void)fputs(buf_str(&out), stdout);
    } else {
        buf_printf(&out, "checkpoint  %s\n", path);
        text_metrics(sums, label_scale, &out);
        terminal_print(&out);
    }
    buf_release(&out);
}

static int evaluate(const struct options *o, const char *path, struct checkpoint *c,
                    struct job_spec *spec, struct err *err)
{
    struct model *model = NULL;
    struct dataset *train = NULL, *test = NULL;
    struct saved_variables variables = {0};
    struct saved_tables tables = {0};
    if (job_spec_is_program(spec)) {
        return job_file_refuse_program(spec, err);
    }
    int imported = job_spec_import(spec, NULL, err);
    if (imported != 0) {
        return imported;
    }
    struct metrics sums;
    metrics_init(&sums, spec->model.metrics);
    struct data_spec records = spec->data; /* borrows what the other has */
    records.cache_dir = getenv(JOB_FILE_CACHE_DIR);
    int rc = dataset_open(&records, job_spec_label_kind(spec), &train, &test, err);
    const struct dataset *data = o->on == SOURCE_TEST ? test : train;
    if (rc == 0 && data == NULL) {
        rc = err_set(err, ERR_INVALID,
                     "the job names no test data; give --set data.test.file=… or --on train");
    }
    if (rc == 0) {
        const struct dataset_info *info = dataset_info(data);
        rc = model_new(&spec->model, &info->features, &info->fields,
                       info->label_is_class ? info->classes : 0, &model, err);
    }
    if (rc == 0) {
        rc = job_spec_check_lists(model, data, NULL, err);
    }
    rc = rc != 0 ? rc : job_spec_check_groups(model, data, sources[o->on], err);
    if (rc == 0) {
        const char *slot = spec->update.evaluate_average ? "average" : NULL;
        rc = saved_variables_read(c, model, slot, &variables, err);
    }
    rc = rc != 0 ? rc : saved_tables_open(&tables, c, spec, err);
    rc = rc != 0 ? rc : saved_tables_load(&tables, c, err);
    if (rc == 0) {
        rc = measure(model, &variables, &tables, data, (int)spec->cluster.blas_threads, &sums, err);
    }
    if (rc == 0) {
        print(o, path, &sums, dataset_info(data)->label_scale);
    }
    saved_variables_release(&variables);
    saved_tables_release(&tables);
    metrics_release(&sums);
    model_free(model);
    dataset_free(train);
    dataset_free(test);
    return rc;
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    int loaded = cli_load_rules(&o->common);
    if (loaded != CLI_OK) {
        return loaded;
    }
    char *path = NULL;
    struct checkpoint *checkpoint = NULL;
    struct job_spec spec = {0};
    struct err err = {0};
    int rc = find_checkpoint(args->positional[0], &o->common, o->best, &path, &err);
    if (rc == 0) {
        rc = checkpoint_open(path, CHECKPOINT_FULL, &checkpoint, &err);
    }
    if (rc == 0) {
        rc = saved_job_read(checkpoint, path, args->sets, args->set_count, &spec, &err);
    }
    if (rc == 0) {
        rc = evaluate(o, path, checkpoint, &spec, &err);
    }
    job_spec_release(&spec);
    checkpoint_close(checkpoint);
    free(path);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}

const struct cli_command cmd_evaluate = {
    .name = "evaluate",
    .summary = "Measure a checkpoint on a data source, in this process",
    .usage = "JOB|CHECKPOINT_DIR",
    .examples = "  gradus evaluate digits-1\n"
                "  gradus evaluate state/checkpoints/iris-1 --set data.dir=/data --on train\n",
    .notes = "The data, the model and the metrics are those of the checkpoint's job, and so is "
             "whether the moving average of the parameters is measured (update.evaluate_average); "
             "--set changes them. Variables and tables are read into memory.\n" CLI_PLACES_NOTE,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .sets = true,
    .computes = true,
    .run = run,
};
