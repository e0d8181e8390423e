/* SPDX-License-Identifier: Apache-2.0 */
/* The update section by itself: cut out of a canonical text, read again, and what of it may change.
 */
#include "job_spec_rig.h"

#include "job/spec/job_era.h"

static void the_section_is_that_of_the_text(void **state)
{
    (void)state;
    static const char *const sets[] = {"update.schedule.kind=cosine", "update.clip_norm=2",
                                       "update.variables=[{match: '*', l1: 0.5}]"};
    struct job_spec spec = {0};
    struct update_spec read = {0};
    struct err err = {0};
    char *text = job_with(0, NULL);
    job_parse_with(text, sets, 3, &spec);
    char *section = job_update_section(spec.text);
    assert_int_equal(strncmp(section, "update:\n  rule: adam\n", 20), 0);
    assert_null(strstr(section, "training:"));
    assert_non_null(strstr(spec.text, section));
    assert_int_equal(job_update_parse(section, &spec, &read, &err), 0);
    assert_ptr_equal(read.rule, spec.update.rule);
    assert_memory_equal(read.params, spec.update.params, read.rule->params_bytes);
    assert_int_equal(read.schedule_count, 1);
    assert_int_equal(read.schedules[0].schedule.kind, SCHEDULE_COSINE);
    assert_true(read.clip_norm == 2 && read.patterns[0].l1 == 0.5);
    update_spec_release(&read);
    job_spec_release(&spec);
    free(section);
    free(text);
    section = job_update_section("name: x\n");
    assert_string_equal(section, "");
    free(section);
}

static void what_is_no_section_is_refused(void **state)
{
    (void)state;
    struct job_spec spec = {0};
    struct update_spec read = {0};
    struct err err = {0};
    static const char *const wrong[] = {
        "",
        "update: 5",
        "[",
        "update:\n  rule: nothing\n",
        "update:\n  rule: sgd\n  learning_rate: fast\n",
        "update:\n  rule: sgd\n  beta1: 1\n",
        "update:\n  rule: sgd\n  schedule: {kind: multi_step}\n",
        "other:\n  rule: sgd\n",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(job_update_parse(wrong[i], &spec, &read, &err), ERR_INVALID);
        assert_null(read.params);
        assert_non_null(strstr(err.msg, "an update section that cannot be read: "));
    }
}

static int change(const char *text, const char *before, const char *after, struct err *err)
{
    struct job_spec from = {0}, to = {0};
    job_parse_with(text, &before, before == NULL ? 0 : 1, &from);
    job_parse_with(from.text, &after, 1, &to);
    int rc = job_update_check_change(&from, &to, err);
    job_spec_release(&from);
    job_spec_release(&to);
    return rc;
}

static void what_servers_keep_is_fixed(void **state)
{
    (void)state;
    struct err err = {0};
    char *text = job_with(0, NULL);
    static const char *const free_keys[] = {
        "update.learning_rate=0.5",     "update.beta1=0.5",          "update.l2=1",
        "update.clip_norm=1",           "update.clip_global_norm=1", "update.clip_value=1",
        "update.schedule={kind: step}", "update.non_finite=apply",   "training.epochs=3",
    };
    for (size_t i = 0; i < sizeof free_keys / sizeof *free_keys; i++) {
        assert_int_equal(change(text, NULL, free_keys[i], &err), 0);
    }
    static const struct {
        const char *before, *after, *words;
    } fixed[] = {
        {NULL, "update.rule=nadam", "update.rule: fixed when the job was submitted: it is adam"},
        {NULL, "update.accumulate=2", "update.accumulate: fixed when the job was submitted"},
        {NULL, "update.average=0.9", "update.average: there was none, which is fixed"},
        {"update.average=0.9", "update.average=0", "allowed: any decay above 0"},
    };
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        assert_int_equal(change(text, fixed[i].before, fixed[i].after, &err), ERR_INVALID);
        assert_non_null(strstr(err.msg, fixed[i].words));
    }
    assert_int_equal(change(text, "update.average=0.9", "update.average=0.99", &err), 0);
    free(text);
}

/* The canonical text has the schedule of the learning rate among the others. */
static void update_schedule_means_that_of_the_learning_rate(void **state)
{
    (void)state;
    static const char *const first[] = {"update.schedule.kind=cosine",
                                        "update.schedule.length=100"};
    static const char *const second[] = {"update.schedule.length=200"};
    static const char *const third[] = {"update.schedule={kind: noam}"};
    struct job_spec a = {0}, b = {0}, c = {0};
    char *text = job_with(0, NULL);
    job_parse_with(text, first, 2, &a);
    job_parse_with(a.text, second, 1, &b);
    assert_int_equal(b.update.schedule_count, 1);
    assert_int_equal(b.update.schedules[0].schedule.kind, SCHEDULE_COSINE);
    assert_int_equal(b.update.schedules[0].schedule.length, 200);
    job_parse_with(b.text, third, 1, &c);
    assert_int_equal(c.update.schedule_count, 1);
    assert_int_equal(c.update.schedules[0].schedule.kind, SCHEDULE_NOAM);
    assert_int_equal(c.update.schedules[0].schedule.length, 10000);
    job_spec_release(&a);
    job_spec_release(&b);
    job_spec_release(&c);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_section_is_that_of_the_text),
        cmocka_unit_test(what_is_no_section_is_refused),
        cmocka_unit_test(what_servers_keep_is_fixed),
        cmocka_unit_test(update_schedule_means_that_of_the_learning_rate),
    };
    return cmocka_run_group_tests_name("job_era", tests, NULL, NULL);
}
