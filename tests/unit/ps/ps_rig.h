/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter server in this process behind real gRPC, and a client. A program that wants another
 * size defines ROWS or PS_RIG_SHARDS_MAX before this, and has ps_rig_setup() called. */
#ifndef GRADUS_TESTS_PS_RIG_H
#define GRADUS_TESTS_PS_RIG_H

#include "support/test.h"
#include "support/tmp_dir.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/shard_key.h"
#include "os/file.h"
#include "base/mem.h"
#include "gradus/v1/ps.pb-c.h"
#include "ps/rpc/ps.h"
#include "rpc/rpc.h"
#include "host/local_socket.h"
#include "wire/wire.h"

#define VALUES 15
#ifndef PS_RIG_SHARDS_MAX
#define PS_RIG_SHARDS_MAX 2
#endif
#ifndef ROWS
#define ROWS 1000
#endif
#define COLUMNS 60
#define ELEMENTS (ROWS * COLUMNS + COLUMNS)

/* Of the plans and servers made next. */
extern uint64_t ps_rig_rows;
extern unsigned ps_rig_shards_max;
/* ELEMENTS of the program. */
size_t ps_rig_elements(void);

/* Of a group of tests. */
int ps_rig_begin(void **state);
int ps_rig_teardown(void **state);

static inline int ps_rig_setup(void **state)
{
    ps_rig_rows = ROWS;
    ps_rig_shards_max = PS_RIG_SHARDS_MAX;
    return ps_rig_begin(state);
}

struct ps_rig {
    struct meter_registry *meters;
    struct ps *ps;
    struct rpc_server *server;
    struct rpc_channel *channel;
    char *dir;
    char local[80];      /* where its local socket is */
    const char *key;     /* in the metadata of calls; NULL: none */
    atomic_uint refused; /* calls without the right one */
};

/* @gradient_bytes_max 0: no limit of its own; @apply_threads: 0 for as many as the server likes. */
void ps_rig_start_full(struct ps_rig *rig, uint64_t memory_bytes_max, uint64_t gradient_bytes_max,
                       unsigned apply_threads);
void ps_rig_start(struct ps_rig *rig, uint64_t memory_bytes_max);
/* From now on through the server's local socket. */
void ps_rig_go_local(struct ps_rig *rig);
void ps_rig_stop(struct ps_rig *rig);
/* One call; returns the code. @reply may be NULL, else: rpc_msg_unref(). */
int ps_rig_call(struct ps_rig *rig, const char *method, const ProtobufCMessage *body,
                const float *values, size_t floats, struct rpc_msg **reply, struct err *err);
/* A call on a connection of its own that nobody waits for: the server has it until it is given up.
 */
struct ps_rig_guest {
    struct rpc_channel *channel;
    int code; /* of its end */
};
void ps_rig_ask(struct ps_rig_guest *g, struct ps_rig *rig, const struct rpc_request *request);
/* Give it up; it must not have ended before. */
void ps_rig_give_up(struct ps_rig_guest *g);
/* Of shard 0. */
Gradus__V1__ShardRef ps_rig_ref(char *job, uint64_t generation);

/* What an OpenShard says. */
struct ps_rig_opening {
    char *job;
    const char *rule;
    const char *training; /* further keys, each after a comma; NULL: none */
    const char *tables;   /* "[{name: a, dim: 2}]"; NULL: none */
    uint64_t generation;
    struct consistency consistency;
    uint32_t shard, shards; /* this one of so many; 0: of one */
    uint64_t version;
    char *restore;   /* NULL: nothing */
    char *rows_from; /* NULL: nowhere */
    uint64_t rows_manifest;
    bool given; /* workers bring the initial values */
    uint64_t opening;
    ProtobufCBinaryData secret;
    uint64_t epoch;
    uint32_t done[3]; /* of 3 splits of 2, 2 and 1 batches of 10 records */
    size_t workers;   /* "w0", "w1", ...; 0: 2 */
    bool is_backup, joins;
    char *backup_at; /* the address of its backup's server; NULL: it has none */
    uint64_t backup; /* and its opening */
};

#define PS_RIG_WORKERS_MAX 8

/* Of a job that waits for all of @replicas; @mode as a job file has it. */
struct consistency ps_rig_consistency(const char *mode, uint32_t replicas);
/* Their job file. @more: further keys of training, each after a comma. Returns owned. */
char *ps_rig_text(const char *mode, const char *rule, const char *more, const char *tables);
/* Of ps_rig_rows rows and a bias, over so many shards. */
void ps_rig_plan(uint32_t shards, struct plan *plan);
/* What @o says is done. */
void ps_rig_ledger(const struct ps_rig_opening *o, struct ledger *ledger);
/* OpenShard; returns the code. @reply may be NULL. */
int ps_rig_open_as(struct ps_rig *rig, const struct ps_rig_opening *o, struct rpc_msg **reply,
                   struct err *err);
/* The same for the one shard of a job that is new. */
int ps_rig_open(struct ps_rig *rig, char *job, const char *mode, const char *rule,
                uint64_t generation, uint32_t replicas, struct err *err);
/* The test fails unless @rc is @code, and @err says so. */
void ps_rig_expect(int rc, int code, const struct err *err, const char *says);
/* Pull of a version (or the latest, or a pin) into @out, which has room for ELEMENTS. */
int ps_rig_pull(struct ps_rig *rig, char *job, Gradus__V1__Pull__Kind kind, uint64_t version,
                char *pin_id, float *out, uint64_t *got, struct err *err);
/* A push by an Exchange on a stream of its own, as worker "w0"; returns the code, of the exchange
 * or of a stream that ended without an answer. @result may be NULL. */
int ps_rig_push_to(struct ps_rig *rig, Gradus__V1__ShardRef *ref, Gradus__V1__Push *push,
                   const float *values, size_t floats, Gradus__V1__PushResult *result,
                   struct err *err);
/* Push of replicas [@lo, @hi) of @step; returns the code. @result may be NULL. */
int ps_rig_push(struct ps_rig *rig, char *job, uint64_t step, uint32_t lo, uint32_t hi,
                const float *values, size_t floats, uint64_t examples,
                Gradus__V1__PushResult *result, struct err *err);

#endif
