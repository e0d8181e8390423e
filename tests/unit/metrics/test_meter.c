/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/meter.h"

static char *page(struct meter_registry *r)
{
    struct buf out = {0};
    meter_expose(r, &out);
    return buf_take(&out);
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("no \"%s\" in:\n%s", part, text);
    }
}

static void test_page_is_exact(void **state)
{
    (void)state;
    struct meter_registry *r = meter_registry_new();
    const struct meter_label job[] = {{"job", "a\"b\\c\nd"}, {"mode", "sync"}};
    meter_add(meter_counter(r, "pushes_total", "Pushes\napplied \\ \"all\"", job, 2), 3);
    meter_set(meter_gauge(r, "nodes", "Nodes", NULL, 0), 0.1);
    char *text = page(r);
    assert_string_equal(text, "# HELP gradus_pushes_total Pushes\\napplied \\\\ \"all\"\n"
                              "# TYPE gradus_pushes_total counter\n"
                              "gradus_pushes_total{job=\"a\\\"b\\\\c\\nd\",mode=\"sync\"} 3\n"
                              "# HELP gradus_nodes Nodes\n"
                              "# TYPE gradus_nodes gauge\n"
                              "gradus_nodes 0.1\n");
    free(text);
    meter_registry_free(r);
}

static void test_histogram_is_cumulative(void **state)
{
    (void)state;
    struct meter_registry *r = meter_registry_new();
    const double bounds[] = {0.5, 1};
    struct meter *m = meter_histogram(r, "wait_seconds", "Wait", bounds, 2, NULL, 0);
    meter_observe(m, 0.5); /* a bound belongs to its bucket */
    meter_observe(m, 0.75);
    meter_observe(m, 100);
    meter_observe(m, (double)NAN);
    assert_true(meter_value(m) == 3);
    char *text = page(r);
    assert_has(text, "# TYPE gradus_wait_seconds histogram\n"
                     "gradus_wait_seconds_bucket{le=\"0.5\"} 1\n"
                     "gradus_wait_seconds_bucket{le=\"1\"} 2\n"
                     "gradus_wait_seconds_bucket{le=\"+Inf\"} 3\n"
                     "gradus_wait_seconds_sum 101.25\n"
                     "gradus_wait_seconds_count 3\n");
    free(text);
    const struct meter_label label = {"op", "pull"};
    meter_observe(
        meter_histogram(r, "op_seconds", "Op", METER_SECONDS, METER_SECONDS_COUNT, &label, 1),
        0.002);
    text = page(r);
    assert_has(text, "gradus_op_seconds_bucket{op=\"pull\",le=\"0.001\"} 0\n"
                     "gradus_op_seconds_bucket{op=\"pull\",le=\"0.0025\"} 1\n");
    assert_has(text, "gradus_op_seconds_sum{op=\"pull\"} 0.002\n"
                     "gradus_op_seconds_count{op=\"pull\"} 1\n");
    free(text);
    meter_registry_free(r);
}

static void test_same_labels_same_meter(void **state)
{
    (void)state;
    struct meter_registry *r = meter_registry_new();
    const struct meter_label a = {"job", "a"};
    const struct meter_label b = {"job", "b"};
    struct meter *first = meter_counter(r, "steps_total", "Steps", &a, 1);
    assert_ptr_equal(meter_counter(r, "steps_total", "Steps", &a, 1), first);
    assert_ptr_not_equal(meter_counter(r, "steps_total", "Steps", &b, 1), first);
    meter_registry_free(r);
}

static void test_series_are_bounded(void **state)
{
    (void)state;
    struct meter_registry *r = meter_registry_new();
    char name[16];
    struct meter_label label = {"job", name};
    for (int i = 0; i < METER_SERIES_MAX; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        meter_add(meter_counter(r, "steps_total", "Steps", &label, 1), 1);
    }
    label.value = "one more";
    struct meter *overflow = meter_counter(r, "steps_total", "Steps", &label, 1);
    label.value = "and another";
    assert_ptr_equal(meter_counter(r, "steps_total", "Steps", &label, 1), overflow);
    char *text = page(r);
    assert_has(text, "gradus_steps_total{job=\"overflow\"} 0\n");
    assert_null(strstr(text, "one more"));
    free(text);
    meter_registry_free(r);
}

