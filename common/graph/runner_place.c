/* SPDX-License-Identifier: Apache-2.0 */
/* Where in the arena the gradients of outputs lie. A gradient has a place from the first layer
 * (from the end) that gives a part of it until its own layer has used it; then another gradient
 * takes the place. Where several layers read one output, the last of them writes the gradient and
 * the others are added to it, last layers first. */
#include <stdlib.h>

#include "base/mem.h"
#include "graph/runner_impl.h"

bool runner_take(size_t *used, size_t count, size_t size, size_t *offset)
{
    size_t bytes;
    *offset = *used;
    if (!mem_mul(count, size, &bytes) || bytes > SIZE_MAX / 2 - MEM_ALIGN) {
        return false;
    }
    bytes = (bytes + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN;
    return !__builtin_add_overflow(*used, bytes, used);
}

bool runner_take_floats(const struct runner *r, size_t *used, size_t width, size_t *offset)
{
    size_t floats;
    return mem_mul(r->batch_max, width, &floats) &&
           runner_take(used, floats, sizeof(float), offset);
}

struct slot {
    size_t width; /* width of the widest gradient that it is for */
    size_t offset;
    bool taken;
};

struct slots {
    struct slot *items;
    size_t count;
    size_t *of; /* per layer: which one has its gradient; NOWHERE: none */
};

/* Takes the smallest free slot that is wide enough, or else the widest, or a new one. */
static size_t slot_take(struct slots *s, size_t width)
{
    size_t best = s->count;
    for (size_t i = 0; i < s->count; i++) {
        if (s->items[i].taken) {
            continue;
        }
        const size_t w = s->items[i].width;
        const size_t have = best == s->count ? 0 : s->items[best].width;
        if (best == s->count || (w >= width && (have < width || w < have)) ||
            (w < width && have < width && w > have)) {
            best = i;
        }
    }
    s->count += best == s->count;
    s->items[best].taken = true;
    s->items[best].width = width > s->items[best].width ? width : s->items[best].width;
    return best;
}

/* Input @k of layer @i, whose own gradient is in its slot. dx and sum become slots. */
static void route(const struct runner *r, struct slots *s, size_t i, size_t k)
{
    const struct model *m = r->model;
    const struct layer *l = &m->layers[i].layer;
    const size_t from = l->inputs[k].from;
    struct input_place *to = &r->places[i].inputs[k];
    if (from == LAYER_FROM_INPUT || !m->layers[from].trains) {
        return;
    }
    if (s->of[from] != NOWHERE) {
        *to = (struct input_place){slot_take(s, l->inputs[k].count), s->of[from]};
        return;
    }
    s->of[from] = l->kind->in_place ? s->of[i] : slot_take(s, l->inputs[k].count);
    to->dx = s->of[from];
}

/* Frees the slots that layer @i leaves: those of gradients that were added, and its own unless it
 * was handed on. */
static void release(const struct runner *r, struct slots *s, size_t i)
{
    const struct layer *l = &r->model->layers[i].layer;
    bool handed_on = false;
    for (size_t k = 0; k < l->input_count; k++) {
        const struct input_place *to = &r->places[i].inputs[k];
        if (to->sum != NOWHERE) {
            s->items[to->dx].taken = false;
        } else {
            handed_on = handed_on || to->dx == s->of[i];
        }
    }
    s->items[s->of[i]].taken = handed_on;
}

static void route_all(const struct runner *r, struct slots *s)
{
    const struct model *m = r->model;
    s->of[m->loss_from] = slot_take(s, m->outputs);
    for (size_t i = m->loss_layers; i-- > 0;) {
        const struct layer *l = &m->layers[i].layer;
        if (l->kind->view || !m->layers[i].trains) {
            continue;
        }
        for (size_t k = 0; k < l->input_count; k++) {
            route(r, s, i, k);
        }
        release(r, s, i);
    }
}

static size_t offset_of(const struct slots *s, size_t slot)
{
    return slot == NOWHERE ? NOWHERE : s->items[slot].offset;
}

static bool place_slots(struct runner *r, struct slots *s, size_t *used)
{
    const struct model *m = r->model;
    bool fits = true;
    for (size_t i = 0; i < s->count && fits; i++) {
        fits = runner_take_floats(r, used, s->items[i].width, &s->items[i].offset);
    }
    for (size_t i = 0; i < m->layer_count; i++) {
        r->places[i].gradient = offset_of(s, s->of[i]);
        for (size_t k = 0; k < m->layers[i].layer.input_count; k++) {
            struct input_place *to = &r->places[i].inputs[k];
            *to = (struct input_place){offset_of(s, to->dx), offset_of(s, to->sum)};
        }
    }
    return fits;
}

bool runner_place_gradients(struct runner *r, size_t *used)
{
    const size_t layers = r->model->layer_count;
    struct slots s = {.items = mem_new(layers + 1 + r->model->inputs_max, sizeof *s.items),
                      .of = mem_new(layers, sizeof *s.of)};
    for (size_t i = 0; i < layers; i++) {
        s.of[i] = NOWHERE;
    }
    route_all(r, &s);
    bool fits = place_slots(r, &s, used);
    free(s.items);
    free(s.of);
    return fits;
}
