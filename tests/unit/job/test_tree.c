/* SPDX-License-Identifier: Apache-2.0 */
/* The reduction tree, against brute force over all trees of up to 40 replicas. */
#include "support/test.h"

#include <string.h>

#include "base/rng.h"
#include "job/progress/tree.h"

#define REPLICAS_MAX 40

/* All nodes of a tree by the definition in the header, as a set of (lo, hi). */
struct node_set {
    bool in[REPLICAS_MAX + 1][REPLICAS_MAX + 1];
    struct tree_block parent[REPLICAS_MAX + 1][REPLICAS_MAX + 1];
};

static void collect(struct node_set *set, uint32_t lo, uint32_t hi, struct tree_block parent)
{
    set->in[lo][hi] = true;
    set->parent[lo][hi] = parent;
    if (hi - lo < 2) {
        return;
    }
    uint32_t power = 1;
    while (power * 2 < hi - lo) {
        power *= 2;
    }
    collect(set, lo, lo + power, (struct tree_block){lo, hi});
    collect(set, lo + power, hi, (struct tree_block){lo, hi});
}

static void split_is_the_largest_power_of_two(void **state)
{
    (void)state;
    assert_int_equal(tree_split(0, 2), 1);
    assert_int_equal(tree_split(0, 3), 2);
    assert_int_equal(tree_split(0, 4), 2);
    assert_int_equal(tree_split(4, 9), 8);
    assert_int_equal(tree_split(0, 33), 32);
    assert_int_equal(tree_split(0, 64), 32);
    assert_true(tree_split(0, UINT32_MAX) == UINT32_C(1) << 31);
    assert_true(tree_split(0, UINT32_C(1) << 31) == UINT32_C(1) << 30);
}

static void nodes_and_parents_follow_the_definition(void **state)
{
    (void)state;
    for (uint32_t r = 1; r <= REPLICAS_MAX; r++) {
        static struct node_set set;
        memset(&set, 0, sizeof set);
        collect(&set, 0, r, (struct tree_block){0, 0});
        for (uint32_t lo = 0; lo <= r; lo++) {
            for (uint32_t hi = 0; hi <= r; hi++) {
                struct tree_block b = {lo, hi};
                struct tree_block p = {77, 78};
                assert_int_equal(tree_is_node(r, b), set.in[lo][hi]);
                bool has = set.in[lo][hi] && set.parent[lo][hi].hi != 0;
                assert_int_equal(tree_parent(r, b, &p), has);
                struct tree_block want = has ? set.parent[lo][hi] : (struct tree_block){77, 78};
                assert_int_equal(p.lo, want.lo);
                assert_int_equal(p.hi, want.hi);
            }
        }
    }
}

/* Every range decomposes into nodes, left to right, none of which could be larger. */
static void check_cover(const struct node_set *set, uint32_t r, uint32_t lo, uint32_t hi)
{
    struct tree_block out[TREE_BLOCKS_MAX];
    size_t n = tree_cover(r, lo, hi, out);
    uint32_t at = lo;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(out[i].lo, at);
        assert_true(out[i].hi > at);
        assert_true(set->in[out[i].lo][out[i].hi]);
        struct tree_block p = set->parent[out[i].lo][out[i].hi];
        assert_true(p.hi == 0 || p.lo < lo || p.hi > hi);
        at = out[i].hi;
    }
    assert_int_equal(at, hi);
}

static void every_range_decomposes_into_nodes(void **state)
{
    (void)state;
    for (uint32_t r = 1; r <= REPLICAS_MAX; r++) {
        static struct node_set set;
        memset(&set, 0, sizeof set);
        collect(&set, 0, r, (struct tree_block){0, 0});
        for (uint32_t lo = 0; lo < r; lo++) {
            for (uint32_t hi = lo + 1; hi <= r; hi++) {
                check_cover(&set, r, lo, hi);
            }
        }
    }
}

static void a_cover_of_huge_trees_fits(void **state)
{
    (void)state;
    struct tree_block out[TREE_BLOCKS_MAX];
    static const uint32_t counts[] = {UINT32_MAX, UINT32_C(1) << 31, (UINT32_C(1) << 31) + 1,
                                      0xaaaaaaaa, 1000003};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        uint32_t r = counts[c];
        assert_true(tree_cover(r, 1, r - 1, out) <= TREE_BLOCKS_MAX);
        assert_int_equal(tree_cover(r, 0, r, out), 1);
        for (uint64_t k = 0; k < 200; k++) {
            uint32_t lo = (uint32_t)rng_below(rng_key(c, "lo"), k, r);
            uint32_t hi = lo + 1 + (uint32_t)rng_below(rng_key(c, "hi"), k, r - lo);
            size_t n = tree_cover(r, lo, hi, out);
            assert_true(n >= 1 && n <= TREE_BLOCKS_MAX);
            assert_int_equal(out[0].lo, lo);
            assert_int_equal(out[n - 1].hi, hi);
            for (size_t i = 0; i < n; i++) {
                assert_true(tree_is_node(r, out[i]));
                assert_true(i == 0 || out[i].lo == out[i - 1].hi);
            }
        }
    }
}

static void ranges_outside_the_tree_are_nothing(void **state)
{
    (void)state;
    struct tree_block out[TREE_BLOCKS_MAX];
    assert_int_equal(tree_cover(8, 3, 3, out), 0);
    assert_int_equal(tree_cover(8, 5, 3, out), 0);
    assert_int_equal(tree_cover(8, 0, 9, out), 0);
    assert_int_equal(tree_cover(0, 0, 0, out), 0);
    assert_false(tree_is_node(0, (struct tree_block){0, 0}));
    assert_false(tree_is_node(4, (struct tree_block){0, 5}));
}

