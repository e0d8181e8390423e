/* SPDX-License-Identifier: Apache-2.0 */
/* gRPC's threads put messages in; the main thread takes them out. */
#include "cli/follow_inbox.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/plain.h"

static void wake(struct inbox *inbox)
{
    uint64_t one = 1;
    ssize_t n = write(inbox->event_fd, &one, sizeof one);
    (void)n; /* a full counter is readable all the same */
}

static void on_message(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct inbox *inbox = ctx;
    plain_reply(msg);
    pthread_mutex_lock(&inbox->mutex);
    if (inbox->count == INBOX_MAX) {
        rpc_msg_unref(inbox->jobs[--inbox->count]);
    }
    inbox->jobs[inbox->count++] = rpc_msg_ref(msg);
    pthread_mutex_unlock(&inbox->mutex);
    wake(inbox);
}

static void on_done(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    struct inbox *inbox = ctx;
    pthread_mutex_lock(&inbox->mutex);
    inbox->ended = true;
    inbox->err = status->err;
    plain_err(&inbox->err);
    pthread_mutex_unlock(&inbox->mutex);
    wake(inbox);
}

const struct rpc_stream_events inbox_stream_events = {.message = on_message, .done = on_done};

void inbox_cancelled(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    (void)reply;
    struct inbox *inbox = ctx;
    if (status->err.code == 0) {
        return; /* the job's state tells the rest */
    }
    pthread_mutex_lock(&inbox->mutex);
    inbox->cancel_failed = true;
    inbox->cancel_err = status->err;
    pthread_mutex_unlock(&inbox->mutex);
    wake(inbox);
}

void inbox_init(struct inbox *inbox)
{
    pthread_mutex_init(&inbox->mutex, NULL);
    inbox->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void inbox_release(struct inbox *inbox)
{
    for (size_t i = 0; i < inbox->count; i++) {
        rpc_msg_unref(inbox->jobs[i]);
    }
    (void)close(inbox->event_fd);
    pthread_mutex_destroy(&inbox->mutex);
}

void inbox_take(struct inbox *inbox, struct inbox_content *out)
{
    uint64_t count;
    ssize_t n = read(inbox->event_fd, &count, sizeof count);
    (void)n; /* only clears the counter */
    pthread_mutex_lock(&inbox->mutex);
    *out = (struct inbox_content){.count = inbox->count,
                                  .ended = inbox->ended,
                                  .cancel_failed = inbox->cancel_failed,
                                  .err = inbox->err,
                                  .cancel_err = inbox->cancel_err};
    memcpy(out->jobs, inbox->jobs, inbox->count * sizeof inbox->jobs[0]);
    inbox->count = 0;
    inbox->cancel_failed = false;
    pthread_mutex_unlock(&inbox->mutex);
}
