/* SPDX-License-Identifier: Apache-2.0 */
/* The values of an evaluation, and its confusion matrix as a table:
 *
 *     confusion   classes of records in rows, what the model said in columns
 *                     0     1
 *               0    50     3
 *               1     2    45
 */
#include "cli/text_metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "json/json_write.h"

#define CLASSES_SHOWN 16 /* in a table */
#define CELL_WIDTH_MIN 5

/* Of measures that compare classes: records of one class alone have none. */
static bool compares_classes(const char *name)
{
    static const enum metric_kind kinds[] = {METRIC_AUC, METRIC_GROUPED_AUC,
                                             METRIC_NORMALISED_ENTROPY};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(name, metric_kind_names[kinds[i]]) == 0) {
            return true;
        }
    }
    return false;
}

/* Four places, as long as they say something. */
static void text_metric(const char *name, double value, struct buf *out)
{
    double size = fabs(value);
    if (isnan(value)) {
        buf_add_str(out, compares_classes(name) ? "undefined (one class)" : "nan");
        return;
    }
    buf_printf(out, value == 0 || (size >= 0.001 && size < 100000) ? "%.4f" : "%.3e", value);
}

void text_metric_values(Gradus__V1__MetricValue *const *values, size_t count, struct buf *out)
{
    for (size_t i = 0; i < count; i++) {
        buf_printf(out, "%s%s ", i > 0 ? "  " : "", values[i]->name);
        text_metric(values[i]->name, values[i]->value, out);
    }
}

static size_t classes_of(size_t cells)
{
    size_t classes = 0;
    while ((classes + 1) * (classes + 1) <= cells) {
        classes++;
    }
    return classes;
}

/* Whole numbers of records; weights, where they are none, with four digits. */
static bool is_count(double cell)
{
    return cell == floor(cell) && cell < 0x1.0p53;
}

static const char *cell_text(double cell, char *out, size_t n)
{
    (void)snprintf(out, n, is_count(cell) ? "%.0f" : "%.4g", cell);
    return out;
}

static void table(const double *cells, size_t count, struct buf *out)
{
    const size_t classes = classes_of(count);
    if (classes == 0) {
        return;
    }
    if (classes > CLASSES_SHOWN) {
        buf_printf(out, "confusion   %zu classes; --json has the matrix\n", classes);
        return;
    }
    char text[32];
    int width = CELL_WIDTH_MIN;
    for (size_t i = 0; i < classes * classes; i++) {
        const int needed = (int)strlen(cell_text(cells[i], text, sizeof text)) + 1;
        width = width < needed ? needed : width;
    }
    buf_printf(out, "confusion   classes of records in rows, what the model said in columns\n%14s",
               "");
    for (size_t k = 0; k < classes; k++) {
        buf_printf(out, "%*zu", width, k);
    }
    for (size_t i = 0; i < classes; i++) {
        buf_printf(out, "\n%14zu", i);
        for (size_t k = 0; k < classes; k++) {
            buf_printf(out, "%*s", width, cell_text(cells[i * classes + k], text, sizeof text));
        }
    }
    buf_add_char(out, '\n');
}

void text_confusion(const Gradus__V1__Job *job, struct buf *out)
{
    table(job->test_confusion, job->n_test_confusion, out);
}

static json_t *cell_json(double cell)
{
    return is_count(cell) ? json_integer((json_int_t)cell) : json_fraction(cell);
}

/* Puts "confusion_matrix" into @metrics: rows are labels, columns what the model said; nothing for
 * no @cells. */
static void confusion_json(json_t *metrics, const double *cells, size_t count)
{
    const size_t classes = classes_of(count);
    if (classes == 0) {
        return;
    }
    json_t *rows = json_array();
    for (size_t i = 0; i < classes; i++) {
        json_t *row = json_array();
        for (size_t k = 0; k < classes; k++) {
            json_append(row, cell_json(cells[i * classes + k]));
        }
        json_append(rows, row);
    }
    json_put(metrics, metric_kind_names[METRIC_CONFUSION_MATRIX], rows);
}

void text_metrics(const struct metrics *m, double label_scale, struct buf *out)
{
    buf_printf(out, "%-11s %" PRIu64 "\n", "examples", m->examples);
    if (m->weight != (double)m->examples) {
        buf_printf(out, "%-11s %.6g\n", "weight", m->weight);
    }
    for (int k = 0; k < METRIC_KIND_COUNT; k++) {
        if ((m->kinds & (1U << k)) != 0 && k != METRIC_CONFUSION_MATRIX) {
            buf_printf(out, "%-11s ", metric_kind_names[k]);
            text_metric(metric_kind_names[k], metrics_value(m, (enum metric_kind)k, label_scale),
                        out);
            buf_add_char(out, '\n');
        }
    }
    table(m->confusion.cells, m->confusion.count, out);
}

void text_metrics_json(const char *checkpoint, const char *data, const struct metrics *m,
                       double label_scale, struct buf *out)
{
    json_t *values = json_object();
    for (int k = 0; k < METRIC_KIND_COUNT; k++) {
        if ((m->kinds & (1U << k)) != 0 && k != METRIC_CONFUSION_MATRIX) {
            json_put(values, metric_kind_names[k],
                     json_fraction(metrics_value(m, (enum metric_kind)k, label_scale)));
        }
    }
    confusion_json(values, m->confusion.cells, m->confusion.count);
    json_t *o = json_object();
    json_put(o, "checkpoint", json_text(checkpoint));
    json_put(o, "data", json_text(data));
    json_put(o, "examples", json_integer((json_int_t)m->examples));
    json_put(o, "weight", json_fraction(m->weight));
    json_put(o, "metrics", values);
    json_print(o, 9, true, out);
}
