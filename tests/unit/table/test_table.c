/* SPDX-License-Identifier: Apache-2.0 */
/* Random schedules of updates, reads of old versions, pins and restores, on one shard and on
 * several, beside a model with whole versions: every bit that can be read is that of the model.
 * GRADUS_TEST_SEEDS: how many schedules. */
#include "table_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "table/table_line.h"

#define SHARDS_MAX 5
#define STEPS 40
#define DIM_MAX 9
#define CHUNK 40

struct walker { /* a checkpoint that is being written while updates go on */
    bool is_on;
    uint64_t version;
    struct table_cursor cursors[SHARDS_MAX];
    uint64_t rows[SHARDS_MAX]; /* so far */
};

struct play {
    uint64_t seed, drawn;
    struct model m;
    struct table *tables[SHARDS_MAX];
    uint32_t shards;
    void *params;
    struct rule_past past;
    uint64_t
        born; /* the version that the tables began with, or from which on the previous is kept */
    unsigned pins[MODEL_VERSIONS];
    struct walker walker;
    uint64_t read; /* keys of table_gather() */
};

static uint64_t draw(struct play *p, uint64_t n)
{
    return rng_below(p->seed, p->drawn++, n);
}

/* ---- what is read ---- */

static bool can_read(const struct play *p, uint64_t version)
{
    return version == p->m.version || p->pins[version] > 0 ||
           (p->m.config.keeps_previous && version + 1 == p->m.version && version >= p->born);
}

static void check_gather(struct play *p, uint64_t version)
{
    uint64_t keys[CHUNK];
    float values[CHUNK * DIM_MAX];
    const size_t dim = p->m.config.dim;
    const size_t numbers = 1 + (size_t)draw(p, CHUNK);
    for (uint32_t s = 0; s < p->shards; s++) {
        size_t n = 0;
        struct err err;
        for (size_t i = 0; i < numbers; i++) {
            keys[n] = p->m.keys[draw(p, MODEL_KEYS)];
            n += table_shard_of(keys[n], p->shards) == s;
        }
        const int rc = table_gather(p->tables[s], version, keys, n, values, &err);
        assert_int_equal(rc, can_read(p, version) ? 0 : ERR_RANGE);
        p->read += rc == 0 ? n : 0;
        for (size_t i = 0; rc == 0 && i < n; i++) {
            const struct model_row r = model_read(&p->m, model_find(&p->m, keys[i]), version);
            assert_memory_equal(values + i * dim, r.record, dim * sizeof(float));
        }
    }
}

/* The rows of a chunk are of @shard and those of the model; in their order. */
static void check_chunk(const struct play *p, uint64_t version, uint32_t shard,
                        const struct table_chunk *c)
{
    const struct table_rows *plan = &p->m.plan;
    for (size_t i = 0; i < c->n; i++) {
        assert_int_equal(table_shard_of(c->keys[i], p->shards), shard);
        assert_true(i == 0 || table_mix(c->keys[i - 1]) < table_mix(c->keys[i]));
        const size_t number = model_find(&p->m, c->keys[i]);
        assert_true(number < MODEL_KEYS && model_at(&p->m, version)->rows[number].present);
        const struct model_row r = model_read(&p->m, number, version);
        assert_memory_equal(c->values + i * plan->dim, r.record, plan->dim * sizeof(float));
        for (size_t k = 0; k < plan->rule->slot_count; k++) {
            const size_t n = plan->rule->slot_kinds[k] == RULE_SLOT_ROW ? 1 : plan->dim;
            assert_memory_equal(c->slots[k] + i * n, r.record + plan->slot_at[k],
                                n * sizeof(float));
        }
        assert_int_equal(c->seen[i], r.note.seen);
        assert_int_equal(c->sightings[i], r.note.sightings);
    }
}

