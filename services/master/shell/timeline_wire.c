/* SPDX-License-Identifier: Apache-2.0 */
#include "master/shell/timeline_wire.h"

#include <stdlib.h>

#include "base/mem.h"

#define LENGTH_MAX INT64_C(4000000000) /* of 32 bits */
#define DOTS 2000          /* across the picture; a narrower box is not seen by itself */
#define STALEST_MAX 100000 /* more is shown as so much */

static int by_time(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Where the first box begins that is too much. */
static int64_t end_of_room(const struct timeline *t)
{
    int64_t *begins = mem_new(t->box_count, sizeof *begins);
    for (size_t i = 0; i < t->box_count; i++) {
        begins[i] = t->boxes[i].begin;
    }
    qsort(begins, t->box_count, sizeof *begins, by_time);
    const int64_t end = begins[TIMELINE_WIRE_BOXES_MAX];
    free(begins);
    return end;
}

/* Draws so much of the beginning that the boxes are not too many. */
static void draw(struct timeline *t, const Gradus__V1__TraceJobResponse *trace)
{
    timeline_init(t, trace, LENGTH_MAX);
    const int64_t end = t->box_count > TIMELINE_WIRE_BOXES_MAX ? end_of_room(t) : 0;
    if (end > 0) {
        timeline_release(t);
        timeline_init(t, trace, end);
    }
    if (t->box_count > TIMELINE_WIRE_BOXES_MAX) { /* garbage */
        t->box_count = TIMELINE_WIRE_BOXES_MAX;
    }
}

/* The words have no pointers to const; nobody writes through them. */
static char *text(const char *s)
{
    union {
        const char *in;
        char *out;
    } u = {.in = s};
    return u.out;
}

static void add_parts(struct timeline_wire *w)
{
    w->timeline.n_parts = TIMELINE_PARTS;
    w->timeline.parts = mem_new(TIMELINE_PARTS, sizeof *w->timeline.parts);
    for (int i = 0; i < TIMELINE_PARTS; i++) {
        w->timeline.parts[i] = text(timeline_part_name((enum timeline_part)i));
    }
}

static void add_lanes(struct timeline_wire *w)
{
    const size_t n = w->drawn.lane_count;
    w->lanes = mem_new(n + 1, sizeof *w->lanes);
    w->timeline.lanes = mem_new(n + 1, sizeof *w->timeline.lanes);
    w->timeline.n_lanes = n;
    for (size_t i = 0; i < n; i++) {
        const struct timeline_lane *from = &w->drawn.lanes[i];
        Gradus__V1__TimelineLane *to = &w->lanes[i];
        gradus__v1__timeline_lane__init(to);
        to->node = text(from->node);
        to->problem = text(from->problem);
        to->worker = from->is_worker;
        to->shard = from->shard;
        w->timeline.lanes[i] = to;
    }
}

static uint32_t *column(size_t n)
{
    return mem_new(n + 1, sizeof(uint32_t));
}

static void add_boxes(struct timeline_wire *w)
{
    const struct timeline *t = &w->drawn;
    Gradus__V1__TimelineBoxes *to = &w->boxes;
    size_t n = 0;
    gradus__v1__timeline_boxes__init(to);
    to->lane = column(t->box_count);
    to->part = column(t->box_count);
    to->begin_ns = column(t->box_count);
    to->ns = column(t->box_count);
    to->number = mem_new(t->box_count + 1, sizeof *to->number);
    for (size_t i = 0; i < t->box_count; n++) {
        struct timeline_box b;
        i = timeline_join(t, i, t->length / DOTS, &b);
        to->lane[n] = (uint32_t)b.lane;
        to->part[n] = (uint32_t)b.part;
        to->begin_ns[n] = (uint32_t)b.begin;
        to->ns[n] = (uint32_t)(b.end - b.begin);
        to->number[n] = b.number;
    }
    to->n_lane = to->n_part = to->n_begin_ns = to->n_ns = to->n_number = n;
    w->timeline.boxes = to;
}

static uint32_t inside(const struct timeline *t, int64_t ns)
{
    return (uint32_t)(ns < 0 ? 0 : ns > t->length ? t->length : ns);
}

static void add_pushes(struct timeline_wire *w)
{
    const struct timeline *t = &w->drawn;
    Gradus__V1__TimelinePushes *to = &w->pushes;
    size_t n = 0;
    gradus__v1__timeline_pushes__init(to);
    to->worker = column(t->push_count);
    to->shard = column(t->push_count);
    to->sent_ns = column(t->push_count);
    to->arrived_ns = column(t->push_count);
    to->begun_ns = column(t->push_count);
    to->staleness = column(t->push_count);
    to->base_version = mem_new(t->push_count + 1, sizeof *to->base_version);
    to->made_version = mem_new(t->push_count + 1, sizeof *to->made_version);
    to->dropped = mem_new(t->push_count + 1, sizeof *to->dropped);
    to->spare = mem_new(t->push_count + 1, sizeof *to->spare);
    for (size_t i = 0; i < t->push_count && n < TIMELINE_WIRE_PUSHES_MAX; i++) {
        const struct timeline_push *p = &t->pushes[i];
        const uint64_t stale = timeline_staleness(p);
        if (!timeline_is_drawn(t, p)) {
            continue;
        }
        to->worker[n] = (uint32_t)p->worker;
        to->shard[n] = (uint32_t)p->shard;
        to->sent_ns[n] = inside(t, p->sent);
        to->arrived_ns[n] = inside(t, p->arrived);
        to->begun_ns[n] = inside(t, p->begun);
        to->staleness[n] = (uint32_t)(stale < STALEST_MAX ? stale : STALEST_MAX);
        to->base_version[n] = p->base;
        to->made_version[n] = p->made;
        to->dropped[n] = p->fate == TIMELINE_DROPPED;
        to->spare[n++] = p->spare;
    }
    to->n_worker = to->n_shard = to->n_sent_ns = to->n_arrived_ns = to->n_begun_ns = n;
    to->n_staleness = to->n_base_version = to->n_made_version = to->n_dropped = to->n_spare = n;
    w->timeline.pushes = to;
}

void timeline_wire_init(struct timeline_wire *w, const Gradus__V1__TraceJobResponse *trace)
{
    *w = (struct timeline_wire){.timeline = GRADUS__V1__TIMELINE__INIT};
    draw(&w->drawn, trace);
    w->timeline.job = trace->job;
    w->timeline.wall_ms = trace->wall_ms;
    w->timeline.length_ns = (uint32_t)w->drawn.length;
    add_parts(w);
    add_lanes(w);
    add_boxes(w);
    add_pushes(w);
}

void timeline_wire_release(struct timeline_wire *w)
{
    free(w->timeline.parts);
    free(w->timeline.lanes);
    free(w->lanes);
    free(w->boxes.lane);
    free(w->boxes.part);
    free(w->boxes.begin_ns);
    free(w->boxes.ns);
    free(w->boxes.number);
    free(w->pushes.worker);
    free(w->pushes.shard);
    free(w->pushes.sent_ns);
    free(w->pushes.arrived_ns);
    free(w->pushes.begun_ns);
    free(w->pushes.staleness);
    free(w->pushes.base_version);
    free(w->pushes.made_version);
    free(w->pushes.dropped);
    free(w->pushes.spare);
    timeline_release(&w->drawn);
}
