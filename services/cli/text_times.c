/* SPDX-License-Identifier: Apache-2.0 */
/* The table in `gradus status` that shows what the time of a training step is spent on: loading,
 * computing, sending, applying, waiting. */
#include "cli/text_times.h"

#include <stdio.h>
#include <string.h>

#include "wire/wire.h"

#define LABEL_MIN 16 /* columns; seven of numbers make 79 */
/* Servers or links hold up a job whose workers spend more of a step on them, over so many steps. */
#define HELD_UP 0.6
#define HELD_UP_STEPS 20
#define HELD_UP_STEP_NS 1000000 /* a shorter step is latency, whatever the servers are */

/* The columns that the name of the longest worker takes. */
static int label_columns(const Gradus__V1__Job *job)
{
    size_t columns = LABEL_MIN;
    for (size_t i = 0; i < job->n_worker_times; i++) {
        size_t n = strlen(job->worker_times[i]->worker);
        columns = n > columns ? n : columns;
    }
    return (int)columns;
}

static void header(int label, struct buf *out)
{
    buf_printf(out, "\n%-*s %8s", label, "TIME OF A STEP", "ms");
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

/* Prints a line of milliseconds, and below it the share of each in the step. */
static void row(int columns, const char *label, const struct step_times *t, struct buf *out)
{
    uint64_t all = step_times_ns(t);
    if (t->steps == 0 || all == 0) {
        return;
    }
    buf_printf(out, "%-*s", columns, label);
    add_ms((double)all * 1e-6 / (double)t->steps, out);
    for (int part = 0; part < STEP_PART_COUNT; part++) {
        add_ms((double)t->ns[part] * 1e-6 / (double)t->steps, out);
    }
    buf_printf(out, "\n%*s", columns + 9, "");
    for (int part = 0; part < STEP_PART_COUNT; part++) {
        buf_printf(out, " %6.0f %%", 100.0 * (double)t->ns[part] / (double)all);
    }
    buf_add_char(out, '\n');
}

static void say_held_up(const struct step_times *t, struct buf *out)
{
    const double all = (double)step_times_ns(t);
    const double away = (double)(t->ns[STEP_WIRE] + t->ns[STEP_APPLY]);
    if (t->steps >= HELD_UP_STEPS && all >= (double)HELD_UP_STEP_NS * (double)t->steps &&
        away > HELD_UP * all) {
        buf_printf(out,
                   "Workers spend %.0f %% of a step on the way to servers and there, not "
                   "computing. `gradus plan` with this job's file says whether more servers would "
                   "help (cluster.ps); larger batches, training.wire and push_every do.\n",
                   100 * away / all);
    }
}

void text_times(const Gradus__V1__Job *job, struct buf *out)
{
    struct step_times all;
    wire_step_times_from_proto(job->times, &all);
    if (all.steps == 0) {
        return;
    }
    int columns = label_columns(job);
    header(columns, out);
    struct step_times lately = {0};
    for (size_t i = 0; i < job->n_worker_times; i++) {
        struct step_times t;
        wire_step_times_from_proto(job->worker_times[i]->times, &t);
        row(columns, job->worker_times[i]->worker, &t, out);
        step_times_add(&lately, &t);
    }
    if (job->n_worker_times > 1) {
        row(columns, "all workers", &lately, out);
    }
    row(columns, "since the start", &all, out);
    say_held_up(lately.steps > 0 ? &lately : &all, out);
}
