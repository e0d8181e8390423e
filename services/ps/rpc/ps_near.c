/* SPDX-License-Identifier: Apache-2.0 */
/* A backup on the host of its primary: by which socket it is reached, and memory in which it is
 * given gradients (shared_memory.h) and short records (shared_notes.h), and says what it has
 * received. The primary is to it what a worker is to a server. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "host/local_socket.h"
#include "os/thread.h"
#include "ps/rpc/ps_standby.h"

char *ps_near_target(const struct ps *ps, const char *address, bool *near)
{
    char path[LOCAL_SOCKET_BYTES];
    *near = ps->local_sockets != NULL &&
            local_socket_path(ps->local_sockets, address, path, NULL) == 0 &&
            local_socket_answers(path);
    return *near ? mem_printf("unix:%s", path) : mem_strdup(address);
}

struct ps_near *ps_near_new(const struct ps_shard *s)
{
    struct shared_memory *memory;
    if (!s->ps->shared_memory || shared_memory_new(s->elements, &memory, NULL) != 0) {
        return NULL;
    }
    struct ps_near *n = mem_new(1, sizeof *n);
    *n = (struct ps_near){.ps = ps_ref(s->ps), .memory = memory, .elements = s->elements};
    atomic_store(&n->refs, 1);
    return n;
}

struct ps_near *ps_near_ref(struct ps_near *n)
{
    atomic_fetch_add(&n->refs, 1);
    return n;
}

static uint64_t block_bytes(const struct ps_near *n)
{
    return n->elements * sizeof(float);
}

void ps_near_unref(struct ps_near *n)
{
    if (n == NULL || atomic_fetch_sub(&n->refs, 1) != 1) {
        return;
    }
    budget_give(&n->ps->budget, n->paid * block_bytes(n));
    shared_memory_unref(n->memory);
    ps_unref(n->ps);
    free(n);
}

void ps_near_offer(const struct ps_near *n, Gradus__V1__SharedMemory *out)
{
    const struct shared_memory_offer *o = shared_memory_offer(n->memory);
    gradus__v1__shared_memory__init(out);
    out->pid = o->pid;
    out->fd = o->fd;
    out->elements = o->elements;
    out->gradients = o->gradients;
    out->values = o->values;
    out->token.len = sizeof o->token;
    const void *token = o->token; /* messages that are sent are only read */
    memcpy(&out->token.data, &token, sizeof token);
}

float *ps_near_take(struct ps_near *n, uint32_t *block)
{
    const uint32_t i = shared_memory_take_gradient(n->memory);
    if (i == SHARED_MEMORY_NONE) {
        return NULL;
    }
    if (i >= n->paid) { /* the lowest is taken first; more are not kept for good */
        if (i >= PS_JOINING_UPDATES ||
            budget_take(&n->ps->budget, block_bytes(n), "a gradient for the backup", NULL) != 0) {
            shared_memory_return_gradient(n->memory, i);
            return NULL;
        }
        n->paid++;
    }
    *block = i;
    return shared_memory_gradient(n->memory, i);
}

void ps_near_return(struct ps_near *n, uint32_t block)
{
    shared_memory_return_gradient(n->memory, block);
}

/* ---- notes ---- */

static void *run_listen(void *ctx)
{
    struct ps_near *n = ctx;
    struct ps_shard *s = n->shard;
    struct ps *ps = n->ps;
    uint32_t seen = 0;
    while (!atomic_load(&n->over)) {
        shared_notes_wait(&n->notes, SHARED_NOTES_WORD, seen);
        const uint32_t rung = shared_notes_rung(&n->notes, SHARED_NOTES_WORD);
        if (rung != seen && !atomic_load(&n->over)) {
            ps_shard_wake(s);
        }
        seen = rung;
    }
    ps_near_unref(n);
    ps_shard_unref(s);
    ps_thread_ends(ps);
    return NULL;
}

void ps_near_begin(struct ps_near *n, struct ps_shard *s, uint64_t stream)
{
    pthread_t thread;
    n->stream = stream;
    n->notes = (struct shared_notes){.memory = shared_memory_notes(n->memory)};
    n->shard = ps_shard_ref(s);
    ps_thread_begins(n->ps);
    if (thread_start(&thread, "ps-receipts", run_listen, ps_near_ref(n)) == 0) {
        (void)pthread_detach(thread);
        n->listens = true;
        return;
    }
    ps_near_unref(n);
    ps_shard_unref(s);
    ps_thread_ends(n->ps);
}

void ps_near_end(struct ps_near *n)
{
    if (n != NULL && n->listens) {
        atomic_store(&n->over, true);
        shared_notes_ring(&n->notes, SHARED_NOTES_WORD);
    }
    ps_near_unref(n);
}

bool ps_near_note(struct ps_near *n, const struct ps_note *note)
{
    return shared_notes_put(&n->notes, note, sizeof *note);
}

uint64_t ps_near_word(const struct ps_near *n)
{
    return n->listens ? shared_notes_word(&n->notes) : 0;
}

void ps_near_await(const struct ps_near *n)
{
    shared_notes_await(&n->notes, SHARED_NOTES_WORD);
}
