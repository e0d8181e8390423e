/* SPDX-License-Identifier: Apache-2.0 */
/* Where tensors, gradients and scratch of a plan lie in one arena, and where each backward()
 * writes: the first gradient that reaches a tensor is its gradient, others are computed beside it
 * and added. */
#include <stdlib.h>

#include "base/mem.h"
#include "onnx_net/onnx_net_impl.h"

#define LINE_FLOATS 16 /* a cache line */

static size_t take(size_t *used, size_t floats)
{
    const size_t at = *used;
    *used += (floats + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
    return at;
}

static void place_values(struct onnx_plan *p, size_t *used)
{
    for (size_t i = 0; i < p->net->node_count; i++) {
        struct onnx_step *s = &p->steps[i];
        for (size_t k = 0; k < s->out_count && s->runs; k++) {
            if (s->out[k] != NULL) {
                s->out[k]->at = take(used, s->out[k]->count);
            }
        }
        s->state_at = take(used, s->runs ? s->state_floats : 0);
    }
}

struct routing {
    struct onnx_plan *plan;
    bool *written; /* [values] a part of the gradient was written */
    size_t *used;
    size_t sums; /* floats of sums that one step computes */
};

static size_t number_of(const struct routing *r, const struct onnx_value *v)
{
    return (size_t)(v - r->plan->values);
}

static bool reached(const struct routing *r, const struct onnx_step *s)
{
    bool any = false;
    for (size_t k = 0; k < s->out_count; k++) {
        any = any || (s->out[k] != NULL && r->written[number_of(r, onnx_value_root(s->out[k]))]);
    }
    return any;
}

/* Input @k of a step that a gradient reaches. */
static void route(struct routing *r, struct onnx_step *s, size_t k, size_t *beside)
{
    struct onnx_value *root = s->in[k] == NULL ? NULL : onnx_value_root(s->in[k]);
    const bool setting = k < 32 && (s->node->op->settings >> k & 1U) != 0;
    s->dx_at[k] = SIZE_MAX;
    if (root == NULL || setting || !root->trains) {
        return;
    }
    bool *written = &r->written[number_of(r, root)];
    if (*written) {
        s->dx_adds[k] = true;
        s->dx_at[k] = take(beside, root->count);
        return;
    }
    *written = true;
    if (root->variable == SIZE_MAX) {
        root->gradient_at = take(r->used, root->count);
    }
    s->dx_at[k] = root->gradient_at;
    if (root->variable != SIZE_MAX) {
        s->dx_at[k] = 0; /* it is the caller's */
    }
}

static void find_zeros(struct onnx_plan *p, const struct routing *r)
{
    p->zeros = mem_new(p->net->variable_count + 1, sizeof *p->zeros);
    bool *have = mem_new(p->net->variable_count + 1, sizeof *have);
    for (size_t i = 0; i < p->net->value_count; i++) {
        if (p->values[i].variable != SIZE_MAX && r->written[i]) {
            have[p->values[i].variable] = true;
        }
    }
    for (size_t i = 0; i < p->net->variable_count; i++) {
        if (!have[i]) {
            p->zeros[p->zero_count++] = i;
        }
    }
    free(have);
}

static void place_gradients(struct onnx_plan *p, size_t *used)
{
    struct routing r = {p, mem_new(p->net->value_count + 1, sizeof *r.written), used, 0};
    struct onnx_value *output = onnx_value_root(&p->values[p->net->output]);
    if (output->trains && output->variable == SIZE_MAX) {
        r.written[number_of(&r, output)] = true;
        output->gradient_at = take(used, output->count);
    }
    for (size_t i = p->net->node_count; i-- > 0;) {
        struct onnx_step *s = &p->steps[i];
        size_t beside = 0;
        s->trains = s->trains && reached(&r, s);
        for (size_t k = 0; k < s->in_count && s->trains; k++) {
            route(&r, s, k, &beside);
        }
        r.sums = beside > r.sums ? beside : r.sums;
    }
    find_zeros(p, &r);
    p->sums_at = take(used, r.sums);
    free(r.written);
}

void onnx_plan_place(struct onnx_plan *p)
{
    size_t used = 0, scratch = 0;
    place_values(p, &used);
    place_gradients(p, &used);
    for (size_t i = 0; i < p->net->node_count; i++) {
        const size_t n = p->steps[i].runs ? p->steps[i].scratch_floats : 0;
        scratch = n > scratch ? n : scratch;
    }
    p->scratch_at = take(&used, scratch);
    p->floats = used;
}

struct onnx_value *onnx_value_root(struct onnx_value *v)
{
    while (v->is != NULL) {
        v = v->is;
    }
    return v;
}