static uint64_t expected_rows(const struct play *p, uint64_t version, uint32_t shard)
{
    uint64_t n = 0;
    for (size_t i = 0; i < MODEL_KEYS; i++) {
        n += model_at(&p->m, version)->rows[i].present &&
             table_shard_of(p->m.keys[i], p->shards) == shard;
    }
    return n;
}

static struct chunk_memory {
    uint64_t keys[CHUNK], seen[CHUNK];
    uint32_t sightings[CHUNK];
    float values[CHUNK * DIM_MAX], slots[RULE_SLOTS_MAX][CHUNK * DIM_MAX];
} memory;

static struct table_chunk chunk_of(size_t capacity)
{
    struct table_chunk c = {
        .capacity = capacity,
        .keys = memory.keys,
        .values = memory.values,
        .seen = memory.seen,
        .sightings = memory.sightings,
    };
    for (size_t k = 0; k < RULE_SLOTS_MAX; k++) {
        c.slots[k] = memory.slots[k];
    }
    return c;
}

static void check_walk(struct play *p, uint64_t version)
{
    for (uint32_t s = 0; s < p->shards; s++) {
        struct table_cursor cursor = {0};
        uint64_t rows = 0, count = 0, last = 0;
        struct table_chunk c = chunk_of(1 + (size_t)draw(p, CHUNK));
        do {
            assert_int_equal(table_walk(p->tables[s], version, &cursor, &c, NULL), 0);
            check_chunk(p, version, s, &c);
            assert_true(c.n == 0 || rows == 0 || table_mix(c.keys[0]) > last);
            last = c.n == 0 ? 0 : table_mix(c.keys[c.n - 1]);
            rows += c.n;
        } while (c.n > 0);
        assert_int_equal(table_count(p->tables[s], version, &count, NULL), 0);
        assert_int_equal(rows, expected_rows(p, version, s));
        assert_int_equal(count, rows);
    }
}

static void check_counts_chunk(const struct play *p, uint64_t version, uint32_t shard,
                               const struct table_counts_chunk *c)
{
    const bool bloom = p->m.config.admission.kind == TABLE_ADMIT_BLOOM;
    const struct model_version *v = model_at(&p->m, version);
    for (size_t i = 0; i < c->n; i++) {
        if (bloom) {
            assert_memory_equal(c->counters + i * TABLE_BLOOM_BLOCK,
                                v->counters + c->keys[i] * TABLE_BLOOM_BLOCK, TABLE_BLOOM_BLOCK);
        } else {
            assert_int_equal(table_shard_of(c->keys[i], p->shards), shard);
            assert_int_equal(c->counts[i], v->rows[model_find(&p->m, c->keys[i])].counted);
            assert_true(c->counts[i] > 0);
        }
    }
}

static uint64_t expected_counts(const struct play *p, uint64_t version)
{
    static const uint8_t zeros[TABLE_BLOOM_BLOCK];
    const struct model_version *v = model_at(&p->m, version);
    uint64_t n = 0;
    for (size_t i = 0; i < MODEL_KEYS; i++) {
        n += v->rows[i].counted > 0;
    }
    for (size_t at = 0; at < p->m.admission.counter_count; at += TABLE_BLOOM_BLOCK) {
        n += memcmp(v->counters + at, zeros, sizeof zeros) != 0;
    }
    return n;
}

/* What it finds is put into @to ([@to_count]), which may be NULL. */
static void check_counts(struct play *p, uint64_t version, struct table **to, uint32_t to_count)
{
    static uint32_t counts[CHUNK];
    static uint8_t counters[CHUNK * TABLE_BLOOM_BLOCK];
    uint64_t all = 0, counted = 0;
    const bool can = version == p->m.version || p->pins[version] > 0;
    for (uint32_t s = 0; s < p->shards; s++) {
        struct table_cursor cursor = {0};
        uint64_t count = 0;
        struct table_counts_chunk c = {.capacity = 1 + (size_t)draw(p, CHUNK),
                                       .keys = memory.keys,
                                       .counts = counts,
                                       .counters = counters};
        do {
            const int rc = table_walk_counts(p->tables[s], version, &cursor, &c, NULL);
            assert_int_equal(rc, can ? 0 : ERR_RANGE);
            check_counts_chunk(p, version, s, &c);
            for (uint32_t k = 0; k < to_count; k++) {
                assert_int_equal(table_restore_counts(to[k], &c, NULL), 0);
            }
            all += c.n;
        } while (c.n > 0);
        assert_int_equal(table_count_counts(p->tables[s], version, &count, NULL),
                         can ? 0 : ERR_RANGE);
        counted += count;
    }
    assert_int_equal(all, can ? expected_counts(p, version) : 0);
    assert_int_equal(counted, all);
}

