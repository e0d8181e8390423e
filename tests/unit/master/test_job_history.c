/* SPDX-License-Identifier: Apache-2.0 */
/* What was changed of a job: eras that come, go back and are made again, and the list of changes.
 */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "master/core/job_record.h"

static void expect(const struct job_history *h, size_t count, const uint64_t *versions,
                   const char *updates)
{
    assert_int_equal(h->era_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(h->eras[i].version, versions[i]);
        assert_int_equal(h->eras[i].update[0], updates[i]);
    }
}
#define EXPECT(h, updates, ...)                                                                    \
    expect(h, sizeof(updates) - 1, (const uint64_t[]){__VA_ARGS__, 0}, updates)

static void eras_follow_each_other(void **state)
{
    (void)state;
    struct job_history h = {0}, copy;
    job_history_update(&h, 10, "a", "a");
    assert_int_equal(h.era_count, 0); /* nothing changes */
    job_history_update(&h, 10, "a", "b");
    EXPECT(&h, "ab", 0, 10);
    job_history_update(&h, 20, "b", "c");
    EXPECT(&h, "abc", 0, 10, 20);
    job_history_copy(&copy, &h);
    job_history_update(&h, 20, "c", "d"); /* once more, before a step is made */
    EXPECT(&h, "abd", 0, 10, 20);
    job_history_update(&h, 15, "d", "e"); /* it went back to a checkpoint */
    EXPECT(&h, "abe", 0, 10, 15);
    job_history_update(&h, 12, "e", "b"); /* as it is there */
    EXPECT(&h, "ab", 0, 10);
    job_history_update(&h, 5, "b", "a"); /* as it was from the beginning on */
    assert_int_equal(h.era_count, 0);
    job_history_update(&h, 5, "a", "f");
    job_history_update(&h, 0, "f", "g"); /* nothing is made with "a" any more */
    assert_int_equal(h.era_count, 0);
    job_history_release(&h);
    EXPECT(&copy, "abc", 0, 10, 20);
    job_history_release(&copy);
}

static void a_change_waits_for_the_next_start(void **state)
{
    (void)state;
    struct job_history h = {0};
    char set[] = "update.l1=1";
    struct job_revision change = {.by = "ann",
                                  .step = 7,
                                  .version = ERA_NEXT_START,
                                  .sets = {.items = (char *[]){set}, .count = 1}};
    assert_false(job_history_start(&h, 0, 0));
    job_history_update(&h, 10, "a", "b");
    job_history_update(&h, ERA_NEXT_START, "b", "c");
    job_history_update(&h, ERA_NEXT_START, "c", "d"); /* twice while it waits */
    EXPECT(&h, "abd", 0, 10, ERA_NEXT_START);
    job_history_add(&h, &change);
    assert_true(job_history_start(&h, 25, 24));
    EXPECT(&h, "abd", 0, 10, 25);
    assert_int_equal(h.changes[0].step, 24);
    assert_int_equal(h.changes[0].version, 25);
    assert_string_equal(h.changes[0].by, "ann");
    assert_string_equal(h.changes[0].sets.items[0], "update.l1=1");
    assert_false(job_history_start(&h, 30, 30)); /* nothing waits */
    job_history_update(&h, ERA_NEXT_START, "d", "e");
    assert_true(job_history_start(&h, 8, 8)); /* its newest checkpoint is before all of them */
    EXPECT(&h, "ae", 0, 8);
    job_history_update(&h, ERA_NEXT_START, "e", "f");
    assert_true(job_history_start(&h, 0, 0)); /* it begins anew */
    assert_int_equal(h.era_count, 0);
    job_history_add(&h, &change); /* of another section */
    assert_true(job_history_start(&h, 3, 3));
    job_history_release(&h);
}

static void the_newest_changes_stay(void **state)
{
    (void)state;
    struct job_history h = {0};
    char by[] = "ben";
    for (uint64_t i = 0; i < JOB_CHANGES_MAX + 3; i++) {
        job_history_add(&h, &(struct job_revision){.by = by, .step = i});
    }
    assert_int_equal(h.change_count, JOB_CHANGES_MAX);
    assert_int_equal(h.changes[0].step, 3);
    assert_int_equal(h.changes[JOB_CHANGES_MAX - 1].step, JOB_CHANGES_MAX + 2);
    job_history_release(&h);
    assert_int_equal(h.change_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eras_follow_each_other),
        cmocka_unit_test(a_change_waits_for_the_next_start),
        cmocka_unit_test(the_newest_changes_stay),
    };
    return cmocka_run_group_tests_name("job_history", tests, NULL, NULL);
}
