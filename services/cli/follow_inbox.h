/* SPDX-License-Identifier: Apache-2.0 */
/* What the callbacks of a watched job leave for the main thread, which polls @event_fd. */
#ifndef GRADUS_CLI_FOLLOW_INBOX_H
#define GRADUS_CLI_FOLLOW_INBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "client/master_client.h"

#define INBOX_MAX                                                                                  \
    16 /* of more messages than these the newest stays, in place of the one before                 \
        */

struct inbox {
    pthread_mutex_t mutex;
    struct rpc_msg *jobs[INBOX_MAX]; /* the oldest first */
    size_t count;
    bool ended;
    struct err err;
    bool cancel_failed;
    struct err cancel_err;
    int event_fd;
};

/* What was there. */
struct inbox_content {
    struct rpc_msg *jobs[INBOX_MAX]; /* owned */
    size_t count;
    bool ended, cancel_failed;
    struct err err, cancel_err;
};

void inbox_init(struct inbox *inbox);
void inbox_release(struct inbox *inbox);
/* Messages, and that a cancel has failed, are told once. */
void inbox_take(struct inbox *inbox, struct inbox_content *out);
/* Of a stream of Jobs.Watch; the context is the inbox. */
extern const struct rpc_stream_events inbox_stream_events;
/* Of a call of Jobs.Cancel; likewise. */
void inbox_cancelled(void *ctx, const struct rpc_status *status, struct rpc_msg *reply);

#endif
