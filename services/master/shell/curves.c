/* SPDX-License-Identifier: Apache-2.0 */
#include "master/shell/curves.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gradus/v1/page.pb-c.h"
#include "master/shell/curve_thin.h"
#include "os/chrono.h"
#include "os/log.h"

#define FLUSH_MS 10000

struct curve { /* of a job that trains */
    char *job;
    size_t count;      /* of points, stored or not */
    uint64_t step;     /* of the last one; 0: there is none */
    int64_t first_ms;  /* Unix time of the first one */
    uint64_t taken_ms; /* when the last one was taken; 0: not in this process */
};

/* ---- points ---- */

struct point_room {
    Gradus__V1__CurvePoint message;
    Gradus__V1__CurveValue values[2][METRIC_KIND_COUNT];
    Gradus__V1__CurveValue *pointers[2][METRIC_KIND_COUNT];
};

static size_t fill(const struct job_metrics *m, Gradus__V1__CurveValue *values,
                   Gradus__V1__CurveValue **pointers)
{
    size_t count = 0;
    for (int kind = 0; kind < METRIC_KIND_COUNT; kind++) {
        union {
            const char *in;
            char *out; /* nobody writes through it */
        } name = {.in = metric_kind_names[kind]};
        if ((m->kinds >> kind & 1u) != 0) {
            gradus__v1__curve_value__init(&values[count]);
            values[count].name = name.out;
            values[count].value = (float)m->values[kind];
            pointers[count] = &values[count];
            count++;
        }
    }
    return count;
}

/* The newest evaluation, if no point has it; else nothing is known. */
static struct job_metrics new_test(const struct job_record *r, uint64_t since_step)
{
    const struct job_evaluation *last =
        r->evaluation_count > 0 ? &r->evaluations[r->evaluation_count - 1] : NULL;
    return last != NULL && last->step > since_step ? last->test : (struct job_metrics){0};
}

static void add_point(struct curves *cs, const struct job_record *r, uint64_t since_step)
{
    struct point_room room;
    const struct job_metrics test = new_test(r, since_step);
    gradus__v1__curve_point__init(&room.message);
    room.message.time_ms = chrono_wall_ms();
    room.message.step = r->step;
    room.message.epoch = (float)r->epoch;
    room.message.examples_per_second = (float)r->examples_per_second;
    room.message.n_train = fill(&r->train, room.values[0], room.pointers[0]);
    room.message.train = room.pointers[0];
    room.message.n_test = fill(&test, room.values[1], room.pointers[1]);
    room.message.test = room.pointers[1];
    const size_t bytes = gradus__v1__curve_point__get_packed_size(&room.message);
    uint8_t *data = mem_new(bytes, 1); /* there is a time in it */
    gradus__v1__curve_point__pack(&room.message, data);
    cs->pending = mem_grow(cs->pending, &cs->capacity, cs->count + 1, sizeof *cs->pending);
    cs->pending[cs->count++] = (struct store_point){.job = mem_strdup(r->id),
                                                    .step = r->step,
                                                    .time_ms = room.message.time_ms,
                                                    .data = data,
                                                    .bytes = bytes};
}

static void point_free(const struct store_point *p)
{
    union {
        const void *in;
        void *out; /* of add_point() */
    } job = {.in = p->job}, data = {.in = p->data};
    free(job.out);
    free(data.out);
}

static void drop_first(struct curves *cs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        point_free(&cs->pending[i]);
    }
    cs->count -= count;
    if (cs->count > 0) { /* else there may be no array */
        memmove(cs->pending, cs->pending + count, cs->count * sizeof *cs->pending);
    }
}

/* ---- curves ---- */

static void count_point(void *ctx, const struct store_point *p)
{
    struct curve *c = ctx;
    c->first_ms = c->count++ == 0 ? p->time_ms : c->first_ms;
    c->step = p->step;
}

/* What the store has of the job is known when it trains for the first time. */
static struct curve *curve_of(struct shell *s, const char *job)
{
    struct curve *c = name_index_find(&s->curves.index, job);
    if (c != NULL) {
        return c;
    }
    c = mem_new(1, sizeof *c);
    c->job = mem_strdup(job);
    (void)s->store->ops->each_point(s->store, job, count_point, c, NULL);
    name_index_put(&s->curves.index, c->job, c);
    return c;
}

static void curve_free(struct shell *s, struct curve *c)
{
    name_index_remove(&s->curves.index, c->job);
    free(c->job);
    free(c);
}

struct places { /* of the points of one curve */
    int64_t *time_ms;
    uint64_t *steps;
    size_t count, times_room, steps_room;
};

static void note_place(void *ctx, const struct store_point *p)
{
    struct places *all = ctx;
    const size_t n = all->count + 1;
    all->time_ms = mem_grow(all->time_ms, &all->times_room, n, sizeof *all->time_ms);
    all->steps = mem_grow(all->steps, &all->steps_room, n, sizeof *all->steps);
    all->time_ms[all->count] = p->time_ms;
    all->steps[all->count++] = p->step;
}

