/* SPDX-License-Identifier: Apache-2.0 */
/* Computes a graph forward and backward, by a plan for the number of records. The last few plans
 * are kept: for full batches, the last batch of an epoch, those of evaluations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "onnx_net/onnx_net_impl.h"
#include "tensor/kernel.h"

#define PLANS_MAX 4

struct onnx_run {
    const struct onnx_net *net;
    struct shape record;
    size_t batch_max, outputs;          /* numbers of the output for so many records */
    struct onnx_plan *plans[PLANS_MAX]; /* the last used first */
    const struct onnx_plan *now;        /* of the last forward(); NULL: it failed */
    bool training;                      /* likewise */
    float *arena;
    size_t arena_floats;
    const float *input; /* of the present call */
    uint64_t key;
    const float **x, **dy;
    float **y, **dx;
};

/* ---- plans ---- */

static bool fit_arena(struct onnx_run *r, size_t floats)
{
    if (floats <= r->arena_floats) {
        return true;
    }
    float *larger = mem_try_aligned(floats, sizeof *larger, "activations and gradients", NULL);
    if (larger == NULL) {
        return false;
    }
    free(r->arena);
    r->arena = larger;
    r->arena_floats = floats;
    return true;
}

static int plan_for(struct onnx_run *r, size_t records, const struct onnx_plan **out,
                    struct err *err)
{
    size_t i = 0;
    while (i < PLANS_MAX && r->plans[i] != NULL && r->plans[i]->records != records) {
        i++;
    }
    struct onnx_plan *plan = i < PLANS_MAX ? r->plans[i] : NULL;
    if (plan == NULL) {
        int rc = onnx_plan_new(r->net, &r->record, records, &plan, err);
        if (rc != 0) {
            return rc;
        }
        i = i < PLANS_MAX ? i : PLANS_MAX - 1;
        onnx_plan_free(r->plans[i]);
        r->plans[i] = NULL;
    }
    memmove(r->plans + 1, r->plans, i * sizeof(struct onnx_plan *));
    r->plans[0] = plan;
    *out = plan;
    return fit_arena(r, plan->floats)
               ? 0
               : err_set(err, ERR_EXHAUSTED, "activations of %zu records do not fit in memory",
                         records);
}

static size_t widest(const struct onnx_net *net)
{
    size_t most = 1;
    for (size_t i = 0; i < net->node_count; i++) {
        const struct onnx_node *n = &net->nodes[i];
        most = n->in_count > most ? n->in_count : most;
        most = n->out_count > most ? n->out_count : most;
    }
    return most;
}

int onnx_run_new(const struct onnx_net *net, const struct shape *record, size_t batch_max,
                 struct onnx_run **out, struct err *err)
{
    struct onnx_run *r = mem_new(1, sizeof *r);
    const size_t n = widest(net);
    const struct onnx_plan *plan;
    r->net = net;
    r->record = *record;
    r->batch_max = batch_max;
    r->x = mem_new(n, sizeof *r->x);
    r->y = mem_new(n, sizeof *r->y);
    r->dx = mem_new(n, sizeof *r->dx);
    r->dy = mem_new(n, sizeof *r->dy);
    int rc = plan_for(r, batch_max, &plan, err);
    if (rc != 0) {
        onnx_run_free(r);
        return rc;
    }
    r->outputs = plan->values[net->output].count;
    *out = r;
    return 0;
}

void onnx_run_free(struct onnx_run *r)
{
    if (r == NULL) {
        return;
    }
    for (size_t i = 0; i < PLANS_MAX; i++) {
        onnx_plan_free(r->plans[i]);
    }
    free(r->arena);
    free(r->x);
    free(r->y);
    free(r->dx);
    free(r->dy);
    free(r);
}

size_t onnx_run_bytes(const struct onnx_net *net, const struct shape *record, size_t batch_max)
{
    struct onnx_plan *plan;
    if (onnx_plan_new(net, record, batch_max, &plan, NULL) != 0) {
        return SIZE_MAX;
    }
    const size_t bytes = plan->floats * sizeof(float);
    onnx_plan_free(plan);
    return bytes;
}

/* ---- one call ---- */

static const float *data_of(const struct onnx_run *r, struct onnx_value *v,
                            const float *const *values)
{
    if (v == NULL) {
        return NULL;
    }
    struct onnx_value *root = onnx_value_root(v);
    if (root->variable != SIZE_MAX) {
        return values[root->variable];
    }
    if (root->floats != NULL) {
        return root->floats;
    }
    return root == &r->now->values[r->net->input] ? r->input : r->arena + root->at;
}

