/* SPDX-License-Identifier: Apache-2.0 */
/* Backups of shards, as the master's calls and heartbeats speak of them. Plain data. */
#ifndef GRADUS_MASTER_CORE_STANDBY_H
#define GRADUS_MASTER_CORE_STANDBY_H

#include <stdbool.h>
#include <stdint.h>

struct master_shard_location {
    uint32_t shard;
    const char *node, *address;
    uint64_t opening;
};

struct master_standby_call {
    bool is_backup; /* OPEN: what is opened is one */
    bool joins;     /* and its primary has begun before */
    bool promote;   /* MEMBERSHIP: the shard is the primary from this generation on */
    /* OPEN, MEMBERSHIP: where the backup of a primary is; node NULL: it has none */
    struct master_shard_location backup;
};

struct master_standby_said { /* HEARTBEAT: of a shard that the server has */
    uint64_t waits_ms;       /* a primary: it waits so long for its backup to receive a record */
    uint64_t behind;         /* a primary: records that its backup has not received */
    const char *problem;     /* a backup: why it can never be a primary; NULL or "": none */
    uint64_t backup;         /* a primary: the opening of the backup that this is about, */
    bool follows;            /* which can take over; before that: */
    uint64_t state_sent, state_bytes; /* so many bytes of its state have left, of so many */
};

#endif
