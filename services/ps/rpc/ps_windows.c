/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of a stream's client (windows.h) as its server uses them: within the limit on gradients.
 *
 * What the server touches of them counts in its resident memory. A gradient in a window takes room
 * in the budget for gradients before it is read, as one that comes in messages does; the pages of
 * windows that nobody uses right now stay mapped as long as the budget has room for them. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ps/rpc/ps_stream.h"

/* Touched before it is asked whether they may stay: 1 MiB. */
#define FILL_ELEMENTS (UINT64_C(1) << 18)

struct ps_window {
    struct gradient_view view;
    const struct windows *of;
    float *memory;
};

struct ps_windows {
    atomic_uint refs; /* the stream's, and one for each gradient */
    struct ps_shard *shard;
    struct windows *memory;
    uint32_t gradient_count, value_count;
    struct ps_window gradients[WINDOWS_MAX], values[WINDOWS_MAX];
};

static void drop(struct gradient_view *v)
{
    const struct ps_window *window = (struct ps_window *)(void *)v; /* the first member */
    windows_drop(window->of, window->memory);
}

static void window_init(struct ps_window *window, const struct ps_windows *w, float *memory)
{
    *window = (struct ps_window){
        .view = {.bytes = w->shard->elements * sizeof(float), .drop = drop},
        .of = w->memory,
        .memory = memory,
    };
}

struct ps_windows *ps_windows_open(struct ps_shard *s, const Gradus__V1__Windows *m)
{
    struct windows_offer offer = {
        .pid = m->pid,
        .fd = m->fd,
        .elements = m->elements,
        .gradients = m->gradients,
        .values = m->values,
    };
    struct windows *memory;
    if (m->token.len != sizeof offer.token) {
        return NULL;
    }
    memcpy(offer.token, m->token.data, sizeof offer.token);
    if (windows_open(&offer, s->elements, &memory, NULL) != 0) {
        return NULL;
    }
    struct ps_windows *w = mem_new(1, sizeof *w);
    atomic_store(&w->refs, 1);
    w->shard = s;
    w->memory = memory;
    w->gradient_count = offer.gradients;
    w->value_count = offer.values;
    for (uint32_t i = 0; i < w->gradient_count; i++) {
        window_init(&w->gradients[i], w, windows_gradient(memory, i));
    }
    for (uint32_t i = 0; i < w->value_count; i++) {
        window_init(&w->values[i], w, windows_values(memory, i));
    }
    return w;
}

void ps_windows_unref(struct ps_windows *w)
{
    if (w == NULL || atomic_fetch_sub(&w->refs, 1) != 1) {
        return;
    }
    struct gradient_memory *memory = &w->shard->ps->gradient_memory;
    for (uint32_t i = 0; i < w->gradient_count; i++) {
        gradient_view_forget(memory, &w->gradients[i].view);
    }
    for (uint32_t i = 0; i < w->value_count; i++) {
        gradient_view_forget(memory, &w->values[i].view);
    }
    windows_unref(w->memory);
    free(w);
}

static void give_back(struct buffer *b)
{
    struct ps_windows *w = b->owner;
    gradient_pool_exit(&w->shard->gradients, &w->gradients[b->window].view);
    windows_give_gradient(w->memory, b->window);
    ps_windows_unref(w);
}

int ps_windows_gradient(struct ps_windows *w, uint32_t number, struct gradient_wait *waiter,
                        struct buffer **out, struct err *err)
{
    uint32_t i = number - 1;
    if (w == NULL || !windows_hold_gradient(w->memory, i)) {
        return err_set(err, ERR_INVALID, "gradient window %" PRIu32 " is not open, or in use",
                       number);
    }
    int rc = gradient_pool_enter(&w->shard->gradients, waiter, &w->gradients[i].view, err);
    if (rc != 0) {
        windows_leave_gradient(w->memory, i);
        return rc;
    }
    atomic_fetch_add(&w->refs, 1);
    *out = buffer_borrow(&w->shard->gradients.buffers, w->gradients[i].memory, w, i, give_back);
    return 0;
}

void ps_windows_decline(struct ps_windows *w, uint32_t number)
{
    if (windows_hold_gradient(w->memory, number - 1)) {
        windows_give_gradient(w->memory, number - 1);
    }
}

bool ps_windows_has_values(const struct ps_windows *w, uint32_t number)
{
    return w != NULL && windows_has_values(w->memory, number - 1);
}

void ps_windows_fill(struct ps_windows *w, uint32_t number, const float *values, uint64_t first,
                     uint64_t end)
{
    struct ps_window *window = &w->values[number - 1];
    for (uint64_t at = first; at < end; at += FILL_ELEMENTS) {
        uint64_t n = end - at < FILL_ELEMENTS ? end - at : FILL_ELEMENTS;
        windows_copy(w->shard->elements, window->memory + at, values + at, n);
        gradient_view_touched(&w->shard->ps->gradient_memory, &window->view);
    }
}
