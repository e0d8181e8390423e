/* SPDX-License-Identifier: Apache-2.0 */
/* Standby: what a primary says to its backup.
 *
 * A primary says each change of what survives a generation to its backup before it makes it: in a
 * record, numbered from 1. While there is a record that the backup has not received, it begins no
 * update and answers nothing that shows what it is; so what it has shown the backup has, or will
 * have. A backup makes the same changes of the same records. It takes them in order, each once;
 * what it cannot follow breaks it, and it is never made a primary.
 *
 * A backup may *join* a primary that has begun before. Then the first record is the state of the
 * primary in the generation that names the backup. Until the backup has received it the primary
 * goes on as if it were alone, and its records wait, as long as the shell has room for them (an
 * update that may not begin for want of it waits as for a snapshot). From then on the backup
 * catches up: for two records that it receives one may be said, until there is hardly one that it
 * lacks; then it is as above. Only when the backup has received everything that was said, of steps
 * of sync at least one after the state (so that it has the version before, too, and the sums and
 * the decision that led to the present one), and when no version is pinned that was pinned before,
 * does it *follow*: it can take over.
 *
 * Which version is kept for a worker is said with the next update, not with the answer that shows
 * it, so nobody waits for that. Who takes over begins a generation, in which workers read anew. */
#ifndef GRADUS_PS_CORE_SHARD_RECORD_H
#define GRADUS_PS_CORE_SHARD_RECORD_H

#include <stdint.h>

#include "job/progress/exchange.h"

enum shard_role {
    SHARD_ALONE,   /* a primary without a backup */
    SHARD_PRIMARY, /* says records */
    SHARD_BACKUP,  /* hears records, and nothing else but its end and that it is the primary */
};

enum shard_record_kind {
    SHARD_RECORD_UPDATE,     /* to the next version */
    SHARD_RECORD_DECISION,   /* partial sync with rounds of sums: the lead's, of the present step */
    SHARD_RECORD_FILL,       /* initial values */
    SHARD_RECORD_PIN,        /* of the present version */
    SHARD_RECORD_UNPIN,      /* there may be no such pin */
    SHARD_RECORD_MEMBERSHIP, /* a new generation */
    SHARD_RECORD_STATE,      /* all of the shard; the first record of a backup that joins, only */
};

struct shard_record {
    enum shard_record_kind kind;
    uint64_t number;
    uint64_t generation, version; /* of the shard, before the change; of the state */
    /* SHARD_RECORD_UPDATE; its summed gradient is a buffer, none without examples.
     * SHARD_RECORD_STATE: of all updates up to @version */
    uint64_t examples;
    uint64_t pushes_applied; /* SHARD_RECORD_STATE: in all */
    uint32_t pushes;         /* that the update is the sum of */
    uint64_t epoch;          /* async, bounded: which batches, and what they were computed on */
    uint32_t split, batch, batch_end;
    uint64_t base_version;
    uint32_t worker; /* whose; as those below, its place among the workers, from 1. 0: of none */
    /* Async, bounded, where an update wants what a worker read: workers that were sent @version,
     * rising. It is kept for them before the update is made. Borrowed */
    const uint32_t *sent;
    size_t sent_count;
    uint32_t rounds; /* sync: of sums; the shell has their totals */
    /* SHARD_RECORD_UPDATE in partial sync, SHARD_RECORD_DECISION; SHARD_RECORD_STATE, when one of
     * the present step is known. Borrowed */
    struct exchange_decision decision;
};

#endif
