/* SPDX-License-Identifier: Apache-2.0 */
/* The job's thread waits for its own answers: while its loop has nothing to do and an exchange is
 * open, it takes the place of the connections' thread, polls there and sleeps there, so that no
 * answer is handed over. Before it waits or computes in any other way, with exchanges under way, it
 * gives that place back.
 *
 * Meanwhile it looks at the bells of value blocks (shared_memory.h), too: values that a server has
 * filled are copied while the server computes and fills the rest. The message that follows is
 * checked as ever; an exchange that fails leaves an array that is to be pulled anew. */
#include "rpc/rpc.h"
#include "ps_client/ps_client_state.h"

/* Copied between two looks for other things: 64 KiB take a few microseconds. */
#define EARLY_ELEMENTS (UINT64_C(1) << 14)

static bool anything_open(struct ps_client *c)
{
    bool open = false;
    for (uint32_t s = 0; s < c->link_count && !open; s++) {
        pthread_mutex_lock(&c->links[s].mutex);
        open = c->links[s].open != NULL;
        pthread_mutex_unlock(&c->links[s].mutex);
    }
    return open;
}

/* Under the link's mutex: a part of what is filled of a block and was not copied. */
static void copy_early(const struct shard_link *link, struct pending *p)
{
    if (p->arriving || p->rows || p->block == SHARED_MEMORY_NONE) {
        return;
    }
    const uint64_t filled = shared_memory_filled(link->shared_memory, p->block);
    if (filled > p->copied) {
        const uint64_t left = filled - p->copied;
        const uint64_t n = left < EARLY_ELEMENTS ? left : EARLY_ELEMENTS;
        const float *block = shared_memory_values(link->shared_memory, p->block);
        (void)ps_client_scatter(link, p->copied, n, NULL, p->type, block, p->values);
        p->copied += n;
    }
}

static void look_at_bells(struct ps_client *c)
{
    for (uint32_t s = 0; s < c->link_count; s++) {
        struct shard_link *link = &c->links[s];
        pthread_mutex_lock(&link->mutex);
        for (struct pending *p = link->open; p != NULL; p = p->next) {
            copy_early(link, p);
        }
        pthread_mutex_unlock(&link->mutex);
    }
}

static bool ready(void *ctx)
{
    struct ps_client *c = ctx;
    look_at_bells(c);
    return loop_ready(c->loop);
}

static void idle_begin(void *ctx)
{
    struct ps_client *c = ctx;
    c->waiting = anything_open(c);
    if (c->waiting) {
        (void)rpc_loop_wait(c->rpc_loop, ready, c, loop_next_timer_ms(c->loop));
    } else {
        rpc_loop_give_back(c->rpc_loop);
    }
}

static void idle_end(void *ctx)
{
    struct ps_client *c = ctx;
    if (c->waiting) {
        rpc_loop_waited(c->rpc_loop);
        c->waiting = false;
    }
}

static void idle_wake(void *ctx)
{
    const struct ps_client *c = ctx;
    rpc_loop_wake(c->rpc_loop);
}

void ps_client_poll_begin(struct ps_client *c)
{
    const struct loop_idle idle = {idle_begin, idle_end, c, idle_wake};
    if (c->polling != NULL) {
        loop_set_idle(c->loop, &idle);
    }
}

void ps_client_poll_end(struct ps_client *c)
{
    if (c->polling != NULL) {
        loop_set_idle(c->loop, NULL);
        rpc_loop_give_back(c->rpc_loop);
    }
}

void ps_client_stop_polling(struct ps_client *c)
{
    if (c->polling != NULL) {
        rpc_loop_give_back(c->rpc_loop);
    }
}

void ps_client_busy(struct ps_client *c)
{
    if (c->polling != NULL && anything_open(c)) {
        rpc_loop_give_back(c->rpc_loop);
    }
}
