/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table gathered and updated, beside a C loop over a plain array.
 *
 * Usage: bench_table [ROWS [SECONDS_PER_MEASUREMENT]]
 *
 * Rows of 16 floats under random keys, one thread. The loop has the rows in one array, is told the
 * number of each row, and touches the same memory of a row: the values; in updates the slots and
 * the note of 16 bytes, too. It fetches rows ahead as the table does, knows the number of floats
 * when it is compiled, and computes the same formulas. So what the table costs beyond it is finding
 * rows by key and calling any rule. Both run in turn; of five such pairs the median is printed.
 * "With versions" is the same on a table as a shard has it: keys rise, the version before stays
 * readable, so what an update changes is copied first; the loop keeps no version.
 * Times are those of the processor, so that others who want it disturb little. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/float_mode.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/vector.h"
#include "table/table.h"
#include "table/table_keys.h"
#include "table/table_rows.h"

#define REPEATS 5
#define DIM 16
#define BATCH 6656 /* 26 fields × 256 samples */
#define BATCHES 64 /* different ones */
#define AHEAD 32   /* rows that the plain loop fetches ahead */

struct bench {
    struct table_rows table;
    struct rule_scalars scalars;
    size_t rows, stride;
    float *array; /* [rows × stride] */
    struct table_note *notes;
    uint64_t *keys;    /* [BATCHES × BATCH] */
    uint32_t *numbers; /* the same rows, in the array */
    float *gradient;   /* [BATCH × DIM] */
    float *out;        /* [BATCH × DIM] */
    uint64_t version;
    struct table *versions; /* the same rows, of which the version before stays readable */
    uint64_t *rising;       /* [BATCHES × BATCH] the keys of each batch as a worker sends them */
    size_t counts[BATCHES];
    uint32_t *once; /* [BATCH] sightings */
};

typedef void pass(struct bench *b, size_t batch);

static uint64_t spent_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static void fail(const struct err *err)
{
    (void)fprintf(stderr, "bench_table: %s\n", err->msg);
    exit(1);
}

static void *array_of(size_t count, size_t size)
{
    struct err err;
    void *p = mem_try_aligned(count, size, "benchmark arrays", &err);
    if (p == NULL) {
        fail(&err);
    }
    return p;
}

static uint64_t key_of(size_t row)
{
    return rng_u64(1, row);
}

static void fill_table(struct bench *b, const struct rule *rule)
{
    enum { PIECE = 4096 };
    static uint64_t keys[PIECE];
    const struct table_spec spec = {
        .name = "bench",
        .dim = DIM,
        .init = {.kind = INIT_CONSTANT, .a = 0.5},
        .rule = rule,
        .bytes_max = (uint64_t)1 << 38,
    };
    struct err err;
    if (table_rows_init(&b->table, &spec, &err) != 0) {
        fail(&err);
    }
    const uint64_t from = spent_ns();
    uint64_t longest = 0;
    for (size_t at = 0; at < b->rows; at += PIECE) {
        const size_t n = b->rows - at < PIECE ? b->rows - at : PIECE;
        for (size_t i = 0; i < n; i++) {
            keys[i] = key_of(at + i);
        }
        const uint64_t before = spent_ns();
        if (table_rows_add(&b->table, keys, n, 0, &err) != 0) {
            fail(&err);
        }
        const uint64_t took = spent_ns() - before;
        longest = took > longest ? took : longest;
    }
    char bytes[32];
    (void)printf("%-8s %zu rows of %d floats and %zu slots made in %.2f s, at most %.1f ms for %d; "
                 "%s, %.2f × values, slots, keys and notes\n",
                 rule->name, b->rows, DIM, rule->slot_count, (double)(spent_ns() - from) * 1e-9,
                 (double)longest * 1e-6, PIECE,
                 text_bytes(b->table.budget.bytes, bytes, sizeof bytes),
                 (double)b->table.budget.bytes /
                     ((double)b->rows * (double)(8 + sizeof(float) * b->stride + 16)));
}

