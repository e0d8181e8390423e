#include "cli/output.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/chrono.h"
#include "base/text.h"
#include "wire/wire.h"

#define EVALUATIONS_SHOWN 10

/* ---- JSON ---- */

static void dump(json_t *json, struct buf *out)
{
    char *text = json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(9) | JSON_ENSURE_ASCII);
    if (text != NULL) {
        buf_printf(out, "%s\n", text);
        free(text);
    }
    json_decref(json);
}

/* A number; null for what JSON cannot say. Whole numbers are written without a fraction. */
static json_t *number(double value)
{
    if (!isfinite(value)) {
        return json_null();
    }
    if (value == floor(value) && fabs(value) < 9e15) {
        return json_integer((json_int_t)value);
    }
    return json_real(value);
}

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *text(const char *s)
{
    json_t *j = json_string(s); /* NULL for invalid UTF-8 */
    return j != NULL ? j : json_string("(not UTF-8)");
}

static json_t *metric_values(Gradus__V1__MetricValue *const *values, size_t count)
{
    json_t *object = json_object();
    for (size_t i = 0; i < count; i++) {
        json_object_set_new(object, values[i]->name, real(values[i]->value));
    }
    return object;
}

static json_t *strings(char *const *values, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(array, text(values[i]));
    }
    return array;
}

static json_t *result(const Gradus__V1__Job *job)
{
    json_t *o = json_object();
    json_object_set_new(o, "job", text(job->id));
    json_object_set_new(o, "state", text(wire_state_name(job->state)));
    json_object_set_new(o, "reason", text(job->reason));
    json_object_set_new(o, "steps", json_integer((json_int_t)job->step));
    json_object_set_new(o, "epochs", number(job->epoch));
    json_t *metrics = json_object();
    json_object_set_new(metrics, "train", metric_values(job->train, job->n_train));
    json_object_set_new(metrics, "test", metric_values(job->test, job->n_test));
    json_object_set_new(o, "metrics", metrics);
    json_object_set_new(o, "examples_per_second", real(job->examples_per_second));
    json_object_set_new(o, "seconds", real(job->seconds));
    json_object_set_new(o, "checkpoint", text(job->checkpoint));
    return o;
}

static json_t *status(const Gradus__V1__Job *job)
{
    json_t *o = result(job);
    json_object_set_new(o, "name", text(job->name));
    json_object_set_new(o, "mode", text(wire_mode_name(job->mode)));
    json_object_set_new(o, "generation", json_integer((json_int_t)job->generation));
    json_object_set_new(o, "steps_total", json_integer((json_int_t)job->steps_total));
    json_object_set_new(o, "epochs_total", number(job->epochs_total));
    json_object_set_new(o, "examples", json_integer((json_int_t)job->examples));
    json_object_set_new(o, "eta_seconds", real(job->eta_seconds));
    json_object_set_new(o, "submitted_ms", json_integer(job->submitted_ms));
    json_object_set_new(o, "started_ms", json_integer(job->started_ms));
    json_object_set_new(o, "finished_ms", json_integer(job->finished_ms));
    json_object_set_new(o, "workers", strings(job->workers, job->n_workers));
    json_object_set_new(o, "ps", strings(job->ps, job->n_ps));
    json_t *staleness = json_array();
    for (size_t i = 0; i < job->n_staleness; i++) {
        json_array_append_new(staleness, json_integer((json_int_t)job->staleness[i]));
    }
    json_object_set_new(o, "staleness", staleness);
    json_t *evaluations = json_array();
    for (size_t i = 0; i < job->n_evaluations; i++) {
        const Gradus__V1__Evaluation *e = job->evaluations[i];
        json_t *row = json_object();
        json_object_set_new(row, "step", json_integer((json_int_t)e->step));
        json_object_set_new(row, "epoch", number(e->epoch));
        json_object_set_new(row, "train", metric_values(e->train, e->n_train));
        json_object_set_new(row, "test", metric_values(e->test, e->n_test));
        json_array_append_new(evaluations, row);
    }
    json_object_set_new(o, "evaluations", evaluations);
    return o;
}

void output_result_json(const Gradus__V1__Job *job, struct buf *out)
{
    dump(result(job), out);
}

void output_status_json(const Gradus__V1__Job *job, struct buf *out)
{
    json_t *o = status(job);
    if (job->text[0] != '\0') {
        json_object_set_new(o, "text", text(job->text));
    }
    dump(o, out);
}

void output_jobs_json(Gradus__V1__Job *const *jobs, size_t count, struct buf *out)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(array, status(jobs[i]));
    }
    dump(array, out);
}

