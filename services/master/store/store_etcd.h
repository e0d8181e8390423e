/* SPDX-License-Identifier: Apache-2.0 */
/* The store of several masters, of which one leads: rows are keys of etcd. The master that leads
 * has all of them in memory besides, in a database of SQLite, from which it reads and by which it
 * decides; a row is in etcd before it is there. Each write compares the revision of the leader's
 * key (etcd_leader.h), so a master that does not lead any more changes nothing.
 *
 * Keys, below the prefix: "leader"; "head", which each write changes, so that one that comes late
 * changes nothing; and one for each row: "job/digits-1", "text/owner",
 * "point/digits-1/000000000000002a". */
#ifndef GRADUS_MASTER_STORE_STORE_ETCD_H
#define GRADUS_MASTER_STORE_STORE_ETCD_H

#include "master/store/etcd_leader.h"
#include "master/store/store.h"

struct store_etcd;

struct store_etcd_options {
    struct etcd_settings settings;
    const char *address;                     /* of this master, for those that wait */
    unsigned lease_s;                        /* ETCD_LEASE_S_MIN to ETCD_LEASE_S_MAX */
    const struct etcd_leader_events *events; /* borrows */
    void *ctx;
};

/* Waits until this master leads; then nothing is lost but by events->lost(). Returns owned. Errors:
 * ERR_INVALID; ERR_CANCELLED events->ending(). */
struct store_etcd *store_etcd_lead(const struct store_etcd_options *options, struct err *err);
/* Reads all rows, however long etcd is away. @out is closed before @e is freed. Errors: ERR_CORRUPT
 * a value is no row; ERR_UNSUPPORTED of another version; ERR_CANCELLED. */
int store_etcd_open(struct store_etcd *e, struct store **out, struct err *err);
/* As etcd_leader_holds(). Any thread. */
bool store_etcd_leads(struct store_etcd *e);
/* Gives the lead up. NULL is fine. */
void store_etcd_free(struct store_etcd *e);

#endif
