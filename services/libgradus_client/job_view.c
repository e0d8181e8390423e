/* SPDX-License-Identifier: Apache-2.0 */
/* A job as the interface shows it. */
#include <stdlib.h>

#include "base/mem.h"
#include "client_handle.h"
#include "gradus/v1/jobs.pb-c.h"

static const struct gradus_metric *metrics_of(struct gradus_metric *out,
                                              Gradus__V1__MetricValue *const *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = (struct gradus_metric){.name = values[i]->name, .value = values[i]->value};
    }
    return out;
}

static const char *state_name(int state)
{
    const ProtobufCEnumValue *v =
        protobuf_c_enum_descriptor_get_value(&gradus__v1__job_state__descriptor, state);
    return v != NULL && state != GRADUS_JOB_UNKNOWN ? v->name : "UNKNOWN";
}

void job_view_set(struct job_view *view, const Gradus__V1__Job *job)
{
    free(view->metrics);
    view->metrics = mem_new(job->n_train + job->n_test + 1, sizeof *view->metrics);
    view->status = (struct gradus_job_status){
        .size = sizeof view->status,
        .id = job->id,
        .name = job->name,
        .owner = job->owner,
        .state = (int)job->state,
        .state_name = state_name((int)job->state),
        .reason = job->reason,
        .activity = job->activity,
        .checkpoint = job->checkpoint,
        .steps = job->step,
        .steps_total = job->steps_total,
        .epochs = job->epoch,
        .epochs_total = job->epochs_total,
        .examples = job->examples,
        .recoveries = job->recoveries,
        .examples_per_second = job->examples_per_second,
        .seconds = job->seconds,
        .eta_seconds = job->eta_seconds,
        .submitted_ms = job->submitted_ms,
        .started_ms = job->started_ms,
        .finished_ms = job->finished_ms,
        .train = metrics_of(view->metrics, job->train, job->n_train),
        .train_count = job->n_train,
        .test = metrics_of(view->metrics + job->n_train, job->test, job->n_test),
        .test_count = job->n_test,
    };
}

void job_view_release(struct job_view *view)
{
    free(view->metrics);
    *view = (struct job_view){.metrics = NULL};
}
