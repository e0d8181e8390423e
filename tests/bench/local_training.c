/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/local_training.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "os/chrono.h"

#define SEED 1
#define BATCHES 16 /* as a loader would: the features of a step are not in the first caches */
#define WARM_UP_STEPS 20

struct bench {
    const struct local_training *job;
    struct model *model;
    struct runner *runner;
    size_t variables;
    float **values, **gradients;
    float *flat; /* values, gradients and slots of all variables */
    size_t floats;
    struct batch batches[BATCHES];
    uint64_t version;
};

static void fill_batch(struct batch *b, size_t width, uint32_t classes, uint64_t key)
{
    for (size_t i = 0; i < b->count * width; i++) {
        b->features[i] = (float)rng_uniform(key, i);
    }
    for (size_t i = 0; i < b->count; i++) {
        b->classes[i] = classes == 0 ? 0 : (int32_t)rng_below(key, i, classes);
        b->targets[i] = classes == 0 ? (float)rng_normal(key, i) : (float)b->classes[i];
    }
}

static int make_batches(struct bench *s, struct err *err)
{
    const struct local_training *t = s->job;
    const size_t width = (size_t)shape_count(&t->input);
    for (size_t i = 0; i < BATCHES; i++) {
        struct batch *b = &s->batches[i];
        b->capacity = b->count = t->batch_size;
        b->features = mem_try_aligned(t->batch_size * width, sizeof(float), "features", err);
        if (b->features == NULL) {
            return ERR_EXHAUSTED;
        }
        b->classes = mem_new(t->batch_size, sizeof *b->classes);
        b->targets = mem_new(t->batch_size, sizeof *b->targets);
        fill_batch(b, width, t->classes, rng_key_mix(SEED, i));
    }
    return 0;
}

/* All arrays lie behind one another, as in a shard: values, gradients, slots. */
static int make_variables(struct bench *s, struct err *err)
{
    const struct rule *rule = s->job->update == NULL ? NULL : s->job->update->rule;
    const size_t slots = rule == NULL ? 0 : rule->slot_count;
    s->variables = model_variable_count(s->model);
    s->values = mem_new(s->variables, sizeof *s->values);
    s->gradients = mem_new(s->variables, sizeof *s->gradients);
    for (size_t i = 0; i < s->variables; i++) {
        s->floats += (size_t)shape_count(&model_variable(s->model, i)->shape);
    }
    s->flat = mem_try_aligned((2 + slots) * s->floats, sizeof(float), "variables", err);
    if (s->flat == NULL) {
        return ERR_EXHAUSTED;
    }
    size_t at = 0;
    for (size_t i = 0; i < s->variables; i++) {
        const struct variable_spec *v = model_variable(s->model, i);
        const uint64_t count = shape_count(&v->shape);
        s->values[i] = s->flat + at;
        s->gradients[i] = s->flat + s->floats + at;
        init_fill(&v->init, SEED, v->name, 0, count, s->values[i]);
        at += (size_t)count;
    }
    for (size_t k = 0; k < slots; k++) {
        for (size_t i = 0; i < s->floats; i++) {
            s->flat[(2 + k) * s->floats + i] = rule->slot_initial[k];
        }
    }
    return 0;
}

static void update(struct bench *s)
{
    const struct update_spec *u = s->job->update;
    struct rule_scalars scalars;
    float *slots[RULE_SLOTS_MAX];
    if (u == NULL) {
        return;
    }
    for (size_t k = 0; k < u->rule->slot_count; k++) {
        slots[k] = s->flat + (2 + k) * s->floats;
    }
    u->rule->prepare(u->params, s->version, 1.0, &scalars);
    u->rule->apply(&scalars, s->flat, s->flat, slots, s->flat + s->floats,
                   1.0F / (float)s->job->batch_size, s->floats);
}

static void step(struct bench *s, struct local_result *sum)
{
    const struct batch *b = &s->batches[s->version % BATCHES];
    const struct runner_step identity = {.seed = SEED, .step = s->version};
    const float *const *values = (const float *const *)(const void *)s->values;
    struct metrics m;
    metrics_init(&m, 1U << METRIC_LOSS);
    const uint64_t start = chrono_now_ns();
    runner_gradients(s->runner, values, b, &identity, s->gradients, &m, NULL, NULL);
    const uint64_t computed = chrono_now_ns();
    update(s);
    const uint64_t end = chrono_now_ns();
    sum->gradient_seconds += (double)(computed - start) * 1e-9;
    sum->update_seconds += (double)(end - computed) * 1e-9;
    sum->loss = metrics_value(&m, METRIC_LOSS, 1.0);
    metrics_release(&m);
    s->version++;
}

static void release(struct bench *s)
{
    for (size_t i = 0; i < BATCHES; i++) {
        free(s->batches[i].features);
        free(s->batches[i].classes);
        free(s->batches[i].targets);
    }
    free(s->values);
    free(s->gradients);
    free(s->flat);
    runner_free(s->runner);
    model_free(s->model);
}

int local_training_run(const struct local_training *t, uint64_t steps, struct local_result *out,
                       struct err *err)
{
    struct bench s = {.job = t};
    struct local_result sum = {0}, warm_up = {0};
    int rc = model_new(t->model, &t->input, NULL, t->classes, &s.model, err);
    if (rc == 0) {
        rc = runner_new(s.model, t->batch_size, t->threads, &s.runner, err);
    }
    if (rc == 0) {
        rc = make_batches(&s, err);
    }
    if (rc == 0) {
        rc = make_variables(&s, err);
    }
    if (rc == 0) {
        for (size_t i = 0; i < WARM_UP_STEPS; i++) {
            step(&s, &warm_up);
        }
        for (uint64_t i = 0; i < steps; i++) {
            step(&s, &sum);
        }
        sum.examples_per_second =
            (double)steps * (double)t->batch_size / (sum.gradient_seconds + sum.update_seconds);
        *out = sum;
    }
    release(&s);
    return rc;
}
