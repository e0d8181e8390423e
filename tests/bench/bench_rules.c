/* SPDX-License-Identifier: Apache-2.0 */
/* GB/s of the update rules beside a triad (a = b + s·c) over as many bytes: the memory's own limit.
 *
 * Usage: bench_rules [SECONDS_PER_LINE [RULE|all [THREADS]]]
 *
 * Two sizes: one that stays in cache and one that does not. Several threads share the work, of the
 * triad as well, block by block like those of a server. Bytes are those of the arrays, each
 * read counted and each write counted once, in all rounds of a rule; the percentage is that of a
 * triad's rate, measured in turn with the rule. The rules update from one buffer into the other, as
 * a shard does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/chrono.h"
#include "base/float_mode.h"
#include "base/mem.h"
#include "base/text.h"
#include "rule/update/update_spec.h"
#include "execution/thread_team.h"

#define REPEATS 5
#define ARRAYS (4 + RULE_SLOTS_MAX)
#define WIDTH 1024         /* of a row */
#define BLOCK (256U << 10) /* floats that a thread takes at a time; a multiple of WIDTH */
/* Between arrays, so that no two of them lie a large power of two apart: such addresses share the
 * cache's ways and cost two to three times as much. */
#define STAGGER_BYTES 4352

struct arrays {
    char *memory;
    float *a[ARRAYS]; /* out, in, gradient, base, slots */
    size_t n;
};

static void arrays_init(struct arrays *x, size_t n)
{
    struct err err;
    size_t stride = n * sizeof(float) + STAGGER_BYTES;
    x->n = n;
    x->memory = mem_try_aligned(ARRAYS, stride, "benchmark arrays", &err);
    if (x->memory == NULL) {
        (void)fprintf(stderr, "bench_rules: %s\n", err.msg);
        exit(1);
    }
    for (size_t k = 0; k < ARRAYS; k++) {
        x->a[k] = (float *)(void *)(x->memory + k * stride);
        for (size_t i = 0; i < n; i++) {
            x->a[k][i] = (float)(i % 1000) * 1e-3F + 1e-3F;
        }
    }
}

/* An opaque call each time, so that the compiler can neither drop nor merge passes. */
typedef void pass(const struct arrays *x, const void *context);

static void triad(const struct arrays *x, const void *context)
{
    float *restrict out = x->a[0];
    const float *restrict b = x->a[1];
    const float *restrict c = x->a[2];
    const float s = *(const float *)context;
    for (size_t i = 0; i < x->n; i++) {
        out[i] = b[i] + s * c[i];
    }
}

struct rule_context {
    const struct rule *rule;
    struct rule_scalars scalars;
};

static void apply(const struct arrays *x, const void *context)
{
    const struct rule_context *r = context;
    float *slots[RULE_SLOTS_MAX];
    memcpy(slots, x->a + 4, sizeof slots);
    const struct rule_span span = {
        .out = x->a[0],
        .in = x->a[1],
        .slots = slots,
        .gradient = x->a[2],
        .gradient_scale = 0.5F,
        .n = x->n,
        .width = WIDTH,
        .base = r->rule->base == RULE_BASE_NONE ? NULL : x->a[3],
    };
    struct err err;
    if (rule_apply_variable(r->rule, &r->scalars, &span, &err) != 0) {
        (void)fprintf(stderr, "bench_rules: %s\n", err.msg);
        exit(1);
    }
}

/* Arrays that one update reads or writes, a slot being both. */
static size_t passes_of(const struct rule *rule)
{
    static const struct {
        const char *rule;
        size_t reads; /* of the rounds of sums */
    } sums[] = {{"lars", 2}, {"lamb", 4}, {"novograd", 1}, {"adafactor", 3}};
    size_t passes = 3 + (rule->base != RULE_BASE_NONE);
    for (size_t i = 0; i < rule->slot_count; i++) {
        passes += rule->slot_kinds[i] == RULE_SLOT_PARAMETER ? 2 : 0;
    }
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        passes += strcmp(sums[i].rule, rule->name) == 0 ? sums[i].reads : 0;
    }
    return passes;
}

static struct thread_team *team; /* NULL: one thread */

struct shared_pass {
    pass *run;
    const struct arrays *x;
    const void *context;
};

