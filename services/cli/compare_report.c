/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/compare_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/compare_chart.h"
#include "cli/output.h"
#include "cli/text_consistency.h"
#include "cli/text_metrics.h"
#include "cli/text_reason.h"
#include "cli/timeline_svg.h"
#include "os/file.h"

enum row {
    ROW_GRADIENTS,
    ROW_STALENESS,
    ROW_THROUGHPUT,
    ROW_STRAGGLERS,
    ROW_TIME,
    ROW_TARGET,
    ROW_RESULT,
    ROW_TUNING,
    ROWS,
};

/* ---- what was measured ---- */

static double value_of(Gradus__V1__MetricValue *const *values, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(values[i]->name, name) == 0) {
            return values[i]->value;
        }
    }
    return NAN;
}

/* Test records where there are some, in all runs alike. */
static bool has_test(const struct compare_report *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const Gradus__V1__Job *job = r->runs[i].job;
        for (size_t k = 0; k < job->n_evaluations; k++) {
            if (job->evaluations[k]->n_test > 0) {
                return true;
            }
        }
    }
    return false;
}

static double loss_of(const Gradus__V1__Evaluation *e, bool test)
{
    return test ? value_of(e->test, e->n_test, "loss") : value_of(e->train, e->n_train, "loss");
}

/* Since training began. */
static double seconds_of(const Gradus__V1__Job *job, const Gradus__V1__Evaluation *e)
{
    return (double)(e->time_ms - job->started_ms) / 1000;
}

/* The least loss that every run has reached; NAN: a run has none. */
static double common_loss(const struct compare_report *r, bool test)
{
    double common = -INFINITY;
    for (size_t i = 0; i < r->count; i++) {
        const Gradus__V1__Job *job = r->runs[i].job;
        double best = INFINITY;
        for (size_t k = 0; k < job->n_evaluations; k++) {
            const double loss = loss_of(job->evaluations[k], test);
            best = loss < best ? loss : best;
        }
        if (isinf(best)) {
            return NAN;
        }
        common = best > common ? best : common;
    }
    return common;
}

static double seconds_to(const Gradus__V1__Job *job, double loss, bool test)
{
    for (size_t k = 0; k < job->n_evaluations; k++) {
        if (loss_of(job->evaluations[k], test) <= loss) {
            return seconds_of(job, job->evaluations[k]);
        }
    }
    return NAN;
}

/* ---- the table ---- */

static void add_name(const struct compare_report *r, enum row row, bool test, struct buf *out)
{
    static const char *const names[ROWS] = {
        [ROW_GRADIENTS] = "gradients",   [ROW_STALENESS] = "staleness",
        [ROW_THROUGHPUT] = "throughput", [ROW_STRAGGLERS] = "stragglers",
        [ROW_TIME] = "wall-clock time",  [ROW_RESULT] = "result",
        [ROW_TUNING] = "tuning",
    };
    const double common = common_loss(r, test);
    if (row != ROW_TARGET) {
        buf_add_str(out, names[row]);
    } else if (isnan(common)) {
        buf_add_str(out, "time to a loss that all reach");
    } else {
        buf_printf(out, "time to a %s loss of %.4g", test ? "test" : "train", common);
    }
}

static void add_staleness(const Gradus__V1__Job *job, struct buf *out)
{
    if (job->mode == GRADUS__V1__MODE__SYNC) {
        buf_add_str(out, "0");
    } else {
        text_staleness_brief(job, out);
    }
    if (job->dropped > 0) {
        buf_printf(out, "; %" PRIu64 " gradient%s dropped", job->dropped,
                   job->dropped == 1 ? "" : "s");
    }
    if (job->speculated > 0) {
        buf_printf(out, "; %" PRIu64 " replica%s of late workers computed by others",
                   job->speculated, job->speculated == 1 ? "" : "s");
    }
}

static void add_stragglers(const Gradus__V1__Job *job, struct buf *out)
{
    const Gradus__V1__StepTimes *t = job->times;
    const uint64_t all =
        t == NULL ? 0 : t->load_us + t->compute_us + t->wire_us + t->apply_us + t->wait_us;
    if (all == 0) {
        buf_add_str(out, "-");
    } else {
        buf_printf(out, "workers wait %.0f %% of the time", 100 * (double)t->wait_us / (double)all);
    }
}

