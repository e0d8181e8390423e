/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that single keys cannot make: which values go together. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/model_weights.h"
#include "job/spec/job_internal.h"

static void check_name(const struct job_reader *r)
{
    const char *name = r->spec->name;
    if (name == NULL) {
        return;
    }
    size_t n = strlen(name);
    bool fits = n >= 1 && n <= JOB_NAME_BYTES_MAX && isalnum((unsigned char)name[0]);
    for (size_t i = 0; i < n && fits; i++) {
        fits = isalnum((unsigned char)name[i]) || strchr("._-", name[i]) != NULL;
    }
    if (!fits) {
        job_report(r, "name",
                   "name: not a job name; allowed: letters, digits, '.', '_' and '-', starting "
                   "with a letter or digit, at most %d",
                   JOB_NAME_BYTES_MAX);
    }
}

static void check_input(const struct job_reader *r)
{
    if (r->spec->model.input.count > JOB_INPUT_RANK_MAX) {
        job_report(r, "model.input", "model.input: %zu dimensions; allowed: 1 to %d",
                   r->spec->model.input.count, JOB_INPUT_RANK_MAX);
    }
}

static void check_length(const struct job_reader *r)
{
    const struct training_spec *t = &r->spec->training;
    if (r->sound[JOB_SECTION_TRAINING] && t->epochs == 0 && t->steps == 0) {
        const char *path =
            job_seen(r, JOB_SECTION_TRAINING, "epochs") ? "training.epochs" : "training.steps";
        job_report(r, path,
                   "training would never end: epochs and steps are both 0; allowed: at "
                   "least one of them above 0");
    }
}

static void check_replicas(const struct job_reader *r)
{
    const struct training_spec *t = &r->spec->training;
    int64_t workers = r->spec->cluster.workers.max;
    bool sound = r->sound[JOB_SECTION_TRAINING] && r->sound[JOB_SECTION_CLUSTER];
    if (sound && t->mode == TRAINING_SYNC && t->replicas > 0 && t->replicas < workers) {
        job_report(r, "training.replicas",
                   "training.replicas: %" PRId64 " replicas leave %" PRId64 " of %" PRId64
                   " workers idle; allowed: at least %" PRId64
                   " (the most of cluster.workers), or 0 for as many",
                   t->replicas, workers - t->replicas, workers, workers);
    }
}

/* Keys of another mode may have any value: the mode can change on a running job, and then this is
 * looked at again. */
static void check_aggregate(const struct job_reader *r)
{
    const struct training_spec *t = &r->spec->training;
    bool sound = r->sound[JOB_SECTION_TRAINING] && r->sound[JOB_SECTION_CLUSTER];
    if (!sound || t->mode != TRAINING_SYNC) {
        return;
    }
    int64_t replicas = (int64_t)job_spec_replicas(r->spec), aggregate = t->replicas_to_aggregate;
    if (aggregate > replicas) {
        job_report(r, "training.replicas_to_aggregate",
                   "training.replicas_to_aggregate: %" PRId64 " of %" PRId64
                   " replicas; allowed: at most training.replicas, or 0 for all",
                   aggregate, replicas);
    } else if (t->speculate && aggregate > 0 && aggregate < replicas) {
        job_report(r, "training.speculate",
                   "training.speculate: late replicas are dropped already by "
                   "training.replicas_to_aggregate: %" PRId64 "; allowed: only one of the two",
                   aggregate);
    }
}

/* Checks overlap: overlapping exchanges are one batch, one push, one pull each, and none is taken
 * back. */
static void check_overlap(const struct job_reader *r)
{
    const struct training_spec *t = &r->spec->training;
    if (!r->sound[JOB_SECTION_TRAINING] || t->mode == TRAINING_SYNC || !t->overlap) {
        return;
    }
    if (t->push_every > 1) {
        job_report(r, "training.push_every",
                   "training.push_every: %" PRId64
                   " does not go together with 'overlap: true'; allowed: 1",
                   t->push_every);
    }
    if (t->pull_every > 1) {
        job_report(r, "training.pull_every",
                   "training.pull_every: %" PRId64
                   " does not go together with 'overlap: true'; allowed: 1",
                   t->pull_every);
    }
    if (t->staleness_policy == POLICY_MAX_STALENESS) {
        job_report(r, "training.staleness_policy",
                   "training.staleness_policy: max_staleness does not go together with "
                   "'overlap: true'; allowed: none, scale_lr or delay_compensation");
    }
}