static void test_special_values(void **state)
{
    (void)state;
    struct meter_registry *r = meter_registry_new();
    struct meter *m = meter_gauge(r, "loss", "Loss", NULL, 0);
    const struct {
        double value;
        const char *line;
    } rows[] = {
        {(double)NAN, "\ngradus_loss NaN\n"},
        {-(double)INFINITY, "\ngradus_loss -Inf\n"},
        {(double)INFINITY, "\ngradus_loss +Inf\n"},
        {0.1 + 0.2, "\ngradus_loss 0.30000000000000004\n"},
        {1e300, "\ngradus_loss 1e+300\n"},
        {1.0 / 3, "\ngradus_loss 0.3333333333333333\n"},
        {-2, "\ngradus_loss -2\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        meter_set(m, rows[i].value);
        char *text = page(r);
        assert_has(text, rows[i].line);
        free(text);
    }
    const struct meter_label broken = {"path", "a\xff"};
    meter_add(meter_counter(r, "reads_total", "Reads", &broken, 1), 1);
    char *text = page(r);
    assert_has(text, "gradus_reads_total{path=\"a?\"} 1\n");
    free(text);
    meter_add(NULL, 1);
    meter_set(NULL, 1);
    meter_change(NULL, 1);
    meter_observe(NULL, 1);
    meter_registry_free(r);
}

static void set_queue(void *ctx)
{
    meter_set(ctx, 7);
}

static void test_collectors_run_before_the_page(void **state)
{
    (void)state;
    struct meter_registry *r = meter_registry_new();
    meter_on_collect(r, set_queue, meter_gauge(r, "queue", "Queue", NULL, 0));
    meter_process(r, "test");
    char *text = page(r);
    assert_has(text, "gradus_queue 7\n");
    assert_has(text, "gradus_build_info{version=\"" GRADUS_VERSION "\",service=\"test\"} 1\n");
    assert_has(text, "# TYPE gradus_process_cpu_seconds_total counter\n");
    double resident = 0;
    double files = 0;
    assert_int_equal(sscanf(strstr(text, "\ngradus_process_resident_memory_bytes "),
                            "\ngradus_process_resident_memory_bytes %lf", &resident),
                     1);
    assert_true(resident > 100000);
    assert_int_equal(
        sscanf(strstr(text, "\ngradus_process_open_fds "), "\ngradus_process_open_fds %lf", &files),
        1);
    assert_true(files >= 3);
    free(text);
    meter_registry_free(r);
}

enum { THREADS = 4, UPDATES = 20000 };

struct meters {
    struct meter_registry *registry;
    struct meter *counter;
    struct meter *gauge;
    struct meter *histogram;
};

static void *update(void *arg)
{
    const struct meters *m = arg;
    for (int i = 0; i < UPDATES; i++) {
        meter_add(m->counter, 1);
        meter_change(m->gauge, 1);
        meter_observe(m->histogram, i % 2);
        if (i % 5000 == 0) {
            free(page(m->registry));
        }
    }
    return NULL;
}

static void test_no_update_is_lost(void **state)
{
    (void)state;
    struct meter_registry *r = meter_registry_new();
    const double bound = 0;
    struct meters m = {r, meter_counter(r, "c", "C", NULL, 0), meter_gauge(r, "g", "G", NULL, 0),
                       meter_histogram(r, "h", "H", &bound, 1, NULL, 0)};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, update, &m), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_true(meter_value(m.counter) == THREADS * UPDATES);
    assert_true(meter_value(m.gauge) == THREADS * UPDATES);
    assert_true(meter_value(m.histogram) == THREADS * UPDATES);
    char *text = page(r);
    assert_has(text, "gradus_h_bucket{le=\"0\"} 40000\n");
    assert_has(text, "gradus_h_sum 40000\n");
    free(text);
    meter_registry_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_is_exact),
        cmocka_unit_test(test_histogram_is_cumulative),
        cmocka_unit_test(test_same_labels_same_meter),
        cmocka_unit_test(test_series_are_bounded),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_collectors_run_before_the_page),
        cmocka_unit_test(test_no_update_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