static void check_stats(const struct play *p)
{
    struct table_stats sum = {0};
    unsigned pins = 0;
    for (uint32_t s = 0; s < p->shards; s++) {
        struct table_stats st;
        table_stats(p->tables[s], &st);
        pins = 0;
        for (uint64_t v = 0; v <= p->m.version; v++) {
            pins += p->pins[v] > 0;
        }
        assert_int_equal(st.pins, pins);
        assert_true(st.bytes <= p->m.config.bytes_max);
        assert_true(st.copies_bytes <= p->m.config.copies_bytes_max);
        if (pins == 0 && !p->m.config.keeps_previous) {
            assert_int_equal(st.copied_rows, 0);
            assert_int_equal(st.copies_bytes, 0);
        }
        sum.rows += st.rows;
        sum.admitted += st.admitted;
        sum.evicted += st.evicted;
        sum.dropped += st.dropped;
        sum.updated += st.updated;
        sum.read += st.read;
    }
    uint64_t rows = 0;
    for (uint32_t s = 0; s < p->shards; s++) {
        rows += expected_rows(p, p->m.version, s);
    }
    assert_int_equal(sum.rows, rows);
    assert_int_equal(sum.admitted, p->m.admitted);
    assert_int_equal(sum.evicted, p->m.evicted);
    assert_int_equal(sum.dropped, p->m.dropped);
    assert_int_equal(sum.updated, p->m.updated);
    assert_int_equal(sum.read, p->read);
}

/* ---- what changes ---- */

static void open_tables(struct play *p, uint32_t shards, uint64_t version, struct table **tables)
{
    struct err err;
    for (uint32_t s = 0; s < shards; s++) {
        struct table_config c = p->m.config;
        c.shard = s;
        c.shards = shards;
        if (table_new(&c, version, &tables[s], &err) != 0) {
            fail_msg("%s", err.msg);
        }
        assert_int_equal(table_version(tables[s]), version);
        assert_int_equal(table_dim(tables[s]), c.dim);
        assert_ptr_equal(table_rule(tables[s]), c.rule);
    }
}

static void pin(struct play *p)
{
    unsigned others = 0;
    for (uint64_t v = 0; v < p->m.version; v++) {
        others += p->pins[v] > 0;
    }
    for (uint32_t s = 0; s < p->shards; s++) {
        uint64_t version = 0;
        assert_int_equal(table_pin(p->tables[s], &version, NULL),
                         others < TABLE_PINS_MAX ? 0 : ERR_EXHAUSTED);
        assert_true(version == p->m.version || others == TABLE_PINS_MAX);
    }
    p->pins[p->m.version] += others < TABLE_PINS_MAX;
}

static void unpin(struct play *p, uint64_t version)
{
    for (uint32_t s = 0; s < p->shards; s++) {
        assert_int_equal(table_unpin(p->tables[s], version, NULL),
                         p->pins[version] > 0 ? 0 : ERR_RANGE);
    }
    p->pins[version] -= p->pins[version] > 0;
}

