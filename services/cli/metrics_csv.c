/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/metrics_csv.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/answer_text.h"
#include "wire/wire_json.h"

struct measured { /* of an evaluation, on the train or the test data */
    Gradus__V1__MetricValue *const *metrics;
    size_t count;
};

static struct measured measured_of(const Gradus__V1__Evaluation *e, bool test)
{
    return test ? (struct measured){e->test, e->n_test} : (struct measured){e->train, e->n_train};
}

struct metric_names {
    const char **items; /* borrowed from the job */
    size_t count, capacity;
};

static void add_name(struct metric_names *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++) {
        if (strcmp(all->items[i], name) == 0) {
            return;
        }
    }
    all->items = mem_grow(all->items, &all->capacity, all->count + 1, sizeof *all->items);
    all->items[all->count++] = name;
}

static void add_names(const Gradus__V1__Job *job, bool test, struct metric_names *all)
{
    for (size_t i = 0; i < job->n_evaluations; i++) {
        const struct measured m = measured_of(job->evaluations[i], test);
        for (size_t k = 0; k < m.count; k++) {
            add_name(all, m.metrics[k]->name);
        }
    }
}

static void add_number(double value, struct buf *out)
{
    if (isfinite(value)) {
        wire_json_digits(value, false, out);
    } else {
        buf_add_str(out, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    }
}

static void add_cells(const struct metric_names *names, const struct measured *m, struct buf *out)
{
    for (size_t i = 0; i < names->count; i++) {
        buf_add_char(out, ',');
        for (size_t k = 0; k < m->count; k++) {
            if (strcmp(m->metrics[k]->name, names->items[i]) == 0) {
                add_number(m->metrics[k]->value, out);
                break;
            }
        }
    }
}

void metrics_csv(const Gradus__V1__Job *job, struct buf *out)
{
    struct metric_names names[2] = {{0}, {0}}; /* train, test */
    buf_add_str(out, "step,epoch,wall_time");
    for (int test = 0; test < 2; test++) {
        add_names(job, test != 0, &names[test]);
        for (size_t i = 0; i < names[test].count; i++) {
            buf_add_char(out, ',');
            answer_text_cell(test != 0 ? "test_" : "train_", names[test].items[i], out);
        }
    }
    buf_add_char(out, '\n');
    for (size_t i = 0; i < job->n_evaluations; i++) {
        const Gradus__V1__Evaluation *e = job->evaluations[i];
        buf_printf(out, "%" PRIu64 ",", e->step);
        add_number(e->epoch, out);
        buf_printf(out, ",%" PRId64 ".%03d", e->time_ms / 1000, (int)(e->time_ms % 1000));
        for (int test = 0; test < 2; test++) {
            const struct measured m = measured_of(e, test != 0);
            add_cells(&names[test], &m, out);
        }
        buf_add_char(out, '\n');
    }
    free(names[0].items);
    free(names[1].items);
}
