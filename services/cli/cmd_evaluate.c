/* SPDX-License-Identifier: Apache-2.0 */
/* gradus evaluate: measure a saved model on test or training data. This process computes it alone,
 * as the job file inside the checkpoint says; no worker or parameter server takes part. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/find_checkpoint.h"
#include "cli/job_file.h"
#include "cli/open_saved.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/text_metrics.h"
#include "saved/saved_evaluate.h"

enum source { SOURCE_TEST, SOURCE_TRAIN };
static const char *const sources[] = {"test", "train", NULL};

struct options {
    struct cli_common common;
    int on;
};

static const struct field fields[] = {
    {.path = "on",
     .type = FIELD_ENUM,
     .offset = offsetof(struct options, on),
     .def = "test",
     .choices = sources,
     .help = "Which records"},
};

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

static int evaluate(const struct options *o, const char *path, struct saved_model *model,
                    struct err *err)
{
    const struct job_spec *spec = saved_model_spec(model);
    struct metrics sums;
    bool weighted = false;
    metrics_init(&sums, spec->model.metrics);
    int rc = saved_evaluate(model, o->on == SOURCE_TEST, (int)spec->cluster.blas_threads, &sums,
                            &weighted, err);
    if (rc == 0 && !weighted &&
        data_spec_weights(&spec->data, sources[o->on]) != DATA_WEIGHTS_NONE) {
        cli_say(DATA_NO_WEIGHTS);
    }
    if (rc == 0) {
        print(o, path, &sums, encoder_info(saved_model_encoder(model))->label_scale);
    }
    metrics_release(&sums);
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
    struct saved_model *model = NULL;
    struct err err = {0};
    int rc = find_model(args->positional[0], &o->common, o->common.best, &path, &err);
    if (rc == 0) {
        const struct saved_model_request request = {.path = path,
                                                    .sets = args->sets,
                                                    .set_count = args->set_count,
                                                    .cache_dir = getenv(JOB_FILE_CACHE_DIR)};
        rc = open_saved(&request, &model, &err);
    }
    rc = rc != 0 ? rc : evaluate(o, path, model, &err);
    saved_model_free(model);
    free(path);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}

const struct cli_command cmd_evaluate = {
    .name = "evaluate",
    .summary = "Measure a trained model on a data source, in this process",
    .usage = "JOB[@best]|CHECKPOINT_DIR|MODEL_FILE",
    .examples = "  gradus evaluate digits-1\n"
                "  gradus evaluate state/checkpoints/iris-1 --set data.dir=/data --on train\n",
    .notes =
        "The data, the model and the metrics are those of the job that it was trained by, and so "
        "is "
        "whether the moving average of the parameters is measured (update.evaluate_average); "
        "--set changes them. What was measured on the train data is taken from the checkpoint, or "
        "from MODEL_FILE, which `gradus export` wrote as safetensors, so these need not be here. "
        "Variables and tables are read into memory. With --set data.test.file=- the test records "
        "come "
        "from standard input, plain or packed.\n" CLI_PLACES_NOTE,
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
