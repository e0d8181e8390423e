/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: the partitioners' formulas, greedy placement, and the refusal of every broken plan. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/text.h"
#include "job/plan/plan_update.h"

static struct variable_spec variable(const char *name, size_t rank, uint64_t d0, uint64_t d1)
{
    struct variable_spec v = {.shape = {rank, {d0, d1}}, .init = {.kind = INIT_ZEROS}};
    (void)strncpy(v.name, name, sizeof v.name - 1);
    return v;
}

/* The parts of a lone variable of @rows rows of @columns floats under @cluster. */
static void check_parts(struct cluster_spec cluster, uint64_t rows, uint64_t columns,
                        const uint64_t *want, size_t want_count)
{
    struct variable_spec v = variable("v", 2, rows, columns);
    struct plan plan = {0};
    cluster.ps = 1;
    assert_int_equal(plan_make(&v, 1, &cluster, &plan, NULL), 0);
    assert_int_equal(plan.partition_count, want_count);
    uint64_t row = 0;
    for (size_t i = 0; i < want_count; i++) {
        assert_int_equal(plan.partitions[i].row_first, row);
        assert_int_equal(plan.partitions[i].row_count, want[i]);
        row += want[i];
    }
    assert_int_equal(row, rows);
    plan_release(&plan);
}

#define PARTS(...) (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8

static void fixed_cuts_as_tensorflow(void **state)
{
    (void)state;
    struct cluster_spec c = {.partitioner = PARTITIONER_FIXED, .partitions = 5};
    check_parts(c, 13, 7, PARTS(3, 3, 3, 2, 2));
    check_parts(c, 10, 1, PARTS(2, 2, 2, 2, 2));
    check_parts(c, 3, 1, PARTS(1, 1, 1)); /* never more parts than rows */
    check_parts(c, 1, 9, PARTS(1));
    c.partitions = 1;
    check_parts(c, 13, 7, PARTS(13));
}

static void min_slice_cuts_as_tensorflow(void **state)
{
    (void)state;
    struct cluster_spec c = {.partitioner = PARTITIONER_MIN_SLICE, .slice_bytes = 400};
    check_parts(c, 10, 10, PARTS(10));      /* 400 bytes: one slice */
    check_parts(c, 11, 10, PARTS(6, 5));    /* 440 bytes: ceil(1.1) = 2 */
    check_parts(c, 25, 10, PARTS(9, 8, 8)); /* 1000 bytes: ceil(2.5) = 3 */
    check_parts(c, 2, 1000, PARTS(1, 1));   /* 8000 bytes want 20 slices; there are 2 rows */
    check_parts(c, 1, 1, PARTS(1));
    c.partitions = 2;
    check_parts(c, 25, 10, PARTS(13, 12));
}

static void max_slice_cuts_as_tensorflow(void **state)
{
    (void)state;
    struct cluster_spec c = {.partitioner = PARTITIONER_MAX_SLICE, .slice_bytes = 400};
    check_parts(c, 10, 10, PARTS(10));
    check_parts(c, 11, 10, PARTS(6, 5));     /* 10 rows fit a slice: ceil(11 / 10) = 2 */
    check_parts(c, 7, 30, PARTS(3, 2, 2));   /* 3 rows of 120 bytes: ceil(7 / 3) = 3 */
    check_parts(c, 3, 1000, PARTS(1, 1, 1)); /* a row longer than a slice is a slice */
    c.partitions = 2;
    check_parts(c, 7, 30, PARTS(4, 3));
    c.slice_bytes = INT64_MAX;
    c.partitions = 0;
    check_parts(c, 7, 30, PARTS(7));
}

/* Every element of every variable in exactly one partition, offsets without a gap. */
static void check_whole(const struct plan *plan)
{
    uint8_t **seen = mem_new(plan->variable_count, sizeof *seen);
    for (size_t v = 0; v < plan->variable_count; v++) {
        seen[v] = mem_new((size_t)shape_count(&plan->variables[v].shape), 1);
    }
    size_t counted = 0;
    for (uint32_t s = 0; s < plan->shard_count; s++) {
        size_t n;
        const struct partition *p = plan_shard(plan, s, &n);
        assert_true(n > 0);
        uint64_t offset = 0;
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(p[i].shard, s);
            assert_int_equal(p[i].offset, offset);
            uint64_t row = plan_row_elements(&plan->variables[p[i].variable].shape);
            assert_int_equal(p[i].first, p[i].row_first * row);
            assert_int_equal(p[i].count, p[i].row_count * row);
            for (uint64_t k = 0; k < p[i].count; k++) {
                seen[p[i].variable][p[i].first + k]++;
            }
            offset += p[i].count;
        }
        assert_int_equal(offset, plan->shard_elements[s]);
        counted += n;
    }
    assert_int_equal(counted, plan->partition_count);
    for (size_t v = 0; v < plan->variable_count; v++) {
        for (uint64_t k = 0; k < shape_count(&plan->variables[v].shape); k++) {
            assert_int_equal(seen[v][k], 1);
        }
        free(seen[v]);
    }
    free(seen);
}

