/* SPDX-License-Identifier: Apache-2.0 */
/* Where the model and sparse fields of the data meet: which fields the layers read, by the job file
 * alone, and whether the lists of the data are such as the layers can take. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/column_fields.h"
#include "graph/model_import.h"
#include "job/spec/job_internal.h"

void job_lists_expand(struct layer_spec *layer, const char *text, struct err *err)
{
    struct column_range range;
    if (column_range_read(text, &range, err) != 0) {
        return;
    }
    if (range.last - range.first >= LAYER_INPUTS_MAX - layer->from_count) {
        (void)err_set(err, ERR_INVALID, "more than %d names", LAYER_INPUTS_MAX);
    }
    for (uint64_t n = range.first; n <= range.last && err->code == 0; n++) {
        layer->from = mem_resize(layer->from, layer->from_count + 1, sizeof *layer->from);
        layer->from[layer->from_count++] = column_range_name(&range, n);
    }
    column_range_release(&range);
}

static bool is_listed(const struct data_spec *data, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < data->list_count && !found; i++) {
        found = strcmp(data->lists[i], name) == 0;
    }
    return found;
}

/* True if @name is one of the names of an entry of data.columns, which may be a range. */
static bool names_field(const struct data_column *c, const char *name)
{
    struct column_range range;
    bool found = false;
    if (name == NULL || column_range_read(c->column, &range, NULL) != 0) {
        return false;
    }
    for (uint64_t n = range.first; n <= range.last && !found; n++) {
        char *one = column_range_name(&range, n);
        found = strcmp(one, name) == 0;
        free(one);
    }
    column_range_release(&range);
    return found;
}

/* Sparse columns that the model could see neither as columns nor as lists. */
static void check_seen(const struct job_reader *r)
{
    const struct data_spec *data = &r->spec->data;
    for (size_t i = 0; i < data->column_count && data->list_count == 0 && !data->lists_all; i++) {
        const struct data_column *c = &data->columns[i];
        if (c->as == COLUMN_SPARSE && c->width == 0 && !names_field(c, data->group)) {
            char path[48];
            (void)snprintf(path, sizeof path, "data.columns.%zu", i);
            job_report(r, path,
                       "data.columns.%zu.width: no layer of the model reads sparse fields, so it "
                       "cannot use this one; allowed: an embedding or linear layer, or 1 to %u "
                       "columns that its keys are hashed into",
                       i, ENCODE_FEATURES_MAX);
        }
    }
}

static bool has_group(const struct model_spec *model)
{
    return model->group_by != NULL && model->group_by[0] != '\0';
}

void job_lists_find(const struct job_reader *r)
{
    struct data_spec *data = &r->spec->data;
    const struct model_spec *model = &r->spec->model;
    data->lists_all = job_program_given(r); /* a program gets them all */
    for (size_t i = 0; i < model->layer_count; i++) {
        const struct layer_spec *l = &model->layers[i];
        if (!layer_kind_reads_fields(l->kind)) {
            continue;
        }
        data->lists_all = data->lists_all || l->from_count == 0;
        for (size_t k = 0; k < l->from_count; k++) {
            if (!is_listed(data, l->from[k])) {
                data->lists = mem_resize(data->lists, data->list_count + 1, sizeof *data->lists);
                data->lists[data->list_count++] = mem_strdup(l->from[k]);
            }
        }
    }
    data->group = has_group(model) ? model->group_by : NULL;
    check_seen(r);
}

