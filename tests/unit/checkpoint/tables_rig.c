/* SPDX-License-Identifier: Apache-2.0 */
/* How the three tables are made, change and move. */
#include "tables_rig.h"

#define KEYS 900  /* that there are; the last two are 0 and 2^64 - 1 */
#define ASKED 200 /* in an update, with repeats */
#define DIM_MAX 5
#define CHUNK 37

const char *const fleet_names[TABLES] = {"ads", "ads-2", "late"};
const size_t fleet_dims[TABLES] = {DIM_MAX, 3, 2};

static struct table_config config_of(const struct fleet *f, size_t i, uint32_t shard)
{
    static const enum table_admission_kind kinds[TABLES] = {TABLE_ADMIT_COUNTED, TABLE_ADMIT_BLOOM,
                                                            TABLE_ADMIT_ALL};
    struct table_config c = {
        .name = fleet_names[i],
        .seed = 5,
        .dim = fleet_dims[i],
        .init = {.kind = INIT_UNIFORM, .a = -1, .b = 1},
        .rule = f->rule,
        .admission = {.kind = kinds[i],
                      .bytes = i == 0 ? 300000 : 65536,
                      .sightings = i == 0 ? 2 : 3},
        .eviction = {.every = 1 + i,
                     .unseen = i == 1 ? 0 : 6,
                     .rows_max = i == 1 ? TABLE_BUCKETS : 0,
                     .least = TABLE_LEAST_FREQUENT},
        .bytes_max = 1 << 22,
        .copies_bytes_max = 1 << 24,
        .keeps_previous = true,
        .notes_evicted = true,
        .shard = shard,
        .shards = f->shards,
    };
    if (i == 2 && (f->rule->still || f->rule->catch_up != NULL)) {
        c.past = f->past;
    }
    return c;
}

void fleet_open(struct fleet *f, const char *rule, uint32_t shards, uint64_t version)
{
    *f = (struct fleet){.rule = rule_find(rule), .shards = shards, .version = version};
    f->params = mem_new(1, f->rule->params_bytes + 1);
    field_defaults(f->rule->fields, f->rule->field_count, f->params);
    f->past = mem_new(1, sizeof *f->past);
    *f->past = (struct rule_past){.params = f->params, .lr_scale = 1};
    for (size_t i = 0; i < TABLES; i++) {
        for (uint32_t s = 0; s < shards; s++) {
            const struct table_config c = config_of(f, i, s);
            assert_int_equal(table_new(&c, version, &f->tables[i][s], NULL), 0);
        }
    }
}

void fleet_close(struct fleet *f)
{
    for (size_t i = 0; i < TABLES; i++) {
        for (uint32_t s = 0; s < f->shards; s++) {
            table_free(f->tables[i][s]);
        }
    }
    free(f->past);
    free(f->params);
}

/* ---- updates ---- */

static uint64_t key_of(uint64_t number)
{
    return number >= KEYS - 2 ? KEYS - 2 - number : rng_u64(9, number);
}

/* Small numbers come often. */
static uint64_t draw(uint64_t version, size_t table, uint64_t i)
{
    const uint64_t key = rng_key_mix(rng_key(7, "keys"), version * TABLES + table);
    return key_of(rng_below(key, i, 1 + rng_below(key, ASKED + i, KEYS)));
}