static void random_model(uint64_t seed, struct variable_spec *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char name[40];
        (void)snprintf(name, sizeof name, "layer_%zu.kernel", i);
        uint64_t k = rng_key_mix(rng_key(seed, "model"), i);
        out[i] = variable(name, (size_t)rng_below(k, 0, 5), 1 + rng_below(k, 1, 30),
                          1 + rng_below(k, 2, 20));
        out[i].shape.dims[2] = 1 + rng_below(k, 3, 3);
        out[i].shape.dims[3] = 1 + rng_below(k, 4, 3);
    }
}

static void random_plans_hold_everything_once(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct variable_spec model[9];
        random_model(seed, model, 9);
        struct cluster_spec c = {
            .ps = 1 + (int64_t)(seed % 7),
            .partitioner = (int)(seed % 3),
            .partitions = seed % 3 == 0 ? 1 + (int64_t)(seed % 5) : (int64_t)(seed % 4),
            .slice_bytes = 64 + (int64_t)(seed * 13 % 700),
        };
        struct plan plan = {0};
        struct plan again = {0};
        assert_int_equal(plan_make(model, 9, &c, &plan, NULL), 0);
        check_whole(&plan);
        assert_int_equal(plan_make(model, 9, &c, &again, NULL), 0);
        assert_int_equal(plan.partition_count, again.partition_count);
        assert_memory_equal(plan.partitions, again.partitions,
                            plan.partition_count * sizeof *plan.partitions);
        plan_release(&again);
        assert_int_equal(plan_from_parts(plan.variables, 9, plan.partitions, plan.partition_count,
                                         plan.shard_count, &again, NULL),
                         0);
        check_whole(&again);
        assert_memory_equal(plan.shard_elements, again.shard_elements,
                            plan.shard_count * sizeof *plan.shard_elements);
        plan_release(&again);
        plan_release(&plan);
    }
}

static void placement_is_largest_first_on_the_least_loaded(void **state)
{
    (void)state;
    /* 7 6 5 4 3 onto two: 7 | 6, then 5 joins 6 (11), 4 joins 7 (11), 3 joins shard 0 on the tie.
     */
    struct variable_spec v[] = {variable("c", 1, 5, 0), variable("a", 1, 3, 0),
                                variable("e", 1, 7, 0), variable("b", 1, 4, 0),
                                variable("d", 1, 6, 0)};
    struct cluster_spec c = {.ps = 2, .partitions = 1};
    struct plan plan = {0};
    assert_int_equal(plan_make(v, 5, &c, &plan, NULL), 0);
    assert_int_equal(plan.shard_elements[0], 14);
    assert_int_equal(plan.shard_elements[1], 11);
    static const uint32_t variables[] = {1, 2, 3, 0, 4};
    static const uint32_t shards[] = {0, 0, 0, 1, 1};
    static const uint64_t offsets[] = {0, 3, 10, 0, 5};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(plan.partitions[i].variable, variables[i]);
        assert_int_equal(plan.partitions[i].shard, shards[i]);
        assert_int_equal(plan.partitions[i].offset, offsets[i]);
    }
    size_t n;
    assert_null(plan_shard(&plan, 2, &n));
    assert_int_equal(n, 0);
    plan_release(&plan);
}