void output_nodes_json(Gradus__V1__NodeInfo *const *nodes, size_t count, struct buf *out)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        const Gradus__V1__NodeInfo *n = nodes[i];
        json_t *o = json_object();
        json_object_set_new(o, "id", text(n->id));
        json_object_set_new(o, "role", text(wire_role_name(n->role)));
        json_object_set_new(o, "address", text(n->address));
        json_object_set_new(o, "http_address", text(n->http_address));
        json_object_set_new(o, "alive", json_boolean(n->alive));
        json_object_set_new(o, "jobs", strings(n->jobs, n->n_jobs));
        json_object_set_new(o, "heartbeat_age_ms", json_integer(n->heartbeat_age_ms));
        json_object_set_new(o, "version", text(n->version));
        json_object_set_new(o, "host", text(n->host));
        json_object_set_new(o, "pid", json_integer((json_int_t)n->pid));
        json_array_append_new(array, o);
    }
    dump(array, out);
}

void output_plan_json(const struct plan *plan, struct buf *out)
{
    json_t *shards = json_array();
    for (uint32_t s = 0; s < plan->shard_count; s++) {
        size_t count;
        const struct partition *parts = plan_shard(plan, s, &count);
        json_t *partitions = json_array();
        for (size_t i = 0; i < count; i++) {
            json_t *p = json_object();
            json_object_set_new(p, "variable", text(plan->variables[parts[i].variable].name));
            json_object_set_new(p, "row_first", json_integer((json_int_t)parts[i].row_first));
            json_object_set_new(p, "row_count", json_integer((json_int_t)parts[i].row_count));
            json_object_set_new(p, "elements", json_integer((json_int_t)parts[i].count));
            json_array_append_new(partitions, p);
        }
        json_t *shard = json_object();
        json_object_set_new(shard, "shard", json_integer(s));
        json_object_set_new(shard, "elements", json_integer((json_int_t)plan->shard_elements[s]));
        json_object_set_new(shard, "bytes", json_integer((json_int_t)plan->shard_elements[s] * 4));
        json_object_set_new(shard, "partitions", partitions);
        json_array_append_new(shards, shard);
    }
    json_t *o = json_object();
    json_object_set_new(o, "shards", shards);
    dump(o, out);
}

void output_metrics_json(const char *checkpoint, const char *data, const struct metrics *m,
                         double label_scale, struct buf *out)
{
    json_t *values = json_object();
    for (int k = 0; k < METRIC_KIND_COUNT; k++) {
        if (m->kinds & (1U << k)) {
            json_object_set_new(values, metric_kind_names[k],
                                real(metrics_value(m, (enum metric_kind)k, label_scale)));
        }
    }
    json_t *o = json_object();
    json_object_set_new(o, "checkpoint", text(checkpoint));
    json_object_set_new(o, "data", text(data));
    json_object_set_new(o, "examples", json_integer((json_int_t)m->examples));
    json_object_set_new(o, "metrics", values);
    dump(o, out);
}

void output_object(struct buf *out, ...)
{
    json_t *o = json_object();
    va_list args;
    va_start(args, out);
    for (const char *key = va_arg(args, const char *); key != NULL;
         key = va_arg(args, const char *)) {
        json_object_set_new(o, key, text(va_arg(args, const char *)));
    }
    va_end(args);
    dump(o, out);
}

/* ---- text ---- */

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

static void counted(size_t count, const char *noun, const char *nouns, struct buf *out)
{
    buf_printf(out, "%zu %s", count, count == 1 ? noun : nouns);
}

static void epoch_text(double epoch, double total, struct buf *out)
{
    if (total > 0) {
        buf_printf(out, "epoch %.2f/%g", epoch, total);
    } else {
        buf_printf(out, "epoch %.2f", epoch);
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

void output_status_text(const Gradus__V1__Job *job, struct buf *out)
{
    output_result_text(job, out);
    buf_printf(out, "mode        %s, generation %" PRIu64 "\n", wire_mode_name(job->mode),
               job->generation);
    time_line("submitted", job->submitted_ms, out);
    time_line("started", job->started_ms, out);
    time_line("finished", job->finished_ms, out);
    names_line("workers", job->workers, job->n_workers, out);
    names_line("ps", job->ps, job->n_ps, out);
    evaluations_text(job, out);
}

void output_cancel_text(const Gradus__V1__Job *job, struct buf *out)
{
    buf_printf(out, "job %s: %s%s%s\n", job->id, wire_state_name(job->state),
               job->reason[0] != '\0' ? ": " : "", job->reason);
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
