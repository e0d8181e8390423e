/* SPDX-License-Identifier: Apache-2.0 */
/* The canonical text of a job: every key with its effective value, in the order of the tables, so
 * that nodes of another version with other defaults still read the same job. */
#include <stdlib.h>
#include <string.h>

#include "job/spec/job_internal.h"

static void write_section(const struct job_spec *spec, enum job_section_id id,
                          struct yaml_node *map)
{
    const struct job_section *section = &job_sections[id];
    binding_write(section->fields, *section->count, (const char *)spec + section->offset, map);
}

/* A program has no loss that we know. */
static void write_model_rows(const struct job_spec *spec, struct yaml_node *map)
{
    const struct job_section *section = &job_sections[JOB_SECTION_MODEL];
    for (size_t i = 0; i < *section->count; i++) {
        if (!job_spec_is_program(spec) || strcmp(section->fields[i].path, "loss") != 0) {
            binding_write(&section->fields[i], 1, (const char *)spec + section->offset, map);
        }
    }
}

static struct yaml_node *layers_node(const struct model_spec *model)
{
    struct yaml_node *list = yaml_sequence();
    for (size_t i = 0; i < model->layer_count; i++) {
        const struct layer_spec *layer = &model->layers[i];
        struct yaml_node *params = yaml_mapping(), *entry = yaml_mapping();
        (void)yaml_put(params, "name", yaml_scalar(layer->name, YAML_QUOTED));
        size_t count;
        const struct field *fields = layer_kind_fields(layer->kind, &count);
        if (layer->from_count > 0) {
            struct yaml_node *from = yaml_sequence();
            for (size_t k = 0; k < layer->from_count; k++) {
                yaml_append(from, yaml_scalar(layer->from[k], YAML_QUOTED));
            }
            (void)yaml_put(params, "from", from);
        }
        binding_write(fields, count, layer->params, params);
        (void)yaml_put(entry, layer_kind_name(layer->kind), params);
        yaml_append(list, entry);
    }
    return list;
}

static struct yaml_node *metrics_node(unsigned metrics)
{
    struct yaml_node *list = yaml_sequence();
    for (int kind = 0; kind < METRIC_KIND_COUNT; kind++) {
        if ((metrics & 1U << kind) != 0) {
            yaml_append(list, yaml_scalar(metric_kind_names[kind], YAML_PLAIN));
        }
    }
    return list;
}

char *job_write(const struct job_spec *spec)
{
    struct yaml_node *root = yaml_mapping();
    write_section(spec, JOB_SECTION_ROOT, root);

    struct yaml_node *data = yaml_mapping();
    write_section(spec, JOB_SECTION_DATA, data);
    if (spec->data.column_count > 0) {
        (void)yaml_put(data, "columns", job_columns_node(&spec->data));
    }
    (void)yaml_put(root, "data", data);

    struct yaml_node *model = yaml_mapping();
    write_model_rows(spec, model);
    if (spec->model.table_count > 0) {
        (void)yaml_put(model, "tables", job_tables_node(&spec->model));
    }
    if (!job_spec_is_given(spec)) {
        (void)yaml_put(model, "layers", layers_node(&spec->model));
    }
    (void)yaml_put(model, "metrics", metrics_node(spec->model.metrics));
    (void)yaml_put(root, "model", model);

    (void)yaml_put(root, "update", job_update_node(&spec->update));

    struct yaml_node *training = yaml_mapping(), *cluster = yaml_mapping();
    write_section(spec, JOB_SECTION_TRAINING, training);
    (void)yaml_put(root, "training", training);
    write_section(spec, JOB_SECTION_CLUSTER, cluster);
    (void)yaml_put(root, "cluster", cluster);
    if (job_spec_has_from(spec)) {
        (void)yaml_put(root, "from", job_from_node(&spec->from));
    }

    struct buf out = {0};
    yaml_write(root, &out);
    yaml_node_free(root);
    return buf_take(&out);
}
