/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorboard/tensorboard.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "tensorboard/event_file.h"
#include "tensorboard/event_list.h"
#include "tensorboard/event_record.h"
#include "tensorboard/hyperparameters.h"

#define JOB_BYTES_MAX 128

static struct event_record add_metrics(const Gradus__V1__Evaluation *e,
                                       Gradus__V1__MetricValue *const *metrics, size_t count,
                                       struct buf *out)
{
    char epoch[] = "epoch";
    Tensorboard__Summary__Value *values = mem_new(count + 1, sizeof *values);
    Tensorboard__Summary__Value **list = mem_new(count + 1, sizeof *list);
    for (size_t i = 0; i <= count; i++) {
        tensorboard__summary__value__init(&values[i]);
        values[i].tag = i < count ? metrics[i]->name : epoch;
        values[i].value_case = TENSORBOARD__SUMMARY__VALUE__VALUE_SIMPLE_VALUE;
        values[i].simple_value = (float)(i < count ? metrics[i]->value : e->epoch);
        list[i] = &values[i];
    }
    Tensorboard__Summary summary = TENSORBOARD__SUMMARY__INIT;
    summary.value = list;
    summary.n_value = count + 1;
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    event.wall_time = (double)e->time_ms / 1000;
    event.step = (int64_t)e->step;
    event.what_case = TENSORBOARD__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    const struct event_record r = event_record_add(&event, out);
    free(values);
    free(list);
    return r;
}

/* The evaluations of a job on its train or its test data. */
struct wanted {
    const Gradus__V1__Job *job;
    struct buf bytes;
    struct event_list list; /* [1] at least */
};

/* What is to be appended to a file with @there. The job knows its last evaluations alone: what the
 * file has before them stays. */
static void add_missing(const struct wanted *w, const struct event_list *there, struct buf *out)
{
    const struct event_record *live = there->items, *now = w->list.items;
    size_t i = 0, same = 0;
    while (i < there->count && live[i].step < now[0].step) {
        i++;
    }
    while (i < there->count && same < w->list.count && live[i].step == now[same].step &&
           live[i].sum == now[same].sum && live[i].bytes == now[same].bytes) {
        i++;
        same++;
    }
    if (there->bytes == 0) {
        event_record_add_version(w->job->started_ms, out);
    }
    if (same == w->list.count) {
        return; /* the file may be ahead */
    }
    if (i < there->count) {
        const int64_t step = live[i].step < now[same].step ? live[i].step : now[same].step;
        event_list_restart(step, w->job->started_ms, out);
    }
    buf_add(out, w->bytes.data + now[same].at, w->bytes.len - now[same].at);
}

static bool look(const void *ctx, const struct buf *file, struct event_change *change)
{
    struct event_list there = {0};
    const bool ours = event_list_read(file, &there);
    if (ours) {
        change->keep = there.bytes;
        add_missing(ctx, &there, &change->more);
    }
    event_list_release(&there);
    return ours;
}

int tensorboard_write(const char *dir, const Gradus__V1__Job *job, const char *text, size_t count,
                      struct err *err)
{
    int rc = text_is_name(job->id, JOB_BYTES_MAX) && job->id[0] != '\0'
                 ? 0
                 : err_set(err, ERR_INVALID, "the id of the job is no name of a directory");
    for (int test = 0; test < 2 && rc == 0; test++) {
        struct wanted w = {.job = job};
        for (size_t i = 0; i < count && i < job->n_evaluations; i++) {
            const Gradus__V1__Evaluation *e = job->evaluations[i];
            const size_t n = test ? e->n_test : e->n_train;
            if (n > 0) {
                const struct event_record r =
                    add_metrics(e, test ? e->test : e->train, n, &w.bytes);
                event_list_add(&w.list, &r);
            }
        }
        char *run = mem_printf("%s/%s/%s", dir, job->id, test ? "test" : "train");
        rc = w.list.count > 0 ? event_file_change(run, job->started_ms / 1000, look, &w, err) : 0;
        free(run);
        buf_release(&w.bytes);
        event_list_release(&w.list);
    }
    if (rc == 0 && text != NULL && text[0] != '\0' && count > 0) {
        char *session = mem_printf("%s/%s", dir, job->id);
        rc = hyperparameters_write(session, job, text, err);
        free(session);
    }
    return rc;
}