static void run_block(void *ctx, size_t i)
{
    const struct shared_pass *p = ctx;
    struct arrays block = {.n = p->x->n - i * BLOCK < BLOCK ? p->x->n - i * BLOCK : BLOCK};
    for (size_t k = 0; k < ARRAYS; k++) {
        block.a[k] = p->x->a[k] + i * BLOCK;
    }
    p->run(&block, p->context);
}

static void run_once(pass *run, const struct arrays *x, const void *context)
{
    if (team == NULL) {
        run(x, context);
        return;
    }
    struct shared_pass p = {run, x, context};
    parallel_for(team, (x->n + BLOCK - 1) / BLOCK, run_block, NULL, &p);
}

static double seconds_of(pass *volatile run, const struct arrays *x, const void *context,
                         double budget)
{
    uint64_t from = chrono_now_ns();
    uint64_t now = from;
    size_t passes = 0;
    while ((double)(now - from) < budget * 1e9) {
        run_once(run, x, context);
        passes++;
        now = chrono_now_ns();
    }
    return (double)(now - from) * 1e-9 / (double)passes;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The best rate of @floats passes, and the median of its shares of the triad's right after it: the
 * memory's own speed changes from one second to the next. */
static void line(const char *name, size_t floats, pass *run, const void *context,
                 const struct arrays *x, double budget)
{
    const float s = 0.5F;
    double best = 1e300, shares[REPEATS];
    run_once(run, x, context);
    for (size_t i = 0; i < REPEATS; i++) {
        double seconds = seconds_of(run, x, context, budget / REPEATS / 2);
        double beside = seconds_of(triad, x, &s, budget / REPEATS / 2);
        shares[i] = (double)floats / 3 * beside / seconds;
        best = seconds < best ? seconds : best;
    }
    qsort(shares, REPEATS, sizeof shares[0], by_size);
    (void)printf(
        "%-18s %8.3f ns/element  %7.2f GB/s of parameters  %7.2f GB/s of memory  %4.0f %%\n", name,
        best * 1e9 / (double)x->n, (double)(4 * x->n) / best * 1e-9,
        (double)(floats * sizeof(float) * x->n) / best * 1e-9, 100 * shares[REPEATS / 2]);
}

static void bench_rule(const struct rule *rule, const struct arrays *x, double budget)
{
    struct rule_context context = {.rule = rule};
    void *params = mem_new(1, rule->params_bytes);
    field_defaults(rule->fields, rule->field_count, params);
    rule->prepare(params, 10, 1.0, &context.scalars);
    line(rule->name, passes_of(rule), apply, &context, x, budget);
    struct update_spec spec = {.rule = rule, .params = params};
    update_spec_release(&spec);
}

static int usage(void)
{
    (void)fputs("usage: bench_rules [SECONDS_PER_LINE [RULE|all [THREADS]]]\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    float_mode_flush();
    double budget = 0.5;
    int64_t threads = 1;
    struct err err;
    if (argc > 4 || (argc >= 2 && (!text_to_double(argv[1], &budget) || budget <= 0)) ||
        (argc >= 4 && (!text_to_int(argv[3], &threads) || threads < 1 ||
                       threads > THREAD_TEAM_HELPERS_MAX + 1))) {
        return usage();
    }
    const char *only = argc >= 3 && strcmp(argv[2], "all") != 0 ? argv[2] : NULL;
    if (threads > 1) {
        team = thread_team_new((unsigned)threads - 1, "bench", &err);
        if (team == NULL) {
            (void)fprintf(stderr, "bench_rules: %s\n", err.msg);
            return 1;
        }
    }
    static const size_t sizes[] = {32U << 10, 64U << 20}; /* multiples of WIDTH */
    for (size_t i = threads > 1; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct arrays x;
        char text[32];
        arrays_init(&x, sizes[i]);
        (void)printf("%s in each array\n", text_bytes(sizes[i] * sizeof(float), text, sizeof text));
        const float s = 0.5F;
        line("triad", 3, triad, &s, &x, budget);
        for (size_t r = 0; rule_at(r) != NULL; r++) {
            if (only == NULL || strcmp(only, rule_at(r)->name) == 0) {
                bench_rule(rule_at(r), &x, budget);
            }
        }
        free(x.memory);
    }
    thread_team_free(team);
    return 0;
}