/* No shard exceeds the mean by more than the largest part (Graham 1966, list scheduling). */
static void placement_stays_within_its_bound(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct variable_spec model[12];
        random_model(seed, model, 12);
        struct cluster_spec c = {.ps = 2 + (int64_t)(seed % 4), .partitions = 3};
        struct plan plan = {0};
        assert_int_equal(plan_make(model, 12, &c, &plan, NULL), 0);
        uint64_t total = 0;
        uint64_t most = 0;
        uint64_t largest = 0;
        for (uint32_t s = 0; s < plan.shard_count; s++) {
            total += plan.shard_elements[s];
            most = plan.shard_elements[s] > most ? plan.shard_elements[s] : most;
        }
        for (size_t i = 0; i < plan.partition_count; i++) {
            largest = plan.partitions[i].count > largest ? plan.partitions[i].count : largest;
        }
        assert_true(most <= total / plan.shard_count + largest);
        plan_release(&plan);
    }
}

static void scalars_are_one_row(void **state)
{
    (void)state;
    struct variable_spec v[] = {variable("temperature", 0, 0, 0), variable("w", 1, 4, 0)};
    struct cluster_spec c = {.ps = 2, .partitions = 3};
    struct plan plan = {0};
    assert_int_equal(plan_rows(&v[0].shape), 1);
    assert_int_equal(plan_row_elements(&v[0].shape), 1);
    assert_int_equal(plan_make(v, 2, &c, &plan, NULL), 0);
    assert_int_equal(plan.partition_count, 4);
    check_whole(&plan);
    plan_release(&plan);
}

static void wrong_requests_are_refused(void **state)
{
    (void)state;
    const struct variable_spec good = variable("w", 2, 4, 2);
    const struct cluster_spec fixed = {.ps = 1, .partitions = 1};
    struct {
        struct variable_spec v;
        struct cluster_spec c;
    } bad[] = {
        {variable("", 1, 4, 0), fixed},
        {variable("w\xff", 1, 4, 0), fixed},
        {variable("w", 1, 0, 0), fixed},
        {variable("w", 2, UINT64_MAX, 3), fixed},
        {variable("w", 1, PLAN_ELEMENTS_MAX + 1, 0), fixed},
        {variable("w", 9, 1, 1), fixed},
        {good, {.ps = 0, .partitions = 1}},
        {good, {.ps = PLAN_SHARDS_MAX + 1, .partitions = 1}},
        {good, {.ps = 2, .partitions = 1}}, /* one partition for two servers */
        {good, {.ps = 5, .partitions = 9}}, /* four rows for five servers */
        {good, {.ps = 1, .partitions = 0}},
        {good, {.ps = 1, .partitions = 1, .partitioner = 7}},
        {good, {.ps = 1, .partitions = -1, .partitioner = PARTITIONER_MIN_SLICE, .slice_bytes = 8}},
        {good, {.ps = 1, .partitioner = PARTITIONER_MIN_SLICE, .slice_bytes = 0}},
        {good, {.ps = 1, .partitioner = PARTITIONER_MAX_SLICE, .slice_bytes = -5}},
        {variable("w", 1, 1000000, 0),
         {.ps = 1, .partitioner = PARTITIONER_MAX_SLICE, .slice_bytes = 4}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct plan plan = {0};
        struct err err = {0};
        if (plan_make(&bad[i].v, 1, &bad[i].c, &plan, &err) != ERR_INVALID) {
            fail_msg("request %zu was not refused", i);
        }
        assert_true(err.msg[0] != '\0');
        assert_null(plan.partitions);
    }
    struct plan plan = {0};
    struct variable_spec twice[] = {good, variable("b", 1, 2, 0), good};
    struct err err = {0};
    assert_int_equal(plan_make(twice, 3, &fixed, &plan, &err), ERR_INVALID);
    assert_string_equal(err.msg, "variable w: the name is used twice");
    assert_int_equal(plan_make(twice, 0, &fixed, &plan, &err), ERR_INVALID);
}

/* A good plan of two variables on two shards, and one thing at a time made wrong. */
struct hostile {
    const char *what;
    size_t partition;
    size_t field; /* offset in struct partition */
    uint64_t value;
    bool wide; /* a 64-bit field */
    const char *message;
};

#define WRONG(name, value, wide, message)                                                          \
#name, 1, offsetof(struct partition, name), value, wide, message

static void hostile_plans_are_refused(void **state)
{
    (void)state;
    static const struct hostile wrong[] = {
        {WRONG(variable, 2, false, "partition 1: variable number 2 of 2")},
        {WRONG(variable, UINT32_MAX, false, "partition 1: variable number")},
        {WRONG(shard, 2, false, "partition 1: shard 2 after 0, of 2")},
        {WRONG(shard, 1, false, NULL)},
        {WRONG(row_first, 1, true, "partition 1: elements")},
        {WRONG(row_first, UINT64_MAX, true, "partition 1: 3 rows of w from row 184467")},
        {WRONG(row_count, 0, true, "partition 1: 0 rows of w")},
        {WRONG(row_count, UINT64_MAX, true, "partition 1: 18446744073709551615 rows")},
        {WRONG(row_count, 2, true, "partition 1: elements")},
        {WRONG(first, 3, true, "partition 1: elements")},
        {WRONG(count, 7, true, "partition 1: elements")},
        {WRONG(offset, 0, true, "partition 1: offset 0 in shard 0")},
        {WRONG(offset, 5, true, "partition 1: offset 5 in shard 0")},
    };
    struct variable_spec v[] = {variable("b", 1, 4, 0), variable("w", 2, 6, 2)};
    const struct partition parts[] = {
        {0, 0, 0, 4, 0, 4, 0},
        {1, 0, 0, 3, 0, 6, 4},
        {1, 1, 3, 3, 6, 6, 0},
    };
    struct plan plan = {0};
    assert_int_equal(plan_from_parts(v, 2, parts, 3, 2, &plan, NULL), 0);
    check_whole(&plan);
    plan_release(&plan);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct partition bad[3];
        memcpy(bad, parts, sizeof parts);
        char *field = (char *)&bad[wrong[i].partition] + wrong[i].field;
        uint32_t narrow = (uint32_t)wrong[i].value;
        memcpy(field, wrong[i].wide ? (const void *)&wrong[i].value : &narrow,
               wrong[i].wide ? sizeof wrong[i].value : sizeof narrow);
        struct err err = {0};
        if (plan_from_parts(v, 2, bad, 3, 2, &plan, &err) != ERR_INVALID) {
            fail_msg("%s = %llu was taken", wrong[i].what, (unsigned long long)wrong[i].value);
        }
        if (wrong[i].message != NULL && strstr(err.msg, wrong[i].message) != err.msg) {
            fail_msg("%s: \"%s\"", wrong[i].what, err.msg);
        }
        assert_null(plan.partitions);
    }
}

