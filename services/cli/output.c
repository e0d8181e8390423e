/* SPDX-License-Identifier: Apache-2.0 */
/* Prints jobs, nodes, progress and results as text for people (output_json.c: for programs). On a
 * narrow terminal the line of progress leaves out what matters least. */
#include "cli/output.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "os/chrono.h"
#include "base/text.h"
#include "cli/terminal.h"
#include "cli/text_best.h"
#include "cli/text_changes.h"
#include "cli/text_metrics.h"
#include "cli/text_consistency.h"
#include "cli/text_queue.h"
#include "cli/text_reason.h"
#include "cli/text_times.h"
#include "cli/text_wanted.h"
#include "wire/wire.h"

#define EVALUATIONS_SHOWN 10
#define LABEL_COLUMNS 12 /* "state       " */

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
    size_t k = 0, kept = 0; /* kept: length of the text when an ellipsis must follow */
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

/* ---- the line of progress: parts, of which those of the highest rank go first ---- */

#define PARTS_MAX 24
struct part {
    char text[96];
    unsigned rank; /* 0: always shown */
};
struct parts {
    struct part items[PARTS_MAX];
    size_t count;
};

static void add_part(struct parts *p, unsigned rank, const char *text)
{
    if (text[0] != '\0' && p->count < PARTS_MAX) {
        text_copy(p->items[p->count].text, sizeof p->items[0].text, text);
        p->items[p->count++].rank = rank;
    }
}

static size_t parts_columns(const struct parts *p)
{
    size_t columns = p->count == 0 ? 0 : 2 * (p->count - 1);
    for (size_t i = 0; i < p->count; i++) {
        columns += text_columns(p->items[i].text, strlen(p->items[i].text));
    }
    return columns;
}

static void drop_parts(struct parts *p, size_t columns)
{
    while (parts_columns(p) > columns) {
        size_t worst = 0;
        for (size_t i = 0; i < p->count; i++) {
            worst = p->items[i].rank >= p->items[worst].rank ? i : worst;
        }
        if (p->items[worst].rank == 0) {
            return;
        }
        p->count--;
        memmove(&p->items[worst], &p->items[worst + 1], (p->count - worst) * sizeof p->items[0]);
    }
}

static void add_count(struct parts *p, unsigned rank, uint64_t count, const char *what)
{
    char text[96];
    if (count > 0) {
        (void)snprintf(text, sizeof text, "%" PRIu64 " %s", count, what);
        add_part(p, rank, text);
    }
}

static void add_place(struct parts *p, const Gradus__V1__Job *job)
{
    struct buf text = {0};
    epoch_text(job->epoch, job->epochs_total, &text);
    add_part(p, 0, buf_str(&text));
    buf_reset(&text);
    buf_printf(&text, "step %" PRIu64, job->step);
    if (job->steps_total > 0) {
        buf_printf(&text, "/%" PRIu64, job->steps_total);
    }
    add_part(p, 0, buf_str(&text));
    for (size_t i = 0; i < job->n_train; i++) {
        buf_reset(&text);
        text_metric_values(&job->train[i], 1, &text);
        add_part(p, i == 0 ? 1 : 4, buf_str(&text));
    }
    buf_release(&text);
}

/* The steps of a lost attempt until they are made up for. */
static void add_back(struct parts *p, const Gradus__V1__Job *job, const struct job_events *events)
{
    char text[96];
    if (events != NULL && events->back && job->step < events->reached) {
        (void)snprintf(text, sizeof text, "back to step %" PRIu64 " of %" PRIu64, events->from,
                       events->reached);
        add_part(p, 1, text);
    }
}

static void add_speed(struct parts *p, const Gradus__V1__Job *job)
{
    char number[40], text[96];
    if (job->examples_per_second > 0) {
        grouped(job->examples_per_second, number, sizeof number);
        (void)snprintf(text, sizeof text, "%s examples/s", number);
        add_part(p, 0, text);
    }
    if (job->eta_seconds > 0) {
        output_seconds(job->eta_seconds, number, sizeof number);
        (void)snprintf(text, sizeof text, "%s left", number);
        add_part(p, 0, text);
    }
}