static void check_staleness(const struct job_reader *r)
{
    const struct training_spec *t = &r->spec->training;
    if (t->mode == TRAINING_BOUNDED && t->staleness == 0) {
        job_report(r, "training.staleness",
                   "training.staleness: bounded with 0 would run in lockstep; allowed: at least 1, "
                   "or 'mode: sync'");
    }
}

static void check_weights(const struct job_reader *r)
{
    bool balanced;
    float *weights;
    size_t count;
    struct err err = {0};
    if (model_weights_read(r->spec->model.class_weights, &balanced, &weights, &count, &err) != 0) {
        job_report(r, "model.class_weights", "model.class_weights: %s", err.msg);
    }
    free(weights);
}

static void check_labels(const struct job_reader *r)
{
    const struct data_spec *data = &r->spec->data;
    if (job_spec_is_program(r->spec) && data->label_scale != DATA_LABEL_SCALE_NONE &&
        job_spec_label_kind(r->spec) == DATA_LABEL_CLASS) {
        job_report(r, "data.label_scale",
                   "data.label_scale: classes cannot be scaled; allowed: none, or with it "
                   "'label_kind: real'");
    }
    if (!r->loss_known) {
        return;
    }
    enum loss_kind loss = r->spec->model.loss;
    bool real_loss = loss == LOSS_MEAN_SQUARED_ERROR;
    if (data->label_kind == DATA_LABEL_REAL && !real_loss) {
        job_report(r, "data.label_kind",
                   "data.label_kind: %s needs classes; allowed: class or auto",
                   loss_kind_names[loss]);
    }
    if (data->label_kind == DATA_LABEL_CLASS && real_loss) {
        job_report(r, "data.label_kind",
                   "data.label_kind: %s needs real labels; allowed: real or "
                   "auto",
                   loss_kind_names[loss]);
    }
    const char *weights = r->spec->model.class_weights;
    if (real_loss && weights != NULL && weights[0] != '\0') {
        job_report(r, "model.class_weights",
                   "model.class_weights: %s has no classes; allowed: a cross entropy",
                   loss_kind_names[loss]);
    }
    if (data->label_scale != DATA_LABEL_SCALE_NONE && !real_loss) {
        job_report(r, "data.label_scale",
                   "data.label_scale: classes cannot be scaled; allowed: none "
                   "(%s has class labels)",
                   loss_kind_names[loss]);
    }
}

static bool given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* Files of labels belong to IDX. */
static void check_label_file(const struct job_reader *r, const char *path, const char *labels)
{
    int format = r->spec->data.format;
    if (format == DATA_FORMAT_TFRECORD && given(labels)) {
        job_report(r, path,
                   "%s: a TFRecord file has its labels among the features; allowed: no file", path);
    }
    if (format == DATA_FORMAT_CSV && given(labels)) {
        job_report(r, path, "%s: a CSV file has its labels in a column; allowed: data.label", path);
    }
    if ((format == DATA_FORMAT_LIBSVM || format == DATA_FORMAT_LIBFFM ||
         format == DATA_FORMAT_CRITEO) &&
        given(labels)) {
        job_report(r, path,
                   "%s: a %s file has its labels at the beginning of lines; allowed: no file", path,
                   format == DATA_FORMAT_LIBSVM   ? "LIBSVM"
                   : format == DATA_FORMAT_LIBFFM ? "libFFM"
                                                  : "Criteo");
    }
}

static void check_sources(const struct job_reader *r)
{
    const struct data_spec *data = &r->spec->data;
    const char *train = data->train.file;
    if (train != NULL && train[0] == '\0' && !job_program_given(r)) {
        job_report(r, "data.train.file",
                   "data.train.file: the name is empty; allowed: path of a "
                   "file");
    }
    if (given(data->test.labels) && !given(data->test.file)) {
        job_report(
            r, "data.test.labels",
            "data.test.labels: labels without records; allowed: together with data.test.file");
    }
    if (given(data->test.file) && data->test_fraction > 0) {
        job_report(r, "data.test_fraction",
                   "data.test_fraction: the test records come from data.test.file; allowed: only "
                   "one of the two");
    }
    if (data->format == DATA_FORMAT_IDX && given(train) && !given(data->train.labels)) {
        job_report(r, "data.train",
                   "data.train.labels is missing; allowed: the IDX file with the "
                   "labels of data.train.file");
    }
    if (data->format == DATA_FORMAT_IDX && given(data->test.file) && !given(data->test.labels)) {
        job_report(r, "data.test",
                   "data.test.labels is missing; allowed: the IDX file with the "
                   "labels of data.test.file");
    }
    check_label_file(r, "data.train.labels", data->train.labels);
    check_label_file(r, "data.test.labels", data->test.labels);
}

