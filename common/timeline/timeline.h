/* SPDX-License-Identifier: Apache-2.0 */
/* A recorded trace as what its picture shows: a lane for each worker and shard, what they did when,
 * and the way of each gradient from the worker that computed it to the update that it is in. */
#ifndef GRADUS_TIMELINE_TIMELINE_H
#define GRADUS_TIMELINE_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gradus/v1/jobs.pb-c.h"

enum timeline_part {
    TIMELINE_LOAD,
    TIMELINE_COMPUTE, /* forward, backward, the sum of replicas' gradients */
    TIMELINE_EVALUATE,
    TIMELINE_WIRE,  /* of a worker: sending, the network, receiving */
    TIMELINE_WAIT,  /* of a worker: its request waits at a shard, or nothing was asked for */
    TIMELINE_APPLY, /* of a shard; of a worker: waiting while a shard applies */
    TIMELINE_SUM,   /* of a shard: gradients are added up */
    TIMELINE_ANSWER,
    TIMELINE_PARTS,
};

struct timeline_lane {
    const char *node;    /* borrowed from the trace */
    const char *problem; /* "" when its trace is there */
    bool is_worker;
    uint32_t shard;
    int64_t ns[TIMELINE_PARTS]; /* sums over the window */
};

/* Times: nanoseconds since the beginning of the window. */
struct timeline_box {
    enum timeline_part part;
    size_t lane;
    int64_t begin, end;
    uint64_t number; /* of COMPUTE: the step; of APPLY on a shard: the version that it made */
};

enum timeline_fate {
    TIMELINE_APPLIED,
    TIMELINE_DROPPED,  /* too stale, or its step was complete without it */
    TIMELINE_REPEATED, /* the shard had it already */
};

struct timeline_push {
    size_t worker, shard;         /* lanes */
    int64_t sent, arrived, begun; /* update of @made begins; @arrived when it is in none */
    uint64_t base, made;          /* versions: computed on, and made with it; 0 made: none known */
    enum timeline_fate fate;
    bool spare; /* of a replica that another worker is late with, as speculation */
};

struct timeline {
    struct timeline_lane *lanes; /* workers first, then shards in the order of their numbers */
    size_t lane_count, worker_count;
    struct timeline_box *boxes; /* by lane, then by time */
    size_t box_count, box_capacity;
    struct timeline_push *pushes;
    size_t push_count, push_capacity;
    int64_t length; /* of the window */
};

const char *timeline_part_name(enum timeline_part part); /* "load" */
/* Boxes that follow each other in a lane, of one part and together shorter than @narrow_ns, are
 * drawn as one, @out. Returns the box that comes after them. */
size_t timeline_join(const struct timeline *t, size_t i, int64_t narrow_ns,
                     struct timeline_box *out);
/* Where there are too many gradients, those of the lead are drawn; it decides what can be decided
 * in two ways. */
bool timeline_is_drawn(const struct timeline *t, const struct timeline_push *p);
/* Versions that others have made between the gradient's base and its own update. */
uint64_t timeline_staleness(const struct timeline_push *p);

/* The time in which all workers of @trace recorded, and of that the first @length_max ns (0: all).
 * @trace is borrowed until timeline_release(). */
void timeline_init(struct timeline *t, const Gradus__V1__TraceJobResponse *trace,
                   int64_t length_max);
void timeline_release(struct timeline *t);

#endif
