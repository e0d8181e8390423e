/* SPDX-License-Identifier: Apache-2.0 */
/* Each number of the core is on the page of meters under its own name; counters rise by what is
 * new. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "master/shell/shell.h"

static struct master_counts counts;

void __wrap_master_counts(const struct master *m, struct master_counts *out);
void __wrap_master_counts(const struct master *m, struct master_counts *out)
{
    (void)m;
    *out = counts;
}

static void assert_line(struct meter_registry *r, const char *name, double value)
{
    struct buf page = {0};
    char line[128];
    meter_expose(r, &page);
    (void)snprintf(line, sizeof line, "\ngradus_master_%s %.0f\n", name, value);
    if (strstr(buf_str(&page), line) == NULL) {
        fail_msg("expected%sin %s", line, buf_str(&page));
    }
    buf_release(&page);
}

static const char *const counters[] = {"nodes_lost_total",
                                       "steps_total",
                                       "examples_total",
                                       "leases_granted_total",
                                       "leases_returned_total",
                                       "batches_dropped_total",
                                       "replicas_speculated_total",
                                       "recoveries_total",
                                       "preemptions_total",
                                       "changes_total",
                                       "calls_total",
                                       "call_failures_total",
                                       "takeovers_total",
                                       "adoptions_total"};
#define COUNTERS (sizeof counters / sizeof counters[0])

/* Counter @i has @base + 10 * i. */
static void set(uint64_t base)
{
    uint64_t *const all[COUNTERS] = {
        &counts.nodes_lost,      &counts.steps,    &counts.examples,   &counts.leases_granted,
        &counts.leases_returned, &counts.dropped,  &counts.speculated, &counts.recoveries,
        &counts.preemptions,     &counts.changes,  &counts.calls,      &counts.call_failures,
        &counts.takeovers,       &counts.adoptions};
    for (size_t i = 0; i < COUNTERS; i++) {
        *all[i] = base + 10 * i;
    }
}

static void test_every_number(void **state)
{
    (void)state;
    static struct shell s;
    struct meter_registry *r = meter_registry_new();
    char name[64];
    shell_meters_init(&s, r);
    assert_line(r, "store_writable", 1);
    assert_line(r, "store_failures_total", 0);
    assert_line(r, "rows_unreadable", 0);
    assert_line(r, "events_total", 0);
    for (unsigned round = 1; round <= 2; round++) {
        set(round * 1000);
        for (enum job_state job = JOB_PENDING; job < JOB_STATE_END; job++) {
            counts.jobs[job] = 100 * round + (unsigned)job;
        }
        counts.nodes_alive[MASTER_PS] = 5 * round;
        counts.nodes_alive[MASTER_WORKER] = 7 * round;
        counts.leases_out = 11 * round;
        counts.servers_awaited = 19 * round;
        counts.shards_alone = 23 * round;
        s.watcher_count = 13 * round;
        s.waiting_count = 17 * round;
        shell_meters_update(&s);
        shell_meters_update(&s); /* nothing is counted twice */
        for (size_t i = 0; i < COUNTERS; i++) {
            assert_line(r, counters[i], round * 1000 + 10 * (double)i);
        }
        for (enum job_state job = JOB_PENDING; job < JOB_STATE_END; job++) {
            (void)snprintf(name, sizeof name, "jobs{state=\"%s\"}", job_state_name(job));
            assert_line(r, name, 100 * round + (unsigned)job);
        }
        assert_line(r, "nodes_alive{role=\"ps\"}", 5 * round);
        assert_line(r, "nodes_alive{role=\"worker\"}", 7 * round);
        assert_line(r, "leases", 11 * round);
        assert_line(r, "servers_awaited", 19 * round);
        assert_line(r, "shards_without_backup", 23 * round);
        assert_line(r, "watchers", 13 * round);
        assert_line(r, "requests_waiting", 17 * round);
    }
    meter_registry_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
