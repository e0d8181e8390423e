/* SPDX-License-Identifier: Apache-2.0 */
/* The real program, called as people do, against a master of this test that repeats what it was
 * asked, on a machine of its own. */
#ifndef GRADUS_TESTS_COMMANDS_RIG_H
#define GRADUS_TESTS_COMMANDS_RIG_H

#include "support/test.h"
#include "support/tmp_dir.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "gradus/v1/jobs.pb-c.h"
#include "os/file.h"
#include "rpc/rpc.h"

struct master_state {
    pthread_mutex_t lock; /* guards what follows */
    char method[16];      /* of the last call but Nodes, of which every one is the same */
    ProtobufCMessage *heard;
    int32_t state; /* that jobs are in */
    size_t watches, nodes, workers, calls;
    size_t unready_until; /* the first so many answers to Nodes name what it should stay for */
    bool evaluates;       /* the job that is watched has been evaluated at two steps */
    bool traces;          /* it has something to say about steps */
    int breaks;           /* what the next watch ends with, after a message; 0: nothing */
    bool interrupts;      /* in the middle of a watch or a checkpoint somebody presses Ctrl-C */
    bool lists_more;      /* than the one job in each answer to List */
    int refuses;          /* what the next cancelling or checkpoint is answered with; 0: as asked */
    char request_ids[2][64];
};

extern char *home, address[64];
extern struct rpc_server *server;
extern struct buf out, err_out;
extern const char JOB_FILE[];
extern struct master_state master;
int cli_set_up(void **state);
int cli_tear_down(void **state);
/* A file in @home. */
void cli_put(const char *name, const char *text);
void cli_read_file(const char *name, struct buf *to);
/* `gradus @words`, in @home; what it prints in `out` and `err_out`. */
int cli_gradus(const char *words);
void cli_expect(int code, const char *words);
/* The same, with the master's address behind it. */
void cli_expect_of(int code, const char *words);
void cli_says(const struct buf *where, const char *what);
void cli_says_not(const struct buf *where, const char *what);
/* What the master heard last. */
const void *cli_heard(const char *method);

#endif