static void add_seconds(double seconds, struct buf *out)
{
    char text[64];
    buf_add_str(out, isnan(seconds) ? "-" : output_seconds(seconds, text, sizeof text));
}

static void add_cell(const struct compare_report *r, const struct compare_run *run, enum row row,
                     bool test, struct buf *out)
{
    const Gradus__V1__Job *job = run->job;
    switch (row) {
    case ROW_GRADIENTS:
        buf_add_str(out, run->mode.gradients);
        break;
    case ROW_STALENESS:
        add_staleness(job, out);
        break;
    case ROW_THROUGHPUT:
        buf_printf(out, "%.0f examples/s", job->examples_per_second);
        break;
    case ROW_STRAGGLERS:
        add_stragglers(job, out);
        break;
    case ROW_TIME:
        add_seconds(job->seconds, out);
        buf_printf(out, " for %.3g epoch%s", job->epoch, job->epoch == 1 ? "" : "s");
        break;
    case ROW_TARGET:
        add_seconds(seconds_to(job, common_loss(r, test), test), out);
        break;
    case ROW_RESULT:
        if (job->state != GRADUS__V1__JOB_STATE__SUCCEEDED) {
            text_reason_line(job, "", out);
        } else if (job->n_test > 0) {
            text_metric_values(job->test, job->n_test, out);
        } else {
            text_metric_values(job->train, job->n_train, out);
        }
        break;
    case ROW_TUNING:
    case ROWS:
        buf_add_str(out, run->mode.tuning);
        break;
    }
}

/* Markdown, where a `|` would end a cell. */
static void add_markdown_cell(const char *s, struct buf *out)
{
    for (; *s != '\0'; s++) {
        if (*s == '|') {
            buf_add_str(out, "\\|");
        } else {
            buf_add_char(out, *s == '\n' ? ' ' : *s);
        }
    }
}

static void add_html_cell(const char *s, struct buf *out)
{
    chart_text(s, out);
}

struct table_form {
    const char *row, *cell, *cell_end, *row_end; /* around each */
    void (*text)(const char *s, struct buf *out);
};

static void add_row(const struct compare_report *r, int row, bool test,
                    const struct table_form *form, struct buf *out)
{
    buf_add_str(out, form->row);
    for (size_t i = 0; i <= r->count; i++) {
        struct buf cell = {0};
        if (row < 0) {
            buf_add_str(&cell, i == 0 ? "" : r->runs[i - 1].mode.name);
        } else if (i == 0) {
            add_name(r, (enum row)row, test, &cell);
        } else {
            add_cell(r, &r->runs[i - 1], (enum row)row, test, &cell);
        }
        buf_add_str(out, form->cell);
        form->text(buf_str(&cell), out);
        buf_add_str(out, form->cell_end);
        buf_release(&cell);
    }
    buf_add_str(out, form->row_end);
}

static void add_markdown(const struct compare_report *r, struct buf *out)
{
    static const struct table_form form = {"|", " ", " |", "\n", add_markdown_cell};
    const bool test = has_test(r);
    add_row(r, -1, test, &form, out);
    for (size_t i = 0; i <= r->count; i++) {
        buf_add_str(out, "|---");
    }
    buf_add_str(out, "|\n");
    for (int row = 0; row < ROWS; row++) {
        add_row(r, row, test, &form, out);
    }
}

static void add_html(const struct compare_report *r, struct buf *out)
{
    static const struct table_form head = {"<tr>", "<th>", "</th>", "</tr>\n", add_html_cell};
    static const struct table_form form = {"<tr>", "<td>", "</td>", "</tr>\n", add_html_cell};
    const bool test = has_test(r);
    buf_add_str(out, "<table>\n");
    add_row(r, -1, test, &head, out);
    for (int row = 0; row < ROWS; row++) {
        add_row(r, row, test, &form, out);
    }
    buf_add_str(out, "</table>\n");
}

