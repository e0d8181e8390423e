/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoints are deltas, and of which one. */
#include "cluster.h"

#define EVERY_2 "training.checkpoint_every=2", "training.checkpoint_full_every=3"

static struct cluster *start(uint64_t seed, const char *const *sets, size_t count, char id[64])
{
    struct cluster *c = cluster_new(seed, 3, 2);
    cluster_submit(c, "demo", id, sets, count);
    return c;
}

static void until_manifests(struct cluster *c, size_t n)
{
    while (c->manifests < n) {
        cluster_advance(c);
    }
}

/* Manifest number @i is of @step, and of a delta of @base; 0: of everything. */
static void expect(const struct cluster *c, size_t i, uint64_t step, uint64_t base)
{
    char name[96] = "";
    if (base > 0) {
        (void)snprintf(name, sizeof name, "demo-1/step-%09" PRIu64, base);
    }
    assert_true(i < c->manifests);
    assert_int_equal(c->manifest_steps[i], step);
    assert_string_equal(c->manifest_bases[i], name);
}

/* Of the last full one, and the last of all is a full one. */
static void one_of_so_many_is_full(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = start(8100, SETS(EVERY_2), id);
    static const uint64_t bases[] = {0, 2, 2, 0, 8, 8, 0, 14, 14, 0};
    cluster_until(c, id, JOB_SUCCEEDED, 100000);
    for (size_t i = 0; i < 10; i++) {
        expect(c, i, 2 * (i + 1), bases[i]);
    }
    expect(c, 10, 21, 0);
    cluster_free(c);
}

static void all_are_full_unless_told(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = start(8101, SETS("training.checkpoint_every=2"), id);
    cluster_until(c, id, JOB_SUCCEEDED, 100000);
    for (size_t i = 0; i < c->manifests; i++) {
        assert_string_equal(c->manifest_bases[i], "");
    }
    cluster_free(c);
}

/* Who knows nothing of a base writes everything. When all do that is the next base; when some do
 * the next one is full, so that all have the same. */
static void a_server_that_knows_no_base(void **state)
{
    (void)state;
    for (int all = 0; all < 2; all++) {
        char id[64];
        struct cluster *c = start(8102, SETS(EVERY_2, "cluster.ps=2"), id);
        until_manifests(c, 1);
        for (size_t i = 0; i < c->node_count; i++) {
            c->nodes[i].knows_no_base = all == 1 || strcmp(c->nodes[i].id, "ps-1") == 0;
        }
        until_manifests(c, 2);
        for (size_t i = 0; i < c->node_count; i++) {
            c->nodes[i].knows_no_base = false;
        }
        until_manifests(c, 3);
        expect(c, 1, 4, 2);
        expect(c, 2, 6, all == 1 ? 4 : 0);
        cluster_until(c, id, JOB_SUCCEEDED, 100000);
        cluster_free(c);
    }
}

/* Its shards know nothing of what others wrote. */
static void each_start_begins_with_a_full_one(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = start(8104, SETS(EVERY_2), id);
    until_manifests(c, 2);
    expect(c, 1, 4, 2);
    cluster_run_ms(c, 1);
    const size_t before = c->manifests;
    cluster_kill_one(c, MASTER_PS);
    cluster_until(c, id, JOB_RECOVERING, 20000);
    const size_t after = c->manifests;
    assert_true(after - before < 3);
    until_manifests(c, after + 2);
    assert_string_equal(c->manifest_bases[after], "");
    assert_string_not_equal(c->manifest_bases[after + 1], "");
    cluster_until(c, id, JOB_SUCCEEDED, 100000);
    cluster_free(c);
}

/* A base that is gone, or is another one, is what a manifest may fail for; a disk that is full is
 * another matter. */
static void a_base_that_is_gone(void **state)
{
    (void)state;
    static const int codes[] = {ERR_NOT_FOUND, ERR_CORRUPT, ERR_EXHAUSTED};
    for (size_t i = 0; i < 3; i++) {
        char id[64];
        struct cluster *c = start(8106, SETS(EVERY_2), id);
        until_manifests(c, 1);
        while (cluster_job(c, id)->checkpoint[0] == '\0') {
            cluster_advance(c);
        }
        c->manifest_fails = true;
        c->manifest_code = codes[i];
        until_manifests(c, 2);
        while (strstr(cluster_job(c, id)->reason, "checkpoint at step 4: ") == NULL) {
            cluster_advance(c);
        }
        c->manifest_fails = false;
        until_manifests(c, 3);
        expect(c, 1, 4, 2);
        expect(c, 2, 6, codes[i] == ERR_EXHAUSTED ? 2 : 0);
        cluster_until(c, id, JOB_SUCCEEDED, 100000);
        cluster_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_so_many_is_full),
        cmocka_unit_test(all_are_full_unless_told),
        cmocka_unit_test(a_server_that_knows_no_base),
        cmocka_unit_test(each_start_begins_with_a_full_one),
        cmocka_unit_test(a_base_that_is_gone),
    };
    return cmocka_run_group_tests_name("master_deltas", tests, NULL, NULL);
}
