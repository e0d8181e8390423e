/* SPDX-License-Identifier: Apache-2.0 */
/* The client of the data plane in front of a server that does what it is told. */
#ifndef GRADUS_TESTS_UNIT_PS_CLIENT_PS_CLIENT_RIG_H
#define GRADUS_TESTS_UNIT_PS_CLIENT_PS_CLIENT_RIG_H

#include "ps_fake.h"

#include "host/local_socket.h"
#include "execution/loop.h"
#include "tensor/shape.h"

#define EXCHANGES_MAX 1088 /* open at once with one shard */
#define OPENING 31

struct ask {
    struct fake *f;
    struct ps_client_request request;
};

/* How values travel, of the clients started next. */
extern enum value_type client_gradients, client_parameters;
/* And how they poll; NULL: not at all. Borrowed. */
extern struct rpc_polling *client_polling;

/* Of a group of tests. */
int client_rig_setup(void **state);
int client_rig_teardown(void **state);

/* With @local also at a socket there, whose path is put into @path. */
void client_start_server(struct fake *f, const char *local, char path[LOCAL_SOCKET_BYTES]);
/* Tell the client that @shard is on @server. */
void client_place(struct fake *f, uint32_t shard, const struct rpc_server *server,
                  uint64_t opening);
/* A server and a client of all its shards; @local and @path as above. */
void client_start_with(struct fake *f, size_t message_bytes_max, const char *local,
                       char path[LOCAL_SOCKET_BYTES]);
void client_start(struct fake *f, size_t message_bytes_max);
/* The order of worker_job_free(). */
void client_finish(struct fake *f);

/* On the job's thread: the exchange of a `struct ask`, with arrays as it needs them. */
void client_run_ask(void *ctx);
/* The same from the test's thread. */
void client_carry_out(struct fake *f, const struct ps_client_request *request);
void client_exchange(struct fake *f, uint64_t number, uint32_t shard, bool push, bool pull);
/* What the server does with the exchanges that follow. */
void client_set_script(struct fake *f, enum script script);
/* What it says of their pushes. */
void client_set_result(struct fake *f, int32_t result);
/* The answer to exchange @number, which must be the next one. */
struct ps_answer client_next_answer(struct fake *f, uint64_t number);

#endif
