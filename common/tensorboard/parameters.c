/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorboard/parameters.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "tensorboard/event_file.h"
#include "tensorboard/event_list.h"
#include "tensorboard/histogram.h"

#define CHUNK_FLOATS (1U << 18) /* 1 MiB */
#define JOB_BYTES_MAX 128

struct wanted {
    const Gradus__V1__Job *job;
    struct buf bytes;
    struct event_list list;
};

/* ---- of one checkpoint ---- */

struct room { /* for one variable at a time */
    double limits[HISTOGRAM_BUCKETS];
    float chunk[CHUNK_FLOATS];
    struct histogram histogram;
};
struct value { /* of one variable, as it is told */
    Tensorboard__Summary__Value message;
    Tensorboard__Histogram histogram;
    double ends[HISTOGRAM_BUCKETS], counts[HISTOGRAM_BUCKETS];
};

static int look_at(const struct checkpoint *c, const struct variable_spec *v, struct room *room,
                   struct value *out, struct err *err)
{
    const uint64_t elements = shape_count(&v->shape);
    int rc = 0;
    room->histogram = (struct histogram){0};
    for (uint64_t at = 0, n; rc == 0 && at < elements; at += n) {
        n = elements - at < CHUNK_FLOATS ? elements - at : CHUNK_FLOATS;
        rc = checkpoint_read(c, v->name, NULL, at, n, room->chunk, err);
        if (rc == 0) {
            histogram_add(&room->histogram, room->limits, room->chunk, (size_t)n);
        }
    }
    histogram_message(&room->histogram, room->limits, out->ends, out->counts, &out->histogram);
    tensorboard__summary__value__init(&out->message);
    out->message.tag = mem_strdup(v->name);
    out->message.value_case = TENSORBOARD__SUMMARY__VALUE__VALUE_HISTO;
    out->message.histo = &out->histogram;
    return rc;
}

static int add_event(const struct checkpoint *c, struct room *room, struct wanted *w,
                     struct err *err)
{
    const struct manifest *m = checkpoint_manifest(c);
    struct value *values = mem_new(m->variable_count + 1, sizeof *values);
    Tensorboard__Summary__Value **list = mem_new(m->variable_count + 1, sizeof *list);
    size_t count = 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->variable_count; i++) {
        list[count++] = &values[i].message;
        rc = look_at(c, &m->variables[i], room, &values[i], err);
    }
    if (rc == 0) {
        Tensorboard__Summary summary = TENSORBOARD__SUMMARY__INIT;
        summary.value = list;
        summary.n_value = m->variable_count;
        Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
        event.wall_time = (double)m->created_ms / 1000;
        event.step = (int64_t)m->step;
        event.what_case = TENSORBOARD__EVENT__WHAT_SUMMARY;
        event.summary = &summary;
        const struct event_record r = event_record_add(&event, &w->bytes);
        event_list_add(&w->list, &r);
    }
    for (size_t i = 0; i < count; i++) {
        free(values[i].message.tag);
    }
    free(list);
    free(values);
    return rc;
}

static int add_checkpoint(const char *path, struct room *room, struct wanted *w, struct err *err)
{
    struct checkpoint *c = NULL;
    int rc = checkpoint_open(path, CHECKPOINT_PIECES, &c, err);
    rc = rc == 0 ? add_event(c, room, w, err) : rc;
    checkpoint_close(c);
    return rc == 0 ? 0 : err_wrap(err, "histograms of %s", path);
}

/* ---- the file ---- */

/* Both rise. What the file alone has was of checkpoints that are gone: it stays, unless one of an
 * earlier step is new or another one now. */
static void add_missing(const struct wanted *w, const struct event_list *there, struct buf *out)
{
    size_t i = 0, k = 0;
    if (there->bytes == 0) {
        event_record_add_version(w->job->started_ms, out);
    }
    for (; k < w->list.count; k++) {
        const struct event_record *now = &w->list.items[k];
        while (i < there->count && there->items[i].step < now->step) {
            i++;
        }
        if (i == there->count || there->items[i].step != now->step ||
            there->items[i].sum != now->sum || there->items[i].bytes != now->bytes) {
            break;
        }
    }
    if (k < w->list.count) {
        const struct event_record *now = &w->list.items[k];
        if (i < there->count) {
            event_list_restart(now->step, w->job->started_ms, out);
        }
        buf_add(out, w->bytes.data + now->at, w->bytes.len - now->at);
    }
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

int parameters_write(const char *dir, const Gradus__V1__Job *job, char *const *paths, size_t count,
                     struct err *err)
{
    struct wanted w = {.job = job};
    struct room *room = mem_new(1, sizeof *room);
    int rc = text_is_name(job->id, JOB_BYTES_MAX) && job->id[0] != '\0'
                 ? 0
                 : err_set(err, ERR_INVALID, "the id of the job is no name of a directory");
    histogram_limits(room->limits);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = add_checkpoint(paths[i], room, &w, err);
    }
    if (rc == 0 && count > 0) {
        char *run = mem_printf("%s/%s/parameters", dir, job->id);
        rc = event_file_change(run, job->started_ms / 1000, look, &w, err);
        free(run);
    }
    event_list_release(&w.list);
    buf_release(&w.bytes);
    free(room);
    return rc;
}
