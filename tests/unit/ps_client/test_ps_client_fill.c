/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values on their way to the shards. */
#include "ps_client_rig.h"

#include "support/wait_until.h"

struct giving {
    struct fake *f;
    struct ps_client_given given;
    int rc;
    struct err err;
};

static void run_giving(void *ctx)
{
    struct giving *g = ctx;
    g->rc = ps_client_fill(g->f->client, &g->given, &g->err);
}

static int give(struct fake *f, uint32_t shard, uint64_t first, uint64_t count, struct err *err)
{
    struct giving g = {.f = f,
                       .given = {.shard = shard,
                                 .generation = 3,
                                 .values = f->gradient,
                                 .first = first,
                                 .count = count}};
    assert_int_equal(loop_call(f->loop, run_giving, &g, NULL), 0);
    *err = g.err;
    return g.rc;
}

static struct ps_client_filled next_filled(struct fake *f)
{
    pthread_mutex_lock(&f->lock);
    wait_until_signalled(f->filled_count != 0, &f->changed, &f->lock);
    assert_int_equal(f->filled_count, 1);
    f->filled_count = 0;
    struct ps_client_filled filled = f->filled[0];
    pthread_mutex_unlock(&f->lock);
    return filled;
}

/* What lies where in a shard is a matter of the plan: parts of variables, and of partitions. */
static void test_parts_arrive_in_plan_order(void **state)
{
    (void)state;
    struct fake f;
    struct err err;
    client_start(&f, 0);
    for (uint32_t s = 0; s < SHARDS; s++) {
        const uint64_t elements = f.plan.shard_elements[s];
        for (uint64_t at = 0; at < elements; at += 100001) {
            uint64_t n = elements - at < 100001 ? elements - at : 100001;
            assert_int_equal(give(&f, s, at, n, &err), 0);
            struct ps_client_filled filled = next_filled(&f);
            assert_int_equal(filled.shard, s);
            assert_int_equal(filled.code, 0);
            assert_int_equal(filled.filled, at + n);
        }
        size_t count;
        const struct partition *p = plan_shard(&f.plan, s, &count);
        for (size_t i = 0; i < count; i++) {
            assert_memory_equal(f.shards[s] + p[i].offset,
                                f.gradient + f.offsets[p[i].variable] + p[i].first,
                                p[i].count * sizeof(float));
        }
    }
    assert_int_equal(f.opening, OPENING);
    assert_int_equal(f.generation, 3);
    client_finish(&f);
}

static void test_none_only_asks(void **state)
{
    (void)state;
    struct fake f;
    struct err err;
    client_start(&f, 0);
    assert_int_equal(give(&f, 1, 17, 0, &err), 0);
    assert_int_equal(next_filled(&f).filled, 17);
    client_finish(&f);
}

static void test_refusals(void **state)
{
    (void)state;
    struct fake f;
    struct err err;
    client_start(&f, 0);
    client_set_script(&f, SCRIPT_REFUSE);
    f.code = ERR_ABORTED;
    assert_int_equal(give(&f, 0, 0, 10, &err), 0);
    struct ps_client_filled filled = next_filled(&f);
    assert_int_equal(filled.code, ERR_ABORTED);
    assert_non_null(strstr(filled.message, "told to refuse"));
    client_finish(&f);
}

/* A shard that is nowhere yet, and one whose server is not there. */
static void test_nobody_there(void **state)
{
    (void)state;
    struct fake f;
    struct err err;
    client_start(&f, 0);
    rpc_server_stop(f.server);
    assert_int_equal(give(&f, 0, 0, 10, &err), 0);
    assert_int_equal(next_filled(&f).code, ERR_UNAVAILABLE);
    client_finish(&f);
}

static void run_two(void *ctx)
{
    struct giving *g = ctx;
    run_giving(g);
    assert_int_equal(g->rc, 0);
    g->rc = ps_client_fill(g->f->client, &g->given, &g->err);
}

static void test_one_at_a_time(void **state)
{
    (void)state;
    struct fake f;
    client_start(&f, 0);
    struct giving g = {.f = &f, .given = {.shard = 0, .values = f.gradient, .count = 5}};
    assert_int_equal(loop_call(f.loop, run_two, &g, NULL), 0);
    assert_int_equal(g.rc, ERR_UNAVAILABLE);
    assert_non_null(strstr(g.err.msg, "another part is under way"));
    assert_int_equal(next_filled(&f).filled, 5);
    struct err err;
    assert_int_equal(give(&f, 0, 5, 5, &err), 0);
    assert_int_equal(next_filled(&f).filled, 10);
    client_finish(&f);
}

/* A job that is dropped waits for nobody. */
static void test_the_end_in_the_middle(void **state)
{
    (void)state;
    struct fake f;
    struct err err;
    client_start(&f, 0);
    for (uint32_t s = 0; s < SHARDS; s++) {
        assert_int_equal(give(&f, s, 0, 200000, &err), 0);
    }
    client_finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_arrive_in_plan_order),
        cmocka_unit_test(test_none_only_asks),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_the_end_in_the_middle),
    };
    return cmocka_run_group_tests(tests, client_rig_setup, client_rig_teardown);
}
