/* SPDX-License-Identifier: Apache-2.0 */
/* What all shards of a parameter server share: the table that finds them, threads, memory, meters
 * and the list of RPC methods. It lives until its last shard is gone. */
#include "ps/rpc/ps.h"

#include "base/mem.h"
#include "execution/loop.h"
#include "ps/rpc/ps_standby.h"

#define POOL_QUEUE 1024
#define LINKS_QUEUE 4096
/* one thread may stay with the strand that it copied for, while that is busy */
#define COPY_THREADS 4

/* ---- life ---- */

static void end_links(struct ps *ps)
{
    if (ps->links != NULL) {
        loop_stop(ps->links);
        loop_join(ps->links);
        loop_free(ps->links);
    }
}

struct ps *ps_new(const struct ps_options *o, struct err *err)
{
    if (o->shards_max < 1 || o->shards_max > PS_SHARDS_MAX || o->chunk_bytes < sizeof(float) ||
        o->chunk_bytes % sizeof(float) != 0 || o->apply_threads > PS_APPLY_THREADS_MAX) {
        (void)err_set(err, ERR_RANGE,
                      "shards_max %zu must be 1 to %d, chunk_bytes %zu a multiple of 4, "
                      "apply_threads %u at most %d",
                      o->shards_max, PS_SHARDS_MAX, o->chunk_bytes, o->apply_threads,
                      PS_APPLY_THREADS_MAX);
        return NULL;
    }
    struct data_roots roots = {0};
    if (o->data_root != NULL && data_roots_read(o->data_root, &roots, err) != 0) {
        return NULL;
    }
    struct ps *ps = mem_new(1, sizeof *ps);
    ps->data_roots = roots;
    pthread_mutex_init(&ps->lock, NULL);
    pthread_cond_init(&ps->left, NULL);
    trace_init(&ps->trace);
    atomic_store(&ps->refs, 1);
    ps->checkpoint_dir = mem_strdup(o->checkpoint_dir);
    ps->chunk_bytes = o->chunk_bytes;
    ps->shared_memory = o->shared_memory;
    ps->polling = o->polling;
    ps->shards_max = o->shards_max;
    ps->joining_bytes = PS_JOINING_BYTES;
    ps->refused = o->refused;
    ps->refused_ctx = o->refused_ctx;
    ps->budget.bytes_max = o->memory_bytes_max == 0 ? ps_memory_bytes("") : o->memory_bytes_max;
    unsigned threads = o->apply_threads == 0 ? ps_apply_threads("") : o->apply_threads;
    ps->team = thread_team_new(threads - 1, "ps-apply", err);
    ps->work = ps->team == NULL ? NULL : pool_new(1, POOL_QUEUE, "ps-work", err);
    ps->opens = ps->work == NULL ? NULL : pool_new(1, POOL_QUEUE, "ps-opens", err);
    ps->files = ps->opens == NULL ? NULL : pool_new(1, POOL_QUEUE, "ps-files", err);
    ps->copies = ps->files == NULL ? NULL : pool_new(COPY_THREADS, POOL_QUEUE, "ps-copies", err);
    ps->links = o->standby ? loop_new(LINKS_QUEUE) : NULL;
    ps->credentials = o->credentials;
    ps->local_sockets = o->local_sockets == NULL ? NULL : mem_strdup(o->local_sockets);
    gradient_memory_init(&ps->gradient_memory, o->gradient_bytes_max, ps->work, o->meters);
    const bool linked = ps->links == NULL || loop_start(ps->links, "ps-links", err) == 0;
    if (ps->copies == NULL || !linked) {
        pool_free(ps->copies);
        pool_free(ps->files);
        pool_free(ps->opens);
        pool_free(ps->work);
        thread_team_free(ps->team);
        end_links(ps);
        ps_unref(ps);
        return NULL;
    }
    ps_meters_init(ps, o->meters);
    return ps;
}

void ps_drain(struct ps *ps)
{
    pthread_mutex_lock(&ps->lock);
    ps->drained = true;
    pthread_mutex_unlock(&ps->lock);
    pool_drain(ps->opens); /* shards that are being opened find that it is too late */
    pool_drain(ps->copies);
    ps_drop(ps, NULL, 0);
    ps_wait_removed(ps);
    pool_drain(ps->work); /* waiters for memory of these shards were told */
    pool_drain(ps->files);
}

