/* SPDX-License-Identifier: Apache-2.0 */
/* A worker process, the master and the parameter server that it talks to. Each program that uses it
 * is also the worker: main() begins with shell_be_a_worker(). */
#ifndef GRADUS_TESTS_WORKER_SHELL_RIG_H
#define GRADUS_TESTS_WORKER_SHELL_RIG_H

#include "support/ps_methods.h"
#include "support/test.h"
#include "support/tmp_dir.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "gradus/v1/cluster.pb-c.h"
#include "gradus/v1/ps.pb-c.h"
#include "gradus/v1/worker.pb-c.h"
#include "os/chrono.h"
#include "service/address.h"
#include "service/spawn.h"
#include "wire/wire.h"
#include "worker/job/worker_model.h"
#include "worker/job/worker_shell.h"

#define AS_WORKER "as-worker"
#define WAIT_MS 60000
#define RECORDS 64
#define BATCH 8
#define SPLIT_BATCHES 4
#define SPLITS 2
#define GENERATION 3
#define START 7
#define STALENESS 6        /* of each push that was applied */
#define STALENESS_BUCKET 4 /* 0, 1, 2, 3 to 4, 5 to 8 */
#define NOTES_MAX 32

/* What the worker did, in order. */
enum note { NOTE_PUSHED, NOTE_ANSWERED, NOTE_IDLE, NOTE_LEFT };

/* What is wrong with the shard's place in assignments. */
enum shell_place { PLACE_RIGHT, PLACE_MISSING, PLACE_NO_ADDRESS };

/* The one shard, on the server of this test; points into itself. */
struct shell_location {
    char node[8], *address; /* the caller's to free */
    Gradus__V1__ShardLocation at, *list;
};

struct fixture {
    char *dir, *log_path, *data_path;
    char text[1024];
    struct worker_model model;
    struct model *layers;
    struct plan plan;
    struct rpc_server *server;
    struct spawn worker;
    struct rpc_channel *channel;
    char http[64]; /* where the worker's metrics are */
    enum shell_place place;
    /* Fill of the shard; NULL: it is not served. Its service is the fixture. */
    void (*fill)(struct rpc_call *call, struct rpc_msg *msg, void *service);
    uint64_t start; /* number of the next StartJob; calls after it are for that start */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    _Atomic uint64_t incarnation; /* of the worker */
    bool hold;                    /* answers to pushes are kept back */
    struct rpc_call *held_call;   /* with this one */
    uint64_t held_exchange;
    bool hold_pins; /* the same for what an evaluation reads */
    uint64_t version;
    bool lease;                /* the second split is free; else nobody gets any */
    unsigned leases;           /* requests for them */
    uint32_t reported[SPLITS]; /* batch_end of the splits that were reported */
    uint64_t staleness[STALENESS_BUCKET + 1], batches, examples;
    bool failed;
    bool refuse;  /* exchanges, so that the worker gives the job up */
    int32_t code; /* of the failure that it reported */
    char message[256];
    unsigned heartbeats;
    char held[64]; /* what the last one said: "job-1/3" */
    uint64_t held_start;
    char *stop_job;        /* each answer says that this one is over; NULL: none */
    uint64_t stop_opening; /* likewise; 0: none */
    char works[128];       /* and that it is at: "job-1 step;" for each */
    uint64_t sequence;
    enum note notes[NOTES_MAX];
    size_t note_count;
};

void shell_note(struct fixture *f, enum note what);
void shell_begin(struct fixture *f, const char *mode, const char *grace);
/* A worker that has a program of the user's, for which it waits before it joins: it listens from
 * then on, and calls to it wait until it does. */
void shell_begin_early(struct fixture *f, const char *mode, const char *program);
/* Until it says where it listens, into @address, which it does when it is ready. */
void shell_wait_ready(struct fixture *f, char address[64]);
void shell_end(struct fixture *f);
int shell_call_for(struct fixture *f, const char *method, const ProtobufCMessage *body,
                   struct rpc_msg **reply, struct err *err);
int shell_call(struct fixture *f, const char *method, const ProtobufCMessage *body,
               struct err *err);
extern char job_id[];
extern ProtobufCBinaryData secret;
/* StartJob as the master says it, but for the incarnation and the shards; wire_plan_release(). */
void shell_start_request(struct fixture *f, Gradus__V1__Plan *plan, Gradus__V1__StartJobRequest *r);
void shell_start_job(struct fixture *f);
void shell_locate(struct fixture *f, struct shell_location *l);
int shell_assign(struct fixture *f, uint64_t generation, bool hold, struct err *err);
/* Until the worker knows that it has joined. */
void shell_wait_joined(struct fixture *f);
/* Keep back the answer to a push from now on: before the worker begins, or it may be through. */
void shell_hold_pushes(struct fixture *f);
/* Wait until one came. */
void shell_wait_held(struct fixture *f);
void shell_let_go(struct fixture *f);
/* Of an evaluation: what shell_wait_held() waited for. */
void shell_answer_pin(struct fixture *f);
void shell_assert_ended(struct fixture *f);
void shell_wait_for(struct fixture *f, enum note what);
/* argv[1] is the test's directory. */
int shell_be_a_worker(int argc, char **argv);

#endif
