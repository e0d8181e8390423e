/* SPDX-License-Identifier: Apache-2.0 */
/* The job file of the tests of job_spec, and how it is read. */
#include "job_spec_rig.h"

/* The job with line @number replaced; 0: none. Returns owned. */
char *job_with(size_t number, const char *replacement)
{
    struct buf text = {0};
    for (size_t i = 0; i < LINES; i++) {
        buf_printf(&text, "%s\n", i + 1 == number ? replacement : lines[i]);
    }
    return buf_take(&text);
}

/* @problems with the names of the rules that there are. Returns owned. */
static char *with_rules(const char *problems)
{
    struct buf text = {0};
    const char *at = strstr(problems, RULE_NAMES);
    size_t before = at == NULL ? strlen(problems) : (size_t)(at - problems);
    buf_printf(&text, "%.*s", (int)before, problems);
    for (size_t i = 0; at != NULL && rule_at(i) != NULL; i++) {
        buf_printf(&text, "%s%s", i == 0 ? "" : ", ", rule_at(i)->name);
    }
    buf_printf(&text, "%s", at == NULL ? "" : at + strlen(RULE_NAMES));
    return buf_take(&text);
}

void job_check_refused(const char *text, const char *const *sets, size_t set_count,
                       const char *problems)
{
    struct job_spec spec = {0}, zero = {0};
    struct diags d = {0};
    struct buf out = {0};
    int code = job_spec_parse(text, strlen(text), "job.yaml", sets, set_count, &spec, &d);
    diags_format(&d, &out);
    char *expected = with_rules(problems);
    assert_string_equal(buf_str(&out), expected);
    assert_int_equal(code, ERR_INVALID);
    assert_memory_equal(&spec, &zero, sizeof spec);
    free(expected);
    buf_release(&out);
    diags_release(&d);
}

void job_line_refused(size_t number, const char *replacement, const char *problems)
{
    char *text = job_with(number, replacement);
    job_check_refused(text, NULL, 0, problems);
    free(text);
}

void job_set_refused(const char *set, const char *problems)
{
    char *text = job_with(0, NULL);
    job_check_refused(text, &set, 1, problems);
    free(text);
}

void job_parse_with(const char *text, const char *const *sets, size_t set_count,
                    struct job_spec *spec)
{
    struct diags d = {0};
    struct buf out = {0};
    int code = job_spec_parse(text, strlen(text), "job.yaml", sets, set_count, spec, &d);
    diags_format(&d, &out);
    if (code != 0) {
        fail_msg("%s", buf_str(&out));
    }
    assert_int_equal(d.count, 0);
    buf_release(&out);
    diags_release(&d);
}

void job_parse(const char *text, struct job_spec *spec)
{
    job_parse_with(text, NULL, 0, spec);
}

/* A float hyperparameter of the update rule. */
double job_hyperparameter(const struct job_spec *spec, const char *name)
{
    const struct rule *rule = spec->update.rule;
    const struct field *field = field_find(rule->fields, rule->field_count, name);
    assert_non_null(field);
    return *(const double *)(const void *)((const char *)spec->update.params + field->offset);
}

int64_t job_units(const struct job_spec *spec, size_t layer)
{
    size_t count;
    const struct field *fields = layer_kind_fields(spec->model.layers[layer].kind, &count);
    const struct field *field = field_find(fields, count, "units");
    assert_non_null(field);
    return *(const int64_t *)(const void *)((const char *)spec->model.layers[layer].params +
                                            field->offset);
}
