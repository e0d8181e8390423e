/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a hyperparameter's schedule and the factor that it gives at a version, each in
 * closed form; the formulas are in schedule.h. */
#include "rule/rules/schedule.h"

#include <math.h>
#include <string.h>

#include "base/text.h"
#include "config/field_texts.h"

#define PI 3.14159265358979323846
#define FACTOR_MAX 1e30
#define ONE_CYCLE_BEGIN 0.04 /* of the highest, as PyTorch's div_factor 25 */

const char *const schedule_kind_names[SCHEDULE_KIND_COUNT + 1] = {
    "constant",     "step",       "multi_step", "exponential",
    "inverse_time", "polynomial", "cosine",     "cosine_restarts",
    "one_cycle",    "noam",       "piecewise",  NULL,
};

static const char *const warmup_shapes[] = {"linear", "cosine", NULL};

#define ROW(member) offsetof(struct schedule, member)
const struct field schedule_fields[] = {
    {"kind", FIELD_ENUM, ROW(kind), "constant", 0, 0, schedule_kind_names, "Shape of the schedule"},
    {"length", FIELD_INT, ROW(length), "10000", 1, 1e15, NULL,
     "Updates until a polynomial, cosine or one_cycle ends, of the first period of "
     "cosine_restarts, or of the rise of noam"},
    {"every", FIELD_INT, ROW(every), "10000", 1, 1e15, NULL,
     "Updates per factor of rate in step, exponential and inverse_time"},
    {"rate", FIELD_FLOAT, ROW(rate), "0.1", 0, 1000, NULL,
     "Factor of step, multi_step, exponential and inverse_time"},
    {"end", FIELD_FLOAT, ROW(end), "0", 0, 1000, NULL,
     "Factor that polynomial, cosine, cosine_restarts and one_cycle come down to"},
    {"power", FIELD_FLOAT, ROW(power), "1", 0.01, 100, NULL, "Power of polynomial; 1: linear"},
    {"growth", FIELD_FLOAT, ROW(growth), "1", 1, 1000, NULL,
     "Length of a period of cosine_restarts beside the one before"},
    {"height", FIELD_FLOAT, ROW(height), "1", 0, 1, NULL,
     "Height of a period of cosine_restarts beside the one before"},
    {"up", FIELD_FLOAT, ROW(up), "0.3", 0, 1, NULL, "Share of one_cycle in which it rises"},
    {"width", FIELD_INT, ROW(width), "512", 1, 1e9, NULL, "Width of the model, for noam"},
    {"at", FIELD_INTS, ROW(at), "[]", 0, 1e15, NULL,
     "Updates at which multi_step and piecewise change, rising"},
    {"factors", FIELD_TEXTS, ROW(factors), "", 0, 0, NULL,
     "Factors of piecewise, as a list or with commas between them, one more than `at` has numbers"},
    {"warmup", FIELD_INT, ROW(warmup), "0", 0, 1e15, NULL,
     "Updates before the schedule in which the value rises to where it begins"},
    {"warmup_shape", FIELD_ENUM, ROW(warmup_shape), "linear", 0, 0, warmup_shapes,
     "Shape of the rise"},
    {"warmup_start", FIELD_FLOAT, ROW(warmup_start), "0", 0, 1, NULL,
     "Factor that the rise begins above"},
};
const size_t schedule_field_count = sizeof schedule_fields / sizeof schedule_fields[0];

/* The numbers of "1, 0.5, 0.1", or of a list. */
static int read_factors(struct schedule *s, struct err *err)
{
    struct field_texts items = {0};
    int rc = 0;
    if (!field_texts_read_commas(s->factors == NULL ? "" : s->factors, &items)) {
        return err_set(err, ERR_INVALID, "factors: this is no list of numbers: %s", s->factors);
    }
    s->value_count = 0;
    for (size_t i = 0; i < items.count && rc == 0; i++) {
        double value;
        if (!text_to_double(items.items[i], &value) || value < 0 || value > FACTOR_MAX) {
            rc = err_set(err, ERR_INVALID,
                         "factors: '%.64s' is no factor; allowed: numbers of at least 0",
                         items.items[i]);
        } else if (s->value_count > SCHEDULE_POINTS_MAX) {
            rc = err_set(err, ERR_INVALID, "factors: more than %d", SCHEDULE_POINTS_MAX + 1);
        } else {
            s->values[s->value_count++] = value;
        }
    }
    field_texts_release(&items);
    return rc;
}

