/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a job file with its --set overrides, section by section, and collects all problems. The
 * text that nodes exchange is written from the result, so it has every default spelt out. */
#include "job/spec/job_spec.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "graph/model_import.h"
#include "job/spec/job_internal.h"
#include "rule/rules/rule.h"

#define SOURCE_BYTES 256 /* of "--set key=value" in messages */

static size_t section_count(enum job_section_id id)
{
    return job_sections[id].count == NULL ? 0 : *job_sections[id].count;
}

static void *section_object(struct job_spec *spec, enum job_section_id id)
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
    const struct field *field = field_find(fields, section_count(section), path);
    assert(field != NULL);
    return r->seen[section][field - fields];
}

struct binding job_binding(const struct job_reader *r, enum job_section_id section,
                           const char *const *extra)
{
    return (struct binding){
        .fields = job_sections[section].fields,
        .count = section_count(section),
        .object = section_object(r->spec, section),
        .seen = r->seen[section],
        .where = job_sections[section].name,
        .extra = extra,
        .file = r->file,
        .diags = r->diags,
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
        r->seen[id] = mem_new(section_count((enum job_section_id)id) + 1, sizeof(bool));
        field_defaults(job_sections[id].fields, section_count((enum job_section_id)id),
                       section_object(r->spec, (enum job_section_id)id));
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
        field_release(job_sections[id].fields, section_count((enum job_section_id)id),
                      section_object(spec, (enum job_section_id)id));
    }
    job_lists_release(&spec->data);
    data_columns_free(spec->data.columns, spec->data.column_count);
    model_spec_release(&spec->model);
    update_spec_release(&spec->update);
    job_from_release(&spec->from);
    free(spec->text);
    *spec = (struct job_spec){0};
}

enum data_label_kind job_spec_label_kind(const struct job_spec *spec)
{
    if (spec->data.label_kind != DATA_LABEL_AUTO) {
        return (enum data_label_kind)spec->data.label_kind;
    }
    return spec->model.loss == LOSS_MEAN_SQUARED_ERROR ? DATA_LABEL_REAL : DATA_LABEL_CLASS;
}

bool job_spec_is_program(const struct job_spec *spec)
{
    return spec->model.program != NULL && spec->model.program[0] != '\0';
}

bool job_spec_is_given(const struct job_spec *spec)
{
    return job_spec_is_program(spec) || model_is_imported(&spec->model);
}

bool job_spec_has_data(const struct job_spec *spec)
{
    return spec->data.train.file != NULL && spec->data.train.file[0] != '\0';
}

uint64_t job_spec_replicas(const struct job_spec *spec)
{
    int64_t given = spec->training.replicas;
    return (uint64_t)(given > 0 ? given : spec->cluster.workers.max);
}

uint64_t job_spec_epoch_records(const struct job_spec *spec, uint64_t records)
{
    const struct training_spec *t = &spec->training;
    return t->drop_last ? records - records % (uint64_t)t->batch_size : records;
}

const char *job_spec_fixed(const char *key)
{
    static const struct {
        const char *key, *reason;
    } fixed[] = {
        {"training", "a section; its keys can be set one by one"},
        {"cluster", "a section; workers in it can be set"},
        {"update", "a section; its keys can be set one by one"},
        {"update.rule",
         "fixed when the job was submitted: it decides what the servers keep of each "
         "parameter; its values, schedules, penalties, clips and patterns can be set"},
        {"update.accumulate",
         "fixed when the job was submitted: it decides what the servers keep of each parameter"},
        {"training.batch_size",
         "fixed when the job was submitted: it decides which records make a batch"},
        {"training.drop_last", "fixed when the job was submitted: it decides how long an epoch is"},
        {"training.seed", "fixed when the job was submitted: it decides the order of the records"},
        {"training.split_batches",
         "fixed when the job was submitted: the data position counts in splits"},
        {"training.wire", "fixed when the job was submitted: it decides how values are rounded"},
        {"training.wire.gradients",
         "fixed when the job was submitted: it decides how values are rounded"},
        {"training.wire.parameters",
         "fixed when the job was submitted: it decides how values are rounded"},
        {"cluster.ps",
         "fixed when the job was submitted: it decides which server holds which variable"},
    };
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        if (strcmp(key, fixed[i].key) == 0) {
            return fixed[i].reason;
        }
    }
    bool free = strncmp(key, "training.", strlen("training.")) == 0 ||
                strncmp(key, "update.", strlen("update.")) == 0 ||
                strcmp(key, "cluster.workers") == 0 || strcmp(key, "priority") == 0;
    return free ? NULL : "fixed when the job was submitted";
}
