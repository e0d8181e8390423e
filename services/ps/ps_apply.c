/* Actions on floats. */
#include <assert.h>
#include <stdalign.h>
#include <string.h>

#include "base/chrono.h"
#include "base/vector.h"
#include "ps/ps_shell.h"

/* Fits the first-level cache with its neighbours, so that a sum is still there for the rule. */
#define BLOCK_FLOATS 2048

/* Every element has its own sum, so the bits do not depend on how wide the loop runs. */
static void add(float *restrict to, const float *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] += from[i];
    }
}

void ps_add(struct buffer *to, const struct buffer *from)
{
    add(to->floats.data, from->floats.data, to->pool->floats);
}

/* The gradient as it would be at the parameters of now, to first order, with the diagonal λ·g·g in
 * the place of the Hessian: Zheng et al., "Asynchronous stochastic gradient descent with delay
 * compensation", ICML 2017, equation 10. The mean of @sum is × @scale. */
VECTOR_CLONES
static void compensate(float *restrict out, const float *sum, const float *now, const float *then,
                       float scale, float lambda, size_t n)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = sum[i] * scale;
        out[i] = g + lambda * g * g * (now[i] - then[i]);
    }
}

struct update {
    struct rule_scalars scalars;
    float *out;
    const float *in;
    float *gradient;
    float scale;
    const float *more; /* added to the gradient before; NULL: nothing */
    const float *base; /* what the gradient was computed on; NULL: not compensated */
    float lambda;
};

/* What runs over a block before the rule leaves it in the cache for the rule. */
static void run_update(struct ps_shard *s, const struct update *u)
{
    const struct rule *rule = s->spec.update.rule;
    alignas(64) float compensated[BLOCK_FLOATS];
    size_t block = u->more == NULL && u->base == NULL ? s->elements : BLOCK_FLOATS;
    for (size_t at = 0; at < s->elements; at += block) {
        size_t n = s->elements - at < block ? s->elements - at : block;
        float *slots[RULE_SLOTS_MAX] = {NULL};
        for (size_t i = 0; i < rule->slot_count; i++) {
            slots[i] = s->slots[i].data + at;
        }
        if (u->more != NULL) {
            add(u->gradient + at, u->more + at, n);
        }
        if (u->base == NULL) {
            rule->apply(&u->scalars, u->out + at, u->in + at, slots, u->gradient + at, u->scale, n);
            continue;
        }
        compensate(compensated, u->gradient + at, u->in + at, u->base + at, u->scale, u->lambda, n);
        rule->apply(&u->scalars, u->out + at, u->in + at, slots, compensated, 1.0F, n);
    }
}

static void update(struct ps_shard *s, const struct shard_action *a, float *out,
                   const struct buffer *more)
{
    struct buffer *gradient = a->buffer;
    struct update u = {
        .out = out,
        .in = s->snapshots.present->values.data,
        .gradient = gradient->floats.data,
        .scale = 1.0F / (float)a->examples,
        .more = more == NULL ? NULL : more->floats.data,
        .lambda = a->lambda,
    };
    if (a->has_base) {
        const struct snapshot *base = snapshots_find(&s->snapshots, a->base_version);
        assert(base != NULL); /* the core keeps it */
        u.base = base->values.data;
    }
    s->spec.update.rule->prepare(s->spec.update.params, a->version - 1, (double)a->lr_scale,
                                 &u.scalars);
    run_update(s, &u);
}

void ps_apply(struct ps_shard *s, const struct shard_action *a, const struct buffer *more)
{
    uint64_t began = chrono_now_ns();
    struct snapshot *next = snapshots_begin(&s->snapshots);
    if (a->buffer == NULL) {
        memcpy(next->values.data, s->snapshots.present->values.data, s->elements * sizeof(float));
    } else {
        update(s, a, next->values.data, more);
    }
    snapshots_commit(&s->snapshots, next);
    meter_observe(s->ps->meters.apply_seconds, (double)(chrono_now_ns() - began) * 1e-9);
    meter_add(s->ps->meters.updates, 1);
    if (s->consistency.mode != TRAINING_SYNC) {
        meter_observe(s->ps->meters.staleness, (double)a->staleness);
    }
}

void ps_keep_slots(struct ps_shard *s, struct buffer *to)
{
    for (size_t i = 0; i < s->spec.update.rule->slot_count; i++) {
        memcpy(to->floats.data + i * s->elements, s->slots[i].data, s->elements * sizeof(float));
    }
}
