/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a graph, by name. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "onnx_net/onnx_net_impl.h"

static int compare(const void *a, const void *b)
{
    const struct onnx_named *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order != 0 ? order : (int)x->maker - (int)y->maker;
}

static void add(struct onnx_reading *r, const char *name, enum onnx_maker maker, size_t index,
                size_t place)
{
    if (name != NULL && name[0] != '\0') {
        r->names[r->name_count++] = (struct onnx_named){
            .name = name, .maker = maker, .index = index, .place = place, .value = ONNX_NONE};
    }
}

static int check_twice(struct onnx_reading *r, struct err *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->name_count; i++) {
        struct onnx_named *now = &r->names[i], *last = kept == 0 ? NULL : &r->names[kept - 1];
        if (last == NULL || strcmp(last->name, now->name) != 0) {
            r->names[kept++] = *now;
        } else if (last->maker == ONNX_BY_INPUT && now->maker == ONNX_BY_INITIALIZER) {
            *last = *now; /* an input with a default, as before IR version 4: the default counts */
        } else {
            char shown[128];
            return err_set(err, ERR_INVALID, "value '%s' is made twice",
                           text_shown(now->name, shown, sizeof shown));
        }
    }
    r->name_count = kept;
    return 0;
}

int onnx_names_collect(struct onnx_reading *r, struct err *err)
{
    const Onnx__GraphProto *g = r->graph;
    size_t count = g->n_input + g->n_initializer;
    for (size_t i = 0; i < g->n_node; i++) {
        count += g->node[i]->n_output;
    }
    r->names = mem_new(count + 1, sizeof *r->names);
    for (size_t i = 0; i < g->n_input; i++) {
        add(r, g->input[i]->name, ONNX_BY_INPUT, i, 0);
    }
    for (size_t i = 0; i < g->n_initializer; i++) {
        add(r, g->initializer[i]->name, ONNX_BY_INITIALIZER, i, 0);
    }
    for (size_t i = 0; i < g->n_node; i++) {
        for (size_t k = 0; k < g->node[i]->n_output; k++) {
            add(r, g->node[i]->output[k], ONNX_BY_NODE, i, k);
        }
    }
    qsort(r->names, r->name_count, sizeof *r->names, compare);
    return check_twice(r, err);
}

struct onnx_named *onnx_names_find(const struct onnx_reading *r, const char *name)
{
    const struct onnx_named key = {.name = name};
    size_t low = 0, high = r->name_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(r->names[middle].name, key.name);
        if (order == 0) {
            return &r->names[middle];
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}