static float reference_sum(const float *x, uint32_t lo, uint32_t hi)
{
    if (hi - lo == 1) {
        return x[lo];
    }
    uint32_t middle = tree_split(lo, hi);
    float left = reference_sum(x, lo, middle);
    float right = reference_sum(x, middle, hi);
    return left + right;
}

/* Blocks that workers summed themselves arrive in some order; a block whose sibling is there goes
 * up. */
static float sum_of_blocks(const float *x, uint32_t r, uint32_t workers, uint64_t order)
{
    static float sums[REPLICAS_MAX + 1][REPLICAS_MAX + 1];
    static bool have[REPLICAS_MAX + 1][REPLICAS_MAX + 1];
    memset(have, 0, sizeof have);
    uint32_t shift = (uint32_t)rng_below(order, 0, workers);
    for (uint32_t k = 0; k < workers; k++) {
        struct tree_block share = tree_share(r, workers, (k + shift) % workers);
        struct tree_block out[TREE_BLOCKS_MAX];
        size_t n = tree_cover(r, share.lo, share.hi, out);
        for (size_t i = n; i-- > 0;) {
            struct tree_block b = out[i];
            struct tree_block p;
            sums[b.lo][b.hi] = reference_sum(x, b.lo, b.hi);
            have[b.lo][b.hi] = true;
            while (tree_parent(r, b, &p)) {
                uint32_t m = tree_split(p.lo, p.hi);
                if (!have[p.lo][m] || !have[m][p.hi]) {
                    break;
                }
                sums[p.lo][p.hi] = sums[p.lo][m] + sums[m][p.hi];
                have[p.lo][p.hi] = true;
                b = p;
            }
        }
    }
    assert_true(have[0][r]);
    return sums[0][r];
}

static void sums_do_not_depend_on_who_adds(void **state)
{
    (void)state;
    float x[REPLICAS_MAX];
    for (uint32_t r = 1; r <= REPLICAS_MAX; r++) {
        for (uint32_t i = 0; i < r; i++) {
            x[i] = (float)rng_normal(rng_key(r, "x"), i) * (i % 3 == 0 ? 1e6F : 1e-3F);
        }
        float want = reference_sum(x, 0, r);
        for (uint32_t w = 1; w <= r + 2; w++) {
            for (uint64_t order = 0; order < 3; order++) {
                float got = sum_of_blocks(x, r, w, rng_key(order, "order"));
                assert_memory_equal(&got, &want, sizeof got);
            }
        }
    }
}

/* Maximal nodes that are whole in @set. */
static uint32_t sums_of(uint32_t set, uint32_t lo, uint32_t hi)
{
    uint32_t all = ((1U << (hi - lo)) - 1) << lo;
    if ((set & all) == all || (set & all) == 0) {
        return (set & all) == all;
    }
    uint32_t middle = tree_split(lo, hi);
    return sums_of(set, lo, middle) + sums_of(set, middle, hi);
}

static void sums_that_wait_and_covers_have_a_bound(void **state)
{
    (void)state;
    struct tree_block blocks[TREE_BLOCKS_MAX];
    for (uint32_t r = 1; r <= 12; r++) {
        uint32_t most = 0;
        uint32_t whole = (1U << r) - 1;
        for (uint32_t set = 0; set < whole; set++) {
            uint32_t n = sums_of(set, 0, r);
            most = n > most ? n : most;
        }
        assert_int_equal(tree_waiting_max(r), most);
        for (uint32_t lo = 0; lo < r; lo++) {
            for (uint32_t hi = lo + 1; hi <= r; hi++) {
                assert_true(tree_cover(r, lo, hi, blocks) <= tree_cover_max(r));
            }
        }
    }
    assert_int_equal(tree_waiting_max(0), 0);
    assert_int_equal(tree_waiting_max(1U << 31), 1U << 30);
    assert_int_equal(tree_waiting_max(UINT32_MAX), 1U << 31);
    assert_int_equal(tree_cover_max(UINT32_MAX), 64);
}

static void shares_are_contiguous_and_equal(void **state)
{
    (void)state;
    for (uint32_t r = 0; r <= REPLICAS_MAX; r++) {
        for (uint32_t w = 1; w <= REPLICAS_MAX + 3; w++) {
            uint32_t at = 0;
            for (uint32_t i = 0; i < w; i++) {
                struct tree_block b = tree_share(r, w, i);
                assert_int_equal(b.lo, at);
                assert_true(b.hi - b.lo == r / w || b.hi - b.lo == r / w + 1);
                at = b.hi;
            }
            assert_int_equal(at, r);
        }
    }
    struct tree_block none = tree_share(8, 2, 2);
    assert_true(none.lo == none.hi);
    none = tree_share(8, 0, 0);
    assert_true(none.lo == none.hi);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_is_the_largest_power_of_two),
        cmocka_unit_test(nodes_and_parents_follow_the_definition),
        cmocka_unit_test(every_range_decomposes_into_nodes),
        cmocka_unit_test(a_cover_of_huge_trees_fits),
        cmocka_unit_test(ranges_outside_the_tree_are_nothing),
        cmocka_unit_test(sums_do_not_depend_on_who_adds),
        cmocka_unit_test(sums_that_wait_and_covers_have_a_bound),
        cmocka_unit_test(shares_are_contiguous_and_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
