/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a model. One arena holds, in this order: the output of every layer, the gradients of
 * outputs, every layer's state, and one scratch area.
 *
 * A layer that can work in place does, where nobody else needs what it reads. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "graph/runner_impl.h"
#include "tensor/blas.h"
#include "tensor/kernel.h"

/* Gives each output a place. A view has the place of the output that it shows. */
static bool place_outputs(struct runner *r, size_t *used)
{
    const struct model *m = r->model;
    bool *read = mem_new(m->layer_count, sizeof *read); /* a backward() reads it as an output */
    bool fits = true;
    for (size_t i = 0; i < m->layer_count && fits; i++) {
        const struct layer *l = &m->layers[i].layer;
        const size_t x = l->inputs[0].from;
        const bool ours = x != LAYER_FROM_INPUT;
        if (l->kind->view) {
            continue;
        }
        if (ours && l->kind->in_place && m->layers[x].uses == 1 && !read[x]) {
            r->places[i].y = r->places[x].y;
        } else {
            fits = runner_take_floats(r, used, l->out_count, &r->places[i].y);
        }
        read[i] = l->kind->reads_output;
    }
    free(read);
    return fits;
}

static bool place_rest(struct runner *r, size_t *used)
{
    size_t scratch = r->model->outputs * sizeof(float); /* a row for the loss */
    bool fits = true;
    for (size_t i = 0; i < r->model->layer_count && fits; i++) {
        const struct layer *l = &r->model->layers[i].layer;
        scratch = l->scratch_bytes > scratch ? l->scratch_bytes : scratch;
        fits = runner_take(used, r->batch_max, l->state_bytes, &r->places[i].state) &&
               runner_take(used, 1, l->batch_state_bytes, &(size_t){0});
    }
    return fits && runner_take(used, scratch, 1, &r->scratch);
}

/* ---- the runner ---- */

static struct runner *runner_plan(const struct model *m, size_t batch_max, size_t *bytes,
                                  bool *fits)
{
    struct runner *r = mem_new(1, sizeof *r);
    size_t inputs = 0;
    for (size_t i = 0; i < m->layer_count; i++) {
        inputs += m->layers[i].layer.input_count;
    }
    r->model = m;
    r->batch_max = batch_max;
    r->places = mem_new(m->layer_count, sizeof *r->places);
    r->inputs = mem_new(inputs, sizeof *r->inputs);
    r->xs = mem_new(m->inputs_max, sizeof *r->xs);
    r->dxs = mem_new(m->inputs_max, sizeof *r->dxs);
    struct input_place *next = r->inputs;
    for (size_t i = 0; i < m->layer_count; i++) {
        r->places[i].inputs = next;
        for (size_t k = 0; k < m->layers[i].layer.input_count; k++) {
            *next++ = (struct input_place){NOWHERE, NOWHERE};
        }
    }
    *bytes = 0;
    *fits = place_outputs(r, bytes) && runner_place_gradients(r, bytes) && place_rest(r, bytes);
    return r;
}

size_t runner_bytes(const struct model *m, size_t batch_max)
{
    size_t bytes;
    bool fits;
    runner_free(runner_plan(m, batch_max, &bytes, &fits));
    for (size_t i = 0; i < m->layer_count && fits; i++) {
        const struct layer *l = &m->layers[i].layer;
        const size_t more = l->kind->open == NULL ? 0 : l->kind->engine_bytes(l, batch_max);
        fits = !__builtin_add_overflow(bytes, more, &bytes);
    }
    return fits ? bytes : SIZE_MAX;
}

static int open_engines(struct runner *r, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < r->model->layer_count && rc == 0; i++) {
        const struct layer *l = &r->model->layers[i].layer;
        rc = l->kind->open == NULL ? 0 : l->kind->open(l, r->batch_max, &r->places[i].engine, err);
    }
    return rc;
}

