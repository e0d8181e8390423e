/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the small language of onnx_text.h; what it does not understand ends the test. */
#include "support/onnx_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "onnx/onnx_tensor.h"

#define WORDS_MAX 64

static void wrong(const char *what)
{
    (void)fprintf(stderr, "onnx_text: %s\n", what);
    abort();
}

/* Every list of a message grows by one. */
#define APPEND(message, field, item)                                                               \
    ((message)->field =                                                                            \
         mem_resize((message)->field, (message)->n_##field + 1, sizeof *(message)->field),         \
     (message)->field[(message)->n_##field++] = (item))

static size_t split(char *text, const char *by, char **words)
{
    size_t n = 0;
    char *rest = NULL;
    for (char *w = strtok_r(text, by, &rest); w != NULL; w = strtok_r(NULL, by, &rest)) {
        if (n == WORDS_MAX) {
            wrong("too many words");
        }
        words[n++] = w;
    }
    return n;
}

static size_t dims_of(const char *text, uint64_t *dims)
{
    char *copy = mem_strdup(text), *words[WORDS_MAX];
    const size_t n = strcmp(text, "-") == 0 ? 0 : split(copy, ",", words);
    for (size_t i = 0; i < n; i++) {
        dims[i] = words[i][0] == '?' ? 0 : strtoull(words[i], NULL, 10);
    }
    free(copy);
    return n;
}

static Onnx__ValueInfoProto *value_info(const char *name, const char *shape, int type)
{
    uint64_t dims[WORDS_MAX];
    const size_t n = shape == NULL ? 0 : dims_of(shape, dims);
    Onnx__ValueInfoProto *v = mem_new(1, sizeof *v);
    onnx__value_info_proto__init(v);
    v->name = mem_strdup(name);
    v->type = mem_new(1, sizeof *v->type);
    onnx__type_proto__init(v->type);
    Onnx__TypeProto__Tensor *t = v->type->tensor_type = mem_new(1, sizeof *t);
    onnx__type_proto__tensor__init(t);
    t->has_elem_type = 1;
    t->elem_type = type;
    if (shape == NULL) {
        return v;
    }
    t->shape = mem_new(1, sizeof *t->shape);
    onnx__tensor_shape_proto__init(t->shape);
    for (size_t i = 0; i < n; i++) {
        Onnx__TensorShapeProto__Dimension *d = mem_new(1, sizeof *d);
        onnx__tensor_shape_proto__dimension__init(d);
        if (dims[i] == 0) {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            d->dim_param = mem_strdup("N");
        } else {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            d->dim_value = (int64_t)dims[i];
        }
        APPEND(t->shape, dim, d);
    }
    return v;
}

/* WORDS: kind name dims [= values…] */
static Onnx__TensorProto *initializer(char **words, size_t n)
{
    uint64_t dims[WORDS_MAX], count = 1, state = 12345;
    const size_t rank = dims_of(words[2], dims);
    for (size_t i = 0; i < rank; i++) {
        count *= dims[i];
    }
    float *floats = mem_new(count + 1, sizeof *floats);
    int64_t *ints = mem_new(count + 1, sizeof *ints);
    for (uint64_t i = 0; words[1][i] != '\0'; i++) {
        state = state * 31 + (unsigned char)words[1][i];
    }
    for (uint64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        const size_t at = 4 + (n > 5 ? i : 0);
        floats[i] =
            n > 4 ? strtof(words[at], NULL) : 0.2F + (float)(state >> 40) / (float)(1U << 24);
        ints[i] = n > 4 ? strtoll(words[at], NULL, 10) : (int64_t)(state >> 60);
    }
    Onnx__TensorProto *t = strcmp(words[0], "int") == 0
                               ? onnx_tensor_new_ints(words[1], dims, rank, ints, NULL)
                               : onnx_tensor_new_floats(words[1], dims, rank, floats, NULL);
    free(floats);
    free(ints);
    return t;
}

static bool in_list(const char *name, const char *const *list)
{
    while (*list != NULL && strcmp(*list, name) != 0) {
        list++;
    }
    return *list != NULL;
}

static Onnx__AttributeProto *attribute(char *text)
{
    static const char *const lists[] = {"axes",      "pads",       "strides", "kernel_shape",
                                        "dilations", "perm",       "split",   "starts",
                                        "ends",      "value_ints", NULL};
    static const char *const floats[] = {"alpha", "beta", "epsilon",     "ratio", "momentum",
                                         "min",   "max",  "value_float", NULL};
    char *value = strchr(text, '='), *words[WORDS_MAX];
    Onnx__AttributeProto *a = mem_new(1, sizeof *a);
    if (value == NULL) {
        wrong(text);
    }
    *value++ = '\0';
    onnx__attribute_proto__init(a);
    a->name = mem_strdup(text);
    if (in_list(text, lists)) {
        const size_t n = split(value, ",", words);
        for (size_t i = 0; i < n; i++) {
            APPEND(a, ints, strtoll(words[i], NULL, 10));
        }
    } else if (in_list(text, floats)) {
        a->has_f = 1;
        a->f = strtof(value, NULL);
    } else if (isdigit((unsigned char)value[0]) || value[0] == '-') {
        a->has_i = 1;
        a->i = strtoll(value, NULL, 10);
    } else {
        a->has_s = 1;
        a->s.len = strlen(value);
        a->s.data = mem_new(a->s.len + 1, 1);
        memcpy(a->s.data, value, a->s.len);
    }
    return a;
}

/* WORDS: type inputs… -> outputs… [: attributes…] */
static Onnx__NodeProto *node(char **words, size_t n)
{
    Onnx__NodeProto *p = mem_new(1, sizeof *p);
    size_t i = 1;
    onnx__node_proto__init(p);
    p->op_type = mem_strdup(words[0]);
    for (; i < n && strcmp(words[i], "->") != 0; i++) {
        APPEND(p, input, mem_strdup(strcmp(words[i], "''") == 0 ? "" : words[i]));
    }
    for (i++; i < n && strcmp(words[i], ":") != 0; i++) {
        APPEND(p, output, mem_strdup(words[i]));
    }
    for (i++; i < n; i++) {
        APPEND(p, attribute, attribute(words[i]));
    }
    return p;
}

static void statement(Onnx__ModelProto *m, char *text)
{
    char *words[WORDS_MAX];
    const size_t n = split(text, " \n", words);
    Onnx__GraphProto *g = m->graph;
    if (n == 0) {
        return;
    }
    if (strcmp(words[0], "opset") == 0) {
        m->opset_import[0]->version = strtoll(words[1], NULL, 10);
    } else if (strcmp(words[0], "input") == 0) {
        APPEND(g, input, value_info(words[1], n > 2 ? words[2] : NULL, 1));
    } else if (strcmp(words[0], "tokens") == 0) {
        APPEND(g, input, value_info(words[1], words[2], 7));
    } else if (strcmp(words[0], "output") == 0) {
        APPEND(g, output, value_info(words[1], NULL, 1));
    } else if (strcmp(words[0], "float") == 0 || strcmp(words[0], "int") == 0) {
        APPEND(g, initializer, initializer(words, n));
    } else {
        APPEND(g, node, node(words, n));
    }
}

Onnx__ModelProto *onnx_text_model(const char *text)
{
    Onnx__ModelProto *m = mem_new(1, sizeof *m);
    Onnx__OperatorSetIdProto *set = mem_new(1, sizeof *set);
    char *copy = mem_strdup(text), *statements[WORDS_MAX];
    onnx__model_proto__init(m);
    onnx__operator_set_id_proto__init(set);
    set->has_version = 1;
    set->version = 17;
    APPEND(m, opset_import, set);
    m->graph = mem_new(1, sizeof *m->graph);
    onnx__graph_proto__init(m->graph);
    const size_t n = split(copy, ";", statements);
    for (size_t i = 0; i < n; i++) {
        statement(m, statements[i]);
    }
    free(copy);
    return m;
}

void *onnx_text_pack(Onnx__ModelProto *m, size_t *n)
{
    *n = onnx__model_proto__get_packed_size(m);
    uint8_t *bytes = mem_new(*n + 1, 1);
    if (onnx__model_proto__pack(m, bytes) != *n) {
        wrong("packed size");
    }
    onnx__model_proto__free_unpacked(m, NULL);
    return bytes;
}