void job_groups_check(const struct job_reader *r)
{
    const struct data_spec *data = &r->spec->data;
    const struct model_spec *model = &r->spec->model;
    const bool measured = (model->metrics & 1U << METRIC_GROUPED_AUC) != 0;
    const bool tested =
        (data->test.file != NULL && data->test.file[0] != '\0') || data->test_fraction > 0;
    if (measured && !has_group(model)) {
        job_report(r, "model.metrics",
                   "model.group_by is missing: grouped_auc needs to know which records belong "
                   "together; allowed: a sparse field of the data");
    } else if (measured && job_lists_none(data)) {
        job_report(r, "model.group_by",
                   "model.group_by: it names a sparse field of the data, and there are none; "
                   "allowed: one that data.columns declares, 'as: sparse'");
    } else if (!measured && has_group(model)) {
        job_report(r, "model.group_by",
                   "model.group_by: nothing is measured by groups; allowed: together with "
                   "grouped_auc in model.metrics");
    } else if (measured && !tested) {
        job_report(r, "model.metrics",
                   "model.metrics: grouped_auc is measured on test records, and the job has none; "
                   "allowed: together with data.test.file or data.test_fraction");
    }
}

bool job_lists_none(const struct data_spec *data)
{
    bool none = true;
    for (size_t i = 0; i < data->column_count && none; i++) {
        none = data->columns[i].as != COLUMN_SPARSE;
    }
    return none;
}

void job_lists_release(struct data_spec *data)
{
    for (size_t i = 0; i < data->list_count; i++) {
        free(data->lists[i]);
    }
    free(data->lists);
    data->lists = NULL;
    data->list_count = 0;
}

int job_spec_check_lists(const struct model *model, const struct dataset *train,
                         const struct dataset *test, struct err *err)
{
    int rc = 0;
    const size_t fields = dataset_info(train)->fields.count;
    for (size_t f = 0; f < fields && rc == 0; f++) {
        const char *keys_layer, *length_layer;
        struct list_limit limit;
        model_list_limits(model, f, &limit.keys, &keys_layer, &limit.length, &length_layer);
        if (keys_layer == NULL && length_layer == NULL) {
            continue;
        }
        char *hint = mem_printf("pooling: sum or a larger length would fit");
        char *keys = mem_printf("layer '%s'", keys_layer == NULL ? "" : keys_layer);
        char *length = mem_printf("layer '%s'", length_layer == NULL ? "" : length_layer);
        const struct dataset *parts[2] = {train, test};
        for (size_t p = 0; p < 2 && rc == 0; p++) {
            struct list_limit one = {.keys = limit.keys,
                                     .length = SIZE_MAX,
                                     .layer = keys,
                                     .keys_hint = "more rows, unknown: own or zero, or hashing: "
                                                  "mixed would fit",
                                     .length_hint = hint};
            rc = parts[p] == NULL
                     ? 0
                     : dataset_check_lists(parts[p], p == 0 ? "train" : "test", f, &one, err);
            one.keys = UINT64_MAX;
            one.length = limit.length;
            one.layer = length;
            if (rc == 0 && parts[p] != NULL && length_layer != NULL) {
                rc = dataset_check_lists(parts[p], p == 0 ? "train" : "test", f, &one, err);
            }
        }
        free(hint);
        free(keys);
        free(length);
    }
    return rc;
}

int job_spec_check_input(const struct job_spec *spec, const struct dataset *train,
                         const struct dataset *test, struct err *err)
{
    if (!model_is_imported(&spec->model) || !model_import_takes_whole(&spec->model)) {
        return 0;
    }
    int rc = dataset_check_whole(train, "train", err);
    return rc != 0 || test == NULL ? rc : dataset_check_whole(test, "test", err);
}

int job_spec_check_groups(const struct model *model, const struct dataset *data, const char *part,
                          struct err *err)
{
    const size_t field = model_group_field(model);
    if (field == SIZE_MAX || data == NULL) {
        return 0;
    }
    const uint64_t records = dataset_info(data)->records;
    if (records > METRIC_GROUPED_RECORDS_MAX) {
        return err_set(err, ERR_INVALID,
                       "metric grouped_auc keeps the score of every record, and there are %" PRIu64
                       " %s records; at most %u are possible (data.%s.limit)",
                       records, part, METRIC_GROUPED_RECORDS_MAX, part);
    }
    return dataset_check_groups(data, part, field, err);
}
