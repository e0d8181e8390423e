/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to the master, of the command line and of programs that use libgradus-client. */
#ifndef GRADUS_CLIENT_MASTER_CLIENT_H
#define GRADUS_CLIENT_MASTER_CLIENT_H

#include <signal.h>
#include <stdbool.h>

#include "base/err.h"
#include "gradus/v1/jobs.pb-c.h"
#include "rpc/rpc.h"
#include "service/tls_settings.h"

#define CLIENT_TIMEOUT_MS 5000

/* How long this process tries to reach a master, and waits for an answer that needs no work there:
 * CLIENT_TIMEOUT_MS until it is set. Set before the first call, by the main thread. */
void client_set_timeout(unsigned timeout_ms);
unsigned client_timeout_ms(void);
/* @timeout_ms, or that where it is longer. */
unsigned client_at_least_ms(unsigned timeout_ms);

struct client {
    struct rpc_channel *channel;
    struct rpc_credentials *credentials; /* NULL: plain */
    bool several;                        /* masters, of which one leads */
};

/* @tls NULL: plain. Errors: ERR_INVALID the address, or the files of TLS. Nothing is connected yet.
 */
int client_open(struct client *c, const char *master, const struct tls_settings *tls,
                struct err *err);
void client_close(struct client *c);
/* One unary call of service Jobs; tries to connect until @timeout_ms. @reply is owned:
 * rpc_msg_unref(). Errors name the master's address and how long it was tried: ERR_UNAVAILABLE the
 * master cannot be reached; ERR_TIMEOUT it cannot be reached in time, or does not answer;
 * ERR_UNKNOWN the master answers one of these two codes itself: it cannot do it now. Other codes
 * mean what they mean to the master. */
int client_call(struct client *c, const char *method, const ProtobufCMessage *body,
                unsigned timeout_ms, struct rpc_msg **reply, struct err *err);
/* Texts for fields of requests, where protobuf's structs have no const: nobody writes to them. */
char *client_text(const char *text);
char **client_texts(const char *const *texts);
/* SIGINT and SIGTERM: whoever waits for long blocks them first of all. */
sigset_t client_signals(void);
/* The last call of @c, which is closed. Once the master is connected it may take @timeout_ms, or
 * with 0 as long as the master lives. The signals of client_signals(), which are blocked, end it:
 * *@stopped, and 0. Errors as client_call(); ERR_TIMEOUT comes from the call alone. */
int client_call_last(struct client *c, const char *method, const ProtobufCMessage *body,
                     unsigned timeout_ms, struct rpc_msg **reply, bool *stopped, struct err *err);

#endif