static void bench_init(struct bench *b, const struct rule *rule, size_t rows)
{
    memset(b, 0, sizeof *b);
    b->rows = rows;
    b->stride = DIM * (1 + rule->slot_count);
    b->array = array_of(rows * b->stride, sizeof(float));
    b->notes = array_of(rows, sizeof *b->notes);
    b->keys = array_of((size_t)BATCHES * BATCH, sizeof *b->keys);
    b->numbers = array_of((size_t)BATCHES * BATCH, sizeof *b->numbers);
    b->gradient = array_of((size_t)BATCH * DIM, sizeof(float));
    b->out = array_of((size_t)BATCH * DIM, sizeof(float));
    for (size_t i = 0; i < rows * b->stride; i++) {
        b->array[i] = i % b->stride < DIM ? 0.5F : 0.1F;
    }
    for (size_t i = 0; i < (size_t)BATCHES * BATCH; i++) {
        b->numbers[i] = (uint32_t)rng_below(2, i, rows);
        b->keys[i] = key_of(b->numbers[i]);
    }
    for (size_t i = 0; i < (size_t)BATCH * DIM; i++) {
        b->gradient[i] = (float)rng_normal(3, i) * 1e-3F;
    }
    void *params = mem_new(1, rule->params_bytes);
    field_defaults(rule->fields, rule->field_count, params);
    rule->prepare(params, 10, 1.0, &b->scalars);
    free(params);
    fill_table(b, rule);
}

static void bench_release(struct bench *b)
{
    table_rows_release(&b->table);
    free(b->array);
    free(b->notes);
    free(b->keys);
    free(b->numbers);
    free(b->gradient);
    free(b->out);
}

static void rows_gather(struct bench *b, size_t batch)
{
    const struct table_catch_up lazy = {0};
    table_rows_gather(&b->table, &lazy, b->keys + batch * BATCH, BATCH, b->out, NULL);
}

static void rows_update(struct bench *b, size_t batch)
{
    const struct table_update update = {
        .up = {.version = b->version++},
        .scalars = &b->scalars,
        .keys = b->keys + batch * BATCH,
        .n = BATCH,
        .gradient = b->gradient,
        .gradient_scale = 0.5F,
    };
    (void)table_rows_update(&b->table, &update);
}

/* ---- a table with versions, as a shard has it ---- */

static void step_of_keys(struct bench *b, const uint64_t *keys, size_t n)
{
    const struct table_step step = {
        .version = table_version(b->versions) + 1,
        .gradient = {.dim = DIM, .n = n, .keys = keys, .sightings = b->once, .values = b->gradient},
        .gradient_scale = 0.5F,
        .scalars = &b->scalars,
    };
    struct err err;
    if (table_update(b->versions, &step, &err) != 0) {
        fail(&err);
    }
}

static void versions_init(struct bench *b, const struct rule *rule)
{
    const struct table_config config = {
        .name = "bench",
        .dim = DIM,
        .init = {.kind = INIT_CONSTANT, .a = 0.5},
        .rule = rule,
        .bytes_max = (uint64_t)1 << 38,
        .copies_bytes_max = (uint64_t)1 << 30,
        .keeps_previous = true,
        .shards = 1,
    };
    struct table_keys unique = {0};
    struct err err;
    if (table_new(&config, 0, &b->versions, &err) != 0) {
        fail(&err);
    }
    b->rising = array_of((size_t)BATCHES * BATCH, sizeof *b->rising);
    b->once = array_of(BATCH, sizeof *b->once);
    for (size_t i = 0; i < BATCH; i++) {
        b->once[i] = 1;
    }
    for (size_t at = 0; at < b->rows; at += BATCH) {
        uint64_t keys[BATCH];
        const size_t n = b->rows - at < BATCH ? b->rows - at : BATCH;
        for (size_t i = 0; i < n; i++) {
            keys[i] = key_of(at + i);
        }
        (void)table_keys_unique(&unique, keys, n, &err);
        step_of_keys(b, unique.unique, unique.count);
    }
    for (size_t i = 0; i < BATCHES; i++) {
        (void)table_keys_unique(&unique, b->keys + i * BATCH, BATCH, &err);
        memcpy(b->rising + i * BATCH, unique.unique, unique.count * sizeof unique.unique[0]);
        b->counts[i] = unique.count;
    }
    table_keys_release(&unique);
}