static struct onnx_calc calc_of(struct onnx_run *r, const struct onnx_step *s,
                                const float *const *values)
{
    for (size_t k = 0; k < s->in_count; k++) {
        r->x[k] = data_of(r, s->in[k], values);
    }
    for (size_t k = 0; k < s->out_count; k++) {
        r->y[k] = s->out[k] == NULL ? NULL : r->arena + s->out[k]->at;
    }
    return (struct onnx_calc){.step = s,
                              .training = r->training,
                              .key = rng_key_mix(r->key, (uint64_t)(s - r->now->steps)),
                              .x = r->x,
                              .y = r->y,
                              .dx = r->dx,
                              .dy = r->dy,
                              .state = r->arena + s->state_at,
                              .scratch = r->arena + r->now->scratch_at};
}

static void fill_nan(float *to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = NAN;
    }
}

void onnx_run_forward(struct onnx_run *r, size_t records, bool training, uint64_t key,
                      const float *const *values, const float *x, float *y)
{
    const struct onnx_plan *plan;
    const size_t outputs = r->outputs / r->batch_max * records;
    r->now = NULL;
    r->training = training;
    if (plan_for(r, records, &plan, NULL) != 0 ||
        (plan->values[r->net->output].count != outputs && records != r->batch_max)) {
        fill_nan(y, outputs);
        return;
    }
    r->now = plan;
    r->input = x;
    r->key = key;
    for (size_t i = 0; i < r->net->node_count; i++) {
        if (plan->steps[i].runs) {
            const struct onnx_calc c = calc_of(r, &plan->steps[i], values);
            plan->steps[i].node->op->forward(&c);
        }
    }
    struct onnx_value *output = &r->now->values[r->net->output];
    memcpy(y, data_of(r, output, values), output->count * sizeof *y);
}

/* Where a step's gradient of an input is written. */
static float *gradient_to(const struct onnx_run *r, const struct onnx_step *s, size_t k,
                          float *const *gradients)
{
    if (s->dx_at[k] == SIZE_MAX) {
        return NULL;
    }
    if (s->dx_adds[k]) {
        return r->arena + r->now->sums_at + s->dx_at[k];
    }
    const struct onnx_value *root = onnx_value_root(s->in[k]);
    return root->variable != SIZE_MAX ? gradients[root->variable] : r->arena + s->dx_at[k];
}

static void step_back(struct onnx_run *r, const struct onnx_step *s, const float *const *values,
                      float *const *gradients)
{
    const struct onnx_calc c = calc_of(r, s, values);
    for (size_t k = 0; k < s->out_count; k++) {
        const struct onnx_value *root = s->out[k] == NULL ? NULL : onnx_value_root(s->out[k]);
        r->dy[k] =
            root == NULL || root->gradient_at == SIZE_MAX ? NULL : r->arena + root->gradient_at;
    }
    for (size_t k = 0; k < s->in_count; k++) {
        r->dx[k] = gradient_to(r, s, k, gradients);
    }
    s->node->op->backward(&c);
    for (size_t k = 0; k < s->in_count; k++) {
        if (r->dx[k] != NULL && s->dx_adds[k]) {
            const struct onnx_value *root = onnx_value_root(s->in[k]);
            kernel_add(root->count, r->dx[k],
                       root->variable != SIZE_MAX ? gradients[root->variable]
                                                  : r->arena + root->gradient_at);
        }
    }
}

static size_t elements(const struct onnx_net *net, size_t variable)
{
    return (size_t)shape_count(&net->variables[variable].shape);
}

void onnx_run_backward(struct onnx_run *r, const float *const *values, const float *dy,
                       float *const *gradients)
{
    for (size_t i = 0; i < r->net->variable_count && r->now == NULL; i++) {
        fill_nan(gradients[i], elements(r->net, i));
    }
    if (r->now == NULL) {
        return;
    }
    for (size_t i = 0; i < r->now->zero_count; i++) {
        const size_t variable = r->now->zeros[i];
        memset(gradients[variable], 0, elements(r->net, variable) * sizeof(float));
    }
    const struct onnx_value *output = onnx_value_root(&r->now->values[r->net->output]);
    if (output->gradient_at != SIZE_MAX) {
        memcpy(r->arena + output->gradient_at, dy, output->count * sizeof *dy);
    }
    for (size_t i = r->net->node_count; i-- > 0;) {
        if (r->now->steps[i].trains) {
            step_back(r, &r->now->steps[i], values, gradients);
        }
    }
}
