/* Which worker works on which split of the epoch (async and bounded modes), over the job's ledger.
 *
 * A lease has no deadline of its own: it ends with its report, when its worker gives it back, or
 * with its worker. Every call is O(1), but for the change of the epoch. Owner: the job. */
#ifndef GRADUS_MASTER_LEASE_H
#define GRADUS_MASTER_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "job/ledger.h"

struct lease {
    uint64_t epoch;
    uint32_t split;
    uint32_t batch_end; /* batches [0, batch_end) of the split */
    bool fresh;         /* nobody worked on it before */
};

struct leases {
    struct ledger ledger;
    uint64_t batches_total; /* of the whole training */
    uint64_t *owners;       /* [split_count] node number; 0: nobody */
    uint32_t *ends;         /* [split_count] batch_end; 0: never leased */
    uint32_t *returned;     /* stack of splits that lost their worker */
    uint32_t returned_count;
    uint32_t next;            /* first split never leased */
    uint32_t leased_count;    /* out at workers */
    uint64_t epoch_batches;   /* to do in this epoch */
    uint64_t granted_batches; /* of them, leased or done */
    uint64_t done_batches;    /* of them, reported */
};

/* @batches_total: epochs × batches, or fewer. Errors: ERR_INVALID, ERR_EXHAUSTED. */
int leases_init(struct leases *l, const struct ledger_shape *shape, uint64_t batches_total,
                struct err *err);
void leases_release(struct leases *l); /* zeroed is fine */
/* The next split for @owner (not 0), returned ones first; false: none is free in this epoch. */
bool leases_take(struct leases *l, uint64_t owner, struct lease *out);
/* The same lease once more, for an owner whose answer was lost. */
void leases_again(const struct leases *l, uint32_t split, struct lease *out);
/* @split goes to somebody else; ignored when @owner does not hold it. */
void leases_return(struct leases *l, uint32_t split, uint64_t owner);
/* All batches of @split are applied on every shard, whoever says so. False: unknown split or never
 * leased. Repeating it changes nothing. */
bool leases_report(struct leases *l, uint32_t split);
bool leases_epoch_done(const struct leases *l);
bool leases_all_done(const struct leases *l); /* of the whole training */
void leases_next_epoch(struct leases *l);
uint64_t leases_batches_before(const struct leases *l); /* of the epochs before this one */

#endif
