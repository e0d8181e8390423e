/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to a cluster of etcd, whichever of its members answers. Any thread. */
#ifndef GRADUS_MASTER_STORE_ETCD_CLIENT_H
#define GRADUS_MASTER_STORE_ETCD_CLIENT_H

#include <stdint.h>

#include "base/err.h"
#include "etcd/etcd.pb-c.h"
#include "rpc/rpc.h"

#define ETCD_MEMBERS_MAX 9
#define ETCD_SCHEME "etcd://"

struct etcd_settings {
    const char *url; /* etcd://HOST:PORT[,HOST:PORT]/PREFIX */
    /* files in PEM form; ca NULL or "": no TLS; cert and key may be left out */
    const char *ca, *cert, *key;
    const char *credentials; /* a file with the line USER:PASSWORD; NULL or "": none */
};

struct etcd;

/* Errors: ERR_INVALID the address is none, or the files of TLS are not good. */
int etcd_check(const struct etcd_settings *settings, struct err *err);
/* Connects with the first call. Returns owned. Errors: as etcd_check(). */
struct etcd *etcd_new(const struct etcd_settings *settings, struct err *err);
void etcd_free(struct etcd *e); /* NULL is fine */

const char *etcd_url(const struct etcd *e); /* for messages */
/* "PREFIX/@name" as a key; returns owned. */
char *etcd_key(const struct etcd *e, const char *name);
ProtobufCBinaryData etcd_bytes(const char *text); /* borrows */

/* A unary call, with @timeout_ms for all members that are tried: half of it for one that does not
 * answer, unless it is the last one. The next call begins with another member then. What a member
 * that does not answer was asked for may have been done all the same. @reply is owned:
 * rpc_msg_unref(). Errors: ERR_UNAVAILABLE, ERR_TIMEOUT no member answers; ERR_EXHAUSTED etcd has
 * no room; ERR_PERMISSION, ERR_UNAUTHENTICATED the user may not, or is none; others mean what they
 * mean to etcd. A token that is over is fetched anew meanwhile. */
int etcd_call(struct etcd *e, const ProtobufCServiceDescriptor *service, const char *method,
              const ProtobufCMessage *body, unsigned timeout_ms, struct rpc_msg **reply,
              struct err *err);
/* Keeps lease @id; *@ttl_s: for so long from now on, 0: it is over. Errors: as etcd_call(). */
int etcd_keep_alive(struct etcd *e, int64_t id, unsigned timeout_ms, int64_t *ttl_s,
                    struct err *err);

#endif
