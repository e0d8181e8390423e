/* SPDX-License-Identifier: Apache-2.0 */
/* The service of echo.proto, and what tests around it need. */
#ifndef GRADUS_TESTS_SUPPORT_ECHO_SERVICE_H
#define GRADUS_TESTS_SUPPORT_ECHO_SERVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <echo.pb-c.h>

#include "rpc/rpc.h"

#define ECHO_BULK_FIELD 15
#define ECHO_METHOD_COUNT 4

extern const unsigned char echo_descriptors[];
extern const unsigned char echo_descriptors_end[];
extern const struct rpc_method echo_methods[ECHO_METHOD_COUNT];

typedef Gradus__Test__Item echo_item;

/* A counter to wait for, at most 60 s. */
struct latch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned count;
};

void latch_init(struct latch *l);
void latch_release(struct latch *l);
void latch_add(struct latch *l);
unsigned latch_count(struct latch *l);
bool latch_wait(struct latch *l, unsigned count); /* false when it takes too long */

/* The state behind echo_methods. */
struct echo {
    struct latch held;      /* calls that "hang" */
    struct latch done;      /* calls that are over */
    struct latch cancelled; /* of these, cancelled */
    struct latch filled;    /* streams that hit the limit of their queue */
    pthread_mutex_t lock;
    struct rpc_call *hanging; /* the last one; owns a reference */
};

void echo_init(struct echo *e);
void echo_release(struct echo *e);
/* Answer the call that hangs, with @text. */
void echo_answer(struct echo *e, const char *text);

/* A server with the echo service on 127.0.0.1 and a free port; NULL on failure. @change may be
 * NULL. */
struct rpc_server *echo_server(struct echo *e, const struct rpc_server_options *change,
                               struct err *err);

#endif