static void gaps_and_overlaps_are_refused(void **state)
{
    (void)state;
    struct variable_spec v[] = {variable("b", 1, 4, 0), variable("w", 2, 6, 2)};
    struct plan plan = {0};
    struct err err = {0};
    const struct partition gap[] = {
        {0, 0, 0, 4, 0, 4, 0}, {1, 0, 0, 3, 0, 6, 4}, {1, 0, 4, 2, 8, 4, 10}};
    assert_int_equal(plan_from_parts(v, 2, gap, 3, 1, &plan, &err), ERR_INVALID);
    assert_string_equal(err.msg, "row 3 of w is in no partition");
    const struct partition twice[] = {
        {0, 0, 0, 4, 0, 4, 0}, {1, 0, 0, 4, 0, 8, 4}, {1, 0, 2, 4, 4, 8, 12}};
    assert_int_equal(plan_from_parts(v, 2, twice, 3, 1, &plan, &err), ERR_INVALID);
    assert_string_equal(err.msg, "row 2 of w is in more than one partition");
    const struct partition same[] = {
        {0, 0, 0, 4, 0, 4, 0}, {0, 0, 0, 4, 0, 4, 4}, {1, 0, 0, 6, 0, 12, 8}};
    assert_int_equal(plan_from_parts(v, 2, same, 3, 1, &plan, &err), ERR_INVALID);
    const struct partition missing[] = {{0, 0, 0, 4, 0, 4, 0}};
    assert_int_equal(plan_from_parts(v, 2, missing, 1, 1, &plan, &err), ERR_INVALID);
    assert_string_equal(err.msg, "row 0 of w is in no partition");
    const struct partition empty[] = {{0, 0, 0, 4, 0, 4, 0}, {1, 0, 0, 6, 0, 12, 4}};
    assert_int_equal(plan_from_parts(v, 2, empty, 2, 2, &plan, &err), 0);
    assert_int_equal(plan_check_shards(&plan, 1, &err), 0);
    assert_int_equal(plan_check_shards(&plan, 0, &err), ERR_INVALID);
    assert_string_equal(err.msg, "shard 1 of 2 is empty, and the job has no tables");
    plan_release(&plan);
    assert_int_equal(plan_from_parts(v, 2, empty, 2, 0, &plan, &err), ERR_INVALID);
    assert_int_equal(plan_from_parts(v, 2, empty, 2, UINT32_MAX, &plan, &err), ERR_INVALID);
    assert_int_equal(plan_from_parts(v, 2, empty, 0, 1, &plan, &err), ERR_INVALID);
    assert_int_equal(plan_from_parts(v, 2, empty, 2, 1, &plan, &err), 0);
    assert_false(plan_is_given(&plan));
    assert_ptr_equal(plan_at(&plan, 0, 3), &plan.partitions[0]);
    assert_ptr_equal(plan_at(&plan, 0, 4), &plan.partitions[1]);
    assert_ptr_equal(plan_at(&plan, 0, 15), &plan.partitions[1]);
    assert_null(plan_at(&plan, 1, 0));
    plan_release(&plan);
    v[1].init.kind = INIT_GIVEN;
    assert_int_equal(plan_from_parts(v, 2, empty, 2, 1, &plan, &err), 0);
    assert_true(plan_is_given(&plan));
    plan_release(&plan);
    v[1].init.kind = INIT_ZEROS;
    v[0].init.kind = (enum init_kind)(INIT_GIVEN + 1);
    assert_int_equal(plan_from_parts(v, 2, empty, 2, 1, &plan, &err), ERR_INVALID);
    v[0] = variable("b", 1, 4, 0);
    memset(v[0].name, 'x', sizeof v[0].name); /* not terminated */
    assert_int_equal(plan_from_parts(v, 2, empty, 2, 1, &plan, &err), ERR_INVALID);
}

