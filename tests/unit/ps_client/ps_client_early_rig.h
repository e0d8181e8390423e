/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter server that sends the rest of an answer when the test says so, or does not. */
#ifndef GRADUS_TESTS_UNIT_PS_CLIENT_PS_CLIENT_EARLY_RIG_H
#define GRADUS_TESTS_UNIT_PS_CLIENT_PS_CLIENT_EARLY_RIG_H

#include "support/ps_methods.h"
#include "support/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "gradus/v1/ps.pb-c.h"
#include "ps_client/ps_client_state.h"
#include "rpc/rpc.h"
#include "wire/wire_values.h"

#define SHARDS 2
#define VARIABLES 3
#define ROWS 40 /* of each variable; half of them on each shard */
#define COLUMNS 4000
#define COUNT (ROWS * COLUMNS)
#define FLAT_COUNT (VARIABLES * COUNT)
#define PART (COUNT / 2) /* of a variable on a shard */
#define VERSION 7
#define ANSWERS_MAX 16

struct fake {
    struct rpc_server *server;
    struct plan plan;
    struct ps_client *client;
    struct loop *loop;
    uint64_t offsets[VARIABLES];
    float *values;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct rpc_call *calls[SHARDS]; /* the last stream of each */
    uint64_t asked[SHARDS];         /* the last exchange */
    struct ps_answer answers[ANSWERS_MAX];
    size_t answered;
    bool waited;
    int code; /* of the wait */
    struct err err;
};

struct ask {
    struct fake *f;
    struct ps_client_request request;
};

struct query {
    struct fake *f;
    size_t variable;
    bool answer;
};

/* Elements of the first message: one variable and a bit. */
#define FIRST (PART + 5)

void early_start(struct fake *f);
/* The order of worker_job_free(). */
void early_finish(struct fake *f);
/* And the server has heard of it. */
void early_ask(struct fake *f, uint64_t number, uint32_t shard, bool pull, bool early);
bool early_has(struct fake *f, size_t variable);
/* Have the job's thread wait for it, beside what the test does next. */
void early_wait_begin(struct fake *f, size_t variable);
int early_wait_end(struct fake *f);
int early_wait_for(struct fake *f, size_t variable);
void early_respond(struct fake *f, const Gradus__V1__ExchangeResponse *m, uint32_t shard,
                   const struct rpc_blob *blob);
void early_send_version(struct fake *f, uint64_t number, uint32_t shard, uint64_t first,
                        uint64_t count, float mark, uint64_t version);
void early_send_part(struct fake *f, uint64_t number, uint32_t shard, uint64_t first,
                     uint64_t count, float mark);
void early_wait_answered(struct fake *f, size_t count);
/* What the shard sent before has been taken when this is answered: nothing else was. */
void early_after_all_that(struct fake *f, uint64_t number, uint32_t shard);
/* Elements [first, first + count) of @shard in the flat array are those that were sent, or all of
 * them are @mark when it is 0. */
void early_check_landed(const struct fake *f, uint32_t shard, uint64_t first, uint64_t count,
                        float mark);
/* An early pull of @shard whose first message, with one variable and a bit, was answered. */
void early_begin(struct fake *f, uint64_t number, uint32_t shard);
void early_send_rest(struct fake *f, uint64_t number, uint32_t shard, float mark);

#endif
