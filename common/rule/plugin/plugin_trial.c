/* SPDX-License-Identifier: Apache-2.0 */
/* A rule, tried out: small arrays between pages that nobody may touch, whole and in pieces. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "rule/plugin/plugin_impl.h"

#define STEPS 6
#define CUTS_MAX 6

enum { VALUES, OUT, GRADIENT, SLOT_0, ARRAYS = SLOT_0 + GRADUS_RULE_SLOTS_MAX };

/* Numbers of one variable. Each array ends, or begins, where a page ends that faults behind, or
 * before, it. */
struct arrays {
    size_t n, count;
    float *now[ARRAYS], *before[ARRAYS];
};

struct trial {
    const struct gradus_rule *g;
    volatile int *stage;
    double *values; /* of the hyperparameters; fenced */
    float *scalars; /* fenced */
    uint64_t key;
};

/* @bytes of memory, at an end of what may be touched. Never freed: the process is short. */
static void *fenced(size_t bytes, bool at_end, struct err *err)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t body = (bytes + page) / page * page; /* one page at least */
    char *p = mmap(NULL, body + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + page, body, PROT_READ | PROT_WRITE) != 0) {
        (void)err_set(err, ERR_EXHAUSTED, "no memory for the trial");
        return NULL;
    }
    return p + page + (at_end ? body - bytes : 0);
}

static int arrays_new(const struct trial *t, size_t n, bool at_end, struct arrays *x,
                      struct err *err)
{
    *x = (struct arrays){.n = n, .count = SLOT_0 + t->g->slot_count};
    for (size_t k = 0; k < x->count; k++) {
        x->now[k] = fenced(n * sizeof(float), at_end, err);
        x->before[k] = mem_new(n, sizeof(float));
        if (x->now[k] == NULL) {
            return ERR_EXHAUSTED;
        }
    }
    for (size_t i = 0; i < n; i++) {
        x->now[VALUES][i] = (float)rng_normal(rng_key(t->key, "values"), i);
        x->now[OUT][i] = 0.0F;
        for (size_t k = 0; k < t->g->slot_count; k++) {
            x->now[SLOT_0 + k][i] = t->g->slots[k].initial;
        }
    }
    return 0;
}

/* @plain: nothing that half of it loses bits of, and nothing that a formula may overflow on. */
static void make_gradient(const struct trial *t, struct arrays *x, uint64_t step, bool plain,
                          float factor)
{
    const uint64_t key = rng_key_mix(rng_key(t->key, "gradient"), step);
    for (size_t i = 0; i < x->n; i++) {
        float g = (float)rng_normal(key, i);
        if (i % 5 == 1) {
            g = 0.0F;
        } else if (!plain && i % 5 == 2) {
            g *= 1e-40F;
        } else if (!plain && i % 5 == 3) {
            g *= 1e6F;
        }
        x->now[GRADIENT][i] = g * factor;
    }
}

static bool same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static const char *array_name(const struct gradus_rule *g, size_t k)
{
    static const char *const names[] = {[VALUES] = "in", [OUT] = "out", [GRADIENT] = "gradient"};
    return k < SLOT_0 ? names[k] : g->slots[k - SLOT_0].name;
}

/* ---- prepare ---- */

static int prepare(const struct trial *t, uint64_t version, double lr_scale, struct err *err)
{
    float once[GRADUS_RULE_SCALARS_MAX];
    double values[GRADUS_RULE_HYPERPARAMETERS_MAX];
    const size_t bytes = t->g->hyperparameter_count * sizeof *values;
    memcpy(values, t->values, bytes);
    *t->stage = PLUGIN_PREPARE;
    for (int again = 0; again < 2; again++) {
        memset(t->scalars, 0, sizeof once);
        t->g->prepare(t->values, version, lr_scale, t->scalars);
        if (again == 0) {
            memcpy(once, t->scalars, sizeof once);
        }
    }
    if (memcmp(values, t->values, bytes) != 0) {
        return err_set(err, ERR_INVALID, "prepare() changes the hyperparameters");
    }
    if (memcmp(once, t->scalars, sizeof once) != 0) {
        return err_set(err, ERR_INVALID,
                       "prepare() gives different scalars for the same arguments");
    }
    return 0;
}