void ps_free(struct ps *ps)
{
    if (ps == NULL) {
        return;
    }
    ps_drain(ps);
    end_links(ps); /* whose threads may be at work for shards until then */
    ps_wait_threads(ps);
    pool_free(ps->opens);
    pool_free(ps->work);
    pool_free(ps->files);
    pool_free(ps->copies);
    thread_team_free(ps->team);
    ps_unref(ps);
}

void ps_set_incarnation(struct ps *ps, uint64_t incarnation)
{
    atomic_store(&ps->incarnation, incarnation);
}

/* ---- all shards ---- */

void ps_held(struct ps *ps,
             void (*each)(void *ctx, const char *job, const struct membership_shard *shard),
             void *ctx)
{
    struct ps_shard *shards[PS_SHARDS_MAX];
    size_t n = ps_list(ps, NULL, shards);
    for (size_t i = 0; i < n; i++) {
        struct ps_standby said;
        ps_standby_get(shards[i], &said);
        const struct membership_shard held = {
            .opening = shards[i]->opening,
            .number = shards[i]->number,
            .role = (int)said.role,
            .records = said.records,
            .received = said.received,
            .waits_ms = ps_standby_waits_ms(&said),
            .backup = said.backup,
            .follows = said.follows,
            .state_sent = ps_standby_state_sent(&said),
            .state_bytes = said.state_bytes,
            .problem = said.problem,
        };
        each(ctx, shards[i]->job, &held);
        ps_shard_unref(shards[i]);
    }
}

void ps_works(struct ps *ps, struct membership_works *out)
{
    struct ps_shard *shards[PS_SHARDS_MAX];
    ps_openings_tell(ps, out);
    size_t n = ps_list(ps, NULL, shards);
    for (size_t i = 0; i < n; i++) {
        work_tell(&shards[i]->work, shards[i]->job, out);
        work_tell(&shards[i]->file_work, shards[i]->job, out);
        ps_shard_unref(shards[i]);
    }
}

void ps_drop(struct ps *ps, const char *job, uint64_t opening)
{
    struct ps_shard *shards[PS_SHARDS_MAX];
    size_t n = ps_list(ps, job, shards);
    for (size_t i = 0; i < n; i++) {
        if (opening == 0 || shards[i]->opening == opening) {
            ps_shard_drop(shards[i]);
        }
        ps_shard_unref(shards[i]);
    }
}

/* ---- methods ---- */

const struct rpc_method ps_methods[] = {
    {.name = "OpenShard", .request = ps_on_open_shard},
    {.name = "SetMembership", .request = ps_on_set_membership, .done = ps_unary_done},
    {.name = "CloseShard", .request = ps_on_close_shard, .done = ps_unary_done},
    {.name = "Pull",
     .request = ps_on_pull,
     .done = ps_unary_done,
     .response_bulk = PS_VALUES_FIELD},
    {.name = "Exchange",
     .request = ps_on_exchange,
     .open = ps_stream_open,
     .half_close = ps_stream_half_close,
     .done = ps_stream_done,
     .request_bulk = PS_VALUES_FIELD,
     .response_bulk = PS_VALUES_FIELD,
     .flags = RPC_END_ON_STOP},
    {.name = "Pin", .request = ps_on_pin, .done = ps_unary_done},
    {.name = "Unpin", .request = ps_on_unpin, .done = ps_unary_done},
    {.name = "Checkpoint", .request = ps_on_checkpoint, .done = ps_unary_done},
    {.name = "Stats", .request = ps_on_stats},
    {.name = "Trace", .request = ps_on_trace},
    {.name = "Fill", .request = ps_on_fill, .done = ps_unary_done, .request_bulk = PS_VALUES_FIELD},
    {.name = "Read",
     .request = ps_on_read,
     .done = ps_unary_done,
     .response_bulk = PS_VALUES_FIELD},
    {.name = "Record",
     .request = ps_on_record,
     .open = ps_record_open,
     .half_close = ps_record_half_close,
     .done = ps_record_done,
     .request_bulk = PS_VALUES_FIELD,
     .flags = RPC_END_ON_STOP},
};
const size_t ps_method_count = sizeof ps_methods / sizeof ps_methods[0];
