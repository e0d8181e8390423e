/* SPDX-License-Identifier: Apache-2.0 */
/* What `gradus status` says of changes. */
#include "output_rig.h"

#include "cli/terminal.h"
#include "cli/text_changes.h"

static void fill(Gradus__V1__Job *j, Gradus__V1__JobChange *changes, Gradus__V1__JobChange **list)
{
    static char by[] = "ann", rate[] = "update.learning_rate=0.01", l1[] = "update.l1=1";
    static char *first[] = {rate, l1}, *second[] = {l1};
    gradus__v1__job__init(j);
    for (size_t i = 0; i < 2; i++) {
        gradus__v1__job_change__init(&changes[i]);
        list[i] = &changes[i];
    }
    changes[0].time_ms = INT64_C(86400000);
    changes[0].by = by;
    changes[0].step = 100;
    changes[0].version = 90;
    changes[0].sets = first;
    changes[0].n_sets = 2;
    changes[1].time_ms = INT64_C(86401000);
    changes[1].version = UINT64_MAX;
    changes[1].sets = second;
    changes[1].n_sets = 1;
    j->changes = list;
    j->n_changes = 2;
}

static void changes_are_lines(void **state)
{
    (void)state;
    Gradus__V1__Job j;
    Gradus__V1__JobChange changes[2], *list[2];
    struct buf out = {0};
    fill(&j, changes, list);
    text_changes(&j, TERMINAL_ANY, &out);
    output_assert_text(&out,
                       "changed     1970-01-02T00:00:00Z, from step 100 on: "
                       "update.learning_rate=0.01 update.l1=1 (by ann)\n"
                       "            1970-01-02T00:00:01Z, from its next start on: update.l1=1\n");
    j.n_changes = 0;
    text_changes(&j, TERMINAL_ANY, &out);
    assert_int_equal(out.len, 0);
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_are_lines),
    };
    return cmocka_run_group_tests_name("text_changes", tests, NULL, NULL);
}
