/* SPDX-License-Identifier: Apache-2.0 */
/* Small models for tests: layers from text such as "units=3 activation=relu". */
#ifndef GRADUS_TESTS_SUPPORT_MODELS_H
#define GRADUS_TESTS_SUPPORT_MODELS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "graph/model.h"

#define MODELS_LAYERS_MAX 16

/* Set "key=value key=value" in @params; values have no blanks. */
static inline int models_set(const struct layer_kind *kind, void *params, const char *settings,
                             struct err *err)
{
    size_t count;
    const struct field *fields = layer_kind_fields(kind, &count);
    char text[512], *rest = text;
    (void)snprintf(text, sizeof text, "%s", settings);
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        char *value = strchr(word, '=');
        if (value == NULL) {
            continue;
        }
        *value++ = '\0';
        const struct field *f = field_find(fields, count, word);
        if (f == NULL) {
            return err_set(err, ERR_NOT_FOUND, "no key %s", word);
        }
        int rc = field_set(f, params, value, err);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* Append a layer named "<kind>_<number>", at line 10 × number. */
static inline struct layer_spec *models_add(struct model_spec *spec, const char *kind,
                                            const char *settings)
{
    if (spec->layers == NULL) {
        spec->layers = mem_new(MODELS_LAYERS_MAX, sizeof *spec->layers);
    }
    struct layer_spec *l = &spec->layers[spec->layer_count++];
    l->kind = layer_kind_find(kind);
    assert_non_null(l->kind);
    l->name = mem_printf("%s_%zu", kind, spec->layer_count);
    l->line = (unsigned)(10 * spec->layer_count);
    l->params = mem_new(1, layer_kind_params_bytes(l->kind));
    size_t count;
    const struct field *fields = layer_kind_fields(l->kind, &count);
    field_defaults(fields, count, l->params);
    struct err err = {0};
    if (models_set(l->kind, l->params, settings, &err) != 0) {
        fail_msg("%s: %s", kind, err.msg);
    }
    return l;
}

/* A table for layers with table=@name. */
static inline void models_table(struct model_spec *spec, const char *name, int64_t dim)
{
    spec->tables = mem_resize(spec->tables, spec->table_count + 1, sizeof *spec->tables);
    spec->tables[spec->table_count++] = (struct model_table){.name = mem_strdup(name), .dim = dim};
}

/* What @l reads: names with blanks between them. */
static inline void models_from(struct layer_spec *l, const char *names)
{
    char text[256], *rest = text;
    (void)snprintf(text, sizeof text, "%s", names);
    l->from = mem_new(MODELS_LAYERS_MAX, sizeof *l->from);
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        l->from[l->from_count++] = mem_strdup(word);
    }
}

static inline struct shape models_shape(size_t rank, const uint64_t *dims)
{
    struct shape s = {.rank = rank};
    memcpy(s.dims, dims, rank * sizeof *dims);
    return s;
}
#define MODELS_SHAPE(...)                                                                          \
    models_shape(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (uint64_t[]){__VA_ARGS__})

/* A model with values, gradients and a batch, all filled from a seed. Behind its variables come its
 * tables: the rows of the batch's keys. */
struct models_rig {
    struct model *model;
    struct runner *runner;
    size_t variables, count;
    float **values, **gradients;
    size_t *sizes;
    uint32_t **index;         /* of each table */
    struct runner_rows *rows; /* likewise */
    struct batch batch;
};

static inline void models_fill(float *out, size_t n, uint64_t key, double scale)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = (float)(scale * (2.0 * rng_uniform(key, i) - 1.0));
    }
}

/* Sparse fields that every model of the rig may read. */
static const char *const models_field_names[] = {"f", "g", "h"};
#define MODELS_FIELDS 3
#define MODELS_LIST_MAX 3

/* Lists of 0 to MODELS_LIST_MAX keys below 5, with weights. */
static inline void models_fill_lists(struct sparse_batch *b, size_t records, uint64_t seed)
{
    size_t at = 0;
    *b = (struct sparse_batch){.capacity = records + 2, .count = records, .fields = MODELS_FIELDS};
    b->keys_capacity = MODELS_FIELDS * MODELS_LIST_MAX * records + 1;
    b->offsets = mem_new(MODELS_FIELDS * (b->capacity + 1), sizeof *b->offsets);
    b->keys = mem_new(b->keys_capacity, sizeof *b->keys);
    b->weights = mem_new(b->keys_capacity, sizeof *b->weights);
    for (size_t f = 0; f < MODELS_FIELDS; f++) {
        uint64_t *offsets = b->offsets + f * (b->capacity + 1);
        for (size_t i = 0; i < records; i++) {
            offsets[i] = at;
            for (size_t n = rng_below(seed, f * 100 + i, MODELS_LIST_MAX + 1); n > 0; n--, at++) {
                b->keys[at] = rng_below(seed + 1, at, 5);
            }
        }
        offsets[records] = at;
    }
    models_fill(b->weights, at, rng_key_mix(seed, 2000), 1.0);
}

