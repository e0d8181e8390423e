/* SPDX-License-Identifier: Apache-2.0 */
/* A job's curve for the HTTP port: what the store has, and behind it what is in memory still. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gradus/v1/jobs.pb-c.h"
#include "gradus/v1/page.pb-c.h"
#include "master/shell/curves.h"
#include "os/chrono.h"

struct column { /* of a metric */
    char *name;
    float *values; /* [points] NaN where nothing is known */
};
struct columns {
    struct column items[METRIC_KIND_COUNT];
    size_t count;
};

struct reading {
    Gradus__V1__CurvePoint **points;
    size_t count, capacity;
};

/* A point that cannot be read is left out: the others are worth showing. */
static void take(void *ctx, const struct store_point *p)
{
    struct reading *all = ctx;
    Gradus__V1__CurvePoint *point = gradus__v1__curve_point__unpack(NULL, p->bytes, p->data);
    while (all->count > 0 && all->points[all->count - 1]->step >= p->step) {
        gradus__v1__curve_point__free_unpacked(all->points[--all->count], NULL);
    }
    if (point != NULL) {
        point->step = p->step;
        all->points = mem_grow(all->points, &all->capacity, all->count + 1, sizeof *all->points);
        all->points[all->count++] = point;
    }
}

static float *column_of(struct columns *all, char *name, size_t points)
{
    for (size_t i = 0; i < all->count; i++) {
        if (strcmp(all->items[i].name, name) == 0) {
            return all->items[i].values;
        }
    }
    if (all->count == METRIC_KIND_COUNT) {
        return NULL;
    }
    struct column *c = &all->items[all->count++];
    c->name = name;
    c->values = mem_new(points, sizeof *c->values);
    for (size_t i = 0; i < points; i++) {
        c->values[i] = NAN;
    }
    return c->values;
}

static void put(struct columns *all, Gradus__V1__CurveValue *const *values, size_t n, size_t at,
                size_t points)
{
    for (size_t i = 0; i < n; i++) {
        float *column = column_of(all, values[i]->name, points);
        if (column != NULL) {
            column[at] = values[i]->value;
        }
    }
}

struct metrics_room {
    Gradus__V1__MetricCurve items[METRIC_KIND_COUNT];
    Gradus__V1__MetricCurve *list[METRIC_KIND_COUNT];
};

static void point_at(struct metrics_room *room, const struct columns *from, size_t points)
{
    for (size_t i = 0; i < from->count; i++) {
        gradus__v1__metric_curve__init(&room->items[i]);
        room->items[i].name = from->items[i].name;
        room->items[i].values = from->items[i].values;
        room->items[i].n_values = points;
        room->list[i] = &room->items[i];
    }
}

static void columns_release(struct columns *all)
{
    for (size_t i = 0; i < all->count; i++) {
        free(all->items[i].values);
    }
}

static void reply(struct request *r, char *job, const struct reading *all)
{
    const size_t n = all->count;
    Gradus__V1__Curve curve = GRADUS__V1__CURVE__INIT;
    struct columns train = {0}, test = {0};
    struct metrics_room rooms[2];
    curve.job = job;
    curve.time_ms = mem_new(n + 1, sizeof *curve.time_ms);
    curve.step = mem_new(n + 1, sizeof *curve.step);
    curve.epoch = mem_new(n + 1, sizeof *curve.epoch);
    curve.examples_per_second = mem_new(n + 1, sizeof *curve.examples_per_second);
    for (size_t i = 0; i < n; i++) {
        const Gradus__V1__CurvePoint *p = all->points[i];
        curve.time_ms[i] = p->time_ms;
        curve.step[i] = p->step;
        curve.epoch[i] = p->epoch;
        curve.examples_per_second[i] = p->examples_per_second;
        put(&train, p->train, p->n_train, i, n);
        put(&test, p->test, p->n_test, i, n);
    }
    point_at(&rooms[0], &train, n);
    point_at(&rooms[1], &test, n);
    curve.n_time_ms = curve.n_step = curve.n_epoch = curve.n_examples_per_second = n;
    curve.n_train = train.count;
    curve.train = rooms[0].list;
    curve.n_test = test.count;
    curve.test = rooms[1].list;
    request_reply(r, &curve.base);
    free(curve.time_ms);
    free(curve.step);
    free(curve.epoch);
    free(curve.examples_per_second);
    columns_release(&train);
    columns_release(&test);
}

static int check_known(struct shell *s, const char *job, struct err *err)
{
    struct buf row = {0};
    if (master_job(s->master, job, chrono_now_ms()) != NULL) {
        return 0;
    }
    const int rc = s->store->ops->get(s->store, job, &row, err);
    buf_release(&row);
    return rc == ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "no job %.128s", job) : rc;
}

void run_curve(struct request *r)
{
    struct shell *s = r->shell;
    char *job = mem_strdup(((const Gradus__V1__GetJobRequest *)r->msg->body)->job);
    struct reading all = {0};
    struct err err = {0};
    int rc = check_known(s, job, &err);
    rc = rc < 0 ? rc : s->store->ops->each_point(s->store, job, take, &all, &err);
    for (size_t i = 0; rc == 0 && i < s->curves.count; i++) {
        if (strcmp(s->curves.pending[i].job, job) == 0) {
            take(&all, &s->curves.pending[i]);
        }
    }
    if (rc == 0) {
        reply(r, job, &all);
    } else {
        request_fail(r, &err);
    }
    for (size_t i = 0; i < all.count; i++) {
        gradus__v1__curve_point__free_unpacked(all.points[i], NULL);
    }
    free(all.points);
    free(job);
}
