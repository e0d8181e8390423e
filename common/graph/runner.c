/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a model. One arena holds, in this order: the output of every layer, two buffers between
 * which the gradient goes back and forth, every layer's state, and one scratch area. A layer that
 * can work in place does, unless the layer below reads its own output in its backward(). */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "graph/model_impl.h"
#include "tensor/blas.h"

#define NOWHERE SIZE_MAX

struct place {
    size_t y; /* offset in the arena; NOWHERE: the input of the model */
    size_t state;
    const float *x; /* of the call that is running */
};

struct runner {
    const struct model *model;
    size_t batch_max;
    unsigned char *arena;
    struct place *places; /* one per layer */
    size_t gradient[2];   /* offsets */
    size_t scratch;
};

/* Take @count × @size bytes of the arena; false when the sum does not fit. */
static bool take(size_t *used, size_t count, size_t size, size_t *offset)
{
    size_t bytes;
    *offset = *used;
    if (!mem_mul(count, size, &bytes) || bytes > SIZE_MAX / 2 - MEM_ALIGN) {
        return false;
    }
    bytes = (bytes + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN;
    return !__builtin_add_overflow(*used, bytes, used);
}

static bool place_outputs(struct runner *r, size_t *used)
{
    size_t below = NOWHERE; /* where the layer's input is */
    bool below_is_read =
        true; /* somebody's backward() reads it as an output; the input is not ours */
    for (size_t i = 0; i < r->model->layer_count; i++) {
        const struct layer *l = &r->model->layers[i].layer;
        bool shared = l->kind->view || (l->kind->in_place && !below_is_read);
        if (!shared) {
            size_t floats;
            if (!mem_mul(r->batch_max, l->out_count, &floats) ||
                !take(used, floats, sizeof(float), &below)) {
                return false;
            }
            below_is_read = false;
        }
        r->places[i].y = below;
        below_is_read = below_is_read || l->kind->reads_output;
    }
    return true;
}

static bool place_rest(struct runner *r, size_t *used)
{
    size_t widest = 0, scratch = r->model->outputs * sizeof(float); /* a row for the loss */
    for (size_t i = 0; i < r->model->layer_count; i++) {
        const struct layer *l = &r->model->layers[i].layer;
        widest = l->out_count > widest ? l->out_count : widest;
        scratch = l->scratch_bytes > scratch ? l->scratch_bytes : scratch;
        if (!take(used, r->batch_max, l->state_bytes, &r->places[i].state)) {
            return false;
        }
    }
    size_t floats;
    return mem_mul(r->batch_max, widest, &floats) &&
           take(used, floats, sizeof(float), &r->gradient[0]) &&
           take(used, floats, sizeof(float), &r->gradient[1]) &&
           take(used, scratch, 1, &r->scratch);
}

size_t runner_bytes(const struct model *m, size_t batch_max)
{
    struct runner r = {.model = m, .batch_max = batch_max};
    r.places = mem_new(m->layer_count, sizeof *r.places);
    size_t bytes = 0;
    bool fits = place_outputs(&r, &bytes) && place_rest(&r, &bytes);
    free(r.places);
    return fits ? bytes : SIZE_MAX;
}

int runner_new(const struct model *m, size_t batch_max, int threads, struct runner **out,
               struct err *err)
{
    struct runner *r = mem_new(1, sizeof *r);
    r->model = m;
    r->batch_max = batch_max;
    r->places = mem_new(m->layer_count, sizeof *r->places);
    size_t bytes = 0;
    int rc = 0;
    if (!place_outputs(r, &bytes) || !place_rest(r, &bytes)) {
        rc = err_set(err, ERR_EXHAUSTED, "activations of %zu records do not fit in memory",
                     batch_max);
    } else {
        r->arena = mem_try_aligned(bytes, 1, "activations and gradients", err);
        rc = r->arena == NULL ? ERR_EXHAUSTED : 0;
    }
    if (rc != 0) {
        runner_free(r);
        return rc;
    }
    blas_set_threads(threads);
    *out = r;
    return 0;
}

void runner_free(struct runner *r)
{
    if (r == NULL) {
        return;
    }
    free(r->arena);
    free(r->places);
    free(r);
}

static float *floats_at(const struct runner *r, size_t offset)
{
    return (float *)(void *)(r->arena + offset);
}

static struct layer_run run_of(struct runner *r, size_t i, size_t count, const float *const *values)
{
    const struct layer *l = &r->model->layers[i].layer;
    return (struct layer_run){.layer = l,
                              .count = count,
                              .values = values + l->first_variable,
                              .x = r->places[i].x,
                              .state = r->arena + r->places[i].state,
                              .scratch = r->arena + r->scratch};
}

static int needs(const struct runner_need *need, const struct layer *l)
{
    int rc = 0;
    for (size_t j = 0; need != NULL && j < l->variable_count && rc == 0; j++) {
        rc = need->call(need->ctx, l->first_variable + j);
    }
    return rc;
}

/* Run the first @layers; @step is NULL outside training. @y: the output of the last. Returns 0 or
 * what @need answered. */
static int forward(struct runner *r, size_t layers, const float *const *values,
                   const struct batch *b, const struct runner_step *step,
                   const struct runner_need *need, const float **y)
{
    assert(b->count <= r->batch_max);
    const float *x = b->features;
    for (size_t i = 0; i < layers; i++) {
        const struct layer *l = &r->model->layers[i].layer;
        int rc = needs(need, l);
        if (rc != 0) {
            return rc;
        }
        r->places[i].x = x;
        if (l->kind->view) {
            continue;
        }
        struct layer_run run = run_of(r, i, b->count, values);
        run.training = step != NULL;
        run.step = step;
        run.y = floats_at(r, r->places[i].y);
        l->kind->forward(&run);
        x = run.y;
    }
    *y = x;
    return 0;
}

/* Nobody has to be asked. */
static const float *output(struct runner *r, size_t layers, const float *const *values,
                           const struct batch *b)
{
    const float *y = NULL;
    (void)forward(r, layers, values, b, NULL, NULL, &y);
    return y;
}

void layer_ready(const struct layer_run *r, size_t variable, uint64_t first, uint64_t count)
{
    if (r->ready != NULL && count > 0) {
        r->ready->call(r->ready->ctx, r->layer->first_variable + variable, first, count);
    }
}

static void all_ready(const struct layer_run *r)
{
    for (size_t j = r->layer->variable_count; j > 0; j--) {
        layer_ready(r, j - 1, 0, shape_count(&r->layer->variables[j - 1].shape));
    }
}

/* From the loss's gradient in gradient[0] down to the first layer with variables; nothing below it
 * needs a gradient. */
static void backward(struct runner *r, const float *const *values, size_t count,
                     float *const *gradients, const struct runner_ready *ready)
{
    size_t at = 0;
    for (size_t i = r->model->loss_layers; i > r->model->first_trainable; i--) {
        const struct layer *l = &r->model->layers[i - 1].layer;
        if (l->kind->view) {
            continue;
        }
        struct layer_run run = run_of(r, i - 1, count, values);
        run.training = true;
        run.ready = ready;
        run.gradients = gradients + l->first_variable;
        run.y = floats_at(r, r->places[i - 1].y);
        run.dy = floats_at(r, r->gradient[at]);
        at = l->kind->in_place ? at : 1 - at;
        run.dx = i - 1 == r->model->first_trainable ? NULL : floats_at(r, r->gradient[at]);
        l->kind->backward(&run);
        if (!l->kind->tells) {
            all_ready(&run);
        }
    }
}

static int all_needed(const struct model *m, const struct runner_need *need)
{
    int rc = 0;
    for (size_t i = 0; i < m->layer_count && rc == 0; i++) {
        rc = needs(need, &m->layers[i].layer);
    }
    return rc;
}

static void zero_gradients(const struct model *m, float *const *gradients,
                           const struct runner_ready *ready)
{
    for (size_t i = 0; i < m->variable_count; i++) {
        memset(gradients[i], 0, (size_t)shape_count(&m->variables[i]->shape) * sizeof(float));
    }
    for (size_t i = m->layer_count; i > 0; i--) {
        const struct layer_run run = {.layer = &m->layers[i - 1].layer, .ready = ready};
        all_ready(&run);
    }
}

static void run_loss(struct runner *r, const float *y, const struct batch *b, float *dy,
                     struct metrics *metrics)
{
    const struct loss_run run = {.width = r->model->outputs,
                                 .y = y,
                                 .batch = b,
                                 .dy = dy,
                                 .scratch = floats_at(r, r->scratch),
                                 .metrics = metrics};
    r->model->loss->run(&run);
    if (metrics != NULL) {
        metrics->examples += b->count;
    }
}

int runner_gradients(struct runner *r, const float *const *values, const struct batch *b,
                     const struct runner_step *step, float *const *gradients,
                     struct metrics *metrics, const struct runner_need *need,
                     const struct runner_ready *ready)
{
    if (b->count == 0) {
        int rc = all_needed(r->model, need);
        if (rc == 0) {
            zero_gradients(r->model, gradients, ready);
        }
        return rc;
    }
    const float *y;
    int rc = forward(r, r->model->loss_layers, values, b, step, need, &y);
    if (rc != 0) {
        return rc;
    }
    run_loss(r, y, b, floats_at(r, r->gradient[0]), metrics);
    backward(r, values, b->count, gradients, ready);
    return 0;
}

void runner_evaluate(struct runner *r, const float *const *values, const struct batch *b,
                     struct metrics *metrics)
{
    run_loss(r, output(r, r->model->loss_layers, values, b), b, NULL, metrics);
}

const float *runner_predict(struct runner *r, const float *const *values, const struct batch *b,
                            size_t *outputs)
{
    *outputs = r->model->outputs;
    return output(r, r->model->layer_count, values, b);
}
