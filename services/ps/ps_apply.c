/* Actions on floats. */
#include <string.h>

#include "base/chrono.h"
#include "ps/ps_shell.h"

/* Fits the first-level cache with both arrays, so that a sum is still there for the rule. */
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

static void apply_all(struct ps_shard *s, const struct rule_scalars *scalars, float *out,
                      const float *in, float *gradient, float scale, const float *more)
{
    const struct rule *rule = s->spec.update.rule;
    size_t block = more == NULL ? s->elements : BLOCK_FLOATS;
    for (size_t at = 0; at < s->elements; at += block) {
        size_t n = s->elements - at < block ? s->elements - at : block;
        float *slots[RULE_SLOTS_MAX] = {NULL};
        for (size_t i = 0; i < rule->slot_count; i++) {
            slots[i] = s->slots[i].data + at;
        }
        if (more != NULL) {
            add(gradient + at, more + at, n);
        }
        rule->apply(scalars, out + at, in + at, slots, gradient + at, scale, n);
    }
}

void ps_apply(struct ps_shard *s, const struct shard_action *a, const struct buffer *more)
{
    uint64_t began = chrono_now_ns();
    const float *in = s->snapshots.present->values.data;
    struct snapshot *next = snapshots_begin(&s->snapshots);
    float *out = next->values.data;
    if (a->buffer == NULL) {
        memcpy(out, in, s->elements * sizeof *out);
    } else {
        struct buffer *gradient = a->buffer;
        struct rule_scalars scalars;
        s->spec.update.rule->prepare(s->spec.update.params, a->version - 1, 1.0, &scalars);
        apply_all(s, &scalars, out, in, gradient->floats.data, 1.0F / (float)a->examples,
                  more == NULL ? NULL : more->floats.data);
    }
    snapshots_commit(&s->snapshots, next);
    meter_observe(s->ps->meters.apply_seconds, (double)(chrono_now_ns() - began) * 1e-9);
    meter_add(s->ps->meters.updates, 1);
    if (s->spec.training.mode != TRAINING_SYNC) {
        meter_observe(s->ps->meters.staleness, (double)a->staleness);
    }
}

void ps_keep_slots(struct ps_shard *s, struct buffer *to)
{
    for (size_t i = 0; i < s->spec.update.rule->slot_count; i++) {
        memcpy(to->floats.data + i * s->elements, s->slots[i].data, s->elements * sizeof(float));
    }
}