static int thin(struct shell *s, struct curve *c, struct err *err)
{
    struct places all = {0};
    int rc = s->store->ops->each_point(s->store, c->job, note_place, &all, err);
    bool *goes = mem_new(all.count + 1, sizeof *goes);
    size_t gone = 0;
    (void)curve_thin(all.time_ms, rc == 0 ? all.count : 0, goes);
    for (size_t i = 0; rc == 0 && i < all.count; i++) {
        all.steps[gone] = all.steps[i];
        gone += goes[i] ? 1 : 0;
    }
    rc = rc < 0 || gone == 0 ? rc
                             : s->store->ops->thin_points(s->store, c->job, all.steps, gone, err);
    c->count = rc == 0 ? all.count - gone : c->count;
    free(all.time_ms);
    free(all.steps);
    free(goes);
    return rc;
}

static int store_all(struct shell *s, struct err *err)
{
    struct curves *cs = &s->curves;
    int rc = s->store->ops->add_points(s->store, cs->pending, cs->count, err);
    for (size_t i = 0; rc == 0 && i < cs->count; i++) {
        struct curve *c = name_index_find(&cs->index, cs->pending[i].job);
        if (c != NULL && c->count >= CURVE_POINTS_MAX) {
            rc = thin(s, c, err);
        }
    }
    return rc;
}

static void on_time(void *ctx)
{
    curves_flush(ctx);
}

void curves_flush(struct shell *s)
{
    struct curves *cs = &s->curves;
    struct err err = {0};
    loop_timer_clear(s->loop, &cs->timer);
    if (cs->count == 0) {
        return;
    }
    const bool well = store_all(s, &err) == 0;
    if (!well && !cs->failing) {
        char quoted[1200];
        log_warn("curves_not_stored", "reason=%s", log_quote(err.msg, quoted, sizeof quoted));
    }
    cs->failing = !well;
    if (well) {
        drop_first(cs, cs->count);
        return;
    }
    if (cs->count > CURVES_PENDING_MAX / 2) {
        drop_first(cs, cs->count - CURVES_PENDING_MAX / 2);
    }
    loop_timer_set(s->loop, &cs->timer, chrono_now_ms() + FLUSH_MS, on_time, s);
}

static bool is_due(const struct curve *c, const struct job_record *r, uint64_t now_ms)
{
    if (r->step == 0 || r->step == c->step) {
        return false;
    }
    const int64_t age_ms = c->count > 0 ? chrono_wall_ms() - c->first_ms : 0;
    return r->step < c->step || c->taken_ms == 0 || job_state_is_final(r->state) ||
           now_ms - c->taken_ms >= curve_pause_ms(age_ms);
}

void curves_changed(struct shell *s, const struct job_record *r)
{
    struct curves *cs = &s->curves;
    const bool ended = job_state_is_final(r->state);
    const uint64_t now_ms = chrono_now_ms();
    struct curve *c = name_index_find(&cs->index, r->id);
    if (r->state == JOB_RUNNING && c == NULL) {
        c = curve_of(s, r->id);
    }
    if (c == NULL) {
        return; /* it has not trained in this process */
    }
    if ((r->state == JOB_RUNNING || ended) && is_due(c, r, now_ms)) {
        add_point(cs, r, r->step < c->step ? 0 : c->step);
        const struct store_point *p = &cs->pending[cs->count - 1];
        c->first_ms = c->count++ == 0 ? p->time_ms : c->first_ms;
        c->step = r->step;
        c->taken_ms = now_ms;
    }
    if (ended || cs->count >= CURVES_PENDING_MAX) {
        curves_flush(s);
    } else if (cs->count > 0 && cs->timer.slot == 0) {
        loop_timer_set(s->loop, &cs->timer, now_ms + FLUSH_MS, on_time, s);
    }
    if (ended) {
        curve_free(s, c);
    }
}

void curves_forget(struct shell *s, const char *job)
{
    struct curves *cs = &s->curves;
    size_t kept = 0;
    for (size_t i = 0; i < cs->count; i++) {
        if (strcmp(cs->pending[i].job, job) == 0) {
            point_free(&cs->pending[i]);
        } else {
            cs->pending[kept++] = cs->pending[i];
        }
    }
    cs->count = kept;
}

void curves_release(struct shell *s)
{
    struct curves *cs = &s->curves;
    for (size_t i = 0; i < cs->index.capacity; i++) {
        struct curve *c = cs->index.slots[i].object;
        if (cs->index.slots[i].name != NULL) {
            free(c->job);
            free(c);
        }
    }
    name_index_release(&cs->index);
    drop_first(cs, cs->count);
    free(cs->pending);
    cs->pending = NULL;
}
