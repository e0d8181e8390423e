/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: pure functions of the version. */
#include "rule_rig.h"

#include "rule/rules/schedule.h"

#define PI 3.14159265358979323846

static void schedule_of(struct schedule *s, const char *settings)
{
    memset(s, 0, sizeof *s);
    field_defaults(schedule_fields, schedule_field_count, s);
    char text[256], *rest = NULL;
    (void)snprintf(text, sizeof text, "%s", settings);
    for (char *p = strtok_r(text, ";", &rest); p != NULL; p = strtok_r(NULL, ";", &rest)) {
        char *value = strchr(p, '=');
        assert_non_null(value);
        *value++ = '\0';
        const struct field *field = field_find(schedule_fields, schedule_field_count, p);
        assert_non_null(field);
        assert_int_equal(field_set(field, s, value, NULL), 0);
    }
}

static void schedule_end(struct schedule *s)
{
    field_release(schedule_fields, schedule_field_count, s);
}

static void assert_factor(const char *settings, uint64_t version, double want)
{
    struct schedule s;
    struct err err = {0};
    schedule_of(&s, settings);
    if (schedule_check(&s, &err) != 0) {
        fail_msg("%s: %s", settings, err.msg);
    }
    double got = schedule_factor(&s, version);
    if (!(fabs(got - want) <= 1e-12 * (1 + fabs(want)))) {
        fail_msg("%s at %llu: %.15g, not %.15g", settings, (unsigned long long)version, got, want);
    }
    schedule_end(&s);
}