/* Formats that say not by themselves what a model can use. */
static void check_columns(const struct job_reader *r)
{
    const struct data_spec *data = &r->spec->data;
    if (data->format == DATA_FORMAT_TFRECORD && data->column_count == 0) {
        job_report(r, "data.columns",
                   "data.columns is missing: nothing says what the features of a TFRecord file "
                   "are; allowed: entries for the label, numbers and sparse fields (docs/data.md)");
    }
    if (data->format == DATA_FORMAT_CRITEO && data->column_count == 0) {
        job_report(r, "data.columns",
                   "data.columns is missing: nothing says what the fields of a Criteo file become; "
                   "allowed: entries for label, I1..I13 and C1..C26 (docs/data.md)");
    }
    if (data->format == DATA_FORMAT_LIBFFM && data->column_count == 0) {
        job_report(r, "data.columns",
                   "data.columns is missing: fields of libFFM are lists of keys; allowed: entries "
                   "such as {column: 0..38, as: sparse, width: 100}");
    }
}

/* A weight is a column or feature beside the label. */
static void check_record_weight(const struct job_reader *r)
{
    const struct data_spec *data = &r->spec->data;
    const bool has = data->format == DATA_FORMAT_AUTO || data->format == DATA_FORMAT_CSV ||
                     data->format == DATA_FORMAT_TFRECORD;
    if (!given(data->weight)) {
        return;
    }
    if (!has) {
        job_report(r, "data.weight",
                   "data.weight: records of this data.format have nothing beside label and "
                   "features; allowed: with csv or tfrecord");
    }
    if (job_program_given(r)) {
        job_report(r, "data.weight",
                   "data.weight: gradients are those of the workers' program (model.program), "
                   "which is told no weights; allowed: with layers or an ONNX file");
    }
}

static void check_sampling(const struct job_reader *r)
{
    const double rate = r->spec->data.negative_sampling;
    if (rate <= 0) {
        job_report(r, "data.negative_sampling",
                   "data.negative_sampling: no negative would be left; allowed: above 0, up to 1");
    } else if (rate < 1 && job_program_given(r)) {
        job_report(r, "data.negative_sampling",
                   "data.negative_sampling: gradients are those of the workers' program "
                   "(model.program), which knows nothing of it; allowed: 1");
    } else if (rate < 1 && r->loss_known && r->spec->model.loss == LOSS_MEAN_SQUARED_ERROR) {
        job_report(r, "data.negative_sampling",
                   "data.negative_sampling: mean_squared_error has no classes; allowed: a cross "
                   "entropy");
    }
}

static void check_separator(const struct job_reader *r)
{
    const char *separator = r->spec->data.separator;
    bool one =
        separator != NULL && strlen(separator) == 1 && strchr("\"\r\n", separator[0]) == NULL;
    if (separator != NULL && !one && strcmp(separator, "tab") != 0 &&
        strcmp(separator, "space") != 0) {
        job_report(r, "data.separator",
                   "data.separator: not a separator; allowed: one character, "
                   "tab or space");
    }
}

/* Checks what keys of the update need of its rule. */
static void check_update(const struct job_reader *r)
{
    const struct update_spec *u = &r->spec->update;
    if (!r->sound[JOB_SECTION_UPDATE]) {
        return;
    }
    if (u->weight_decay != 0 && !job_rule_has(u->rule, "learning_rate")) {
        job_report(r, "update.weight_decay",
                   "update.weight_decay: %s has no learning_rate to multiply it with; allowed: 0",
                   u->rule->name);
    }
    if (u->evaluate_average && u->average == 0) {
        job_report(r, "update.evaluate_average",
                   "update.evaluate_average: there is no moving average; allowed: together with "
                   "update.average");
    }
}

/* Checks an update in async and bounded modes: without steps that all shards take together, sums
 * over variables need a place that has all of a variable, or all of a gradient. */
