/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, updates and lists tables for the tests of limits and errors. */
#include "table_rig.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "table_model.h"

uint64_t rig_keys[RIG_KEYS_MAX];
static uint32_t sightings[RIG_KEYS_MAX];
static float values[RIG_KEYS_MAX * RIG_DIM_MAX];

int rig_compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int rig_update(struct table *t, uint64_t first, size_t n, struct err *err)
{
    const struct rule *rule = table_rule(t);
    const size_t dim = table_dim(t);
    struct rule_scalars scalars = {0};
    void *params = model_params(rule);
    rule->prepare(params, table_version(t), 1.0, &scalars);
    for (size_t i = 0; i < n; i++) {
        rig_keys[i] = rng_u64(9, first + i);
        sightings[i] = 1;
    }
    qsort(rig_keys, n, sizeof rig_keys[0], rig_compare);
    for (size_t i = 0; i < n * dim; i++) {
        values[i] = 1.0F;
    }
    const struct table_step step = {
        .version = table_version(t) + 1,
        .gradient = {dim, n, rig_keys, sightings, values},
        .gradient_scale = 1.0F,
        .scalars = &scalars,
    };
    const int rc = table_update(t, &step, err);
    free(params);
    return rc;
}

struct table *rig_open(const struct table_config *c)
{
    struct table *t = NULL;
    struct err err;
    if (table_new(c, 0, &t, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    return t;
}

uint64_t rig_rows(const struct table *t)
{
    struct table_stats s;
    table_stats(t, &s);
    return s.rows;
}

struct rig_listing rig_list(struct table *t, uint64_t version)
{
    struct rig_listing l = {0};
    struct table_cursor cursor = {0};
    uint64_t n = 0;
    assert_int_equal(table_count(t, version, &n, NULL), 0);
    l.n = (size_t)n;
    l.chunk = (struct table_chunk){
        .capacity = l.n + 1,
        .keys = mem_new(l.n + 1, sizeof(uint64_t)),
        .seen = mem_new(l.n + 1, sizeof(uint64_t)),
        .sightings = mem_new(l.n + 1, sizeof(uint32_t)),
        .values = mem_new((l.n + 1) * table_dim(t), sizeof(float)),
    };
    assert_int_equal(table_walk(t, version, &cursor, &l.chunk, NULL), 0);
    assert_int_equal(l.chunk.n, l.n);
    return l;
}

void rig_drop(struct rig_listing *l)
{
    free(l->chunk.keys);
    free(l->chunk.seen);
    free(l->chunk.sightings);
    free(l->chunk.values);
}

void rig_assert_same(const struct rig_listing *a, const struct rig_listing *b, size_t dim)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->chunk.keys, b->chunk.keys, a->n * sizeof(uint64_t));
    assert_memory_equal(a->chunk.seen, b->chunk.seen, a->n * sizeof(uint64_t));
    assert_memory_equal(a->chunk.sightings, b->chunk.sightings, a->n * sizeof(uint32_t));
    assert_memory_equal(a->chunk.values, b->chunk.values, a->n * dim * sizeof(float));
}

size_t rig_find(const struct rig_listing *l, uint64_t key)
{
    size_t i = 0;
    while (i < l->n && l->chunk.keys[i] != key) {
        i++;
    }
    return i;
}