int schedule_check(struct schedule *s, struct err *err)
{
    for (size_t i = 1; i < s->at.count; i++) {
        if (s->at.values[i] <= s->at.values[i - 1]) {
            return err_set(err, ERR_INVALID, "at: the numbers must rise");
        }
    }
    if (s->kind == SCHEDULE_MULTI_STEP && s->at.count == 0) {
        return err_set(err, ERR_INVALID, "at: multi_step needs at least one number");
    }
    if (s->kind != SCHEDULE_PIECEWISE) {
        return 0;
    }
    int rc = read_factors(s, err);
    if (rc == 0 && s->value_count != s->at.count + 1) {
        rc = err_set(err, ERR_INVALID, "factors: %zu factors for %zu numbers in `at`; allowed: %zu",
                     s->value_count, s->at.count, s->at.count + 1);
    }
    return rc;
}

static size_t points_reached(const struct schedule *s, double t)
{
    size_t n = 0;
    while (n < s->at.count && (double)s->at.values[n] <= t) {
        n++;
    }
    return n;
}

/* From 1 at @x 0 to 0 at @x 1, along half a cosine. */
static double fall(double x)
{
    return 0.5 * (1.0 + cos(PI * (x < 1 ? x : 1)));
}

/* The version at which period number @period of cosine_restarts begins. */
static double restart_at(const struct schedule *s, double period)
{
    double share = s->growth - 1;
    return (double)s->length * (share == 0 ? period : expm1(period * log1p(share)) / share);
}

static double cosine_restarts(const struct schedule *s, double t)
{
    const double length = (double)s->length, share = s->growth - 1;
    double period = floor(share == 0 ? t / length : log1p(t * share / length) / log1p(share));
    if (period > 0 && t < restart_at(s, period)) { /* rounding may be one off */
        period--;
    } else if (t >= restart_at(s, period + 1)) {
        period++;
    }
    double begin = restart_at(s, period);
    double size = restart_at(s, period + 1) - begin; /* 0 where doubles cannot tell them apart */
    double done = size > 0 ? fmax((t - begin) / size, 0) : 0.0;
    return pow(s->height, period) * (s->end + (1 - s->end) * fall(done));
}

static double one_cycle(const struct schedule *s, double t)
{
    const double rise = s->up * (double)s->length;
    if (t < rise) {
        return 1 - (1 - ONE_CYCLE_BEGIN) * fall(t / rise);
    }
    double rest = (double)s->length - rise;
    return s->end + (1 - s->end) * (rest > 0 ? fall((t - rise) / rest) : 0.0);
}

static double shape(const struct schedule *s, double t)
{
    const double done = t < (double)s->length ? t / (double)s->length : 1;
    const double turns = t / (double)s->every;
    switch ((enum schedule_kind)s->kind) {
    case SCHEDULE_STEP:
        return pow(s->rate, floor(turns));
    case SCHEDULE_MULTI_STEP:
        return pow(s->rate, (double)points_reached(s, t));
    case SCHEDULE_EXPONENTIAL:
        return pow(s->rate, turns);
    case SCHEDULE_INVERSE_TIME:
        return 1 / (1 + s->rate * turns);
    case SCHEDULE_POLYNOMIAL:
        return s->end + (1 - s->end) * pow(1 - done, s->power);
    case SCHEDULE_COSINE:
        return s->end + (1 - s->end) * fall(done);
    case SCHEDULE_COSINE_RESTARTS:
        return cosine_restarts(s, t);
    case SCHEDULE_ONE_CYCLE:
        return one_cycle(s, t);
    case SCHEDULE_NOAM:
        return fmin(1 / sqrt(t + 1), (t + 1) * pow((double)s->length, -1.5)) /
               sqrt((double)s->width);
    case SCHEDULE_PIECEWISE:
        return s->values[points_reached(s, t)];
    case SCHEDULE_CONSTANT:
    case SCHEDULE_KIND_COUNT:
        break;
    }
    return 1;
}

double schedule_factor(const struct schedule *s, uint64_t version)
{
    const uint64_t warmup = (uint64_t)s->warmup;
    double factor;
    if (version >= warmup) {
        factor = shape(s, (double)(version - warmup));
    } else {
        /* neither end is a step: the first update moves already, and the schedule begins at the end
         */
        double x = (double)(version + 1) / (double)(warmup + 1);
        double risen = s->warmup_shape == SCHEDULE_WARMUP_COSINE ? 1 - fall(x) : x;
        factor = shape(s, 0) * (s->warmup_start + (1 - s->warmup_start) * risen);
    }
    return factor < FACTOR_MAX ? factor : FACTOR_MAX;
}

void rule_params_at(const struct rule *rule, const void *params,
                    const struct rule_schedule *schedules, size_t count, uint64_t version,
                    void *out)
{
    memcpy(out, params, rule->params_bytes);
    for (size_t i = 0; i < count; i++) {
        const struct field *f = schedules[i].field;
        double value;
        memcpy(&value, (const char *)params + f->offset, sizeof value);
        value *= schedule_factor(&schedules[i].schedule, version);
        if (f->min != 0 || f->max != 0) {
            value = value < f->min ? f->min : value;
            value = value > f->max ? f->max : value;
        }
        memcpy((char *)out + f->offset, &value, sizeof value);
    }
}