static void the_table_shows_every_partition(void **state)
{
    (void)state;
    struct variable_spec v[] = {variable("dense_1.kernel", 2, 784, 256),
                                variable("dense_1.bias", 1, 256, 0)};
    struct cluster_spec c = {.ps = 2, .partitions = 2};
    struct plan plan = {0};
    struct buf out = {0};
    assert_int_equal(plan_make(v, 2, &c, &plan, NULL), 0);
    plan_format(&plan, &out);
    char text[64], first[128];
    (void)snprintf(first, sizeof first, "2 variables in 4 partitions on 2 parameter servers, %s\n",
                   text_bytes((784 + 1) * 256 * sizeof(float), text, sizeof text));
    assert_memory_equal(buf_str(&out), first, strlen(first));
    assert_non_null(strstr(buf_str(&out), "dense_1.kernel  [784, 256]      392..783"));
    assert_non_null(strstr(buf_str(&out), "128..255"));
    assert_non_null(strstr(buf_str(&out), "100480")); /* elements of each shard */
    buf_release(&out);
    plan_release(&plan);
}

static void patterns_match_variables(void **state)
{
    (void)state;
    const struct cluster_spec c = {.ps = 2, .partitioner = PARTITIONER_FIXED, .partitions = 2};
    struct variable_spec v[] = {variable("a.kernel", 2, 8, 4), variable("a.bias", 1, 4, 0)};
    char bias[] = "*.bias", none[] = "b.*";
    struct update_pattern patterns[] = {{.match = bias}, {.match = none}};
    struct update_spec spec = {.rule = rule_find("sgd"), .patterns = patterns, .pattern_count = 1};
    struct plan plan = {0};
    struct err err = {0};
    assert_int_equal(plan_make(v, 2, &c, &plan, &err), 0);
    assert_int_equal(plan_update_check(&plan, &spec, &err), 0);
    spec.pattern_count = 2;
    assert_int_equal(plan_update_check(&plan, &spec, &err), ERR_INVALID);
    assert_string_equal(err.msg, "update.variables.1.match: no variable matches 'b.*'; allowed: "
                                 "patterns of names such as 'a.kernel'");
    plan_release(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_variables),
        cmocka_unit_test(fixed_cuts_as_tensorflow),
        cmocka_unit_test(min_slice_cuts_as_tensorflow),
        cmocka_unit_test(max_slice_cuts_as_tensorflow),
        cmocka_unit_test(random_plans_hold_everything_once),
        cmocka_unit_test(placement_is_largest_first_on_the_least_loaded),
        cmocka_unit_test(placement_stays_within_its_bound),
        cmocka_unit_test(scalars_are_one_row),
        cmocka_unit_test(wrong_requests_are_refused),
        cmocka_unit_test(hostile_plans_are_refused),
        cmocka_unit_test(gaps_and_overlaps_are_refused),
        cmocka_unit_test(the_table_shows_every_partition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
