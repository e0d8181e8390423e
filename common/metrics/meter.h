/* SPDX-License-Identifier: Apache-2.0 */
/* Meters: what a process counts about itself, and its page for Prometheus.
 *
 * A meter is registered once at start and updated from any thread without a lock. A family (one
 * name, one help line) may have several meters that differ in their label values. Everything a
 * registry hands out lives as long as the registry.
 *
 *     struct meter_label job = {"job", id};
 *     struct meter *pushes = meter_counter(r, "ps_pushes_total", "Pushes applied", &job, 1);
 *     meter_add(pushes, 1);
 *
 * Names are without the "gradus_" that every exposed name begins with. */
#ifndef GRADUS_METRICS_METER_H
#define GRADUS_METRICS_METER_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define METER_LABELS_MAX 4
#define METER_BUCKETS_MAX 24
/* Meters of a registry. Label values come from jobs and nodes, so their number has a limit. */
#define METER_SERIES_MAX 4096

struct meter;
struct meter_registry;

struct meter_label {
    const char *name;
    const char *value;
};

struct meter_registry *meter_registry_new(void);
void meter_registry_free(struct meter_registry *r);

/* Find or make a meter; @labels (copied, at most METER_LABELS_MAX) may be NULL. The same name and
 * labels give the same meter. Takes the registry's lock: for start-up and job changes, not for
 * steps. Never NULL: over METER_SERIES_MAX the meter of the labels "overflow" is returned. The name
 * must be a valid one, and of one kind; anything else is a mistake in the program and ends it. */
struct meter *meter_counter(struct meter_registry *r, const char *name, const char *help,
                            const struct meter_label *labels, size_t label_count);
/* A counter of a real quantity, such as seconds; meter_change() with deltas that are not negative.
 */
struct meter *meter_total(struct meter_registry *r, const char *name, const char *help,
                          const struct meter_label *labels, size_t label_count);
struct meter *meter_gauge(struct meter_registry *r, const char *name, const char *help,
                          const struct meter_label *labels, size_t label_count);
/* @bounds: ascending upper bounds, at most METER_BUCKETS_MAX; +Inf is added. Copied. */
struct meter *meter_histogram(struct meter_registry *r, const char *name, const char *help,
                              const double *bounds, size_t bound_count,
                              const struct meter_label *labels, size_t label_count);
/* Bounds for seconds: 100 us to 10 s. */
extern const double METER_SECONDS[16];
#define METER_SECONDS_COUNT 16

/* Updates; any thread, lock-free, no allocation. A NULL meter is ignored. */
void meter_add(struct meter *m, uint64_t n);       /* counter */
void meter_set(struct meter *m, double value);     /* gauge */
void meter_change(struct meter *m, double delta);  /* gauge, total */
void meter_observe(struct meter *m, double value); /* histogram; NaN is ignored */

/* Counter, total, gauge: the value; histogram: how many observations. */
double meter_value(const struct meter *m);

/* A function that is called before each exposition, to set gauges, on the thread that asks for the
 * page. It may register and update meters. */
void meter_on_collect(struct meter_registry *r, void (*collect)(void *ctx), void *ctx);

/* Register what every process tells of itself: memory, CPU time, open files, start time, version.
 */
void meter_process(struct meter_registry *r, const char *service);

/* Append the page, text format 0.0.4: families in order of their registration. */
void meter_expose(struct meter_registry *r, struct buf *out);

#endif
