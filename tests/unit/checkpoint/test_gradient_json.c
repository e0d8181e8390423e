/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms of a gradient as text: they come back, and what is no such text is refused. */
#include "checkpoint_rig.h"

#include "checkpoint/gradient_json.h"

static struct histogram out[VARIABLE_COUNT], wanted[VARIABLE_COUNT];
static struct fixture f;

static int set_up(void **state)
{
    memset(out, 0, sizeof out);
    memset(wanted, 0, sizeof wanted);
    return fixture_setup(state);
}

/* However variables are cut, all parts together are the variables; statistics are left out. */
static void parts_come_back(void **state)
{
    static double limits[HISTOGRAM_BUCKETS];
    f = *(struct fixture *)*state;
    f.variables[1].statistic = 0.5;
    histogram_limits(limits);
    for (uint32_t shards = 1; shards < 4; shards++) {
        struct plan plan;
        struct err err;
        memset(out, 0, sizeof out);
        memset(wanted, 0, sizeof wanted);
        make_plan(&f, shards, &plan);
        for (uint32_t shard = 0; shard < shards; shard++) {
            size_t count;
            const struct partition *p = plan_shard(&plan, shard, &count);
            float *gradient = mem_new(plan.shard_elements[shard] + 1, sizeof *gradient);
            struct buf text = {0};
            for (uint64_t i = 0; i < plan.shard_elements[shard]; i++) {
                gradient[i] = (float)((int64_t)rng_below(shards, shard * 1000 + i, 64) - 32) / 16;
            }
            for (size_t i = 0; i < count; i++) {
                if (p[i].variable != 1) {
                    histogram_add(&wanted[p[i].variable], limits, gradient + p[i].offset,
                                  (size_t)p[i].count);
                }
            }
            gradient_json_format(&plan, shard, gradient, &text);
            assert_int_equal(
                gradient_json_add(buf_str(&text), plan.variables, plan.variable_count, out, &err),
                0);
            buf_release(&text);
            free(gradient);
        }
        assert_memory_equal(out, wanted, sizeof out); /* sums of these values are exact */
        assert_true(out[0].count > 0 && out[1].count == 0);
        plan_release(&plan);
    }
}

static void refused(const struct fixture *of, const char *text, const char *says)
{
    struct err err;
    assert_int_equal(gradient_json_add(text, of->variables, VARIABLE_COUNT, out, &err),
                     ERR_CORRUPT);
    assert_message(err, says);
}

static void other_texts_are_refused(void **state)
{
    struct fixture *of = *state;
    const char *const rest = ",\"max\":1,\"sum\":1,\"squares\":1,\"buckets\":";
    const struct {
        const char *min, *buckets, *says;
    } bad[] = {
        {"0", "[[1553,1]]", "buckets[0]: a bucket and its count are expected"},
        {"0", "[[3,1],[4]]", "buckets[1]: "},
        {"0", "[[3,1],[4,-1]]", "buckets[1]: "},
        {"0", "[[3,9223372036854775807],[4,1]]", "buckets[1]: "},
        {"0", "[7]", "buckets[0]: "},
        {"0", "7", "buckets"},
        {"\"x\"", "[]", "min, max, sum and squares are expected"},
    };
    struct buf text = {0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        buf_reset(&text);
        buf_printf(&text, "{\"%s\":{\"min\":%s%s%s}}", of->variables[0].name, bad[i].min, rest,
                   bad[i].buckets);
        refused(of, buf_str(&text), bad[i].says);
        refused(of, buf_str(&text), of->variables[0].name);
    }
    buf_release(&text);
    refused(of, "{\"none\":{}}", "none: no such variable");
    refused(of, "[", "");
    for (size_t v = 0; v < VARIABLE_COUNT; v++) {
        assert_int_equal(out[v].count, 0);
    }
    assert_int_equal(gradient_json_add("{}", of->variables, VARIABLE_COUNT, out, NULL), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(parts_come_back),
        TEST(other_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
