/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of a call about one running job share, as Jobs.Trace and Jobs.Tables are: a core that
 * is a table, a store of two rows, a loop, servers that are the job's nodes (the first one has the
 * master's services, too), and a client. */
#ifndef GRADUS_TESTS_UNIT_MASTER_SHELL_JOB_CALL_RIG_H
#define GRADUS_TESTS_UNIT_MASTER_SHELL_JOB_CALL_RIG_H

#include "support/test.h"

#include <pthread.h>

#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/shell.h"

#define JOB_CALL_NODES_MAX 3

extern struct job_call_rig {
    struct shell shell;
    struct rpc_channel *channel;
    struct job_record record, other; /* other.id NULL: there is none */
    struct master_node_info nodes[JOB_CALL_NODES_MAX];
    size_t node_count;
    pthread_mutex_t lock; /* guards what follows, and what tests say */
    pthread_cond_t changed;
    bool ended;  /* the call that nobody waits for */
    size_t ends; /* so many have */
    struct err end;
} job_rig;

extern char
    job_rig_job[]; /* "demo-1", of the record; "old-1" has ended, the row of "bad-1" is torn */

struct rpc_server *job_rig_server(void);
/* All methods of @d at @server, of which one is to be tested. */
void job_rig_serve(struct rpc_server *server, const ProtobufCServiceDescriptor *d,
                   struct rpc_method tested, void *service);
void job_rig_start(struct rpc_server *const *servers, size_t count);
void job_rig_stop(struct rpc_server *const *servers, size_t count);

/* Jobs.@method; the answer's body, or NULL, and job_rig_failed() says why. */
const void *job_rig_ask(const char *method, const ProtobufCMessage *body, struct rpc_msg **reply);
const struct err *job_rig_failed(void);
/* The last one was refused so. */
void job_rig_assert_refused(const void *answer, int code, const char *says);
/* The same, for nobody who waits: rig.ended and rig.end say when and how it ended. */
void job_rig_ask_nobody(struct rpc_channel *from, const char *method, const ProtobufCMessage *body);
/* A client of @server with a connection of its own. */
struct rpc_channel *job_rig_client(const struct rpc_server *server);

#endif
