/* SPDX-License-Identifier: Apache-2.0 */
/* The stream to a backup: connected, connected again, and ended. What it brings is left in an
 * inbox, and the shard is woken. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/text.h"
#include "os/chrono.h"
#include "os/log.h"
#include "ps/rpc/ps_follow.h"
#include "wire/wire.h"

#define AGAIN_MIN_MS 50
#define AGAIN_MAX_MS 2000

void ps_link_unref(struct ps_follow *f)
{
    if (atomic_fetch_sub(&f->refs, 1) == 1) {
        if (f->begun) {
            ps_shard_unref(f->shard);
        }
        pthread_mutex_destroy(&f->lock);
        free(f);
    }
}

static void on_message(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct ps_follow *f = ctx;
    const Gradus__V1__RecordResponse *m = (const Gradus__V1__RecordResponse *)msg->body;
    pthread_mutex_lock(&f->lock);
    f->received = m->received > f->received ? m->received : f->received;
    f->opened |= m->shared_memory_open != 0;
    f->heard = true;
    pthread_mutex_unlock(&f->lock);
    ps_shard_wake(f->shard);
}

static void on_over(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    struct ps_follow *f = ctx;
    pthread_mutex_lock(&f->lock);
    f->over = true;
    f->why = status->err;
    pthread_mutex_unlock(&f->lock);
    ps_shard_wake(f->shard);
    ps_link_unref(f);
}

static const struct rpc_stream_events stream_events = {.message = on_message, .done = on_over};

/* The first message asks what the backup has. */
static int greet(struct ps_follow *f, struct err *err)
{
    struct ps_shard *s = f->shard;
    struct shard_info info;
    struct fence fence = {.opening = f->opening};
    Gradus__V1__ShardRef ref = GRADUS__V1__SHARD_REF__INIT;
    Gradus__V1__RecordRequest m = GRADUS__V1__RECORD_REQUEST__INIT;
    Gradus__V1__SharedMemory offer;
    shard_info(s->core, &info);
    memcpy(fence.secret, s->secret, sizeof fence.secret);
    ref.job = s->job;
    ref.shard = s->number;
    ref.generation = info.generation;
    ref.opening = f->opening;
    ref.secret = wire_secret_to_proto(&fence);
    m.shard = &ref;
    if (f->near != NULL) {
        ps_near_offer(f->near, &offer);
        m.shared_memory = &offer;
    }
    return rpc_stream_send(f->stream, &m.base, NULL, err);
}

static void run_due(void *ctx)
{
    struct ps_follow *f = ctx;
    pthread_mutex_lock(&f->lock);
    f->due = true;
    pthread_mutex_unlock(&f->lock);
    ps_shard_wake(f->shard);
    ps_link_unref(f);
}

static void run_wait(void *ctx)
{
    struct ps_follow *f = ctx;
    if (loop_discarding(f->shard->ps->links)) {
        ps_link_unref(f);
        return;
    }
    const uint64_t ms = backoff_ms(f->failures, AGAIN_MIN_MS, AGAIN_MAX_MS);
    loop_timer_set(f->shard->ps->links, &f->timer, chrono_now_ms() + ms, run_due, f);
}

/* What is there of records stays there for them. */
static void end_near(struct ps_follow *f)
{
    f->copies.near = NULL;
    ps_near_end(f->near);
    f->near = NULL;
    f->in_messages = f->in_notes = 0;
}

void ps_link_over(struct ps_follow *f, const struct err *why)
{
    char quoted[512];
    end_near(f);
    if (f->failures == PS_LINK_TELL_FAILURES) { /* at first it may not be open yet */
        log_warn("backup_unreachable", "job=%s shard=%" PRIu32 " error=%s", f->shard->job,
                 f->shard->number, log_quote(why->msg, quoted, sizeof quoted));
    }
    if (!f->stuck) {
        text_copy(f->problem, sizeof f->problem, why->msg);
    }
    f->failures++;
    f->waits = true;
    atomic_fetch_add(&f->refs, 1);
    if (loop_post(f->shard->ps->links, run_wait, f, NULL) != 0) {
        ps_link_unref(f); /* the server ends */
    }
}

void ps_link_connect(struct ps_follow *f)
{
    struct err err = {0};
    const struct rpc_request request = {
        .service = &gradus__v1__parameter_server__descriptor,
        .method = "Record",
        .request_bulk = PS_VALUES_FIELD,
        .terse = true,
    };
    f->greeted = false;
    f->sending = f->first;
    f->at = 0;
    f->near = f->is_near ? ps_near_new(f->shard) : NULL;
    pthread_mutex_lock(&f->lock);
    f->opened = false;
    pthread_mutex_unlock(&f->lock);
    atomic_fetch_add(&f->refs, 1);
    f->stream = rpc_stream_open(f->channel, &request, &stream_events, f, &err);
    if (f->stream == NULL) {
        ps_link_unref(f);
        ps_link_over(f, &err);
    } else if (greet(f, &err) != 0) {
        rpc_stream_cancel(f->stream);
    }
}

void ps_link_greeted(struct ps_follow *f, bool opened)
{
    f->greeted = true;
    f->number = ps_standby_begin(f->shard);
    if (opened && f->near != NULL) {
        ps_near_begin(f->near, f->shard, f->number);
        f->copies.near = f->near;
    }
}

/* Waits for callbacks, which may be at work on the strand. */
static void run_end(void *ctx)
{
    struct ps_follow *f = ctx;
    if (f->timer.slot != 0) {
        loop_timer_clear(f->shard->ps->links, &f->timer);
        ps_link_unref(f);
    }
    if (f->stream != NULL) {
        rpc_stream_free(f->stream);
    }
    rpc_channel_free(f->channel);
    ps_link_unref(f);
}

void ps_link_end(struct ps_follow *f)
{
    end_near(f);
    if (!f->begun) {
        rpc_channel_free(f->channel); /* nothing was called on it */
        ps_link_unref(f);
    } else if (loop_post(f->shard->ps->links, run_end, f, NULL) != 0) {
        rpc_channel_cancel(f->channel); /* the server ends, and the process with it */
    }
}
