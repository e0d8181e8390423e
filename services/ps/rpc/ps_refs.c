/* SPDX-License-Identifier: Apache-2.0 */
/* References to the server and its shards, and what is left of these when the last one goes; a
 * shard's name in front of errors; and a shard woken. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"
#include "ps/rpc/ps_shell.h"

struct ps *ps_ref(struct ps *ps)
{
    atomic_fetch_add(&ps->refs, 1);
    return ps;
}

void ps_unref(struct ps *ps)
{
    if (atomic_fetch_sub(&ps->refs, 1) == 1) {
        gradient_memory_release(&ps->gradient_memory);
        pthread_mutex_destroy(&ps->lock);
        trace_release(&ps->trace);
        free(ps->checkpoint_dir);
        free(ps->local_sockets);
        data_roots_release(&ps->data_roots);
        free(ps);
    }
}

/* ---- shards ---- */

/* All memory that is left; fine without any. */
static void release_memory(struct ps_shard *s)
{
    gradient_pool_leave(&s->gradients);
    if (s->slot_copies.budget != NULL) {
        buffer_pool_release(&s->slot_copies);
        buffer_pool_release(&s->base_pool);
        ps_last_gradient_let_go(s);
        buffer_pool_release(&s->last_gradient.pool);
    }
    for (size_t i = 0; i < UPDATE_SLOTS_MAX; i++) {
        floats_release(&s->slots[i], &s->ps->budget);
    }
    floats_release(&s->nothing, &s->ps->budget);
    shard_tables_free(s->tables);
    free(s->pasts);
    free(s->squares);
    free(s->base_slots);
    if (s->snapshots.budget != NULL) {
        snapshots_release(&s->snapshots);
    }
}

static void release_sums(struct ps_sums *sums)
{
    buf_release(&sums->mine);
    for (size_t i = 0; i < SHARD_ROUNDS_MAX; i++) {
        buf_release(&sums->totals[i]);
        buf_release(&sums->last[i]);
    }
}

static void free_shard(struct ps_shard *s)
{
    shard_free(s->core);
    shard_actions_release(&s->actions);
    release_memory(s);
    pthread_mutex_destroy(&s->standby_lock);
    free(s->standby);
    release_sums(&s->sums);
    ps_eras_release(&s->eras);
    ps_eras_release(&s->first_eras);
    ledger_release(&s->ledger);
    plan_release(&s->plan);
    job_spec_release(&s->spec);
    buf_release(&s->written_stamp);
    free(s->job);
    ps_unref(s->ps);
    free(s);
}

struct ps_shard *ps_shard_ref(struct ps_shard *s)
{
    atomic_fetch_add(&s->refs, 1);
    return s;
}

void ps_shard_unref(struct ps_shard *s)
{
    if (atomic_fetch_sub(&s->refs, 1) == 1) {
        free_shard(s);
    }
}

int ps_shard_wrap(const struct ps_shard *s, struct err *err)
{
    char shown[64];
    return err_wrap(err, "job %s shard %" PRIu32, text_shown(s->job, shown, sizeof shown),
                    s->number);
}

static void post_wake(void *ctx)
{
    struct ps_shard *s = ctx;
    (void)ps_shard_ref(s); /* the task returns the other one */
    (void)strand_post(&s->strand, &s->wake, s->run_wake);
    ps_shard_unref(s);
}

void ps_shard_wake(struct ps_shard *s)
{
    if (!atomic_exchange(&s->waking, true)) {
        post_wake(ps_shard_ref(s));
    }
}

/* A snapshot is free. This may be a thread of gRPC in the middle of returning memory, where no
 * update can be computed and no message sent, so another one goes on. */
void ps_shard_freed(void *ctx)
{
    struct ps_shard *s = ctx;
    if (atomic_exchange(&s->waking, true)) {
        return;
    }
    (void)ps_shard_ref(s);
    if (pool_post(s->ps->work, post_wake, s, NULL) != 0) {
        atomic_store(&s->waking, false); /* the server ends */
        ps_shard_unref(s);
    }
}
