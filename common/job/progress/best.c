/* SPDX-License-Identifier: Apache-2.0 */
/* Compares one evaluation after the other with the best so far. */
#include "job/progress/best.h"

#include <inttypes.h>
#include <math.h>

static bool higher_is_better(enum metric_kind kind)
{
    const unsigned lower = 1U << METRIC_LOSS | 1U << METRIC_LOG_LOSS | 1U << METRIC_RMSE |
                           1U << METRIC_MAE | 1U << METRIC_NORMALISED_ENTROPY | 1U << METRIC_ECE;
    return (lower & 1U << kind) == 0;
}

int best_metric(const struct training_spec *t)
{
    return t->stop_metric != 0 ? t->stop_metric : t->keep_best;
}

bool best_is_wanted(const struct training_spec *t)
{
    return best_metric(t) != 0;
}

bool best_is_kept(const struct training_spec *t)
{
    return t->keep_best != 0 || (t->stop_metric != 0 && t->stop_restore_best);
}

static bool stops_after(const struct training_spec *t, uint64_t without)
{
    return t->stop_metric != 0 && t->stop_patience > 0 && without >= (uint64_t)t->stop_patience;
}

bool best_is_passed(const struct best *b, const struct training_spec *t)
{
    return stops_after(t, b->without);
}

bool best_may_stop(const struct best *b, const struct training_spec *t)
{
    return stops_after(t, b->without + 1);
}

static bool is_better(const struct best *b, double value, double min_delta)
{
    if (isnan(value) || !b->known) {
        return !isnan(value);
    }
    return higher_is_better(b->metric) ? value > b->value + min_delta
                                       : value < b->value - min_delta;
}

bool best_count(struct best *b, const struct training_spec *t, uint64_t step, double value)
{
    const enum metric_kind metric = (enum metric_kind)(best_metric(t) - 1);
    if (b->count > 0 && b->metric != metric) {
        *b = (struct best){.last = b->last, .kept = b->kept, .kept_step = b->kept_step};
    } else if (b->count > 0 && step <= b->last) {
        return false;
    }
    b->metric = metric;
    b->count++;
    b->last = step;
    if (!is_better(b, value, t->stop_min_delta)) {
        b->without++;
        return false;
    }
    b->known = true;
    b->value = value;
    b->step = step;
    b->without = 0;
    return true;
}

void best_go_on(struct best *b)
{
    b->stops = false;
    b->without = 0;
}

void best_words(const struct best *b, struct buf *out)
{
    buf_printf(out, "stopped early: ");
    if (b->known) {
        buf_printf(out, "no better %s than %.6g of step %" PRIu64, metric_kind_names[b->metric],
                   b->value, b->step);
    } else {
        buf_printf(out, "no %s that is a number", metric_kind_names[b->metric]);
    }
    buf_printf(out, " for %" PRIu64 " evaluation%s", b->without, b->without == 1 ? "" : "s");
}
