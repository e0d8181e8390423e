/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the core, carried out over real gRPC to a node that repeats what it heard; and what the
 * core hears of the answers. */
#ifndef GRADUS_TESTS_SHELL_CALL_RIG_H
#define GRADUS_TESTS_SHELL_CALL_RIG_H

#include "support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gradus/v1/ps.pb-c.h"
#include "gradus/v1/worker.pb-c.h"
#include "master/shell/shell.h"
#include "wire/wire.h"

struct rig_state {
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    /* The node's: the last request, and what it answers. */
    const char *method;
    ProtobufCMessage *heard;
    const ProtobufCMessage *answer; /* NULL: it refuses */
    /* The core's: the last event. */
    size_t events;
    struct master_call_done done;
    struct err err;
    struct ledger ledger;
    double sums[2];
    char file[64], problem[64];
};

struct to_loop {
    struct shell *shell;
    const struct master_call *call;
};

extern const char TEXT[];
extern struct rig_state rig;
extern struct shell call_shell;
extern struct plan plan;
extern struct ledger ledger;
extern struct consistency consistency;
extern struct dataset_info train, test;
int call_set_up(void **state);
int call_tear_down(void **state);
extern uint64_t call_number;
struct master_call call_of(enum master_call_kind kind);
/* Makes the call; what the node heard, when its event has come. */
const ProtobufCMessage *call_carry_out(const struct master_call *call, const char *method,
                                       const ProtobufCMessage *answer);
void call_expect_well(void);
void call_expect_failed(int code, const char *says);
void call_expect_secret(const ProtobufCBinaryData *secret);
/* A worker's own, and not the job's. */
void call_expect_worker_secret(const ProtobufCBinaryData *secret);
void call_expect_plan(const Gradus__V1__Plan *in);
void call_expect_ledger(const Gradus__V1__Ledger *in);
void call_expect_consistency(const Gradus__V1__Consistency *in);

#endif