/* The checkpoint goes on by a chunk. */
static void tick(struct play *p)
{
    struct walker *w = &p->walker;
    if (!w->is_on) {
        pin(p);
        *w = (struct walker){.is_on = p->pins[p->m.version] > 0, .version = p->m.version};
        return;
    }
    uint64_t missing = 0;
    for (uint32_t s = 0; s < p->shards; s++) {
        struct table_chunk c = chunk_of(1 + (size_t)draw(p, CHUNK));
        struct table_cursor again = w->cursors[s];
        assert_int_equal(table_walk(p->tables[s], w->version, &w->cursors[s], &c, NULL), 0);
        check_chunk(p, w->version, s, &c);
        w->rows[s] += c.n;
        missing += expected_rows(p, w->version, s) - w->rows[s];
        const uint64_t first = c.n > 0 ? c.keys[0] : 0;
        const size_t n = c.n;
        assert_int_equal(table_walk(p->tables[s], w->version, &again, &c, NULL), 0);
        assert_true(c.n == n && (n == 0 || c.keys[0] == first));
    }
    if (missing == 0) {
        w->is_on = false;
        unpin(p, w->version);
    }
}

static void update(struct play *p)
{
    struct model *m = &p->m;
    struct rule_scalars scalars = {0};
    static uint64_t keys[2][MODEL_KEYS];
    static uint32_t sightings[2][MODEL_KEYS];
    static float values[2][MODEL_KEYS * DIM_MAX];
    const size_t dim = m->config.dim;
    const uint64_t often = draw(p, 4);
    size_t n = 0;
    for (size_t i = 0; i < MODEL_KEYS; i++) {
        keys[0][n] = m->keys[i];
        sightings[0][n] = 1 + (uint32_t)draw(p, 3);
        for (size_t k = 0; k < dim; k++) {
            values[0][n * dim + k] = (float)rng_normal(p->seed + 1, p->drawn++);
        }
        n += draw(p, 100) < (i % 7 == 0 ? 50U : 3U) * often;
    }
    m->config.rule->prepare(p->params, m->version, 1.0, &scalars);
    struct table_step step = {
        .version = m->version + 1,
        .gradient = {dim, n, keys[0], sightings[0], values[0]},
        .gradient_scale = 0.25F,
        .scalars = &scalars,
    };
    model_update(m, &step);
    for (uint32_t s = 0; s < p->shards; s++) {
        size_t mine = 0;
        struct err err;
        for (size_t i = 0; i < n; i++) {
            if (table_shard_of(keys[0][i], p->shards) == s) {
                keys[1][mine] = keys[0][i];
                sightings[1][mine] = sightings[0][i];
                memcpy(values[1] + mine++ * dim, values[0] + i * dim, dim * sizeof(float));
            }
        }
        step.gradient = (struct table_gradient_view){dim, mine, keys[1], sightings[1], values[1]};
        if (table_update(p->tables[s], &step, &err) != 0) {
            fail_msg("%s", err.msg);
        }
    }
}

/* The present version goes to other tables, on another number of shards. */
static void move(struct play *p)
{
    static const uint32_t counts[] = {1, 2, 5};
    struct table *to[SHARDS_MAX];
    const uint32_t shards = counts[draw(p, 3)];
    open_tables(p, shards, p->m.version, to);
    for (uint32_t s = 0; s < p->shards; s++) {
        struct table_cursor cursor = {0};
        struct table_chunk c = chunk_of(1 + (size_t)draw(p, CHUNK));
        do {
            assert_int_equal(table_walk(p->tables[s], p->m.version, &cursor, &c, NULL), 0);
            for (uint32_t k = 0; k < shards; k++) {
                assert_int_equal(table_restore_rows(to[k], &c, NULL), 0);
            }
        } while (c.n > 0);
    }
    check_counts(p, p->m.version, to, shards);
    for (uint32_t s = 0; s < p->shards; s++) {
        table_free(p->tables[s]);
    }
    memcpy(p->tables, to, sizeof to);
    p->shards = shards;
    p->born = p->m.version;
    p->walker.is_on = false;
    memset(p->pins, 0, sizeof p->pins);
    p->m.admitted = p->m.evicted = p->m.dropped = p->m.updated = 0;
    p->read = 0;
    model_restore(&p->m);
}

