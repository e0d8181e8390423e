/* SPDX-License-Identifier: Apache-2.0 */
/* Following a job to its end: progress on stderr, the result on stdout, Ctrl-C. */
#ifndef GRADUS_CLI_FOLLOW_H
#define GRADUS_CLI_FOLLOW_H

#include "base/buf.h"
#include "client/master_client.h"

enum follow_interrupt {
    FOLLOW_CANCEL, /* Ctrl-C cancels the job; again: stop at once */
    FOLLOW_DETACH, /* Ctrl-C stops watching; the job goes on */
};

enum follow_result {
    FOLLOW_TEXT,
    FOLLOW_JSON,
    FOLLOW_LINES, /* a line of JSON for each event (watch_lines.h), and no word for people */
};

struct follow_options {
    const char *job;
    const char *where;       /* that of struct cli_args, for commands to type next */
    const char *tensorboard; /* directory for event files (tensorboard.h); NULL or "": none */
    enum follow_result result;
    enum follow_interrupt interrupt;
    /* Called several times a second; lines added to @notices are shown, a negative code ends it
     * with
     * @err. May be NULL. */
    int (*tick)(void *ctx, struct buf *notices, struct err *err);
    /* Called with each state of the job that is seen; who wants them prints the result itself. */
    void (*look)(void *ctx, struct rpc_msg *job);
    /* Called with true before Ctrl-Z stops this process, and with false when it goes on. NULL:
     * nothing else is stopped with it. */
    void (*suspend)(void *ctx, bool stop);
    void *ctx;
};

#define FOLLOW_STOPPED 130 /* exit code after a second Ctrl-C, or the first when detaching */

/* Block the signals of client_signals() in this thread and those it makes: first of all in a
 * command that follows; with @suspends that of Ctrl-Z, too. */
void follow_block_signals(bool suspends);
/* Returns the exit code of the command. */
int follow(struct client *client, const struct follow_options *options);
/* Print the result of @job, which does not change any more, and return the exit code. */
int follow_ended(const Gradus__V1__Job *job, enum follow_result how);
/* cli_fail(); of FOLLOW_LINES the error is a line of them. */
int follow_fail(const struct err *err, enum follow_result how);

#endif
