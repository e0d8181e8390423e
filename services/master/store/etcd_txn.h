/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of rows as the operations of one transaction of etcd. Plain data. */
#ifndef GRADUS_MASTER_STORE_ETCD_TXN_H
#define GRADUS_MASTER_STORE_ETCD_TXN_H

#include "master/store/etcd_client.h"
#include "master/store/store_journal.h"

/* etcd takes 128 operations and 1.5 MiB in a request, unless it is told otherwise. */
#define ETCD_OPERATIONS_MAX 120
#define ETCD_REQUEST_BYTES_MAX ((size_t)1 << 20)

struct etcd_txn { /* zeroed: empty */
    /* an end: all keys from the key up to it are deleted */
    char *keys[ETCD_OPERATIONS_MAX], *ends[ETCD_OPERATIONS_MAX];
    Etcdserverpb__RequestOp ops[ETCD_OPERATIONS_MAX + 1], *list[ETCD_OPERATIONS_MAX + 1];
    Etcdserverpb__PutRequest puts[ETCD_OPERATIONS_MAX + 1];
    Etcdserverpb__DeleteRangeRequest deletes[ETCD_OPERATIONS_MAX];
    size_t count, bytes;
};

/* Adds as many of @changes as there is room for, in their order; how many: one at least, when it is
 * empty. The values are borrowed. A run of deletions that leaves nothing below a key, such as those
 * of a job's curve, is one operation. */
size_t etcd_txn_fill(struct etcd_txn *t, const struct etcd *e, const struct journal_change *changes,
                     size_t count);
/* Makes operation @i the writing of @key; both are borrowed. There is room for one more than
 * etcd_txn_fill() uses. */
void etcd_txn_put(struct etcd_txn *t, size_t i, const char *key, ProtobufCBinaryData value);
void etcd_txn_release(struct etcd_txn *t); /* empties it */

#endif
