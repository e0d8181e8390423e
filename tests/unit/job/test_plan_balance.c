/* SPDX-License-Identifier: Apache-2.0 */
/* The balanced partitioner: every shard about as many bytes, whatever the model; what is small
 * stays whole. That a plan holds every element once is checked by plan_from_parts(). */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "job/plan/plan.h"

#define SLICE (256 << 10)

static struct variable_spec matrix(const char *name, uint64_t rows, uint64_t columns)
{
    struct variable_spec v = {.shape = {2, {rows, columns}}, .init = {.kind = INIT_ZEROS}};
    (void)strncpy(v.name, name, sizeof v.name - 1);
    return v;
}

static struct cluster_spec balanced(int64_t ps)
{
    return (struct cluster_spec){
        .ps = ps, .partitioner = PARTITIONER_BALANCED, .slice_bytes = SLICE};
}

static void make(const struct variable_spec *v, size_t count, const struct cluster_spec *c,
                 struct plan *plan)
{
    struct err err = {0};
    struct plan copy = {0};
    if (plan_make(v, count, c, plan, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    if (plan_from_parts(plan->variables, count, plan->partitions, plan->partition_count,
                        plan->shard_count, &copy, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    assert_memory_equal(copy.shard_elements, plan->shard_elements,
                        plan->shard_count * sizeof *plan->shard_elements);
    plan_release(&copy);
}

/* The largest shard over the mean. */
static double excess(const struct plan *plan)
{
    uint64_t most = 0;
    uint64_t total = 0;
    for (uint32_t s = 0; s < plan->shard_count; s++) {
        most = plan->shard_elements[s] > most ? plan->shard_elements[s] : most;
        total += plan->shard_elements[s];
    }
    return (double)most * plan->shard_count / (double)total;
}

static void check_excess(const char *what, const struct variable_spec *v, size_t count, double most)
{
    for (int64_t ps = 1; ps <= 16; ps++) {
        struct plan plan = {0};
        struct cluster_spec c = balanced(ps);
        make(v, count, &c, &plan);
        if (excess(&plan) > most) {
            fail_msg("%s on %d servers: the largest shard is %.4f of the mean", what, (int)ps,
                     excess(&plan));
        }
        plan_release(&plan);
    }
}

static void large_models_are_level(void **state)
{
    (void)state;
    const struct variable_spec huge[] = {matrix("embedding", 1 << 20, 256), matrix("bias", 256, 1),
                                         matrix("out", 256, 1000)};
    const struct variable_spec dense[] = {matrix("k0", 784, 8192),  matrix("b0", 8192, 1),
                                          matrix("k1", 8192, 8192), matrix("b1", 8192, 1),
                                          matrix("k2", 8192, 10),   matrix("b2", 10, 1)};
    const struct variable_spec rows[] = {matrix("three", 3, 4 << 20), matrix("one", 1, 1 << 20),
                                         matrix("fine", 1 << 20, 64), matrix("five", 5, 1 << 20)};
    struct variable_spec small[400];
    for (size_t i = 0; i < 400; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "v%zu", i);
        small[i] = matrix(name, 16 + i % 50, 64 + i % 31);
    }
    check_excess("one huge variable", huge, 3, 1.0001);
    check_excess("a dense model", dense, 6, 1.002);
    check_excess("few rows that are huge", rows, 4, 1.0001);
    check_excess("many small ones", small, 400, 1.04);
}

static void what_is_small_stays_whole(void **state)
{
    (void)state;
    const struct variable_spec v[] = {matrix("kernel", 784, 256), matrix("bias", 256, 1),
                                      matrix("middle", 512, 128), matrix("out", 128, 10)};
    struct cluster_spec c = balanced(2);
    struct plan plan = {0};
    make(v, 4, &c, &plan);
    assert_int_equal(plan.partition_count, 5); /* the kernel alone has more than 256 KiB */
    assert_true(excess(&plan) < 1.001);
    assert_true(plan_cuts(&plan));
    plan_release(&plan);
    c = balanced(1);
    make(v, 4, &c, &plan);
    assert_int_equal(plan.partition_count, 4);
    assert_false(plan_cuts(&plan));
    plan_release(&plan);
}

/* A model that is too small for all servers is cut into as many parts as it takes. */
static void no_shard_is_empty_while_there_are_rows(void **state)
{
    (void)state;
    const struct variable_spec iris[] = {matrix("kernel", 4, 3), matrix("bias", 3, 1)};
    for (int64_t ps = 1; ps <= 7; ps++) {
        struct cluster_spec c = balanced(ps);
        struct plan plan = {0};
        make(iris, 2, &c, &plan);
        plan_release(&plan);
    }
    struct cluster_spec c = balanced(8);
    struct plan plan = {0};
    struct err err = {0};
    assert_int_equal(plan_make(iris, 2, &c, &plan, &err), ERR_INVALID);
    assert_string_equal(err.msg, "7 partitions cannot fill 8 parameter servers; use fewer of them "
                                 "or cut the variables into more partitions");
}

/* Where every server has rows of tables, none needs a part of the variables. */
static void tables_fill_shards(void **state)
{
    (void)state;
    static const int partitioners[] = {PARTITIONER_BALANCED, PARTITIONER_FIXED,
                                       PARTITIONER_MIN_SLICE, PARTITIONER_MAX_SLICE};
    const struct variable_spec bias[] = {matrix("bias", 1, 1)};
    const struct variable_spec iris[] = {matrix("kernel", 4, 3), matrix("bias", 3, 1)};
    struct job_spec spec = {.model = {.table_count = 1}};
    for (size_t i = 0; i < sizeof partitioners / sizeof partitioners[0]; i++) {
        struct plan plan = {0};
        struct err err = {0};
        size_t count;
        spec.cluster = balanced(3);
        spec.cluster.partitioner = partitioners[i];
        spec.cluster.partitions = 1;
        assert_int_equal(plan_make_job(bias, 1, &spec, &plan, &err), 0);
        assert_int_equal(plan.partition_count, 1);
        assert_int_equal(plan.shard_elements[0] + plan.shard_elements[1] + plan.shard_elements[2],
                         1);
        (void)plan_shard(&plan, 2, &count);
        assert_int_equal(count, plan.shard_elements[2]);
        assert_int_equal(plan_check_shards(&plan, 1, &err), 0);
        assert_int_equal(plan_check_shards(&plan, 0, &err), ERR_INVALID);
        plan_release(&plan);
    }
    struct plan plan = {0};
    spec.cluster = balanced(8);
    assert_int_equal(plan_make_job(iris, 2, &spec, &plan, NULL), 0);
    assert_int_equal(plan.partition_count, 2); /* cutting would not have filled them */
    plan_release(&plan);
    spec.cluster.ps = 7;
    assert_int_equal(plan_make_job(iris, 2, &spec, &plan, NULL), 0);
    assert_int_equal(plan_check_shards(&plan, 0, NULL), 0);
    plan_release(&plan);
}

static void bounds_are_kept(void **state)
{
    (void)state;
    const struct variable_spec v[] = {matrix("a", 4096, 1024), matrix("b", 2048, 1024)};
    struct cluster_spec c = balanced(2);
    struct plan plan = {0};
    c.whole_variables = true;
    make(v, 2, &c, &plan);
    assert_int_equal(plan.partition_count, 2);
    plan_release(&plan);
    c = balanced(8);
    c.partitions = 4;
    make(v, 2, &c, &plan);
    assert_int_equal(plan.partition_count, 8);
    plan_release(&plan);
    c.partitions = -1;
    assert_int_equal(plan_make(v, 2, &c, &plan, NULL), ERR_INVALID);
    c = balanced(2);
    c.slice_bytes = 0;
    assert_int_equal(plan_make(v, 2, &c, &plan, NULL), ERR_INVALID);
}

/* Any model: as level as the coarsest part that had to be placed allows, and the same each time. */
static void random_models_are_level(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct variable_spec v[12];
        uint64_t key = rng_key(seed, "balance");
        size_t count = 1 + (size_t)rng_below(key, 0, 12);
        uint64_t largest = 0; /* elements that may stay together */
        uint64_t rows = 0;
        for (size_t i = 0; i < count; i++) {
            char name[24];
            (void)snprintf(name, sizeof name, "v%zu", i);
            v[i] = matrix(name, 1 + rng_below(key, 3 * i + 1, 1 << rng_below(key, i + 500, 13)),
                          1 + rng_below(key, 3 * i + 2, 3000));
            rows += plan_rows(&v[i].shape);
            uint64_t row = plan_row_elements(&v[i].shape);
            uint64_t whole = shape_count(&v[i].shape);
            uint64_t together = whole * sizeof(float) <= SLICE ? whole : row + SLICE;
            largest = together > largest ? together : largest;
        }
        struct cluster_spec c = balanced(1 + (int64_t)(seed % 16));
        if (rows < (uint64_t)c.ps) {
            continue;
        }
        struct plan plan = {0};
        struct plan again = {0};
        make(v, count, &c, &plan);
        make(v, count, &c, &again);
        assert_memory_equal(plan.partitions, again.partitions,
                            plan.partition_count * sizeof *plan.partitions);
        uint64_t total = 0;
        for (uint32_t s = 0; s < plan.shard_count; s++) {
            total += plan.shard_elements[s];
        }
        for (uint32_t s = 0; s < plan.shard_count; s++) {
            if (plan.shard_elements[s] > total / plan.shard_count + largest) {
                fail_msg("seed %d: shard %u has %llu of %llu elements", (int)seed, s,
                         (unsigned long long)plan.shard_elements[s], (unsigned long long)total);
            }
        }
        plan_release(&plan);
        plan_release(&again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_models_are_level),
        cmocka_unit_test(what_is_small_stays_whole),
        cmocka_unit_test(no_shard_is_empty_while_there_are_rows),
        cmocka_unit_test(tables_fill_shards),
        cmocka_unit_test(bounds_are_kept),
        cmocka_unit_test(random_models_are_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
