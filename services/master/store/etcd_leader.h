/* SPDX-License-Identifier: Apache-2.0 */
/* Which of several masters leads: the one whose key "PREFIX/leader" is there. It hangs on a lease
 * that a thread keeps; when that master dies, or etcd does not hear it for the length of the lease,
 * the key goes, and another master makes it anew, with another revision. */
#ifndef GRADUS_MASTER_STORE_ETCD_LEADER_H
#define GRADUS_MASTER_STORE_ETCD_LEADER_H

#include <stdbool.h>

#include "master/store/etcd_client.h"

#define ETCD_LEADER "leader"
#define ETCD_LEASE_S_MIN 2 /* etcd has none that are shorter */
#define ETCD_LEASE_S_MAX 600

struct etcd_leader;

/* All may be called on any thread. */
struct etcd_leader_events {
    /* True: somebody wants this process to end. */
    bool (*ending)(void *ctx);
    /* Waits: @leader, the address of the master that leads, or "" unknown; @why etcd does not
     * answer, or NULL. Comes when one of both has changed. */
    void (*waits)(void *ctx, const char *leader, const struct err *why);
    /* Does not lead any more: another master may. Comes once, and need not return. */
    void (*lost)(void *ctx, const struct err *why);
};

struct etcd_leader_options {
    struct etcd *etcd;   /* borrows */
    const char *address; /* of this master; copied */
    unsigned lease_s;
    const struct etcd_leader_events *events; /* borrows */
    void *ctx;
};

/* Waits until this master leads, however long etcd is away. Returns owned. Errors: ERR_CANCELLED
 * events->ending(). */
struct etcd_leader *etcd_leader_win(const struct etcd_leader_options *options, struct err *err);
/* Of its key, which every write compares. */
int64_t etcd_leader_revision(const struct etcd_leader *l);
/* To be asked before anything is done in the leader's name that a write does not fence. False:
 * another master may lead by now, and events->lost() was called. Any thread. */
bool etcd_leader_holds(struct etcd_leader *l);
/* A write has found another revision: as if the lease had ended. */
void etcd_leader_lose(struct etcd_leader *l, const struct err *why);
/* Gives the lead to whoever waits for it. NULL is fine. */
void etcd_leader_free(struct etcd_leader *l);

#endif
