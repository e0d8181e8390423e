/* SPDX-License-Identifier: Apache-2.0 */
/* Models around a layer of every kind, with every value of each of its parameters, over inputs of
 * several shapes and from several layers: what has to hold of all kinds is tested on these, and a
 * new kind needs no new test. */
#ifndef GRADUS_TESTS_SUPPORT_LAYER_VARIANTS_H
#define GRADUS_TESTS_SUPPORT_LAYER_VARIANTS_H

#include "support/models.h"

#define VARIANTS_MAX 64
#define VARIANTS_CLASSES 3

/* What a kind may be given besides one field after the other; keys a kind lacks leave it out. */
static const char *const variants_combinations[] = {
    "kernel=[2,3] stride=2 padding=same",
    "kernel=2 stride=[1,2] padding=same use_bias=false",
    "kernel=1 activation=tanh",
    "kernel=[1,3] stride=[2,1]",
    "size=[2,3] stride=1 padding=same",
    "size=3 stride=2 padding=same",
    "size=[1,2] stride=[2,3]",
    "pooling=none length=3",
    "pooling=none length=2 hashing=none shared=true unknown=own",
    "pooling=mean hashing=none shared=true unknown=zero",
    "pooling=sqrt_n hashing=none shared=true",
    "units=2 hashing=none shared=true unknown=own bias=true",
    "rows=0 dim=0 table=t",
    "rows=0 dim=3 table=t pooling=none length=3",
    "rows=0 dim=0 table=t pooling=mean hashing=none shared=true",
    "rows=0 units=3 table=t",
    "rows=0 units=3 table=t bias=true hashing=none shared=true",
};

static const struct {
    size_t rank;
    uint64_t dims[SHAPE_RANK_MAX];
} variants_inputs[] = {{1, {7}}, {2, {5, 6}}, {3, {5, 6, 2}}};
#define VARIANTS_INPUTS (sizeof variants_inputs / sizeof variants_inputs[0])

/* Texts to try for a field, the first one also for a required field in every other variant. */
static inline size_t variants_texts_of(const struct field *f, const char **out, size_t max)
{
    static const char *const ints[] = {"3", "1"}, *const lists[] = {"2", "[1,2]"};
    static const char *const bools[] = {"true", "false"}, *const floats[] = {"0.25"};
    const char *const *from = floats;
    size_t n = 1;
    if (f->type == FIELD_INT) {
        from = ints;
        n = 2;
    } else if (f->type == FIELD_INTS) {
        from = lists;
        n = 2;
    } else if (f->type == FIELD_BOOL) {
        from = bools;
        n = 2;
    } else if (f->type == FIELD_ENUM) {
        from = f->choices;
        for (n = 0; f->choices[n] != NULL; n++) {
        }
    }
    assert_true(n <= max);
    for (size_t i = 0; i < n; i++) {
        out[i] = from[i];
    }
    return n;
}

/* Values for the fields without a default, and those whose default is for tables. */
static inline void variants_required(const struct field *fields, size_t count, char *out, size_t n)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const char *texts[32];
        const bool of_tables = strcmp(fields[i].path, "rows") == 0 ||
                               (strcmp(fields[i].path, "dim") == 0 && fields[i].def != NULL);
        if ((fields[i].def == NULL || of_tables) && variants_texts_of(&fields[i], texts, 32) > 0) {
            used += (size_t)snprintf(out + used, n - used, "%s=%s ", fields[i].path, texts[0]);
        }
    }
}

static inline size_t variants_list(const struct layer_kind *kind, char out[VARIANTS_MAX][256])
{
    size_t count, n = 1;
    char base[128];
    const struct field *fields = layer_kind_fields(kind, &count);
    variants_required(fields, count, base, sizeof base);
    (void)snprintf(out[0], sizeof out[0], "%s", base);
    for (size_t i = 0; i < count; i++) {
        const char *texts[32];
        /* Tests fill variables themselves. */
        bool init = strstr(fields[i].path, "_init") != NULL;
        size_t m =
            init || fields[i].type == FIELD_STRING ? 0 : variants_texts_of(&fields[i], texts, 32);
        for (size_t j = 0; j < m; j++) {
            assert_true(n < VARIANTS_MAX);
            (void)snprintf(out[n++], sizeof out[0], "%s%s=%s", base, fields[i].path, texts[j]);
        }
    }
    void *params = mem_new(1, layer_kind_params_bytes(kind));
    for (size_t i = 0; i < sizeof variants_combinations / sizeof variants_combinations[0]; i++) {
        if (models_set(kind, params, variants_combinations[i], NULL) == 0) {
            assert_true(n < VARIANTS_MAX);
            (void)snprintf(out[n++], sizeof out[0], "%s%s", base, variants_combinations[i]);
        }
        field_release(fields, count, params);
    }
    free(params);
    return n;
}