static void the_formulas(void **state)
{
    (void)state;
    const struct {
        const char *settings;
        uint64_t version;
        double want;
    } rows[] = {
        {"kind=constant", 0, 1},
        {"kind=constant", 123456, 1},
        {"kind=step;every=10;rate=0.5", 9, 1},
        {"kind=step;every=10;rate=0.5", 10, 0.5},
        {"kind=step;every=10;rate=0.5", 39, 0.125},
        {"kind=multi_step;at=[5, 7];rate=0.1", 4, 1},
        {"kind=multi_step;at=[5, 7];rate=0.1", 5, 0.1},
        {"kind=multi_step;at=[5, 7];rate=0.1", 1000, 0.01},
        {"kind=exponential;every=100;rate=0.25", 50, 0.5},
        {"kind=exponential;every=1;rate=0.99", 3, 0.99 * 0.99 * 0.99},
        {"kind=inverse_time;every=10;rate=0.5", 40, 1.0 / 3},
        {"kind=polynomial;length=100;power=2;end=0.1", 50, 0.1 + 0.9 * 0.25},
        {"kind=polynomial;length=100;end=0.1", 1000, 0.1},
        {"kind=cosine;length=100", 0, 1},
        {"kind=cosine;length=100", 25, 0.5 * (1 + cos(PI / 4))},
        {"kind=cosine;length=100;end=0.2", 50, 0.6},
        {"kind=cosine;length=100;end=0.2", 100, 0.2},
        {"kind=cosine;length=100;end=0.2", 100000, 0.2},
        {"kind=cosine_restarts;length=10", 10, 1},
        {"kind=cosine_restarts;length=10", 15, 0.5},
        {"kind=cosine_restarts;length=10;growth=2", 29, 0.5 * (1 + cos(PI * 19 / 20))},
        {"kind=cosine_restarts;length=10;growth=2", 30, 1},
        {"kind=cosine_restarts;length=10;growth=2", 69, 0.5 * (1 + cos(PI * 39 / 40))},
        {"kind=cosine_restarts;length=10;growth=2", 70, 1},
        {"kind=cosine_restarts;length=10;growth=2;height=0.5;end=0.1", 50, 0.25 * 0.55},
        {"kind=one_cycle;length=100;up=0.3", 0, 0.04},
        {"kind=one_cycle;length=100;up=0.3", 15, 0.52},
        {"kind=one_cycle;length=100;up=0.3", 30, 1},
        {"kind=one_cycle;length=100;up=0.3;end=0.01", 65, 0.505},
        {"kind=one_cycle;length=100;up=0.3;end=0.01", 100, 0.01},
        {"kind=one_cycle;length=100;up=1;end=0.01", 100, 0.01},
        {"kind=one_cycle;length=100;up=0", 0, 1},
        {"kind=noam;length=4000;width=512", 0, pow(512, -0.5) * pow(4000, -1.5)},
        {"kind=noam;length=4000;width=512", 3999, pow(512, -0.5) * pow(4000, -0.5)},
        {"kind=noam;length=4000;width=512", 15999, pow(512, -0.5) * pow(16000, -0.5)},
        {"kind=piecewise;at=[10, 20];factors=1, 0.5 ,2", 9, 1},
        {"kind=piecewise;at=[10, 20];factors=1, 0.5 ,2", 10, 0.5},
        {"kind=piecewise;at=[10, 20];factors=1, 0.5 ,2", 20, 2},
        {"kind=piecewise;factors=0.3", 20, 0.3},
        {"kind=constant;warmup=9", 0, 0.1},
        {"kind=constant;warmup=9", 8, 0.9},
        {"kind=constant;warmup=9", 9, 1},
        {"kind=constant;warmup=9;warmup_start=0.5", 4, 0.75},
        {"kind=constant;warmup=3;warmup_shape=cosine", 0, 0.5 * (1 - cos(PI / 4))},
        {"kind=cosine;length=100;warmup=10", 60, 0.5},
        {"kind=step;every=10;rate=0.5;warmup=4", 14, 0.5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_factor(rows[i].settings, rows[i].version, rows[i].want);
    }
}

/* Restarts where the whole numbers say, not where rounding would put them. */
static void restarts_at_their_step(void **state)
{
    (void)state;
    static const char *const growths[] = {"1", "1.0000001", "1.5", "2", "3"};
    for (size_t g = 0; g < sizeof growths / sizeof growths[0]; g++) {
        char settings[96];
        (void)snprintf(settings, sizeof settings, "kind=cosine_restarts;length=64;growth=%s",
                       growths[g]);
        struct schedule s;
        schedule_of(&s, settings);
        double before = schedule_factor(&s, 0);
        size_t restarts = 0;
        for (uint64_t t = 1; t < 5000; t++) {
            double now = schedule_factor(&s, t);
            assert_true(now >= 0 && now <= 1);
            if (now > before + 1e-9) {
                assert_true(now > 0.99); /* up at once */
                restarts++;
            }
            before = now;
        }
        assert_true(restarts >= 4);
        schedule_end(&s);
    }
}

static void finite_for_all_versions(void **state)
{
    (void)state;
    static const uint64_t versions[] = {
        0, 1, 2, UINT32_MAX, 1ULL << 52, (1ULL << 53) + 1, 1ULL << 63, UINT64_MAX - 1, UINT64_MAX};
    static const char *const extra[] = {"",
                                        ";length=1;every=1;rate=1000",
                                        ";rate=0;end=1000",
                                        ";growth=1.000001",
                                        ";growth=1000;height=0",
                                        ";warmup=1000000000000000",
                                        ";up=0;length=1"};
    for (int kind = 0; kind < SCHEDULE_KIND_COUNT; kind++) {
        for (size_t e = 0; e < sizeof extra / sizeof extra[0]; e++) {
            char settings[160];
            (void)snprintf(settings, sizeof settings, "kind=%s;at=[7];factors=1,1000%s",
                           schedule_kind_names[kind], extra[e]);
            struct schedule s;
            schedule_of(&s, settings);
            assert_int_equal(schedule_check(&s, NULL), 0);
            for (size_t v = 0; v < sizeof versions / sizeof versions[0]; v++) {
                double factor = schedule_factor(&s, versions[v]);
                if (!(factor >= 0 && factor <= 1e30)) {
                    fail_msg("%s at %llu: %g", settings, (unsigned long long)versions[v], factor);
                }
            }
            schedule_end(&s);
        }
    }
}

static void wrong_schedules_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "kind=multi_step",
        "kind=multi_step;at=[5, 5]",
        "kind=multi_step;at=[5, 4]",
        "kind=piecewise",
        "kind=piecewise;at=[1];factors=1",
        "kind=piecewise;at=[1];factors=1, 2, 3",
        "kind=piecewise;factors=fast",
        "kind=piecewise;factors=-1",
        "kind=piecewise;factors=1e31",
        "kind=piecewise;at=[1];factors=1,,2",
        "kind=piecewise;factors=1,2,3,4,5,6,7,8,9,10,11",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct schedule s;
        struct err err = {0};
        schedule_of(&s, bad[i]);
        if (schedule_check(&s, &err) != ERR_INVALID || err.msg[0] == '\0') {
            fail_msg("accepted: %s", bad[i]);
        }
        schedule_end(&s);
    }
    static const char *const out_of_range[][2] = {
        {"kind", "linear"}, {"length", "0"}, {"every", "0"},        {"rate", "-0.1"},
        {"end", "-1"},      {"power", "0"},  {"growth", "0.5"},     {"up", "1.5"},
        {"width", "0"},     {"at", "[-1]"},  {"warmup", "-1"},      {"warmup_shape", "odd"},
        {"height", "1.5"},  {"rate", "nan"}, {"warmup_start", "2"},
    };
    for (size_t i = 0; i < sizeof out_of_range / sizeof out_of_range[0]; i++) {
        struct schedule s;
        schedule_of(&s, "");
        const struct field *field =
            field_find(schedule_fields, schedule_field_count, out_of_range[i][0]);
        assert_non_null(field);
        assert_int_equal(field_set(field, &s, out_of_range[i][1], NULL), ERR_INVALID);
        schedule_end(&s);
    }
}

