/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a job file with its --set overrides, section by section, and collects all problems. The
 * text that nodes exchange is written from the result, so it has every default spelt out. */
#include "job/spec/job_spec.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "job/spec/job_internal.h"

#define SOURCE_BYTES 256 /* of "--set key=value" in messages */

/* Reads the rows of one section. An absent section counts as an empty mapping when nothing in it is
 * required. */
static void read_section(struct job_reader *r, enum job_section_id id)
{
    const struct job_section *section = &job_sections[id];
    const char *extra[JOB_SECTION_COUNT + 1] = {0};
    size_t extras = 0;
    if (id == JOB_SECTION_ROOT) {
        for (size_t i = 1; i < JOB_SECTION_COUNT; i++) {
            extra[extras++] = job_sections[i].name;
        }
    }
    if (id == JOB_SECTION_TRAINING) {
        extra[extras++] = JOB_KEEP_BEST_OLD;
    }
    for (const struct job_extra *e = section->extras; e != NULL && e->name != NULL; e++) {
        extra[extras++] = e->name;
    }
    const struct binding b = job_binding(r, id, extra);
    if (id == JOB_SECTION_ROOT) {
        binding_read(&b, r->root);
        binding_require(&b, r->root);
        return;
    }
    const struct yaml_entry *entry = yaml_find(r->root, section->name);
    if (entry == NULL) {
        if (section->required && (id != JOB_SECTION_DATA || !job_program_given(r))) {
            yaml_diag(r->diags, r->file, r->root, "the section '%s' is missing: %s", section->name,
                      section->help);
        }
        return;
    }
    if (!yaml_is_null(entry->value) && section->fields != NULL) {
        binding_read(&b, entry->value);
    }
    if (entry->value->kind == YAML_MAPPING || yaml_is_null(entry->value)) {
        job_program_excuse(r, id);
        binding_require(&b, entry->value);
    }
}

/* Fills in values that depend on other values. */
static void resolve(struct job_reader *r)
{
    struct training_spec *training = &r->spec->training;
    if (!job_seen(r, JOB_SECTION_TRAINING, "epochs") &&
        !job_seen(r, JOB_SECTION_TRAINING, "steps")) {
        training->epochs = 1;
    }
    if (r->spec->data.train.file == NULL && job_program_given(r)) {
        r->spec->data.train.file = mem_strdup(""); /* the records are the program's */
    }
    struct cluster_spec *cluster = &r->spec->cluster;
    if (cluster->partitioner == PARTITIONER_FIXED && cluster->partitions == 0) {
        cluster->partitions = 1;
    }
    const struct rule *rule = r->spec->update.rule;
    cluster->whole_variables = training->mode != TRAINING_SYNC && rule != NULL && rule->rounds > 0;
}

static void read_tree(struct job_reader *r)
{
    for (int id = 0; id < JOB_SECTION_COUNT; id++) {
        r->seen[id] = mem_new(job_section_count((enum job_section_id)id) + 1, sizeof(bool));
        field_defaults(job_sections[id].fields, job_section_count((enum job_section_id)id),
                       job_section_object(r->spec, (enum job_section_id)id));
        size_t before = r->diags->count;
        read_section(r, (enum job_section_id)id);
        r->sound[id] = r->diags->count == before;
    }
    job_columns_read(r);
    job_tables_read(r);
    job_model_read(r);
    job_lists_find(r);
    job_update_read(r);
    job_from_read(r);
    resolve(r);
    job_check(r);
    for (int id = 0; id < JOB_SECTION_COUNT; id++) {
        free(r->seen[id]);
    }
}

/* Read @root with @sets applied; problems go to @diags. */
static void parse_root(struct yaml_node *root, const char *file, const char *const *sets,
                       size_t set_count, struct job_spec *spec, struct diags *diags)
{
    char **sources = mem_new(set_count + 1, sizeof *sources); /* the tree borrows them */
    job_keep_expand(root);
    for (size_t i = 0; i < set_count; i++) {
        char shown[SOURCE_BYTES];
        sources[i] = mem_printf("--set %s", text_shown(sets[i], shown, sizeof shown));
        job_set_apply(root, sets[i], sources[i], diags);
        job_keep_expand(root);
    }
    struct job_reader reader = {.file = file, .diags = diags, .root = root, .spec = spec};
    read_tree(&reader);
    yaml_node_free(root);
    for (size_t i = 0; i < set_count; i++) {
        free(sources[i]);
    }
    free(sources);
}

/* Appends @from to @to: first the errors in @file, then those on the command line. */
static void hand_over(const struct diags *from, const char *file, struct diags *to)
{
    for (int in_file = 1; in_file >= 0; in_file--) {
        for (size_t i = 0; i < from->count; i++) {
            const struct diag *d = &from->items[i];
            if ((strcmp(d->file, file) == 0) == (in_file == 1)) {
                diags_add(to, d->file, d->line, d->column, "%s", d->message);
            }
        }
    }
}

int job_spec_parse(const char *text, size_t n, const char *file, const char *const *sets,
                   size_t set_count, struct job_spec *spec, struct diags *diags)
{
    struct diags problems = {0};
    struct job_spec parsed = {0};
    struct yaml_node *root = yaml_parse(text, n, file, &problems);
    if (root != NULL && (root->kind != YAML_MAPPING || (root->count == 0 && set_count == 0))) {
        yaml_diag(&problems, file, root,
                  "%s; allowed: the sections name, data, model, update, training, cluster, from",
                  root->kind == YAML_MAPPING ? "the file is empty" : "this is not a job file");
        yaml_node_free(root);
    } else if (root != NULL) {
        parse_root(root, file, sets, set_count, &parsed, &problems);
    }
    int code = problems.count > 0 ? ERR_INVALID : 0;
    if (code == 0) {
        parsed.text = job_write(&parsed);
        *spec = parsed;
    } else {
        hand_over(&problems, file, diags);
        job_spec_release(&parsed);
    }
    diags_release(&problems);
    return code;
}

void job_spec_release(struct job_spec *spec)
{
    for (int id = 0; id < JOB_SECTION_COUNT; id++) {
        field_release(job_sections[id].fields, job_section_count((enum job_section_id)id),
                      job_section_object(spec, (enum job_section_id)id));
    }
    job_lists_release(&spec->data);
    data_columns_free(spec->data.columns, spec->data.column_count);
    model_spec_release(&spec->model);
    update_spec_release(&spec->update);
    job_from_release(&spec->from);
    free(spec->text);
    *spec = (struct job_spec){0};
}