static void versions_release(struct bench *b)
{
    table_free(b->versions);
    free(b->rising);
    free(b->once);
}

static void versions_update(struct bench *b, size_t batch)
{
    step_of_keys(b, b->rising + batch * BATCH, b->counts[batch]);
}

static void versions_gather(struct bench *b, size_t batch)
{
    struct err err;
    if (table_gather(b->versions, table_version(b->versions), b->rising + batch * BATCH,
                     b->counts[batch], b->out, &err) != 0) {
        fail(&err);
    }
}

/* ---- the plain loop ---- */

static inline void fetch(const struct bench *b, size_t number, size_t floats, bool note)
{
    const char *row = (const char *)(b->array + number * floats);
    for (size_t line = 0; line < floats * sizeof(float); line += 64) {
        __builtin_prefetch(row + line);
    }
    if (note) {
        __builtin_prefetch(b->notes + number);
    }
}

static inline void plain_gather(struct bench *b, size_t batch, size_t stride)
{
    const uint32_t *numbers = b->numbers + batch * BATCH;
    for (size_t i = 0; i < BATCH; i++) {
        if (i + AHEAD < BATCH) {
            __builtin_prefetch(b->array + numbers[i + AHEAD] * stride);
        }
        memcpy(b->out + i * DIM, b->array + numbers[i] * stride, DIM * sizeof(float));
    }
}

static void sgd_gather(struct bench *b, size_t batch)
{
    plain_gather(b, batch, DIM);
}

static void adagrad_gather(struct bench *b, size_t batch)
{
    plain_gather(b, batch, 2 * (size_t)DIM);
}

static void adam_gather(struct bench *b, size_t batch)
{
    plain_gather(b, batch, 3 * (size_t)DIM);
}

typedef void formula(float *restrict row, const float *restrict gradient);

static inline void sgd_formula(float *restrict w, const float *restrict gradient)
{
    for (size_t i = 0; i < DIM; i++) {
        w[i] -= 0.01F * (0.5F * gradient[i]);
    }
}

static inline void adagrad_formula(float *restrict w, const float *restrict gradient)
{
    float *restrict squares = w + DIM;
    for (size_t i = 0; i < DIM; i++) {
        const float g = 0.5F * gradient[i];
        squares[i] += g * g;
        w[i] -= 0.01F * g / (sqrtf(squares[i]) + 1e-7F);
    }
}

static inline void adam_formula(float *restrict w, const float *restrict gradient)
{
    float *restrict m = w + DIM, *restrict v = w + 2 * (size_t)DIM;
    for (size_t i = 0; i < DIM; i++) {
        const float g = 0.5F * gradient[i];
        m[i] = 0.9F * m[i] + 0.1F * g;
        v[i] = 0.999F * v[i] + 0.001F * (g * g);
        w[i] -= 0.01F * m[i] / (sqrtf(v[i]) * 3.0F + 1e-8F);
    }
}

static inline void plain_update(struct bench *b, size_t batch, size_t stride, formula *compute)
{
    const uint32_t *numbers = b->numbers + batch * BATCH;
    for (size_t i = 0; i < BATCH; i++) {
        if (i + AHEAD < BATCH) {
            fetch(b, numbers[i + AHEAD], stride, true);
        }
        compute(b->array + numbers[i] * stride, b->gradient + i * DIM);
        b->notes[numbers[i]].seen = b->version;
        b->notes[numbers[i]].sightings++;
    }
    b->version++;
}

static VECTOR_CLONES void sgd_update(struct bench *b, size_t batch)
{
    plain_update(b, batch, DIM, sgd_formula);
}

static VECTOR_CLONES void adagrad_update(struct bench *b, size_t batch)
{
    plain_update(b, batch, 2 * (size_t)DIM, adagrad_formula);
}

static VECTOR_CLONES void adam_update(struct bench *b, size_t batch)
{
    plain_update(b, batch, 3 * (size_t)DIM, adam_formula);
}