static void add_rest(struct parts *p, const Gradus__V1__Job *job)
{
    struct buf text = {0};
    counted(job->n_workers, "worker", "workers", &text);
    buf_add_str(&text, ", ");
    counted(job->n_ps, "ps", "ps", &text);
    add_part(p, 3, buf_str(&text));
    buf_reset(&text);
    text_staleness_brief(job, &text);
    add_part(p, 5, buf_str(&text));
    buf_release(&text);
    add_count(p, 6, job->dropped, "dropped");
    add_count(p, 7, job->speculated, "speculated");
    add_count(p, 2, job->recoveries, job->recoveries == 1 ? "recovery" : "recoveries");
}

void output_progress(const Gradus__V1__Job *job, const struct job_events *events, size_t columns,
                     struct buf *out)
{
    if (job->state != GRADUS__V1__JOB_STATE__RUNNING) {
        buf_add_str(out, wire_state_name(job->state));
        text_reason_line(job, "  ", out);
        return;
    }
    if (events != NULL && events->cancelled && job->activity[0] != '\0') {
        buf_printf(out, "Ctrl-C again stops at once; waits for %s", job->activity);
        return;
    }
    struct parts parts = {.count = 0};
    add_part(&parts, 8, wire_state_name(job->state)); /* numbers that move say it, too */
    add_place(&parts, job);
    add_back(&parts, job, events);
    add_speed(&parts, job);
    add_rest(&parts, job);
    drop_parts(&parts, columns);
    for (size_t i = 0; i < parts.count; i++) {
        buf_printf(out, "%s%s", i > 0 ? "  " : "", parts.items[i].text);
    }
}