static int compare_keys(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void update_table(struct fleet *f, size_t i, uint32_t s, const struct rule_scalars *scalars)
{
    uint64_t drawn[ASKED], keys[ASKED];
    uint32_t sightings[ASKED];
    float values[ASKED * DIM_MAX];
    const size_t dim = fleet_dims[i];
    size_t n = 0;
    for (uint64_t k = 0; k < ASKED; k++) {
        drawn[k] = draw(f->version, i, k);
    }
    qsort(drawn, ASKED, sizeof drawn[0], compare_keys);
    for (size_t k = 0; k < ASKED; k++) {
        if (table_shard_of(drawn[k], f->shards) != s) {
            continue;
        }
        if (n > 0 && keys[n - 1] == drawn[k]) {
            sightings[n - 1]++;
            continue;
        }
        keys[n] = drawn[k];
        sightings[n] = 1;
        for (size_t d = 0; d < dim; d++) {
            values[n * dim + d] = (float)rng_normal(rng_key_mix(drawn[k], f->version), d);
        }
        n++;
    }
    struct err err;
    const struct table_step step = {.version = f->version + 1,
                                    .gradient = {dim, n, keys, sightings, values},
                                    .gradient_scale = 0.5F,
                                    .scalars = scalars};
    if (table_update(f->tables[i][s], &step, &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

void fleet_update(struct fleet *f, unsigned updates)
{
    for (; updates > 0; updates--, f->version++) {
        struct rule_scalars scalars = {0};
        f->rule->prepare(f->params, f->version, 1.0, &scalars);
        for (size_t i = 0; i < TABLES; i++) {
            for (uint32_t s = 0; s < f->shards; s++) {
                update_table(f, i, s, &scalars);
            }
        }
    }
}

/* ---- what there is ---- */

struct record {
    uint64_t kind, order, key, seen;
    uint32_t sightings, counted;
    float floats[DIM_MAX * (1 + RULE_SLOTS_MAX)];
    uint8_t block[TABLE_BLOOM_BLOCK];
};

static int compare_records(const void *a, const void *b)
{
    return memcmp(a, b, 2 * sizeof(uint64_t));
}

static void dump_rows(struct table *t, uint64_t version, size_t dim, struct buf *out)
{
    struct table_cursor cursor = {0};
    for (;;) {
        struct record r = {.kind = 0};
        struct table_chunk c = {.capacity = 1,
                                .kept = true,
                                .keys = &r.key,
                                .values = r.floats,
                                .seen = &r.seen,
                                .sightings = &r.sightings};
        for (size_t k = 0; k < table_rule(t)->slot_count; k++) {
            c.slots[k] = r.floats + (k + 1) * dim;
        }
        assert_int_equal(table_walk(t, version, &cursor, &c, NULL), 0);
        if (c.n == 0) {
            return;
        }
        r.order = table_walk_order(r.key);
        buf_add(out, &r, sizeof r);
    }
}

static void dump_counts(struct table *t, uint64_t version, struct buf *out)
{
    struct table_cursor cursor = {0};
    for (;;) {
        struct record r = {.kind = 1};
        struct table_counts_chunk c = {
            .capacity = 1, .keys = &r.key, .counts = &r.counted, .counters = r.block};
        assert_int_equal(table_walk_counts(t, version, &cursor, &c, NULL), 0);
        if (c.n == 0) {
            return;
        }
        r.order = r.key;
        buf_add(out, &r, sizeof r);
    }
}

void fleet_dump(struct fleet *f, size_t table, struct buf *out)
{
    for (uint32_t s = 0; s < f->shards; s++) {
        dump_rows(f->tables[table][s], f->version, fleet_dims[table], out);
        dump_counts(f->tables[table][s], f->version, out);
    }
    qsort(out->data, out->len / sizeof(struct record), sizeof(struct record), compare_records);
}

void fleet_assert_same(struct fleet *a, struct fleet *b)
{
    assert_int_equal(a->version, b->version);
    for (size_t i = 0; i < TABLES; i++) {
        struct buf x = {0}, y = {0};
        fleet_dump(a, i, &x);
        fleet_dump(b, i, &y);
        assert_true(x.len > 100 * sizeof(struct record));
        if (x.len != y.len || memcmp(x.data, y.data, x.len) != 0) {
            fail_msg("table %s: %zu and %zu records of %s differ at version %llu", fleet_names[i],
                     x.len / sizeof(struct record), y.len / sizeof(struct record), a->rule->name,
                     (unsigned long long)a->version);
        }
        buf_release(&x);
        buf_release(&y);
    }
}

/* ---- files ---- */

struct saving { /* of one shard */
    struct fleet *fleet;
    uint32_t shard;
    uint64_t version;
    bool goes_on;
    const struct shard_file_base *base; /* NULL: it is no delta */
    uint64_t *evicted[TABLES];
    struct table_cursor rows[TABLES], counts[TABLES];
    struct table_file_info infos[TABLES];
};

#define LOOKS 29
#define EVICTED_MAX 200000

static int compare_order(const void *a, const void *b)
{
    const uint64_t x = table_walk_order(*(const uint64_t *)a);
    const uint64_t y = table_walk_order(*(const uint64_t *)b);
    return (x > y) - (x < y);
}

static int next_rows(void *ctx, size_t table, struct table_chunk *chunk, struct err *err)
{
    struct saving *s = ctx;
    fleet_update(s->fleet, s->goes_on ? 1 : 0);
    chunk->capacity = chunk->capacity < CHUNK ? chunk->capacity : CHUNK;
    chunk->changed = s->base != NULL;
    chunk->since = s->base == NULL ? 0 : s->base->version;
    chunk->looks = s->base == NULL ? 0 : LOOKS;
    int rc;
    do {
        rc = table_walk(s->fleet->tables[table][s->shard], s->version, &s->rows[table], chunk, err);
    } while (rc == 0 && chunk->n == 0 && !s->rows[table].end);
    return rc;
}

/* How much of table @i a delta has; before anything goes on. */
static void prepare_delta(struct saving *s, size_t i)
{
    struct table *t = s->fleet->tables[i][s->shard];
    struct table_file_info *info = &s->infos[i];
    struct table_cursor cursor = {0};
    struct table_chunk chunk = {
        .capacity = SIZE_MAX, .kept = true, .changed = true, .since = s->base->version};
    assert_int_equal(table_walk(t, s->version, &cursor, &chunk, NULL), 0);
    info->rows = chunk.n;
    static uint64_t keys[EVICTED_MAX];
    size_t at = 0, n = 0, got = 1, kept = 0;
    while (got > 0) {
        assert_int_equal(
            table_evicted_since(t, s->base->version, s->version, &at, keys + n, 50, &got, NULL), 0);
        n += got;
        assert_true(n + 50 < EVICTED_MAX);
    }
    qsort(keys, n, sizeof keys[0], compare_order);
    s->evicted[i] = mem_new(n + 1, sizeof keys[0]);
    for (size_t k = 0; k < n; k++) {
        if (kept == 0 || s->evicted[i][kept - 1] != keys[k]) {
            s->evicted[i][kept++] = keys[k];
        }
    }
    info->evicted = kept;
}

static int next_counts(void *ctx, size_t table, struct table_counts_chunk *chunk, struct err *err)
{
    struct saving *s = ctx;
    chunk->capacity = chunk->capacity < CHUNK ? chunk->capacity : CHUNK;
    return table_walk_counts(s->fleet->tables[table][s->shard], s->version, &s->counts[table],
                             chunk, err);
}

static void prepare(struct saving *s, struct table_file_source *source)
{
    const struct fleet *f = s->fleet;
    const struct rule *rule = f->rule;
    *source = (struct table_file_source){.count = TABLES,
                                         .tables = s->infos,
                                         .slots = {.count = rule->slot_count},
                                         .rows = next_rows,
                                         .counts = next_counts,
                                         .evicted = (const uint64_t *const *)s->evicted,
                                         .ctx = s};
    for (size_t k = 0; k < rule->slot_count; k++) {
        source->slots.names[k] = rule->slot_names[k];
        source->slots.kinds[k] = rule->slot_kinds[k];
    }
    for (size_t i = 0; i < TABLES; i++) {
        struct table *t = f->tables[i][s->shard];
        struct table_file_info *info = &s->infos[i];
        *info = (struct table_file_info){
            .name = mem_strdup(fleet_names[i]),
            .dim = fleet_dims[i],
            .admission = (int)config_of(f, i, s->shard).admission.kind,
        };
        uint64_t pinned = 0;
        assert_int_equal(table_pin(t, &pinned, NULL), 0);
        assert_int_equal(pinned, s->version);
        assert_int_equal(table_count(t, s->version, &info->all, NULL), 0);
        info->rows = info->all;
        if (s->base != NULL) {
            prepare_delta(s, i);
        }
        assert_int_equal(table_count_counts(t, s->version, &info->counts, NULL), 0);
    }
}

static char *save(struct fleet *f, struct fixture *fixture, uint64_t part_bytes, bool goes_on,
                  const struct shard_file_base *bases)
{
    static struct saving savings[SHARDS_MAX];
    static struct table_file_source sources[SHARDS_MAX];
    fixture_use_rule(fixture, f->rule->name);
    for (uint32_t s = 0; s < f->shards; s++) {
        savings[s] = (struct saving){.fleet = f,
                                     .shard = s,
                                     .version = f->version,
                                     .goes_on = goes_on,
                                     .base = bases == NULL ? NULL : &bases[s]};
        prepare(&savings[s], &sources[s]);
        sources[s].part_bytes = part_bytes;
    }
    fixture->tables = sources;
    fixture->bases = bases;
    char *path = write_checkpoint(fixture, f->shards, f->version, 3);
    fixture->tables = NULL;
    fixture->bases = NULL;
    for (uint32_t s = 0; s < f->shards; s++) {
        for (size_t i = 0; i < TABLES; i++) {
            assert_int_equal(table_unpin(f->tables[i][s], savings[s].version, NULL), 0);
            free(savings[s].infos[i].name);
            free(savings[s].evicted[i]);
        }
    }
    return path;
}

char *fleet_save(struct fleet *f, struct fixture *fixture, uint64_t part_bytes, bool goes_on)
{
    return save(f, fixture, part_bytes, goes_on, NULL);
}

char *fleet_save_delta(struct fleet *f, struct fixture *fixture, uint64_t part_bytes, bool goes_on,
                       const char *base)
{
    struct shard_file_base bases[SHARDS_MAX] = {0};
    struct manifest m;
    assert_int_equal(manifest_read(base, &m, NULL), 0);
    for (uint32_t s = 0; s < f->shards; s++) {
        bases[s].version = m.shards[s].version;
        bases[s].checksum = m.shards[s].checksum;
        (void)snprintf(bases[s].directory, sizeof bases[s].directory, "%s", strrchr(base, '/') + 1);
    }
    manifest_release(&m);
    return save(f, fixture, part_bytes, goes_on, bases);
}

int fleet_restore(struct fleet *f, const char *path, enum checkpoint_check check, struct err *err)
{
    struct checkpoint *c = NULL;
    int rc = checkpoint_open(path, check, &c, err);
    for (uint32_t s = 0; rc == 0 && s < f->shards; s++) {
        struct checkpoint_table tables[TABLES];
        for (size_t i = 0; i < TABLES; i++) {
            tables[i] = (struct checkpoint_table){
                fleet_names[i], (int)config_of(f, i, s).admission.kind, f->tables[i][s]};
        }
        rc = checkpoint_restore_tables(c, tables, TABLES, s, f->shards, err);
    }
    checkpoint_close(c);
    return rc;
}
