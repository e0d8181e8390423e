/* SPDX-License-Identifier: Apache-2.0 */
/* Polling for events of a completion queue: rpc_polling.c has what the process shares and what one
 * waiting thread has, rpc_loop.c the loop that another thread may poll. */
#ifndef GRADUS_RPC_RPC_POLLING_H
#define GRADUS_RPC_RPC_POLLING_H

#include "base/poll_policy.h"
#include "rpc/rpc_grpc.h"

/* One thread that waits; used by it alone. */
struct rpc_waiter {
    struct rpc_polling *polling; /* NULL: it never polls */
    struct poll_policy policy;
    enum poll_why told; /* the decision that is counted for it */
    uint64_t since_ns;  /* its wait began */
    uint64_t polled_ns; /* time that it may poll */
};

void rpc_waiter_init(struct rpc_waiter *w, struct rpc_polling *polling);
void rpc_waiter_release(struct rpc_waiter *w);
/* A wait begins: poll for so many ns, then sleep; 0: sleep at once. Nothing but 0 without
 * polling. */
uint64_t rpc_waiter_begin(struct rpc_waiter *w);
/* The wait is over: the event is there. */
void rpc_waiter_end(struct rpc_waiter *w);

/* The next event of @cq, which belongs to this thread. Nothing can be missed between polling and
 * sleeping: both take from the queue, and events that come in between lie there. */
grpc_event rpc_waiter_next(struct rpc_waiter *w, grpc_completion_queue *cq);
/* An event that is there now; GRPC_QUEUE_TIMEOUT: none. Looks at the connections. */
grpc_event rpc_event_now(grpc_completion_queue *cq);
void rpc_event_run(const grpc_event *event);

#endif