/* What several inputs are given: layers of their own, some twice. */
static const char *const variants_sources[] = {"",    "a",     "a b", "b b", "a b a", "a b c b",
                                               "v b", "a v b", "f",   "f h", "f f"};
#define VARIANTS_SOURCES (sizeof variants_sources / sizeof variants_sources[0])

/* False: a layer of @kind does not take so many, or it is the same as another. */
static inline bool variants_takes(const struct layer_kind *kind, const char *names)
{
    size_t min, max, count = 1;
    if (layer_kind_reads_fields(kind)) {
        return names[0] == '\0' || names[0] == 'f';
    }
    if (names[0] == 'f') {
        return false;
    }
    layer_kind_inputs(kind, &min, &max);
    for (const char *p = names; *p != '\0'; p++) {
        count += *p == ' ';
    }
    return names[0] == '\0' ? min == 1 : max > 1 && count >= min && count <= max;
}

static inline void variants_add_source(struct model_spec *spec, const char *name, size_t rank)
{
    struct layer_spec *l = models_add(spec, rank == 1 ? "dense" : "conv2d",
                                      rank == 1 ? "units=6" : "filters=3 kernel=1");
    free(l->name);
    l->name = mem_strdup(name);
    models_from(l, "input");
}

/* The kind between layers with variables, which check the gradients that it hands down, and a
 * head. v shows b in the same shape. */
static inline void variants_build(struct model_spec *spec, const char *kind, const char *settings,
                                  size_t rank, const char *from)
{
    static const char *const names[] = {"c", "b", "a"};
    *spec = (struct model_spec){.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    if (strstr(settings, "table=t") != NULL) {
        models_table(spec, "t", 3);
    }
    if (layer_kind_reads_fields(layer_kind_find(kind))) {
        struct layer_spec *l = models_add(spec, kind, settings);
        if (from[0] != '\0') {
            models_from(l, from);
        }
        models_add(spec, "flatten", "");
        models_add(spec, "dense", "units=3");
        return;
    }
    for (size_t i = 0; i < 3; i++) {
        if (strchr(from, names[i][0]) != NULL || (i == 1 && strchr(from, 'v') != NULL) ||
            (i == 2 && from[0] == '\0')) {
            variants_add_source(spec, names[i], rank);
        }
    }
    if (strchr(from, 'v') != NULL) {
        struct layer_spec *v = models_add(spec, "flatten", "");
        free(v->name);
        v->name = mem_strdup("v");
        models_from(v, "b");
    }
    struct layer_spec *l = models_add(spec, kind, settings);
    if (from[0] != '\0') {
        models_from(l, from);
    }
    models_add(spec, "flatten", "");
    models_add(spec, "dense", "units=3");
}

/* @what: for messages. */
typedef void variants_visitor(void *context, const struct model_spec *spec, struct shape input,
                              const char *what);

/* Visit all models of @kind that fit together; returns how many variants of parameters there are.
 */
static inline size_t variants_visit(const struct layer_kind *kind, variants_visitor *visit,
                                    void *context)
{
    static char variants[VARIANTS_MAX][256];
    const char *name = layer_kind_name(kind);
    const size_t n = variants_list(kind, variants);
    for (size_t i = 0; i < n * VARIANTS_SOURCES; i++) {
        const char *from = variants_sources[i % VARIANTS_SOURCES];
        const char *settings = variants[i / VARIANTS_SOURCES];
        const size_t shapes = variants_takes(kind, from) ? VARIANTS_INPUTS : 0;
        for (size_t k = 0; k < shapes; k++) {
            struct model_spec spec;
            struct model *m;
            struct shape input = models_shape(variants_inputs[k].rank, variants_inputs[k].dims);
            char what[512];
            (void)snprintf(what, sizeof what, "%s (%s) of (%s) over rank %zu", name, settings, from,
                           variants_inputs[k].rank);
            variants_build(&spec, name, settings, variants_inputs[k].rank, from);
            const struct sparse_names fields = {models_field_names, MODELS_FIELDS};
            if (model_new(&spec, &input, &fields, VARIANTS_CLASSES, &m, NULL) == 0) {
                model_free(m);
                visit(context, &spec, input, what);
            }
            model_spec_release(&spec);
        }
    }
    return n;
}

#endif