/* Nanoseconds per row. */
static double cost_of(pass *volatile run, struct bench *b, double seconds)
{
    const uint64_t from = spent_ns();
    uint64_t now = from;
    size_t batches = 0;
    while ((double)(now - from) < seconds * 1e9 || batches < BATCHES) {
        run(b, batches++ % BATCHES);
        now = spent_ns();
    }
    return (double)(now - from) / (double)(batches * BATCH);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void line(const char *rule, const char *what, struct bench *b, pass *table, pass *plain,
                 double seconds)
{
    double ours[REPEATS], theirs[REPEATS], shares[REPEATS];
    (void)cost_of(table, b, 0);
    (void)cost_of(plain, b, 0);
    for (size_t i = 0; i < REPEATS; i++) {
        ours[i] = cost_of(table, b, seconds);
        theirs[i] = cost_of(plain, b, seconds);
        shares[i] = 100 * theirs[i] / ours[i];
    }
    qsort(ours, REPEATS, sizeof ours[0], by_size);
    qsort(theirs, REPEATS, sizeof theirs[0], by_size);
    qsort(shares, REPEATS, sizeof shares[0], by_size);
    (void)printf("%-8s %-21s %7.1f ns per row  %6.1f M rows/s  plain array %7.1f ns  %4.0f %% "
                 "(%.0f to %.0f)\n",
                 rule, what, ours[REPEATS / 2], 1e3 / ours[REPEATS / 2], theirs[REPEATS / 2],
                 shares[REPEATS / 2], shares[0], shares[REPEATS - 1]);
}

/* The keys of a batch made unique: all different, and most of them more than once. */
static void unique_line(const char *what, uint64_t range)
{
    enum { TIMES = 200 };
    static uint64_t keys[BATCH];
    double took[REPEATS];
    struct table_keys unique = {0};
    for (size_t i = 0; i < BATCH; i++) {
        keys[i] = key_of(range == 0 ? i : rng_below(4, i, range));
    }
    for (size_t k = 0; k < REPEATS; k++) {
        struct err err;
        const uint64_t from = spent_ns();
        for (size_t i = 0; i < TIMES; i++) {
            if (table_keys_unique(&unique, keys, BATCH, &err) != 0) {
                fail(&err);
            }
        }
        took[k] = (double)(spent_ns() - from) / TIMES;
    }
    qsort(took, REPEATS, sizeof took[0], by_size);
    (void)printf("unique keys of a batch: %zu of %d (%s) in %.1f us, %.1f ns per key\n",
                 unique.count, BATCH, what, took[REPEATS / 2] * 1e-3, took[REPEATS / 2] / BATCH);
    table_keys_release(&unique);
}

int main(int argc, char **argv)
{
    float_mode_flush();
    static const struct {
        const char *rule;
        pass *gather, *update;
    } plain[] = {{"sgd", sgd_gather, sgd_update},
                 {"adagrad", adagrad_gather, adagrad_update},
                 {"adam", adam_gather, adam_update}};
    int64_t rows = 10000000;
    double seconds = 0.5;
    if (argc > 3 ||
        (argc >= 2 && (!text_to_int(argv[1], &rows) || rows < 1 || rows > UINT32_MAX)) ||
        (argc >= 3 && (!text_to_double(argv[2], &seconds) || seconds <= 0))) {
        (void)fputs("usage: bench_table [ROWS [SECONDS_PER_MEASUREMENT]]\n", stderr);
        return 2;
    }
    unique_line("all different", 0);
    unique_line("with repeats", 1000);
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        struct bench b;
        bench_init(&b, rule_find(plain[i].rule), (size_t)rows);
        line(plain[i].rule, "gather", &b, rows_gather, plain[i].gather, seconds);
        line(plain[i].rule, "update", &b, rows_update, plain[i].update, seconds);
        table_rows_release(&b.table);
        versions_init(&b, rule_find(plain[i].rule));
        line(plain[i].rule, "gather, with versions", &b, versions_gather, plain[i].gather, seconds);
        line(plain[i].rule, "update, with versions", &b, versions_update, plain[i].update, seconds);
        versions_release(&b);
        bench_release(&b);
    }
    return 0;
}
