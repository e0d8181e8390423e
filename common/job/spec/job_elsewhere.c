/* SPDX-License-Identifier: Apache-2.0 */
/* Where a key belongs that stands in the wrong section of a job file: people remember the name of a
 * key before they remember its section. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/spec/job_internal.h"

/* Places that have the key; they are compared, for rules have many keys in common. */
struct places {
    char *path; /* owned */
    bool several;
};

static void add(struct places *p, const char *section, const char *name)
{
    char *path = mem_printf("%s%s%s", section, section[0] == '\0' ? "" : ".", name);
    if (p->path == NULL) {
        p->path = path;
        return;
    }
    p->several = p->several || strcmp(p->path, path) != 0;
    free(path);
}

static void look(struct places *p, const char *section, const struct field *fields, size_t count,
                 const char *key)
{
    for (size_t i = 0; i < count; i++) {
        const char *dot = strrchr(fields[i].path, '.');
        if (strcmp(dot == NULL ? fields[i].path : dot + 1, key) == 0) {
            add(p, section, fields[i].path);
        }
    }
}

static void look_at_sections(struct places *p, const char *key)
{
    for (int id = 0; id < JOB_SECTION_COUNT; id++) {
        const struct job_section *s = &job_sections[id];
        if (s->fields != NULL) {
            look(p, s->name, s->fields, *s->count, key);
        }
        for (const struct job_extra *e = s->extras; e != NULL && e->name != NULL; e++) {
            if (strcmp(e->name, key) == 0) {
                add(p, s->name, key);
            }
        }
    }
}

char *job_elsewhere(const char *key)
{
    static const char *const other_names[][2] = {
        {"lr", "update.learning_rate"}, {"optimizer", "update.rule"}, {"optimiser", "update.rule"}};
    struct places p = {0};
    for (size_t i = 0; i < sizeof other_names / sizeof other_names[0]; i++) {
        if (strcmp(key, other_names[i][0]) == 0) {
            return mem_strdup(other_names[i][1]);
        }
    }
    look_at_sections(&p, key);
    look(&p, "update", job_update_fields, job_update_field_count, key);
    look(&p, "update", job_penalty_fields, job_penalty_field_count, key);
    const struct rule *rule;
    for (size_t i = 0; (rule = rule_at(i)) != NULL; i++) {
        look(&p, "update", rule->fields, rule->field_count, key);
    }
    if (p.several) {
        free(p.path);
        return NULL;
    }
    return p.path;
}
