/* SPDX-License-Identifier: Apache-2.0 */
#include "ps/rpc/ps_last_gradient.h"

#include "ps/rpc/ps_shell.h"

#define BUFFERS 2                       /* of the last update, and of the pinned version */
#define BUFFERS_MAX 4                   /* and of older ones whose files are being written */
#define COPY_FLOATS (UINT64_C(1) << 18) /* floats that a thread copies at once */

static void turn_on(struct ps_shard *s)
{
    struct ps_last_gradient *l = &s->last_gradient;
    l->on = s->elements > 0 &&
            buffer_pool_reserve(&l->pool, BUFFERS, "the gradient of the last update", NULL) == 0;
}

void ps_last_gradient_open(struct ps_shard *s)
{
    buffer_pool_init(&s->last_gradient.pool, s->elements, BUFFERS_MAX, &s->ps->budget);
    if (s->spec.training.tensorboard_histograms) {
        turn_on(s);
    }
}

/* ---- the copy ---- */

struct copying {
    float *to;
    const float *from, *more; /* more NULL: nothing */
    float scale;
    uint64_t floats;
};

/* As the update does it, so that the bits are the same. */
static void copy_some(void *ctx, size_t i)
{
    const struct copying *c = ctx;
    const uint64_t first = i * COPY_FLOATS;
    const uint64_t end = COPY_FLOATS < c->floats - first ? first + COPY_FLOATS : c->floats;
    for (uint64_t at = first; at < end; at++) {
        const float sum = c->more == NULL ? c->from[at] : c->from[at] + c->more[at];
        c->to[at] = sum * c->scale;
    }
}

static void copy(struct ps_shard *s, struct copying *c)
{
    const size_t pieces = (size_t)((c->floats + COPY_FLOATS - 1) / COPY_FLOATS);
    if (c->floats >= PS_SHARED_FLOATS_MIN) {
        parallel_for(s->ps->team, pieces, copy_some, NULL, c);
        return;
    }
    for (size_t i = 0; i < pieces; i++) {
        copy_some(c, i);
    }
}

void ps_last_gradient_note(struct ps_shard *s, const struct shard_action *a)
{
    struct ps_last_gradient *l = &s->last_gradient;
    const struct buffer *gradient = a->buffer, *more = a->source;
    if (!l->on) {
        return;
    }
    if (l->last != NULL && (gradient == NULL || a->examples == 0 ||
                            atomic_load(&l->last->refs) > 1)) { /* pinned, or none now */
        buffer_put(l->last);
        l->last = NULL;
    }
    if (gradient == NULL || a->examples == 0) {
        return;
    }
    l->last = l->last != NULL ? l->last : buffer_get(&l->pool, NULL);
    if (l->last != NULL) {
        struct copying c = {.to = l->last->floats.data,
                            .from = gradient->floats.data,
                            .more = more == NULL ? NULL : more->floats.data,
                            .scale = 1.0F / (float)a->examples,
                            .floats = s->elements};
        copy(s, &c);
        l->last_version = a->version;
    }
}

/* ---- pins ---- */

static bool is_asked_for(const struct shard_event *e)
{
    const struct ps_request *r = e->kind == SHARD_PIN ? e->tag : NULL;
    return r != NULL && ((const Gradus__V1__PinRequest *)r->msg->body)->gradients;
}

void ps_last_gradient_pin(struct ps_shard *s, uint64_t version)
{
    struct ps_last_gradient *l = &s->last_gradient;
    if (l->last != NULL && l->last_version == version) {
        buffer_put(l->pinned);
        l->pinned = buffer_ref(l->last);
        l->pinned_version = version;
    }
    if (!l->on && is_asked_for(s->stepped)) {
        turn_on(s);
    }
}

void ps_last_gradient_unpin(struct ps_shard *s, uint64_t version)
{
    struct ps_last_gradient *l = &s->last_gradient;
    if (l->pinned != NULL && l->pinned_version == version) {
        buffer_put(l->pinned);
        l->pinned = NULL;
    }
}

struct buffer *ps_last_gradient_of(const struct ps_shard *s, uint64_t version)
{
    const struct ps_last_gradient *l = &s->last_gradient;
    return l->pinned != NULL && l->pinned_version == version ? buffer_ref(l->pinned) : NULL;
}

void ps_last_gradient_let_go(struct ps_shard *s)
{
    struct ps_last_gradient *l = &s->last_gradient;
    buffer_put(l->last);
    buffer_put(l->pinned);
    l->last = l->pinned = NULL;
    l->on = false;
    (void)buffer_pool_reserve(&l->pool, 0, "", NULL);
    (void)buffer_pool_trim(&l->pool, SIZE_MAX, 0);
}
