/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorboard/tensorboard.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "tensorboard/event_file.h"
#include "tensorboard/event_record.h"
#include "tensorboard/hyperparameters.h"

#define JOB_BYTES_MAX 128

/* ---- records ---- */

/* Evaluations in a file, or those that are to be there. */
struct records {
    struct event_record *items;
    size_t count, capacity;
};

static void add_to(struct records *all, const struct event_record *r)
{
    all->items = mem_grow(all->items, &all->capacity, all->count + 1, sizeof *all->items);
    all->items[all->count++] = *r;
}

/* What came before with @step or a later one counts no more. */
static void add_restart(int64_t step, int64_t time_ms, struct buf *out)
{
    Tensorboard__SessionLog log = TENSORBOARD__SESSION_LOG__INIT;
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    log.status = TENSORBOARD__SESSION_LOG__SESSION_STATUS__START;
    event.wall_time = (double)time_ms / 1000;
    event.step = step;
    event.what_case = TENSORBOARD__EVENT__WHAT_SESSION_LOG;
    event.session_log = &log;
    (void)event_record_add(&event, out);
}

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

/* ---- what a file has ---- */

struct content {
    struct records live; /* evaluations that count */
    size_t bytes;        /* of whole records */
    size_t record_count;
};

/* Takes one record. False: no file of ours has it. */
static bool take(struct content *c, const Tensorboard__Event *event, struct event_record *r)
{
    if (c->record_count == 0) {
        return event_record_is_version(event);
    }
    if (event->what_case == TENSORBOARD__EVENT__WHAT_SESSION_LOG) {
        while (c->live.count > 0 && c->live.items[c->live.count - 1].step >= event->step) {
            c->live.count--;
        }
    } else {
        r->step = event->step;
        add_to(&c->live, r);
    }
    return true;
}

/* False: it is none of our files. A record that is cut off at the end is left out. */
static bool read_content(const struct buf *file, struct content *c)
{
    struct event_record r;
    Tensorboard__Event *event;
    int read = 0;
    bool ours = true;
    while (ours && c->bytes < file->len &&
           (read = event_record_read(file, c->bytes, &r, &event)) > 0) {
        ours = take(c, event, &r);
        tensorboard__event__free_unpacked(event, NULL);
        c->record_count++;
        c->bytes += r.bytes;
    }
    return ours && read >= 0;
}

/* ---- writing ---- */

/* The evaluations of a job on its train or its test data. */
struct wanted {
    const Gradus__V1__Job *job;
    struct buf bytes;
    struct records records; /* [1] at least */
};

/* What is to be appended to a file with @c. The job knows its last evaluations alone: what the file
 * has before them stays. */
static void add_missing(const struct wanted *w, const struct content *c, struct buf *out)
{
    const struct event_record *live = c->live.items, *now = w->records.items;
    size_t i = 0, same = 0;
    while (i < c->live.count && live[i].step < now[0].step) {
        i++;
    }
    while (i < c->live.count && same < w->records.count && live[i].step == now[same].step &&
           live[i].sum == now[same].sum && live[i].bytes == now[same].bytes) {
        i++;
        same++;
    }
    if (c->record_count == 0) {
        event_record_add_version(w->job->started_ms, out);
    }
    if (same == w->records.count) {
        return; /* the file may be ahead */
    }
    if (i < c->live.count) {
        const int64_t step = live[i].step < now[same].step ? live[i].step : now[same].step;
        add_restart(step, w->job->started_ms, out);
    }
    buf_add(out, w->bytes.data + now[same].at, w->bytes.len - now[same].at);
}

static bool look(const void *ctx, const struct buf *file, struct event_change *change)
{
    struct content c = {.bytes = 0};
    const bool ours = read_content(file, &c);
    if (ours) {
        change->keep = c.bytes;
        add_missing(ctx, &c, &change->more);
    }
    free(c.live.items);
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
                add_to(&w.records, &r);
            }
        }
        char *run = mem_printf("%s/%s/%s", dir, job->id, test ? "test" : "train");
        rc =
            w.records.count > 0 ? event_file_change(run, job->started_ms / 1000, look, &w, err) : 0;
        free(run);
        buf_release(&w.bytes);
        free(w.records.items);
    }
    if (rc == 0 && text != NULL && text[0] != '\0' && count > 0) {
        char *session = mem_printf("%s/%s", dir, job->id);
        rc = hyperparameters_write(session, job, text, err);
        free(session);
    }
    return rc;
}
