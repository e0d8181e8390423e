/* SPDX-License-Identifier: Apache-2.0 */
/* model.program: a model that programs of the user's compute. What layers and loss would say is not
 * said then, and the records may be the program's own, too. model.onnx: a model that a file has;
 * what layers would say is not said then. */
#include <string.h>

#include "job/spec/job_internal.h"

#define NAME_BYTES_MAX 127

/* The key as the file has it: the rows may not have been read yet. */
static const struct yaml_entry *model_key(const struct job_reader *r, const char *key)
{
    const struct yaml_entry *section = yaml_find(r->root, "model");
    const bool map = section != NULL && section->value->kind == YAML_MAPPING;
    return map ? yaml_find(section->value, key) : NULL;
}

static bool text_given(const struct job_reader *r, const char *key)
{
    const struct yaml_entry *entry = model_key(r, key);
    return entry != NULL && entry->value->kind == YAML_SCALAR && entry->value->text[0] != '\0';
}

bool job_program_given(const struct job_reader *r)
{
    return text_given(r, "program");
}

bool job_onnx_given(const struct job_reader *r)
{
    return text_given(r, "onnx");
}

static void excuse(struct job_reader *r, enum job_section_id section, const char *path)
{
    const struct job_section *s = &job_sections[section];
    const struct field *field = field_find(s->fields, *s->count, path);
    r->seen[section][field - s->fields] = true;
}

void job_program_excuse(struct job_reader *r, enum job_section_id section)
{
    if (section == JOB_SECTION_MODEL && job_program_given(r)) {
        excuse(r, section, "loss");
    } else if (section == JOB_SECTION_DATA && job_program_given(r)) {
        excuse(r, section, "train.file");
    }
}

static bool is_empty_list(const struct yaml_node *node)
{
    return node->kind == YAML_SEQUENCE && node->count == 0;
}

static bool is_empty(const struct yaml_node *node)
{
    return is_empty_list(node) || (node->kind == YAML_SCALAR && node->text[0] == '\0');
}

void job_program_check(const struct job_reader *r)
{
    if (!job_program_given(r)) {
        return;
    }
    static const char *const others[] = {"layers", "loss",   "input",     "group_by",
                                         "onnx",   "output", "trainable", "class_weights"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const struct yaml_entry *entry = model_key(r, others[i]);
        if (entry != NULL && !is_empty(entry->value)) {
            yaml_diag_key(r->diags, r->file, entry,
                          "model.%s: the model is that of the workers' program "
                          "(model.program); allowed: either a program or %s",
                          others[i], i < 2 ? "layers with a loss" : "this");
        }
    }
    if (strlen(r->spec->model.program) > NAME_BYTES_MAX) {
        job_report(r, "model.program", "model.program: the name has more than %d bytes",
                   NAME_BYTES_MAX);
    }
    const unsigned told = 1U << METRIC_LOSS | 1U << METRIC_ACCURACY | 1U << METRIC_RMSE |
                          1U << METRIC_MAE; /* struct gradus_result */
    if ((r->spec->model.metrics & ~told) != 0) {
        job_report(r, "model.metrics",
                   "model.metrics: a program does not tell all of them; allowed: loss, accuracy, "
                   "rmse, mae");
    }
}

void job_onnx_check(const struct job_reader *r)
{
    static const char *const layers[] = {"layers", "tables", "group_by"};
    static const char *const with[] = {"output", "trainable"};
    const bool onnx = job_onnx_given(r);
    for (size_t i = 0; onnx && i < sizeof layers / sizeof layers[0]; i++) {
        const struct yaml_entry *entry = model_key(r, layers[i]);
        if (entry != NULL && !is_empty(entry->value)) {
            yaml_diag_key(r->diags, r->file, entry,
                          "model.%s: the model is the graph of a file (model.onnx); allowed: "
                          "either a file or layers",
                          layers[i]);
        }
    }
    for (size_t i = 0; !onnx && i < sizeof with / sizeof with[0]; i++) {
        const struct yaml_entry *entry = model_key(r, with[i]);
        if (entry != NULL && !is_empty(entry->value)) {
            yaml_diag_key(r->diags, r->file, entry,
                          "model.%s: there is no file that it is of; allowed: with model.onnx",
                          with[i]);
        }
    }
}