/* ---- apply ---- */

/* What may have changed is [first, first + n) of the result and of the slots. */
static int check_writes(const struct trial *t, const struct arrays *x, size_t first, size_t n,
                        size_t out, struct err *err)
{
    for (size_t k = 0; k < x->count; k++) {
        const bool mine = k == out || k >= SLOT_0;
        for (size_t i = 0; i < x->n; i++) {
            if ((mine && i - first < n) || same(x->now[k][i], x->before[k][i])) {
                continue;
            }
            return err_set(err, ERR_INVALID, "apply() of %zu elements writes %s[%td]", n,
                           k == out ? "out" : array_name(t->g, k), (ptrdiff_t)i - (ptrdiff_t)first);
        }
    }
    return 0;
}

static int apply_span(const struct trial *t, struct arrays *x, size_t first, size_t n, float scale,
                      bool in_place, struct err *err)
{
    const size_t out = in_place ? VALUES : OUT;
    float scalars[GRADUS_RULE_SCALARS_MAX];
    float *slots[GRADUS_RULE_SLOTS_MAX] = {NULL};
    for (size_t k = 0; k < x->count; k++) {
        memcpy(x->before[k], x->now[k], x->n * sizeof(float));
    }
    for (size_t k = SLOT_0; k < x->count; k++) {
        slots[k - SLOT_0] = x->now[k] + first;
    }
    memcpy(scalars, t->scalars, sizeof scalars);
    *t->stage = PLUGIN_APPLY;
    t->g->apply(t->scalars, x->now[out] + first, x->now[VALUES] + first, slots,
                x->now[GRADIENT] + first, scale, n);
    if (memcmp(scalars, t->scalars, sizeof scalars) != 0) {
        return err_set(err, ERR_INVALID, "apply() changes the scalars");
    }
    return check_writes(t, x, first, n, out, err);
}

static void swap_out(struct arrays *x)
{
    float *result = x->now[OUT];
    x->now[OUT] = x->now[VALUES];
    x->now[VALUES] = result;
}

/* Makes one update in @pieces random spans, the last one first. */
static int apply_cut(const struct trial *t, struct arrays *x, uint64_t step, size_t pieces,
                     bool in_place, struct err *err)
{
    const uint64_t key = rng_key_mix(rng_key_mix(rng_key(t->key, "cuts"), x->n), step);
    size_t end = x->n;
    for (size_t p = 0; p < pieces; p++) {
        const size_t first = p + 1 == pieces ? 0 : (size_t)rng_below(key, p, end + 1);
        if (end > first) {
            int rc = apply_span(t, x, first, end - first, 1.0F, in_place, err);
            if (rc != 0) {
                return rc;
            }
        }
        end = first;
    }
    if (!in_place) {
        swap_out(x);
    }
    return 0;
}

static int compare(const struct trial *t, const struct arrays *a, const struct arrays *b,
                   const char *what, struct err *err)
{
    for (size_t k = 0; k < a->count; k++) {
        for (size_t i = 0; i < a->n; i++) {
            if (k != OUT && k != GRADIENT && !same(a->now[k][i], b->now[k][i])) {
                return err_set(err, ERR_INVALID,
                               "apply(): %s: element %zu of %zu is %.9g and %.9g in %s", what, i,
                               a->n, (double)a->now[k][i], (double)b->now[k][i],
                               k == VALUES ? "the result" : array_name(t->g, k));
            }
        }
    }
    return 0;
}

/* ---- what is tried ---- */

/* Checks that an update has the same bits in one piece and in spans, in place and not. */
static int try_cuts(const struct trial *t, size_t n, bool at_end, struct err *err)
{
    struct arrays whole, cut;
    int rc = arrays_new(t, n, at_end, &whole, err);
    rc = rc != 0 ? rc : arrays_new(t, n, !at_end, &cut, err);
    for (uint64_t step = 0; rc == 0 && step < STEPS; step++) {
        make_gradient(t, &whole, step, false, 1.0F);
        make_gradient(t, &cut, step, false, 1.0F);
        rc = prepare(t, step, 1.0, err);
        rc = rc != 0 ? rc : apply_cut(t, &whole, step, 1, true, err);
        rc = rc != 0 ? rc : apply_cut(t, &cut, step, 2 + step % CUTS_MAX, step % 2 == 1, err);
        rc = rc != 0 ? rc : compare(t, &whole, &cut, "other bits when cut otherwise", err);
    }
    return rc;
}

