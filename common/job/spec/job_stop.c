/* SPDX-License-Identifier: Apache-2.0 */
/* Checks training.stop and checkpoints_keep.best, which need evaluations of something that is
 * measured. */
#include <stdio.h>

#include "job/spec/job_internal.h"

#define KEEP_BEST "training.checkpoints_keep.best"

/* Has it records to evaluate? A program may bring them: then the data will tell. */
static bool has_test(const struct job_reader *r)
{
    const struct data_spec *data = &r->spec->data;
    return (data->test.file != NULL && data->test.file[0] != '\0') || data->test_fraction > 0 ||
           (job_program_given(r) && (data->train.file == NULL || data->train.file[0] == '\0'));
}

/* Checks keys that mean nothing as long as no metric is named. */
static void check_alone(const struct job_reader *r)
{
    static const char *const others[] = {"stop.patience", "stop.min_delta", "stop.restore_best"};
    const struct training_spec *t = &r->spec->training;
    const bool wanted[] = {t->stop_patience != 3, t->stop_min_delta != 0, t->stop_restore_best};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "training.%s", others[i]);
        if (wanted[i] && job_seen(r, JOB_SECTION_TRAINING, others[i])) {
            job_report(r, path,
                       "%s: nothing says which evaluation is better; allowed: together with "
                       "training.stop.metric",
                       path);
        }
    }
}

/* Checks that @kind, the value of the key @path, is measured on test records during training. */
static void check_metric(const struct job_reader *r, const char *path, enum metric_kind kind)
{
    struct buf allowed = {0};
    for (int k = 0; k < METRIC_KIND_COUNT; k++) {
        if ((r->spec->model.metrics & 1U << k) != 0) {
            buf_printf(&allowed, "%s%s", allowed.len == 0 ? "" : ", ", metric_kind_names[k]);
        }
    }
    if (r->spec->model.metrics != 0 && (r->spec->model.metrics & 1U << kind) == 0) {
        job_report(r, path,
                   "%s: %s is not measured; allowed: %s, or what is added to model.metrics", path,
                   metric_kind_names[kind], buf_str(&allowed));
    }
    buf_release(&allowed);
    if (r->spec->training.evaluate_every.count == 0) {
        job_report(r, path,
                   "%s: nothing is evaluated before the end; allowed: together with another "
                   "training.evaluate_every than never",
                   path);
    }
    if (r->sound[JOB_SECTION_DATA] && !has_test(r)) {
        job_report(r, path,
                   "%s: it is measured on test records, and the job has none; allowed: together "
                   "with data.test or data.test_fraction",
                   path);
    }
}

void job_stop_check(const struct job_reader *r)
{
    const struct training_spec *t = &r->spec->training;
    job_keep_check(r);
    if (!r->sound[JOB_SECTION_TRAINING]) {
        return;
    }
    if (t->stop_metric == 0) {
        check_alone(r);
    } else {
        check_metric(r, "training.stop.metric", (enum metric_kind)(t->stop_metric - 1));
    }
    if (t->keep_best != 0 && t->stop_metric != 0 && t->keep_best != t->stop_metric) {
        job_report(r, KEEP_BEST,
                   KEEP_BEST ": %s, but training.stop.metric is %s; allowed: the same metric, or "
                             "one of the two keys",
                   metric_kind_names[t->keep_best - 1], metric_kind_names[t->stop_metric - 1]);
    } else if (t->keep_best != 0 && t->stop_metric == 0) {
        check_metric(r, KEEP_BEST, (enum metric_kind)(t->keep_best - 1));
    }
}