static struct table_config config_of(struct play *p)
{
    static const char *rules[] = {"sgd", "adam", "momentum", "rowwise_adagrad", "adamax"};
    static const uint64_t rows_max[] = {0, TABLE_BUCKETS, 2 * TABLE_BUCKETS + 500, 0};
    struct table_config c = model_config(rules[draw(p, 5)], 1 + (size_t)draw(p, DIM_MAX));
    c.admission.kind = (enum table_admission_kind)draw(p, 4);
    c.admission.sightings = 1 + (uint32_t)draw(p, 5);
    c.admission.bytes =
        c.admission.kind == TABLE_ADMIT_BLOOM ? 65536 * (1 + draw(p, 2)) : (uint64_t)1 << 20;
    c.admission.probability = 0.7;
    c.eviction.every = draw(p, 4);
    c.eviction.unseen = draw(p, 2) * (1 + draw(p, 8));
    c.eviction.rows_max = rows_max[draw(p, 4)];
    c.eviction.least = (enum table_least)draw(p, 2);
    c.keeps_previous = draw(p, 2) == 0;
    p->params = model_params(c.rule);
    p->past = (struct rule_past){.params = p->params, .lr_scale = 1.0};
    if ((c.rule->still || c.rule->catch_up != NULL) && draw(p, 2) == 0) {
        c.past = &p->past;
    }
    return c;
}

/* As when the mode of a job changes. */
static void keep_or_not(struct play *p)
{
    const bool keeps = draw(p, 2) == 0;
    p->born = keeps && !p->m.config.keeps_previous ? p->m.version : p->born;
    p->m.config.keeps_previous = keeps;
    for (uint32_t s = 0; s < p->shards; s++) {
        table_keep_previous(p->tables[s], keeps);
    }
}

static void play(uint64_t seed, uint32_t shards, uint64_t *evicted, uint64_t *dropped)
{
    struct play *p = mem_new(1, sizeof *p);
    p->seed = seed;
    p->shards = shards;
    const struct table_config config = config_of(p);
    model_init(&p->m, &config);
    open_tables(p, shards, 0, p->tables);
    for (unsigned step = 0; step < STEPS; step++) {
        for (uint64_t n = draw(p, 3); n > 0; n--) {
            pin(p);
        }
        for (uint64_t n = draw(p, 6); n > 0; n--) {
            unpin(p, p->walker.is_on ? p->m.version : draw(p, p->m.version + 1));
        }
        if (draw(p, 2) == 0) {
            tick(p);
        }
        if (draw(p, 20) == 0) {
            move(p);
        }
        if (draw(p, 10) == 0) {
            keep_or_not(p);
        }
        update(p);
        for (uint64_t v = 0; v <= p->m.version; v++) {
            check_gather(p, v);
            if (can_read(p, v)) {
                check_walk(p, v);
                check_counts(p, v, NULL, 0);
            }
        }
        check_stats(p);
        *evicted += p->m.evicted;
        *dropped += p->m.dropped;
    }
    for (uint64_t v = 0; v <= p->m.version; v++) {
        while (p->pins[v] > 0) {
            unpin(p, v);
        }
    }
    check_stats(p);
    for (uint32_t s = 0; s < p->shards; s++) {
        table_free(p->tables[s]);
    }
    model_release(&p->m);
    free(p->params);
    free(p);
}

static void test_random_schedules(void **state)
{
    (void)state;
    const char *count = getenv("GRADUS_TEST_SEEDS");
    const uint64_t seeds = count != NULL ? strtoull(count, NULL, 10) : 24;
    uint64_t evicted = 0, dropped = 0;
    for (uint64_t seed = 0; seed < seeds; seed++) {
        play(seed, 1, &evicted, &dropped);
        play(seed, 2, &evicted, &dropped);
        play(seed, 5, &evicted, &dropped);
    }
    assert_true(evicted > 0 && dropped > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_schedules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