void compare_report_text(const struct compare_report *r, struct buf *out)
{
    const bool test = has_test(r);
    for (size_t i = 0; i < r->count; i++) {
        buf_printf(out, "%s%s\n", i == 0 ? "" : "\n", r->runs[i].mode.name);
        for (int row = 0; row < ROWS; row++) {
            struct buf name = {0};
            add_name(r, (enum row)row, test, &name);
            buf_printf(out, "  %-30s ", buf_str(&name));
            add_cell(r, &r->runs[i], (enum row)row, test, out);
            buf_add_char(out, '\n');
            buf_release(&name);
        }
    }
}

/* ---- pictures ---- */

static void add_loss_chart(const struct compare_report *r, bool over_time, struct buf *out)
{
    const bool test = has_test(r);
    struct chart_line *lines = mem_new(r->count, sizeof *lines);
    for (size_t i = 0; i < r->count; i++) {
        const Gradus__V1__Job *job = r->runs[i].job;
        struct chart_point *points = mem_new(job->n_evaluations + 1, sizeof *points);
        for (size_t k = 0; k < job->n_evaluations; k++) {
            const Gradus__V1__Evaluation *e = job->evaluations[k];
            points[k] =
                (struct chart_point){over_time ? seconds_of(job, e) : e->epoch, loss_of(e, test)};
        }
        lines[i] = (struct chart_line){r->runs[i].mode.name, points, job->n_evaluations};
    }
    const struct chart chart = {.title = over_time ? "Loss over time" : "Loss over epochs",
                                .x_label = over_time ? "seconds of training" : "epochs",
                                .y_label = test ? "test loss" : "train loss",
                                .lines = lines,
                                .line_count = r->count};
    chart_svg(&chart, out);
    for (size_t i = 0; i < r->count; i++) {
        free(lines[i].points);
    }
    free(lines);
}

/* All pictures show as much time, so that boxes can be compared. */
static int64_t picture_ns(const struct compare_report *r)
{
    int64_t least = 0;
    for (size_t i = 0; i < r->count; i++) {
        struct timeline t;
        if (r->runs[i].trace == NULL) {
            continue;
        }
        timeline_init(&t, r->runs[i].trace, 0);
        least = least == 0 || (t.length > 0 && t.length < least) ? t.length : least;
        timeline_release(&t);
    }
    return least;
}

static void when_text(int64_t wall_ms, char *out, size_t n)
{
    struct tm utc;
    const time_t seconds = (time_t)(wall_ms / 1000);
    out[0] = '\0';
    if (gmtime_r(&seconds, &utc) != NULL) {
        (void)strftime(out, n, "%Y-%m-%d %H:%M:%S UTC", &utc);
    }
}

static void add_picture(const struct compare_run *run, int64_t length, struct buf *out)
{
    struct timeline t;
    struct buf mode = {0};
    char when[40];
    when_text(run->trace->wall_ms, when, sizeof when);
    text_consistency(run->job, &mode);
    const struct timeline_about about = {.job = run->mode.name,
                                         .mode = buf_str(&mode),
                                         .when = when,
                                         .barriers = run->job->mode == GRADUS__V1__MODE__SYNC};
    timeline_init(&t, run->trace, length);
    timeline_svg(&t, &about, out);
    timeline_release(&t);
    buf_release(&mode);
}

/* ---- files ---- */

static void add_setting(const struct compare_report *r, struct buf *out)
{
    char when[40];
    when_text(r->wall_ms, when, sizeof when);
    buf_printf(out, "%s with %zu workers and %zu parameter server%s on %u processor%s, %s.",
               r->job_file, r->workers, r->ps, r->ps == 1 ? "" : "s", r->processors,
               r->processors == 1 ? "" : "s", when);
    if (r->straggler > 1) {
        buf_printf(out, " One worker computes %g times as long as the others.", r->straggler);
    }
    if (r->pace > 1) {
        buf_printf(out,
                   " Each worker takes %g times as long as it computes, by sleeping the rest, so "
                   "that they do not take processors from each other.",
                   r->pace);
    }
    buf_add_char(out, '\n');
}

