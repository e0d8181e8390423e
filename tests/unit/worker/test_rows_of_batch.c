/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables on a worker: which shard is asked for which keys, what a runner reads when they
 * have come, and what pushes of their gradients bring, for one shard and for several. */
#include "support/test.h"

#include <math.h>

#include "support/models.h"
#include "table/table_bucket.h"
#include "worker/job/worker_rows.h"

#define RECORDS 9
#define TABLES 2

static const size_t dims[TABLES] = {3, 2};

static void build(struct model_spec *spec)
{
    *spec = (struct model_spec){.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    models_table(spec, "t", (int64_t)dims[0]);
    models_table(spec, "u", (int64_t)dims[1]);
    models_from(models_add(spec, "embedding", "table=t hashing=none shared=true"), "f h");
    models_from(models_add(spec, "linear", "table=u units=2"), "g f");
    models_from(models_add(spec, "embedding", "table=t"), "h");
    models_from(models_add(spec, "flatten", ""), "embedding_1");
    models_from(models_add(spec, "concat", ""), "flatten_4 linear_2 embedding_3");
    models_add(spec, "dense", "units=3");
}

/* Element @k of the row of @key in table @t. */
static float value_of(size_t t, uint64_t key, size_t k)
{
    return (float)rng_uniform(rng_key_mix(t + 1, key), k);
}

/* What is asked: each key once, of the shard that has it, rising in its table. Answers it. */
static void answer(const struct worker_rows *w)
{
    for (uint32_t s = 0; s < w->shard_count; s++) {
        const struct ps_client_rows *shard = &w->shards[s];
        const uint64_t *key = shard->keys;
        float *row = shard->values;
        for (size_t t = 0; t < TABLES; t++) {
            for (uint32_t i = 0; i < shard->counts[t]; i++, key++) {
                assert_int_equal(s, table_shard_of(*key, w->shard_count));
                assert_true(i == 0 || key[-1] < key[0]);
                for (size_t k = 0; k < dims[t]; k++) {
                    *row++ = value_of(t, *key, k);
                }
            }
        }
        assert_int_equal(shard->count, key - shard->keys);
        assert_int_equal(shard->floats, row - shard->values);
    }
}

/* Each lookup of the batch reads the row of its key. */
static void check_rows(const struct worker_rows *w, const struct models_rig *rig)
{
    for (size_t t = 0; t < TABLES; t++) {
        const size_t n = model_table_lookups(rig->model, t, &rig->batch.lists);
        uint64_t *keys = mem_new(n, sizeof *keys);
        model_table_keys(rig->model, t, &rig->batch.lists, keys);
        for (size_t i = 0; i < n; i++) {
            const float *row = w->run[t].values + w->run[t].index[i] * dims[t];
            for (size_t k = 0; k < dims[t]; k++) {
                assert_true(row[k] == value_of(t, keys[i], k));
            }
        }
        free(keys);
    }
}

/* What the pushes to all shards bring together is the gradient, each row on the shard of its key.
 */
static void check_pushes(struct worker_rows *w, const struct worker_rows_gradient *g,
                         enum value_type type)
{
    size_t rows[TABLES] = {0};
    for (uint32_t s = 0; s < w->shard_count; s++) {
        const void *encoded;
        uint64_t bytes, at = 0;
        assert_int_equal(0, worker_rows_encode(w, g, s, type, &encoded, &bytes, NULL));
        for (size_t t = 0; t < TABLES; t++) {
            uint64_t n;
            memcpy(&n, (const char *)encoded + at, sizeof n);
            struct table_gradient got;
            table_gradient_init(&got, dims[t]);
            const uint64_t part = table_gradient_bytes(type, n, dims[t]);
            assert_int_equal(
                0, table_gradient_decode(&got, type, (const char *)encoded + at, part, NULL));
            at += part;
            for (size_t i = 0; i < got.n; i++) {
                const struct table_gradient *whole = &g->tables[t];
                size_t j = 0;
                while (whole->keys[j] != got.keys[i]) {
                    j++;
                }
                assert_int_equal(s, table_shard_of(got.keys[i], w->shard_count));
                assert_int_equal(whole->sightings[j], got.sightings[i]);
                assert_memory_equal(whole->values + j * dims[t], got.values + i * dims[t],
                                    dims[t] * sizeof(float));
            }
            rows[t] += got.n;
            table_gradient_release(&got);
        }
        assert_int_equal(at, bytes);
    }
    for (size_t t = 0; t < TABLES; t++) {
        assert_int_equal(g->tables[t].n, rows[t]);
    }
}

static void fill(struct worker_rows_gradient *g, uint64_t seed)
{
    for (size_t t = 0; t < TABLES; t++) {
        models_fill(g->tables[t].values, g->tables[t].n * dims[t], rng_key_mix(seed, t), 1.0);
    }
}

/* The sum of the gradients of two batches. */
static void check_sum(struct worker_rows *w, struct models_rig *rig,
                      struct worker_rows_gradient *first)
{
    struct worker_rows_gradient second = {0};
    struct sparse_batch *b = &rig->batch.lists;
    for (size_t i = 0; i < b->keys_capacity; i++) {
        b->keys[i] += 2; /* some keys are in both */
    }
    assert_int_equal(0, worker_rows_find(w, b, NULL));
    answer(w);
    assert_int_equal(0, worker_rows_come(w, &second, NULL));
    fill(&second, 8);
    const float before = first->tables[0].values[0], key = (float)first->tables[0].keys[0];
    const size_t rows = first->tables[0].n;
    assert_int_equal(0, worker_rows_gradient_add(w, first, &second, NULL));
    assert_true(first->tables[0].n > rows && key >= 0);
    assert_true(first->tables[0].values[0] == before); /* key 0 is in the first alone */
    check_pushes(w, first, VALUE_FP32);
    assert_true(worker_rows_gradient_is_finite(w, first));
    first->tables[1].values[1] = INFINITY;
    assert_false(worker_rows_gradient_is_finite(w, first));
    worker_rows_gradient_release(w, &second);
}

static void check_shards(uint32_t shards)
{
    struct model_spec spec;
    struct models_rig rig;
    struct worker_rows w;
    struct worker_rows_gradient g = {0};
    build(&spec);
    models_rig_init(&rig, &spec, MODELS_SHAPE(2), 3, RECORDS, 5);
    worker_rows_init(&w, rig.model, shards);
    for (int twice = 0; twice < 2; twice++) { /* memory is used again */
        assert_int_equal(0, worker_rows_find(&w, &rig.batch.lists, NULL));
        answer(&w);
        assert_int_equal(0, worker_rows_come(&w, &g, NULL));
        check_rows(&w, &rig);
    }
    struct worker_rows_keys ahead = {0};
    assert_int_equal(0, worker_rows_look(rig.model, &rig.batch.lists, &ahead, NULL));
    assert_int_equal(0, worker_rows_take(&w, &ahead, NULL));
    answer(&w);
    assert_int_equal(0, worker_rows_come(&w, &g, NULL));
    check_rows(&w, &rig);
    worker_rows_keys_release(&ahead);
    fill(&g, 7);
    check_pushes(&w, &g, VALUE_FP32);
    g.tables[0].values[0] = 0.37F; /* neither fp16 nor bf16 has it, or 70000 */
    g.tables[1].values[1] = 70000.0F;
    worker_rows_gradient_round(&w, &g, VALUE_BF16);
    assert_true(g.tables[0].values[0] != 0.37F && worker_rows_gradient_is_finite(&w, &g));
    check_pushes(&w, &g, VALUE_BF16); /* exact from then on, */
    check_pushes(&w, &g, VALUE_FP32);
    worker_rows_gradient_round(&w, &g, VALUE_FP16);
    assert_false(worker_rows_gradient_is_finite(&w, &g)); /* or too large */
    check_pushes(&w, &g, VALUE_FP16);
    fill(&g, 7);
    check_sum(&w, &rig, &g);
    worker_rows_gradient_clear(&w, &g);
    check_pushes(&w, &g, VALUE_FP32);
    assert_int_equal(0, g.tables[0].n);
    worker_rows_gradient_release(&w, &g);
    worker_rows_release(&w);
    models_rig_release(&rig);
    model_spec_release(&spec);
}

static void test_rows(void **state)
{
    (void)state;
    static const uint32_t shards[] = {1, 2, 3, 7};
    for (size_t i = 0; i < sizeof shards / sizeof shards[0]; i++) {
        check_shards(shards[i]);
    }
}

/* A batch without keys, and a model without tables, ask for nothing. */
static void test_nothing(void **state)
{
    (void)state;
    struct model_spec spec;
    struct models_rig rig;
    struct worker_rows w;
    struct worker_rows_gradient g = {0};
    build(&spec);
    models_rig_init(&rig, &spec, MODELS_SHAPE(2), 3, RECORDS, 5);
    struct sparse_batch *b = &rig.batch.lists;
    b->count = 0;
    worker_rows_init(&w, rig.model, 2);
    assert_int_equal(0, worker_rows_find(&w, b, NULL));
    assert_int_equal(0, w.shards[0].count + w.shards[1].count);
    assert_int_equal(0, worker_rows_come(&w, &g, NULL));
    check_pushes(&w, &g, VALUE_FP32);
    worker_rows_gradient_release(&w, &g);
    worker_rows_release(&w);
    models_rig_release(&rig);
    model_spec_release(&spec);
    spec = (struct model_spec){.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    models_add(&spec, "dense", "units=3");
    models_rig_init(&rig, &spec, MODELS_SHAPE(2), 3, RECORDS, 5);
    worker_rows_init(&w, rig.model, 2);
    assert_int_equal(0, w.count);
    assert_int_equal(0, worker_rows_find(&w, &rig.batch.lists, NULL));
    assert_int_equal(0, worker_rows_come(&w, &g, NULL));
    assert_true(worker_rows_gradient_is_finite(&w, &g));
    worker_rows_gradient_release(&w, &g);
    worker_rows_release(&w);
    models_rig_release(&rig);
    model_spec_release(&spec);
}

/* Keys that a program says: the rows of each, by the order in which they were said; none at all;
 * and of one table alone. */
static void test_said(void **state)
{
    (void)state;
    static const uint64_t keys[] = {9, UINT64_MAX, 9, 0, 9, 4, 4};
    static const uint32_t counts[][TABLES] = {{5, 2}, {0, 0}, {0, 7}, {1, 0}};
    struct model_spec spec;
    build(&spec);
    for (uint32_t shards = 1; shards < 4; shards++) {
        struct worker_rows w;
        struct worker_rows_gradient g = {0};
        worker_rows_init_said(&w, &spec, shards);
        assert_int_equal(TABLES, w.count);
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            assert_int_equal(0, worker_rows_said(&w, keys, counts[i], NULL));
            answer(&w);
            assert_int_equal(0, worker_rows_come(&w, &g, NULL));
            const uint64_t *said = keys;
            for (size_t t = 0; t < TABLES; t++) {
                const struct table_keys *k = worker_rows_keys_of(&w, t);
                assert_int_equal(k->n, counts[i][t]);
                assert_int_equal(k->count, g.tables[t].n);
                for (uint32_t l = 0; l < counts[i][t]; l++, said++) {
                    assert_true(k->unique[k->index[l]] == *said);
                    assert_true(w.run[t].values[k->index[l] * dims[t]] == value_of(t, *said, 0));
                }
            }
        }
        assert_int_equal(0, worker_rows_said(&w, keys, counts[0], NULL));
        assert_int_equal(3, worker_rows_keys_of(&w, 0)->sightings[1]); /* of key 9 */
        worker_rows_gradient_release(&w, &g);
        worker_rows_release(&w);
    }
    model_spec_release(&spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