/* Any hyperparameter can have one; it stays in its range. */
static void hyperparameters_under_schedules(void **state)
{
    (void)state;
    const struct rule *adam = rule_find("adam");
    void *params = fixture_params(adam, "learning_rate=0.5 beta1=0.8");
    void *now = mem_new(1, adam->params_bytes);
    struct rule_schedule schedules[2] = {{0}};
    schedules[0].field = field_find(adam->fields, adam->field_count, "learning_rate");
    schedules[1].field = field_find(adam->fields, adam->field_count, "beta1");
    schedule_of(&schedules[0].schedule, "kind=step;every=10;rate=0.1");
    schedule_of(&schedules[1].schedule, "kind=piecewise;at=[20];factors=1, 100");
    assert_int_equal(schedule_check(&schedules[1].schedule, NULL), 0);
    static const struct {
        uint64_t version;
        double rate, beta1;
    } want[] = {{0, 0.5, 0.8}, {10, 0.05, 0.8}, {20, 0.005, 0.999999}};
    for (size_t i = 0; i < 3; i++) {
        double rate, beta1;
        rule_params_at(adam, params, schedules, 2, want[i].version, now);
        memcpy(&rate, (char *)now + schedules[0].field->offset, sizeof rate);
        memcpy(&beta1, (char *)now + schedules[1].field->offset, sizeof beta1);
        assert_true(fabs(rate - want[i].rate) < 1e-15);
        assert_true(beta1 == want[i].beta1);
    }
    schedule_end(&schedules[0].schedule);
    schedule_end(&schedules[1].schedule);
    free(params);
    free(now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_formulas),
        cmocka_unit_test(restarts_at_their_step),
        cmocka_unit_test(finite_for_all_versions),
        cmocka_unit_test(wrong_schedules_are_refused),
        cmocka_unit_test(hyperparameters_under_schedules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