static int check_finite(const struct trial *t, const struct arrays *x, struct err *err)
{
    for (size_t k = 0; k < x->count; k++) {
        for (size_t i = 0; i < x->n; i++) {
            if (!isfinite(x->now[k][i])) {
                return err_set(err, ERR_INVALID,
                               "apply() makes %s not finite from ordinary gradients",
                               k == VALUES ? "parameters" : array_name(t->g, k));
            }
        }
    }
    return 0;
}

/* Half the gradient at twice the scale is the same gradient, exactly. */
static int try_scale(const struct trial *t, size_t n, struct err *err)
{
    struct arrays once, half;
    int rc = arrays_new(t, n, true, &once, err);
    rc = rc != 0 ? rc : arrays_new(t, n, true, &half, err);
    for (uint64_t step = 0; rc == 0 && step < STEPS; step++) {
        make_gradient(t, &once, step, true, 1.0F);
        make_gradient(t, &half, step, true, 0.5F);
        rc = prepare(t, step, 1.0, err);
        rc = rc != 0 ? rc : apply_span(t, &once, 0, n, 1.0F, true, err);
        rc = rc != 0 ? rc : apply_span(t, &half, 0, n, 2.0F, true, err);
        rc = rc != 0 ? rc
                     : compare(t, &once, &half, "half the gradient at twice gradient_scale differs",
                               err);
        rc = rc != 0 ? rc : check_finite(t, &once, err);
    }
    return rc;
}

static void set_defaults(const struct trial *t)
{
    for (size_t i = 0; i < t->g->hyperparameter_count; i++) {
        t->values[i] = t->g->hyperparameters[i].default_value;
    }
}

/* Tries the ends of the ranges, early and late updates: whatever the results are, they are written
 * where they should be. */
static int try_ranges(const struct trial *t, struct err *err)
{
    static const uint64_t versions[] = {0, 1, 1000000};
    struct arrays x;
    int rc = arrays_new(t, 17, true, &x, err);
    for (size_t i = 0; rc == 0 && i < 2 * t->g->hyperparameter_count; i++) {
        const struct gradus_hyperparameter *h = &t->g->hyperparameters[i / 2];
        set_defaults(t);
        t->values[i / 2] = i % 2 == 0 ? h->min : isfinite(h->max) ? h->max : 1e30;
        for (size_t v = 0; rc == 0 && v < sizeof versions / sizeof versions[0]; v++) {
            make_gradient(t, &x, v, false, 1.0F);
            rc = prepare(t, versions[v], v == 1 ? 0.125 : 1.0, err);
            rc = rc != 0 ? rc : apply_span(t, &x, 3, 11, 1.0F, true, err);
        }
    }
    return rc;
}

int plugin_trial(const struct gradus_rule *g, volatile int *stage, struct err *err)
{
    static const size_t sizes[] = {1, 2, 3, 7, 16, 61, 256, 1000};
    struct trial t = {.g = g, .stage = stage, .key = rng_key(1, "trial of a rule")};
    t.values = fenced(g->hyperparameter_count * sizeof *t.values, true, err);
    t.scalars = fenced(GRADUS_RULE_SCALARS_MAX * sizeof *t.scalars, true, err);
    if (t.values == NULL || t.scalars == NULL) {
        return ERR_EXHAUSTED;
    }
    set_defaults(&t);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof sizes / sizeof sizes[0]; i++) {
        rc = try_cuts(&t, sizes[i], i % 2 == 0, err);
        rc = rc != 0 ? rc : try_scale(&t, sizes[i], err);
    }
    rc = rc != 0 ? rc : try_ranges(&t, err);
    return rc != 0 ? rc : plugin_check_float_mode(err);
}