static void check_update_async(const struct job_reader *r)
{
    const struct update_spec *u = &r->spec->update;
    const struct training_spec *t = &r->spec->training;
    const struct cluster_spec *c = &r->spec->cluster;
    if (!r->sound[JOB_SECTION_UPDATE] || !r->sound[JOB_SECTION_TRAINING] ||
        !r->sound[JOB_SECTION_CLUSTER] || t->mode == TRAINING_SYNC) {
        return;
    }
    const bool several = c->ps > 1, compensates = t->staleness_policy == POLICY_DELAY_COMPENSATION;
    const bool clips = u->clip_norm > 0 || u->clip_global_norm > 0;
    const char *clip = u->clip_norm > 0 ? "update.clip_norm" : "update.clip_global_norm";
    const char *norms = clips ? clip : "update.non_finite";
    const bool fixed = c->partitioner == PARTITIONER_FIXED;
    if (u->rule->rounds > 0 && several && c->partitioner != PARTITIONER_BALANCED &&
        (!fixed || c->partitions > 1)) {
        const char *path = fixed ? "cluster.partitions" : "cluster.partitioner";
        job_report(r, path,
                   "%s: %s needs sums over whole variables, which only 'mode: sync' takes from "
                   "several parameter servers; allowed: 'partitioner: balanced', 'fixed' with 1 "
                   "partition, or 'ps: 1'",
                   path, u->rule->name);
    }
    if (update_spec_accumulate(u) > 1 && clips && several) {
        job_report(r, "update.accumulate",
                   "update.accumulate: several parameter servers that are not in step cannot know "
                   "the norm of accumulated pushes, which %s wants; allowed: 1, 'mode: sync' or "
                   "'ps: 1'",
                   clip);
    }
    if (update_spec_accumulate(u) > 1 && u->rule->base != RULE_BASE_NONE) {
        job_report(r, "update.accumulate",
                   "update.accumulate: %s corrects each push by what its worker read; allowed: 1, "
                   "or 'mode: sync'",
                   u->rule->name);
    }
    if (compensates && update_spec_takes_norms(u) && several) {
        job_report(r, "training.staleness_policy",
                   "training.staleness_policy: delay_compensation changes gradients after their "
                   "norms were taken, which %s wants; allowed: another policy, 'mode: sync' or "
                   "'ps: 1'",
                   norms);
    }
    if (compensates && u->rule->base != RULE_BASE_NONE) {
        job_report(r, "training.staleness_policy",
                   "training.staleness_policy: %s compensates delay by itself; allowed: another "
                   "policy",
                   u->rule->name);
    }
}

static void check_standby(const struct job_reader *r)
{
    const struct job_spec *spec = r->spec;
    if (!r->sound[JOB_SECTION_CLUSTER] || spec->cluster.standby == STANDBY_NONE) {
        return;
    }
    if (spec->cluster.ps < 2) {
        job_report(r, "cluster.standby",
                   "cluster.standby: a shard and its copy are on two servers, and cluster.ps is "
                   "%" PRId64 "; allowed: at least 'ps: 2'",
                   spec->cluster.ps);
    }
}

#define TENSORBOARD_BYTES_MAX 1000

static void check_tensorboard(const struct job_reader *r)
{
    const char *dir = r->spec->training.tensorboard;
    if (dir == NULL) {
        return;
    }
    if (strstr(dir, "://") != NULL) {
        job_report(r, "training.tensorboard",
                   "training.tensorboard: '%.200s' is no directory; allowed: a path on the "
                   "master's host, as event files are appended to",
                   dir);
    } else if (strlen(dir) > TENSORBOARD_BYTES_MAX) {
        job_report(r, "training.tensorboard",
                   "training.tensorboard: %zu bytes; allowed: at most %d", strlen(dir),
                   TENSORBOARD_BYTES_MAX);
    }
    for (const char *p = dir; *p != '\0'; p++) {
        if ((unsigned char)*p < ' ') {
            job_report(r, "training.tensorboard",
                       "training.tensorboard: a control character in the path");
            return;
        }
    }
}

void job_check(struct job_reader *r)
{
    static void (*const checks[])(const struct job_reader *) = {
        check_name,       check_input,      check_length,      check_replicas,
        check_aggregate,  check_staleness,  check_overlap,     check_labels,
        check_weights,    check_sources,    check_columns,     check_record_weight,
        check_sampling,   check_separator,  check_update,      check_update_async,
        job_tables_check, job_groups_check, job_program_check, job_onnx_check,
        job_stop_check,   job_from_check,   check_tensorboard, check_standby,
    };
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        checks[i](r);
    }
}
