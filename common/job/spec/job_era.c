/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts the update section out of a canonical job file and reads it by itself, so that a shard can
 * be told what counted for versions before a change. */
#include "job/spec/job_era.h"

#include <string.h>

#include "base/mem.h"
#include "job/spec/job_internal.h"

#define HEAD "update:\n"

char *job_update_section(const char *text)
{
    const char *begin = text;
    while (begin != NULL && strncmp(begin, HEAD, strlen(HEAD)) != 0) {
        begin = strchr(begin, '\n');
        begin = begin == NULL ? NULL : begin + 1;
    }
    if (begin == NULL) {
        return mem_strdup("");
    }
    const char *end = begin + strlen(HEAD);
    while (*end == ' ') { /* a line of the section */
        end += strcspn(end, "\n");
        end += *end == '\n';
    }
    return mem_printf("%.*s", (int)(end - begin), begin);
}

int job_update_parse(const char *section, const struct job_spec *of, struct update_spec *out,
                     struct err *err)
{
    struct diags diags = {0};
    struct job_spec read = {0};
    struct yaml_node *root = yaml_parse(section, strlen(section), "update", &diags);
    if (root != NULL && root->kind == YAML_MAPPING) {
        struct job_reader reader = {.file = "update", .diags = &diags, .root = root, .spec = &read};
        job_update_read(&reader);
    }
    int rc = 0;
    if (diags.count > 0 || read.update.rule == NULL) {
        rc = err_set(err, ERR_INVALID, "an update section that cannot be read: %s",
                     diags.count > 0 ? diags.items[0].message : "there is no rule");
    }
    yaml_node_free(root);
    diags_release(&diags);
    if (rc != 0) {
        update_spec_release(&read.update);
        return rc;
    }
    const size_t tables = of->update.table_count;
    read.update.tables = mem_new(tables + 1, sizeof *read.update.tables);
    for (size_t i = 0; i < tables; i++) {
        read.update.tables[i] = of->update.tables[i];
    }
    read.update.table_count = tables;
    *out = read.update;
    return 0;
}

int job_update_check_change(const struct job_spec *from, const struct job_spec *to, struct err *err)
{
    const struct update_spec *a = &from->update, *b = &to->update;
    if (a->rule != b->rule) {
        return err_set(err, ERR_INVALID, "update.rule: fixed when the job was submitted: it is %s",
                       a->rule->name);
    }
    if (update_spec_accumulate(a) != update_spec_accumulate(b)) {
        return err_set(err, ERR_INVALID,
                       "update.accumulate: fixed when the job was submitted: the servers keep sums "
                       "of %llu versions",
                       (unsigned long long)update_spec_accumulate(a));
    }
    const bool applied = a->non_finite == UPDATE_NON_FINITE_APPLY;
    if (from->model.table_count > 0 && applied != (b->non_finite == UPDATE_NON_FINITE_APPLY)) {
        return err_set(err, ERR_INVALID,
                       "update.non_finite: of a job with tables it is fixed whether such gradients "
                       "are applied; allowed: %s",
                       applied ? "apply" : "fail, skip");
    }
    if ((a->average > 0) != (b->average > 0)) {
        return err_set(err, ERR_INVALID,
                       "update.average: %s when the job was submitted; allowed: %s",
                       a->average > 0 ? "there was one" : "there was none, which is fixed",
                       a->average > 0 ? "any decay above 0" : "0");
    }
    return 0;
}
