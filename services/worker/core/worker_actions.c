/* SPDX-License-Identifier: Apache-2.0 */
/* Actions of the running step, and the gradient buffers that they name. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "worker/core/worker_state.h"

void worker_actions_release(struct worker_actions *a)
{
    free(a->items);
    *a = (struct worker_actions){0};
}

struct worker_action *worker_add(struct worker *w, enum worker_action_kind kind)
{
    struct worker_actions *out = w->out;
    out->items = mem_grow(out->items, &out->capacity, out->count + 1, sizeof *out->items);
    struct worker_action *action = &out->items[out->count++];
    memset(action, 0, sizeof *action);
    action->kind = kind;
    return action;
}

uint64_t worker_backoff(uint32_t attempts)
{
    uint64_t ms = WORKER_BACKOFF_MS_MIN;
    while (attempts-- > 1 && ms < WORKER_BACKOFF_MS_MAX) {
        ms *= 2;
    }
    return ms < WORKER_BACKOFF_MS_MAX ? ms : WORKER_BACKOFF_MS_MAX;
}

uint32_t worker_buffer_take(struct worker *w)
{
    for (uint32_t i = 0; i < WORKER_BUFFERS_MAX; i++) {
        if (w->buffer_users[i] == 0) {
            w->buffer_users[i] = 1;
            w->made[i].whole = false;
            return i;
        }
    }
    abort(); /* neither the tree nor single replicas take so many; see WORKER_BUFFERS_MAX */
}

void worker_buffer_drop(struct worker *w, uint32_t buffer)
{
    if (buffer != WORKER_BUFFER_NONE) {
        w->buffer_users[buffer]--;
    }
}