static inline void models_allocate(struct models_rig *rig, size_t i, size_t n, uint64_t seed)
{
    rig->sizes[i] = n;
    rig->values[i] = mem_new(n, sizeof(float));
    rig->gradients[i] = mem_new(n, sizeof(float));
    models_fill(rig->values[i], n, rng_key_mix(seed, i + 1), 0.6);
}

/* A row for each different one of @keys, in the order in which they come; how many. */
static inline size_t models_index(const uint64_t *keys, size_t n, uint32_t *index)
{
    uint32_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        size_t first = 0;
        while (keys[first] != keys[i]) {
            first++;
        }
        index[i] = first < i ? index[first] : rows++;
    }
    return rows;
}

/* The rows that the batch needs. */
static inline void models_fill_rows(struct models_rig *rig, uint64_t seed)
{
    for (size_t t = 0; t < model_table_count(rig->model); t++) {
        const size_t n = model_table_lookups(rig->model, t, &rig->batch.lists);
        uint64_t *keys = mem_new(n, sizeof *keys);
        model_table_keys(rig->model, t, &rig->batch.lists, keys);
        rig->index[t] = mem_new(n, sizeof **rig->index);
        const size_t rows = models_index(keys, n, rig->index[t]);
        free(keys);
        const size_t i = rig->variables + t;
        models_allocate(rig, i, rows * model_table_dim(rig->model, t), seed);
        rig->rows[t] = (struct runner_rows){rig->index[t], rig->values[i], rig->gradients[i]};
    }
    runner_set_rows(rig->runner, rig->rows);
}

/* @classes 0: real targets. Values are uniform in ±0.6, features in ±1. */
static inline void models_rig_init(struct models_rig *rig, const struct model_spec *spec,
                                   struct shape input, uint32_t classes, size_t records,
                                   uint64_t seed)
{
    struct err err = {0};
    *rig = (struct models_rig){0};
    const struct sparse_names fields = {models_field_names, MODELS_FIELDS};
    if (model_new(spec, &input, &fields, classes, &rig->model, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(0, runner_new(rig->model, records, 1, &rig->runner, &err));
    rig->variables = model_variable_count(rig->model);
    rig->count = rig->variables + model_table_count(rig->model);
    rig->index = mem_new(model_table_count(rig->model), sizeof *rig->index);
    rig->rows = mem_new(model_table_count(rig->model), sizeof *rig->rows);
    rig->values = mem_new(rig->count, sizeof(float *));
    rig->gradients = mem_new(rig->count, sizeof(float *));
    rig->sizes = mem_new(rig->count, sizeof(size_t));
    for (size_t i = 0; i < rig->variables; i++) {
        const size_t n = (size_t)shape_count(&model_variable(rig->model, i)->shape);
        models_allocate(rig, i, n, seed);
    }
    const size_t width = (size_t)shape_count(&input);
    rig->batch.capacity = rig->batch.count = records;
    rig->batch.features = mem_new(records * width, sizeof(float));
    rig->batch.classes = mem_new(records, sizeof(int32_t));
    rig->batch.targets = mem_new(records, sizeof(float));
    models_fill(rig->batch.features, records * width, rng_key_mix(seed, 1000), 1.0);
    models_fill_lists(&rig->batch.lists, records, rng_key_mix(seed, 3000));
    models_fill_rows(rig, seed);
    for (size_t i = 0; i < records; i++) {
        if (classes > 0) {
            rig->batch.classes[i] = (int32_t)rng_below(seed, i, classes);
            rig->batch.targets[i] = (float)rig->batch.classes[i];
        } else {
            rig->batch.targets[i] = (float)rng_normal(seed, i);
        }
    }
}

static inline void models_rig_release(struct models_rig *rig)
{
    for (size_t i = 0; i < rig->count; i++) {
        free(rig->values[i]);
        free(rig->gradients[i]);
    }
    for (size_t t = 0; t < model_table_count(rig->model); t++) {
        free(rig->index[t]);
    }
    free(rig->index);
    free(rig->rows);
    free(rig->values);
    free(rig->gradients);
    free(rig->sizes);
    free(rig->batch.features);
    free(rig->batch.classes);
    free(rig->batch.targets);
    free(rig->batch.lists.offsets);
    free(rig->batch.lists.keys);
    free(rig->batch.lists.weights);
    runner_free(rig->runner);
    model_free(rig->model);
}

static inline const float *const *models_values(const struct models_rig *rig)
{
    return (const float *const *)(const void *)rig->values;
}

/* Gradients into the rig; returns the sum of the losses of the batch. */
static inline double models_gradients(struct models_rig *rig, uint64_t step)
{
    struct metrics m;
    const struct runner_step identity = {.seed = 5, .step = step, .replica = 1};
    metrics_init(&m, 0);
    for (size_t i = rig->variables; i < rig->count; i++) { /* to those it is added */
        memset(rig->gradients[i], 0, rig->sizes[i] * sizeof(float));
    }
    runner_gradients(rig->runner, models_values(rig), &rig->batch, &identity, rig->gradients, &m,
                     NULL, NULL);
    double loss = m.loss_sum;
    metrics_release(&m);
    return loss;
}

#endif
