/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text_times.h"

#include <stdio.h>

#include "wire/wire.h"

static void header(struct buf *out)
{
    buf_printf(out, "\n%-16s %12s", "TIME OF A STEP", "ms");
    for (int part = 0; part < STEP_PART_COUNT; part++) {
        buf_printf(out, " %16s", step_part_name((enum step_part)part));
    }
    buf_add_char(out, '\n');
}

static void row(const char *label, const struct step_times *t, struct buf *out)
{
    uint64_t all = step_times_ns(t);
    if (t->steps == 0 || all == 0) {
        return;
    }
    buf_printf(out, "%-16s %12.3f", label, (double)all * 1e-6 / (double)t->steps);
    for (int part = 0; part < STEP_PART_COUNT; part++) {
        double ms = (double)t->ns[part] * 1e-6 / (double)t->steps;
        buf_printf(out, " %10.3f %3.0f %%", ms, 100.0 * (double)t->ns[part] / (double)all);
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