void output_evaluation(const Gradus__V1__Evaluation *e, size_t columns, struct buf *out)
{
    struct buf line = {0}, test = {0};
    buf_printf(&line, "epoch %6.2f  step %7" PRIu64, e->epoch, e->step);
    size_t indent = line.len;
    if (e->n_train > 0) {
        buf_add_str(&line, "  train  ");
        text_metric_values(e->train, e->n_train, &line);
        buf_add_str(&line, e->train_part ? " (since a recovery)" : "");
    }
    if (e->n_test > 0) {
        buf_add_str(&test, "  test  ");
        text_metric_values(e->test, e->n_test, &test);
    }
    if (e->n_train > 0 && e->n_test > 0 && line.len + test.len > columns) { /* ASCII all of it */
        buf_printf(&line, "\n%*s  test   ", (int)indent, "");
        text_metric_values(e->test, e->n_test, &line);
    } else {
        buf_add_str(&line, buf_str(&test));
    }
    terminal_wrap(buf_str(&line), columns, out);
    buf_release(&line);
    buf_release(&test);
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
    text_reason(job, ": ", LABEL_COLUMNS, out);
    buf_add_char(out, '\n');
    text_queue(job, out);
    if (job->activity[0] != '\0') {
        buf_printf(out, "waits for   %s\n", job->activity);
    }
    if (job->step > 0) {
        grouped(job->examples_per_second, rate, sizeof rate);
        buf_printf(out, "trained     %" PRIu64 " step%s, %.4g epoch%s in %s (%s examples/s)\n",
                   job->step, job->step == 1 ? "" : "s", job->epoch, job->epoch == 1 ? "" : "s",
                   output_seconds(job->seconds, time, sizeof time), rate);
    }
    if (job->n_train > 0) {
        buf_add_str(out, "train       ");
        text_metric_values(job->train, job->n_train, out);
        buf_add_char(out, '\n');
    }
    if (job->n_test > 0) {
        buf_add_str(out, "test        ");
        text_metric_values(job->test, job->n_test, out);
        buf_add_char(out, '\n');
        text_confusion(job, out);
    }
    count_line("left out", job->bad_records, "bad record", "bad records", out);
    count_line("left out", job->left_out, "record of each epoch (training.drop_last)",
               "records of each epoch (training.drop_last)", out);
    count_line("dropped", job->dropped, "batch", "batches", out);
    count_line("speculated", job->speculated, "replica", "replicas", out);
    if (job->checkpoint[0] == '\0') { /* there never was one */
        count_line("recoveries", job->recoveries, "time back to the beginning",
                   "times back to the beginning", out);
    } else {
        count_line("recoveries", job->recoveries, "time back to a checkpoint or the beginning",
                   "times back to a checkpoint or the beginning", out);
    }
    count_line("adopted", job->adoptions, "time, by a master that was started again",
               "times, by masters that were started again", out);
    count_line("taken over", job->takeovers, "time by a backup", "times by backups", out);
    count_line("preempted", job->preemptions, "time", "times", out);
    text_best(job, out);
    if (job->started_from[0] != '\0') {
        buf_printf(out, "from        %s\n", job->started_from);
    }
    if (job->tensorboard[0] != '\0') {
        buf_printf(out, "tensorboard %s\n", job->tensorboard);
    }
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
static void evaluations_text(const Gradus__V1__Job *job, size_t columns, struct buf *out)
{
    size_t first =
        job->n_evaluations > EVALUATIONS_SHOWN ? job->n_evaluations - EVALUATIONS_SHOWN : 0;
    if (first > 0) {
        buf_printf(out, "\n%zu earlier evaluations are in --json\n", first);
    } else if (job->n_evaluations > 0) {
        buf_add_char(out, '\n');
    }
    for (size_t i = first; i < job->n_evaluations; i++) {
        output_evaluation(job->evaluations[i], columns, out);
        buf_add_char(out, '\n');
    }
}

static void backup_words(const Gradus__V1__ShardProgress *s, struct buf *out)
{
    if (s->backup[0] == '\0' && s->backup_problem[0] != '\0') {
        buf_printf(out, ", no backup: %s", s->backup_problem);
    } else if (s->backup[0] != '\0') {
        buf_printf(out, ", backup on %s", s->backup);
        if (!s->backup_follows && s->state_bytes > 0) {
            buf_printf(out, " joins (%" PRIu64 " of %" PRIu64 " MB)",
                       (s->state_sent + 500000) / 1000000, (s->state_bytes + 500000) / 1000000);
        } else if (!s->backup_follows) {
            buf_add_str(out, " joins");
        }
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
    backup_words(s, out);
    if (s->backup_behind > 0) {
        buf_printf(out, ", %" PRIu64 " %s behind", s->backup_behind,
                   s->backup_behind == 1 ? "change" : "changes");
    }
    buf_add_char(out, '\n');
}

void output_status_text(const Gradus__V1__Job *job, size_t columns, struct buf *out)
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
    text_changes(job, columns, out);
    time_line("submitted", job->submitted_ms, out);
    time_line("started", job->started_ms, out);
    time_line("finished", job->finished_ms, out);
    names_line("workers", job->workers, job->n_workers, out);
    text_wanted(job, out);
    names_line("ps", job->ps, job->n_ps, out);
    for (size_t i = 0; i < job->n_shards; i++) {
        shard_line(job->shards[i], out);
    }
    text_times(job, out);
    evaluations_text(job, columns, out);
}

void output_state_text(const Gradus__V1__Job *job, struct buf *out)
{
    buf_printf(out, "job %s: %s", job->id, wire_state_name(job->state));
    text_reason_line(job, ": ", out);
    buf_add_char(out, '\n');
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

/* `least`, or what the longest of the names or addresses takes. */
static int node_columns(Gradus__V1__NodeInfo *const *nodes, size_t count, bool of_address,
                        size_t least)
{
    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(of_address ? nodes[i]->address : nodes[i]->id);
        least = n > least ? n : least;
    }
    return (int)least;
}

void output_nodes_text(Gradus__V1__NodeInfo *const *nodes, size_t count, struct buf *out)
{
    if (count == 0) {
        buf_add_str(out, "no nodes have joined\n");
        return;
    }
    int id_columns = node_columns(nodes, count, false, 16);
    int address_columns = node_columns(nodes, count, true, 24);
    buf_printf(out, "%-*s %-7s %-6s %-*s %s\n", id_columns, "NODE", "ROLE", "ALIVE",
               address_columns, "ADDRESS", "JOBS");
    for (size_t i = 0; i < count; i++) {
        const Gradus__V1__NodeInfo *n = nodes[i];
        buf_printf(out, "%-*s %-7s %-6s %-*s", id_columns, n->id, wire_role_name(n->role),
                   n->alive ? "yes" : "no", n->n_jobs > 0 ? address_columns : 0, n->address);
        for (size_t k = 0; k < n->n_jobs; k++) {
            buf_printf(out, " %s", n->jobs[k]);
        }
        if (n->draining) {
            buf_add_str(out, n->n_jobs > 0 ? " (draining)" : " (drained)");
        }
        buf_add_char(out, '\n');
    }
    for (size_t i = 0; i < count; i++) {
        if (nodes[i]->alive && nodes[i]->unready[0] != '\0') {
            buf_printf(out, "%s should not be ended now: %s\n", nodes[i]->id, nodes[i]->unready);
        }
    }
}