int runner_new(const struct model *m, size_t batch_max, int threads, struct runner **out,
               struct err *err)
{
    size_t bytes;
    bool fits;
    struct runner *r = runner_plan(m, batch_max, &bytes, &fits);
    int rc = 0;
    if (!fits) {
        rc = err_set(err, ERR_EXHAUSTED, "activations of %zu records do not fit in memory",
                     batch_max);
    } else {
        r->arena = mem_try_aligned(bytes, 1, "activations and gradients", err);
        rc = r->arena == NULL ? ERR_EXHAUSTED : open_engines(r, err);
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
    for (size_t i = 0; i < r->model->layer_count; i++) {
        if (r->model->layers[i].layer.kind->close != NULL) {
            r->model->layers[i].layer.kind->close(r->places[i].engine);
        }
    }
    free(r->arena);
    free(r->places);
    free(r->inputs);
    free(r->xs);
    free(r->dxs);
    free(r);
}

static float *floats_at(const struct runner *r, size_t offset)
{
    return (float *)(void *)(r->arena + offset);
}

/* An output, in the batch or in the arena. */
static const float *output_of(const struct runner *r, size_t source, const struct batch *b)
{
    return source == LAYER_FROM_INPUT ? b->features : floats_at(r, r->places[source].y);
}

void runner_set_rows(struct runner *r, const struct runner_rows *rows)
{
    r->rows = rows;
}

static void set_rows(const struct runner *r, size_t i, const struct batch *b, struct layer_run *run)
{
    if (run->layer->has_table) {
        run->table = r->rows[run->layer->table];
        run->rows = run->table.index + model_lookups_above(r->model, i, &b->lists);
    }
}

static struct layer_run run_of(struct runner *r, size_t i, const float *const *values,
                               const struct batch *b)
{
    const struct layer *l = &r->model->layers[i].layer;
    for (size_t k = 0; k < l->input_count; k++) {
        r->xs[k] = output_of(r, l->inputs[k].from, b);
    }
    struct layer_run run = {.layer = l,
                            .count = b->count,
                            .values = values + l->first_variable,
                            .x = r->xs[0],
                            .xs = r->xs,
                            .lists = &b->lists,
                            .y = floats_at(r, r->places[i].y),
                            .state = r->arena + r->places[i].state,
                            .engine = r->places[i].engine,
                            .scratch = r->arena + r->scratch};
    set_rows(r, i, b, &run);
    return run;
}

static int needs(const struct runner_need *need, const struct layer *l, bool *have_rows)
{
    int rc = 0;
    if (need != NULL && need->rows != NULL && l->has_table && !*have_rows) {
        rc = need->rows(need->ctx);
        *have_rows = true;
    }
    for (size_t j = 0; need != NULL && j < l->variable_count && rc == 0; j++) {
        rc = need->call(need->ctx, l->first_variable + j);
    }
    return rc;
}

/* Run the first @layers; @step is NULL outside training. Returns 0 or what @need answered. */
static int forward(struct runner *r, size_t layers, const float *const *values,
                   const struct batch *b, const struct runner_step *step,
                   const struct runner_need *need)
{
    assert(b->count <= r->batch_max);
    bool have_rows = false;
    for (size_t i = 0; i < layers; i++) {
        const struct layer *l = &r->model->layers[i].layer;
        int rc = needs(need, l, &have_rows);
        if (rc != 0) {
            return rc;
        }
        if (l->kind->view) {
            continue;
        }
        struct layer_run run = run_of(r, i, values, b);
        run.training = step != NULL;
        run.step = step;
        l->kind->forward(&run);
    }
    return 0;
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

static void add_spilled(const struct runner *r, size_t i, size_t count)
{
    const struct layer *l = &r->model->layers[i].layer;
    for (size_t k = 0; k < l->input_count; k++) {
        const struct input_place *p = &r->places[i].inputs[k];
        if (p->sum != NOWHERE) {
            kernel_add(count * l->inputs[k].count, floats_at(r, p->dx), floats_at(r, p->sum));
        }
    }
}

/* From the loss's gradient down; a layer that trains nothing, and has nothing below it that does,
 * needs none. */
static void backward(struct runner *r, const float *const *values, const struct batch *b,
                     float *const *gradients, const struct runner_ready *ready)
{
    for (size_t i = r->model->loss_layers; i-- > 0;) {
        const struct layer *l = &r->model->layers[i].layer;
        if (l->kind->view || !r->model->layers[i].trains) {
            continue;
        }
        struct layer_run run = run_of(r, i, values, b);
        for (size_t k = 0; k < l->input_count; k++) {
            const size_t dx = r->places[i].inputs[k].dx;
            r->dxs[k] = dx == NOWHERE ? NULL : floats_at(r, dx);
        }
        run.training = true;
        run.ready = ready;
        run.gradients = gradients + l->first_variable;
        run.dy = floats_at(r, r->places[i].gradient);
        run.dx = r->dxs[0];
        run.dxs = r->dxs;
        l->kind->backward(&run);
        add_spilled(r, i, b->count);
        if (!l->kind->tells) {
            all_ready(&run);
        }
    }
}

static int all_needed(const struct model *m, const struct runner_need *need)
{
    int rc = 0;
    bool have_rows = true; /* true when there are no rows to read */
    for (size_t i = 0; i < m->layer_count && rc == 0; i++) {
        rc = needs(need, &m->layers[i].layer, &have_rows);
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

static void run_loss(struct runner *r, const struct batch *b, float *dy, struct metrics *metrics)
{
    const struct loss_run run = {.width = r->model->outputs,
                                 .top_k = r->model->top_k,
                                 .y = output_of(r, r->model->loss_from, b),
                                 .batch = b,
                                 .dy = dy,
                                 .shift = dy != NULL ? r->model->shift : 0.0F,
                                 .class_weights = r->model->class_weights,
                                 .scratch = floats_at(r, r->scratch),
                                 .groups = model_groups(r->model, b, metrics),
                                 .metrics = metrics};
    r->model->loss->run(&run);
    if (metrics != NULL) {
        loss_count_examples(&run);
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
    int rc = forward(r, r->model->loss_layers, values, b, step, need);
    if (rc != 0) {
        return rc;
    }
    run_loss(r, b, floats_at(r, r->places[r->model->loss_from].gradient), metrics);
    backward(r, values, b, gradients, ready);
    return 0;
}

void runner_evaluate(struct runner *r, const float *const *values, const struct batch *b,
                     struct metrics *metrics)
{
    (void)forward(r, r->model->loss_layers, values, b, NULL, NULL); /* nobody is asked */
    run_loss(r, b, NULL, metrics);
}

const float *runner_predict(struct runner *r, const float *const *values, const struct batch *b,
                            size_t *outputs)
{
    *outputs = r->model->outputs;
    (void)forward(r, r->model->layer_count, values, b, NULL, NULL);
    return output_of(r, model_source(r->model, r->model->layer_count - 1), b);
}
