/* SPDX-License-Identifier: Apache-2.0 */
/* Answers questions about a job that follow from several keys. */
#include <string.h>

#include "graph/model_import.h"
#include "job/spec/job_spec.h"

/* A program has no loss; what it measures says with what it compares. */
static bool measures_numbers(const struct model_spec *model)
{
    const unsigned of_numbers = 1U << METRIC_RMSE | 1U << METRIC_MAE;
    return (model->metrics & of_numbers) != 0 && (model->metrics & 1U << METRIC_ACCURACY) == 0;
}

enum data_label_kind job_spec_label_kind(const struct job_spec *spec)
{
    if (spec->data.label_kind != DATA_LABEL_AUTO) {
        return (enum data_label_kind)spec->data.label_kind;
    }
    const bool real = job_spec_is_program(spec) ? measures_numbers(&spec->model)
                                                : spec->model.loss == LOSS_MEAN_SQUARED_ERROR;
    return real ? DATA_LABEL_REAL : DATA_LABEL_CLASS;
}

bool job_spec_is_program(const struct job_spec *spec)
{
    return spec->model.program != NULL && spec->model.program[0] != '\0';
}

bool job_spec_is_given(const struct job_spec *spec)
{
    return job_spec_is_program(spec) || model_is_imported(&spec->model);
}

bool job_spec_has_data(const struct job_spec *spec)
{
    return spec->data.train.file != NULL && spec->data.train.file[0] != '\0';
}

uint64_t job_spec_replicas(const struct job_spec *spec)
{
    int64_t given = spec->training.replicas;
    return (uint64_t)(given > 0 ? given : spec->cluster.workers.max);
}

uint64_t job_spec_epoch_records(const struct job_spec *spec, uint64_t records)
{
    const struct training_spec *t = &spec->training;
    return t->drop_last ? records - records % (uint64_t)t->batch_size : records;
}

const char *job_spec_fixed(const char *key)
{
    static const struct {
        const char *key, *reason;
    } fixed[] = {
        {"training", "a section; its keys can be set one by one"},
        {"cluster", "a section; workers, ps and standby in it can be set"},
        {"update", "a section; its keys can be set one by one"},
        {"update.rule",
         "fixed when the job was submitted: it decides what the servers keep of each "
         "parameter; its values, schedules, penalties, clips and patterns can be set"},
        {"update.accumulate",
         "fixed when the job was submitted: it decides what the servers keep of each parameter"},
        {"training.batch_size",
         "fixed when the job was submitted: it decides which records make a batch"},
        {"training.drop_last", "fixed when the job was submitted: it decides how long an epoch is"},
        {"training.seed", "fixed when the job was submitted: it decides the order of the records"},
        {"training.split_batches",
         "fixed when the job was submitted: the data position counts in splits"},
        {"training.wire", "fixed when the job was submitted: it decides how values are rounded"},
        {"training.wire.gradients",
         "fixed when the job was submitted: it decides how values are rounded"},
        {"training.wire.parameters",
         "fixed when the job was submitted: it decides how values are rounded"},
    };
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        if (strcmp(key, fixed[i].key) == 0) {
            return fixed[i].reason;
        }
    }
    bool free = strncmp(key, "training.", strlen("training.")) == 0 ||
                strncmp(key, "update.", strlen("update.")) == 0 ||
                strcmp(key, "cluster.workers") == 0 || strcmp(key, "cluster.ps") == 0 ||
                strcmp(key, "cluster.standby") == 0 || strcmp(key, "priority") == 0;
    return free ? NULL : "fixed when the job was submitted";
}
