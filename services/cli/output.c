/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/chrono.h"
#include "cli/text_consistency.h"
#include "cli/text_times.h"
#include "wire/wire.h"

#define EVALUATIONS_SHOWN 10

const char *output_seconds(double seconds, char *text_out, size_t n)
{
    if (!isfinite(seconds) || seconds < 0) {
        (void)snprintf(text_out, n, "?");
    } else if (seconds < 59.95) {
        (void)snprintf(text_out, n, "%.1f s", seconds);
    } else {
        long s = lround(seconds);
        if (s >= 3600) {
            (void)snprintf(text_out, n, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
        } else {
            (void)snprintf(text_out, n, "%ld:%02ld", s / 60, s % 60);
        }
    }
    return text_out;
}

/* Bytes of the character at @s: one column each, as far as our own lines go. */
static size_t character_bytes(const char *s)
{
    size_t n = 1;
    while (((unsigned char)s[n] & 0xC0) == 0x80) {
        n++;
    }
    return n;
}

const char *output_fit(const char *line, size_t columns, char *out, size_t n)
{
    static const char ellipsis[] = "…";
    size_t k = 0, kept = 0; /* kept: what is left when an ellipsis must follow */
    for (size_t column = 0; *line != '\0'; column++) {
        size_t bytes = character_bytes(line);
        if (column == columns || k + bytes + sizeof ellipsis > n) {
            memcpy(out + kept, ellipsis, sizeof ellipsis);
            return columns == 0 ? "" : out;
        }
        kept = column + 1 < columns ? k + bytes : kept;
        memcpy(out + k, line, bytes);
        if ((unsigned char)line[0] < ' ' || line[0] == 0x7f) {
            out[k] = ' ';
        }
        k += bytes;
        line += bytes;
    }
    out[k] = '\0';
    return out;
}

/* 61234.5 → "61,234" */
static void grouped(double value, char *out, size_t n)
{
    char digits[32];
    (void)snprintf(digits, sizeof digits, "%.0f", value < 0 || !isfinite(value) ? 0 : value);
    size_t len = strlen(digits), k = 0;
    for (size_t i = 0; i < len && k + 2 < n; i++) {
        if (i > 0 && (len - i) % 3 == 0) {
            out[k++] = ',';
        }
        out[k++] = digits[i];
    }
    out[k] = '\0';
}

/* Four places, as long as they say something. */
static void metric_text(double value, struct buf *out)
{
    double size = fabs(value);
    buf_printf(out, value == 0 || (size >= 0.001 && size < 100000) ? "%.4f" : "%.3e", value);
}

static void metrics_line(Gradus__V1__MetricValue *const *values, size_t count, struct buf *out)
{
    for (size_t i = 0; i < count; i++) {
        buf_printf(out, "%s%s ", i > 0 ? "  " : "", values[i]->name);
        metric_text(values[i]->value, out);
    }
}

static void counted(uint64_t count, const char *noun, const char *nouns, struct buf *out)
{
    buf_printf(out, "%" PRIu64 " %s", count, count == 1 ? noun : nouns);
}

static void epoch_text(double epoch, double total, struct buf *out)
{
    if (total > 0) {
        buf_printf(out, "epoch %.2f/%g", epoch, total);
    } else {
        buf_printf(out, "epoch %.2f", epoch);
    }
}

static void count_progress(uint64_t count, const char *what, struct buf *out)
{
    if (count > 0) {
        buf_printf(out, "  %" PRIu64 " %s", count, what);
    }
}

void output_progress(const Gradus__V1__Job *job, struct buf *out)
{
    buf_printf(out, "%s", wire_state_name(job->state));
    if (job->state != GRADUS__V1__JOB_STATE__RUNNING) {
        if (job->reason[0] != '\0') {
            buf_printf(out, "  %s", job->reason);
        }
        return;
    }
    buf_add_str(out, "  ");
    epoch_text(job->epoch, job->epochs_total, out);
    buf_printf(out, "  step %" PRIu64, job->step);
    if (job->steps_total > 0) {
        buf_printf(out, "/%" PRIu64, job->steps_total);
    }
    if (job->n_train > 0) {
        buf_add_str(out, "  ");
        metrics_line(job->train, job->n_train, out);
    }
    char rate[40], left[40];
    if (job->examples_per_second > 0) {
        grouped(job->examples_per_second, rate, sizeof rate);
        buf_printf(out, "  %s examples/s", rate);
    }
    if (job->eta_seconds > 0) {
        buf_printf(out, "  %s left", output_seconds(job->eta_seconds, left, sizeof left));
    }
    buf_add_str(out, "  ");
    counted(job->n_workers, "worker", "workers", out);
    buf_add_str(out, ", ");
    counted(job->n_ps, "ps", "ps", out);
    struct buf staleness = {0};
    text_staleness_brief(job, &staleness);
    if (staleness.len > 0) {
        buf_printf(out, "  %s", buf_str(&staleness));
    }
    buf_release(&staleness);
    count_progress(job->dropped, "dropped", out);
    count_progress(job->speculated, "speculated", out);
    count_progress(job->recoveries, job->recoveries == 1 ? "recovery" : "recoveries", out);
}

void output_evaluation(const Gradus__V1__Evaluation *e, struct buf *out)
{
    buf_printf(out, "epoch %6.2f  step %7" PRIu64, e->epoch, e->step);
    if (e->n_train > 0) {
        buf_add_str(out, "  train  ");
        metrics_line(e->train, e->n_train, out);
    }
    if (e->n_test > 0) {
        buf_add_str(out, "  test  ");
        metrics_line(e->test, e->n_test, out);
    }
}

static void count_line(const char *label, uint64_t count, const char *noun, const char *nouns,
                       struct buf *out)
{
    if (count > 0) {
        buf_printf(out, "%-11s ", label);
        counted(count, noun, nouns, out);
        buf_add_char(out, '\n');
    }
}

void output_result_text(const Gradus__V1__Job *job, struct buf *out)
{
    char time[40], rate[40];
    buf_printf(out, "job         %s\nstate       %s", job->id, wire_state_name(job->state));
    if (job->reason[0] != '\0') {
        buf_printf(out, ": %s", job->reason);
    }
    buf_add_char(out, '\n');
    if (job->step > 0) {
        grouped(job->examples_per_second, rate, sizeof rate);
        buf_printf(out, "trained     %" PRIu64 " step%s, %.4g epochs in %s (%s examples/s)\n",
                   job->step, job->step == 1 ? "" : "s", job->epoch,
                   output_seconds(job->seconds, time, sizeof time), rate);
    }
    if (job->n_train > 0) {
        buf_add_str(out, "train       ");
        metrics_line(job->train, job->n_train, out);
        buf_add_char(out, '\n');
    }
    if (job->n_test > 0) {
        buf_add_str(out, "test        ");
        metrics_line(job->test, job->n_test, out);
        buf_add_char(out, '\n');
    }
    count_line("dropped", job->dropped, "batch", "batches", out);
    count_line("speculated", job->speculated, "replica", "replicas", out);
    count_line("recoveries", job->recoveries, "time back to a checkpoint or the beginning",
               "times back to a checkpoint or the beginning", out);
    if (job->checkpoint[0] != '\0') {
        buf_printf(out, "checkpoint  %s\n", job->checkpoint);
    }
}

static void time_line(const char *label, int64_t ms, struct buf *out)
{
    if (ms > 0) {
        char time[40];
        buf_printf(out, "%-11s %s\n", label, chrono_format(ms, time, sizeof time));
    }
}

static void names_line(const char *label, char *const *names, size_t count, struct buf *out)
{
    if (count == 0) {
        return;
    }
    buf_printf(out, "%-11s", label);
    for (size_t i = 0; i < count; i++) {
        buf_printf(out, " %s", names[i]);
    }
    buf_add_char(out, '\n');
}

/* The newest; people want to see where it stands, programs take --json. */
static void evaluations_text(const Gradus__V1__Job *job, struct buf *out)
{
    size_t first =
        job->n_evaluations > EVALUATIONS_SHOWN ? job->n_evaluations - EVALUATIONS_SHOWN : 0;
    if (first > 0) {
        buf_printf(out, "\n%zu earlier evaluations are in --json\n", first);
    } else if (job->n_evaluations > 0) {
        buf_add_char(out, '\n');
    }
    for (size_t i = first; i < job->n_evaluations; i++) {
        output_evaluation(job->evaluations[i], out);
        buf_add_char(out, '\n');
    }
}

static void shard_line(const Gradus__V1__ShardProgress *s, struct buf *out)
{
    char label[32], examples[40];
    (void)snprintf(label, sizeof label, "shard %" PRIu32, s->shard);
    grouped((double)s->examples, examples, sizeof examples);
    buf_printf(out, "%-11s %s%sversion %" PRIu64 ", %s examples, ", label, s->ps,
               s->ps[0] != '\0' ? ": " : "", s->version, examples);
    counted(s->duplicates, "duplicate", "duplicates", out);
    if (s->dropped > 0) {
        buf_printf(out, ", %" PRIu64 " dropped", s->dropped);
    }
    buf_add_char(out, '\n');
}

void output_status_text(const Gradus__V1__Job *job, struct buf *out)
{
    output_result_text(job, out);
    buf_add_str(out, "mode        ");
    text_consistency(job, out);
    buf_printf(out, "\ngeneration  %" PRIu64 "\n", job->generation);
    struct buf staleness = {0};
    text_staleness(job, &staleness);
    if (staleness.len > 0) {
        buf_printf(out, "staleness   %s\n", buf_str(&staleness));
    }
    buf_release(&staleness);
    time_line("submitted", job->submitted_ms, out);
    time_line("started", job->started_ms, out);
    time_line("finished", job->finished_ms, out);
    names_line("workers", job->workers, job->n_workers, out);
    names_line("ps", job->ps, job->n_ps, out);
    for (size_t i = 0; i < job->n_shards; i++) {
        shard_line(job->shards[i], out);
    }
    text_times(job, out);
    evaluations_text(job, out);
}

void output_cancel_text(const Gradus__V1__Job *job, struct buf *out)
{
    buf_printf(out, "job %s: %s%s%s\n", job->id, wire_state_name(job->state),
               job->reason[0] != '\0' ? ": " : "", job->reason);
}

void output_change_text(const Gradus__V1__Job *job, const struct job_changes *changes,
                        struct buf *out)
{
    for (size_t i = 0; i < changes->count; i++) {
        const struct job_change *c = &changes->items[i];
        buf_printf(out, "%s: %s -> %s\n", c->key, c->from, c->to);
    }
    if (changes->count == 0) {
        buf_add_str(out, "nothing changed: the job has these values already\n");
    }
    buf_printf(out, "job %s: %s, generation %" PRIu64 ", ", job->id, wire_state_name(job->state),
               job->generation);
    text_consistency(job, out);
    buf_add_char(out, '\n');
}

void output_jobs_text(Gradus__V1__Job *const *jobs, size_t count, struct buf *out)
{
    if (count == 0) {
        buf_add_str(out, "no jobs\n");
        return;
    }
    buf_printf(out, "%-28s %-10s %10s %10s  %s\n", "JOB", "STATE", "STEP", "EPOCH", "RESULT");
    for (size_t i = 0; i < count; i++) {
        const Gradus__V1__Job *j = jobs[i];
        buf_printf(out, "%-28s %-10s %10" PRIu64 " %10.2f  ", j->id, wire_state_name(j->state),
                   j->step, j->epoch);
        if (j->n_test > 0) {
            metrics_line(j->test, j->n_test, out);
        } else {
            buf_add_str(out, j->reason);
        }
        buf_add_char(out, '\n');
    }
}

void output_nodes_text(Gradus__V1__NodeInfo *const *nodes, size_t count, struct buf *out)
{
    if (count == 0) {
        buf_add_str(out, "no nodes have joined\n");
        return;
    }
    buf_printf(out, "%-16s %-7s %-6s %-24s %s\n", "NODE", "ROLE", "ALIVE", "ADDRESS", "JOBS");
    for (size_t i = 0; i < count; i++) {
        const Gradus__V1__NodeInfo *n = nodes[i];
        buf_printf(out, n->n_jobs > 0 ? "%-16s %-7s %-6s %-24s" : "%-16s %-7s %-6s %s", n->id,
                   wire_role_name(n->role), n->alive ? "yes" : "no", n->address);
        for (size_t k = 0; k < n->n_jobs; k++) {
            buf_printf(out, " %s", n->jobs[k]);
        }
        buf_add_char(out, '\n');
    }
}

void output_metrics_text(const struct metrics *m, double label_scale, struct buf *out)
{
    buf_printf(out, "%-11s %" PRIu64 "\n", "examples", m->examples);
    for (int k = 0; k < METRIC_KIND_COUNT; k++) {
        if (m->kinds & (1U << k)) {
            buf_printf(out, "%-11s ", metric_kind_names[k]);
            metric_text(metrics_value(m, (enum metric_kind)k, label_scale), out);
            buf_add_char(out, '\n');
        }
    }
}
