/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorboard/parameters.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "tensorboard/event_file.h"
#include "tensorboard/event_list.h"
#include "tensorboard/histogram_message.h"

#define CHUNK_FLOATS (1U << 18) /* 1 MiB */
#define JOB_BYTES_MAX 128

struct wanted { /* of one directory */
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

static void tell(const struct variable_spec *v, const struct histogram *h, const double *limits,
                 struct value *out)
{
    histogram_message(h, limits, out->ends, out->counts, &out->histogram);
    tensorboard__summary__value__init(&out->message);
    out->message.tag = mem_strdup(v->name);
    out->message.value_case = TENSORBOARD__SUMMARY__VALUE__VALUE_HISTO;
    out->message.histo = &out->histogram;
}

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
    tell(v, &room->histogram, room->limits, out);
    return rc;
}

/* The values that were told, as an event; frees them. */
static void add_event(const struct manifest *m, struct value *values, size_t count,
                      struct wanted *w)
{
    Tensorboard__Summary__Value **list = mem_new(count + 1, sizeof *list);
    for (size_t i = 0; i < count; i++) {
        list[i] = &values[i].message;
    }
    Tensorboard__Summary summary = TENSORBOARD__SUMMARY__INIT;
    summary.value = list;
    summary.n_value = count;
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    event.wall_time = (double)m->created_ms / 1000;
    event.step = (int64_t)m->step;
    event.what_case = TENSORBOARD__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    const struct event_record r = event_record_add(&event, &w->bytes);
    event_list_add(&w->list, &r);
    free(list);
}

static void values_free(struct value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(values[i].message.tag);
    }
    free(values);
}

static int add_parameters(const struct checkpoint *c, struct room *room, struct wanted *w,
                          struct err *err)
{
    const struct manifest *m = checkpoint_manifest(c);
    struct value *values = mem_new(m->variable_count + 1, sizeof *values);
    size_t count = 0;
    int rc = 0;
    for (; rc == 0 && count < m->variable_count; count++) {
        rc = look_at(c, &m->variables[count], room, &values[count], err);
    }
    if (rc == 0) {
        add_event(m, values, count, w);
    }
    values_free(values, count);
    return rc;
}

/* Those that the shards wrote, if they did. */
static int add_gradients(const struct checkpoint *c, const struct room *room, struct wanted *w,
                         struct err *err)
{
    const struct manifest *m = checkpoint_manifest(c);
    struct histogram *all = mem_new(m->variable_count + 1, sizeof *all);
    struct value *values = mem_new(m->variable_count + 1, sizeof *values);
    size_t count = 0;
    bool found = false;
    int rc = checkpoint_gradients(c, all, &found, err);
    for (size_t i = 0; rc == 0 && found && i < m->variable_count; i++) {
        if (all[i].count > 0) {
            tell(&m->variables[i], &all[i], room->limits, &values[count++]);
        }
    }
    if (count > 0) {
        add_event(m, values, count, w);
    }
    values_free(values, count);
    free(all);
    return rc;
}

static int add_checkpoint(const char *path, struct room *room, struct wanted *parameters,
                          struct wanted *gradients, struct err *err)
{
    struct checkpoint *c = NULL;
    int rc = checkpoint_open(path, CHECKPOINT_PIECES, &c, err);
    rc = rc == 0 ? add_parameters(c, room, parameters, err) : rc;
    rc = rc == 0 ? add_gradients(c, room, gradients, err) : rc;
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

static int change_file(const char *dir, const char *name, const struct wanted *w, struct err *err)
{
    char *run = mem_printf("%s/%s/%s", dir, w->job->id, name);
    int rc =
        w->list.count == 0 ? 0 : event_file_change(run, w->job->started_ms / 1000, look, w, err);
    free(run);
    return rc;
}

static void wanted_release(struct wanted *w)
{
    event_list_release(&w->list);
    buf_release(&w->bytes);
}

int parameters_write(const char *dir, const Gradus__V1__Job *job, char *const *paths, size_t count,
                     struct err *err)
{
    struct wanted parameters = {.job = job}, gradients = {.job = job};
    struct room *room = mem_new(1, sizeof *room);
    int rc = text_is_name(job->id, JOB_BYTES_MAX) && job->id[0] != '\0'
                 ? 0
                 : err_set(err, ERR_INVALID, "the id of the job is no name of a directory");
    histogram_limits(room->limits);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = add_checkpoint(paths[i], room, &parameters, &gradients, err);
    }
    rc = rc == 0 ? change_file(dir, "parameters", &parameters, err) : rc;
    rc = rc == 0 ? change_file(dir, "gradients", &gradients, err) : rc;
    wanted_release(&parameters);
    wanted_release(&gradients);
    free(room);
    return rc;
}
