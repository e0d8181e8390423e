/* SPDX-License-Identifier: Apache-2.0 */
/* The table in `gradus status` that shows what the time of a training step is spent on: loading,
 * computing, sending, applying, waiting. */
#include "cli/text_times.h"

#include <stdio.h>

#include "wire/wire.h"

#define LABEL 16 /* columns; seven of numbers make 79 */

static void header(struct buf *out)
{
    buf_printf(out, "\n%-*s %8s", LABEL, "TIME OF A STEP", "ms");
    for (int part = 0; part < STEP_PART_COUNT; part++) {
        buf_printf(out, " %8s", step_part_name((enum step_part)part));
    }
    buf_add_char(out, '\n');
}

/* Milliseconds in at most 8 columns. */
static void add_ms(double ms, struct buf *out)
{
    buf_printf(out, ms < 1000 ? " %8.3f" : ms < 100000 ? " %8.1f" : " %8.0f", ms);
}

/* One line of milliseconds, and below it what part of the step each is. */
static void row(const char *label, const struct step_times *t, struct buf *out)
{
    uint64_t all = step_times_ns(t);
    if (t->steps == 0 || all == 0) {
        return;
    }
    buf_printf(out, "%-*s", LABEL, label);
    add_ms((double)all * 1e-6 / (double)t->steps, out);
    for (int part = 0; part < STEP_PART_COUNT; part++) {
        add_ms((double)t->ns[part] * 1e-6 / (double)t->steps, out);
    }
    buf_printf(out, "\n%*s", LABEL + 9, "");
    for (int part = 0; part < STEP_PART_COUNT; part++) {
        buf_printf(out, " %6.0f %%", 100.0 * (double)t->ns[part] / (double)all);
    }
    buf_add_char(out, '\n');
}

void text_times(const Gradus__V1__Job *job, struct buf *out)
{
    struct step_times all;
    wire_step_times_from_proto(job->times, &all);
    if (all.steps == 0) {
        return;
    }
    header(out);
    struct step_times lately = {0};
    for (size_t i = 0; i < job->n_worker_times; i++) {
        struct step_times t;
        wire_step_times_from_proto(job->worker_times[i]->times, &t);
        row(job->worker_times[i]->worker, &t, out);
        step_times_add(&lately, &t);
    }
    if (job->n_worker_times > 1) {
        row("all workers", &lately, out);
    }
    row("since the start", &all, out);
}