static int write_file(const char *dir, const char *name, struct buf *content, struct err *err)
{
    char *path = file_join(dir, name);
    int rc = file_write_atomic(path, content->data, content->len, err);
    free(path);
    buf_release(content);
    return rc;
}

/* "sync+backup" → "sync-backup": a name of a file, and of a link to it. */
static char *file_name(const struct compare_run *run)
{
    char *name = mem_printf("%s.svg", run->mode.name);
    for (char *c = name; *c != '\0'; c++) {
        *c = *c == '+' || *c == ':' ? '-' : *c;
    }
    return name;
}

static int write_pictures(const struct compare_report *r, const char *dir, struct err *err)
{
    const int64_t length = picture_ns(r);
    struct buf svg = {0};
    add_loss_chart(r, true, &svg);
    int rc = write_file(dir, "loss-time.svg", &svg, err);
    if (rc == 0) {
        add_loss_chart(r, false, &svg);
        rc = write_file(dir, "loss-epochs.svg", &svg, err);
    }
    for (size_t i = 0; i < r->count && rc == 0; i++) {
        if (r->runs[i].trace != NULL) {
            char *name = file_name(&r->runs[i]);
            add_picture(&r->runs[i], length, &svg);
            rc = write_file(dir, name, &svg, err);
            free(name);
        }
    }
    return rc;
}

static int write_markdown(const struct compare_report *r, const char *dir, struct err *err)
{
    struct buf out = {0};
    buf_add_str(&out, "# Modes beside each other\n\n");
    add_setting(r, &out);
    buf_add_char(&out, '\n');
    add_markdown(r, &out);
    buf_add_str(&out, "\n![Loss over time](loss-time.svg)\n![Loss over epochs](loss-epochs.svg)\n");
    for (size_t i = 0; i < r->count; i++) {
        if (r->runs[i].trace != NULL) {
            char *name = file_name(&r->runs[i]);
            buf_printf(&out, "\n![What workers and shards do, %s](%s)\n", r->runs[i].mode.name,
                       name);
            free(name);
        }
    }
    return write_file(dir, "README.md", &out, err);
}

static const char *const page_head =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
    "<meta name=\"viewport\" content=\"width=device-width\">"
    "<title>Modes beside each other</title>\n<style>"
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,'Segoe UI',Helvetica,Arial,"
    "sans-serif;max-width:1240px;margin:2em auto;padding:0 1em;background:#fff;color:#222}"
    "table{border-collapse:collapse;width:100%}th,td{border-bottom:1px solid #dee2e6;"
    "padding:.4em .6em;text-align:left;vertical-align:top}td:first-child{color:#666}"
    "svg{max-width:100%;height:auto;display:block;margin:1em 0}.side{display:flex;flex-wrap:wrap;"
    "gap:1em}@media(prefers-color-scheme:dark){body{background:#16191d;color:#e6e6e6}"
    "th,td{border-color:#343a40}td:first-child{color:#9aa0a6}}</style></head><body>\n"
    "<h1>Modes beside each other</h1>\n<p>";

static int write_page(const struct compare_report *r, const char *dir, struct err *err)
{
    const int64_t length = picture_ns(r);
    struct buf out = {0}, setting = {0};
    buf_add_str(&out, page_head);
    add_setting(r, &setting);
    chart_text(buf_str(&setting), &out);
    buf_release(&setting);
    buf_add_str(&out, "</p>\n");
    add_html(r, &out);
    buf_add_str(&out, "<div class=\"side\">\n");
    add_loss_chart(r, true, &out);
    add_loss_chart(r, false, &out);
    buf_add_str(&out, "</div>\n");
    for (size_t i = 0; i < r->count; i++) {
        if (r->runs[i].trace != NULL) {
            add_picture(&r->runs[i], length, &out);
        }
    }
    buf_add_str(&out, "</body></html>\n");
    return write_file(dir, "index.html", &out, err);
}

int compare_report_write(const struct compare_report *r, const char *dir, struct err *err)
{
    int rc = file_make_dirs(dir, err);
    rc = rc != 0 ? rc : write_pictures(r, dir, err);
    rc = rc != 0 ? rc : write_markdown(r, dir, err);
    return rc != 0 ? rc : write_page(r, dir, err);
}
