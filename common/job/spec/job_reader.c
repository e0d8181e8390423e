/* SPDX-License-Identifier: Apache-2.0 */
/* What the files share that read the sections of one job file: where problems are reported, which
 * keys were given, how rows are bound. */
#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/spec/job_internal.h"

size_t job_section_count(enum job_section_id id)
{
    return job_sections[id].count == NULL ? 0 : *job_sections[id].count;
}

void *job_section_object(struct job_spec *spec, enum job_section_id id)
{
    return (char *)spec + job_sections[id].offset;
}

void job_report(const struct job_reader *r, const char *path, const char *fmt, ...)
{
    struct buf message = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&message, fmt, args);
    va_end(args);

    const struct yaml_node *node = r->root;
    char *words = mem_strdup(path), *rest = NULL;
    for (char *word = strtok_r(words, ".", &rest); word != NULL;
         word = strtok_r(NULL, ".", &rest)) {
        const struct yaml_entry *entry = yaml_find(node, word);
        if (entry == NULL) {
            break;
        }
        node = entry->value;
    }
    free(words);
    yaml_diag(r->diags, r->file, node, "%s", buf_str(&message));
    buf_release(&message);
}

bool job_seen(const struct job_reader *r, enum job_section_id section, const char *path)
{
    const struct field *fields = job_sections[section].fields;
    const struct field *field = field_find(fields, job_section_count(section), path);
    assert(field != NULL);
    return r->seen[section][field - fields];
}

struct binding job_binding(const struct job_reader *r, enum job_section_id section,
                           const char *const *extra)
{
    return (struct binding){
        .fields = job_sections[section].fields,
        .count = job_section_count(section),
        .object = job_section_object(r->spec, section),
        .seen = r->seen[section],
        .where = job_sections[section].name,
        .extra = extra,
        .file = r->file,
        .diags = r->diags,
        .elsewhere = job_elsewhere,
    };
}

bool job_choice(const struct job_reader *r, const char *const *names, const char *path,
                const struct yaml_node *value, int *choice)
{
    const struct field field = {.path = path, .type = FIELD_ENUM, .choices = names};
    const struct binding b = {
        .fields = &field, .count = 1, .object = choice, .file = r->file, .diags = r->diags};
    return binding_set(&b, &field, path, value);
}
