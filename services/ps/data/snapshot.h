/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a shard at several versions at once, so that nobody who reads waits for an update
 * and no update waits for who reads.
 *
 * An update reads the present version and writes the next one into a free buffer; then that one is
 * the present. The version before the present stays, too: two buffers are enough until a reader is
 * slower than an update or a version is kept. Buffers are allocated when they are needed; for
 * versions that updates themselves wait for (the bases of gradients) their memory is reserved, so
 * that an update never waits for memory that only a later update would free. Those for slow readers
 * take memory that gradients would have else.
 *
 * Owner: the shard's strand calls everything but snapshot_release(), which any thread may call. */
#ifndef GRADUS_PS_DATA_SNAPSHOT_H
#define GRADUS_PS_DATA_SNAPSHOT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "ps/data/gradient_memory.h"
#include "tensor/half.h"

/* Besides one for each version that is kept: present, previous, 8 for slow readers. */
#define SNAPSHOT_BUFFERS_MAX 10

struct snapshots;

struct snapshot {
    struct snapshots *owner;
    struct floats values; /* floats, and behind them room for the same values in 16 bits */
    uint64_t coded;       /* number of values that are there in 16 bits; of the strand */
    uint64_t version;
    atomic_uint refs; /* 0: free */
    uint64_t bytes;   /* of its memory, */
    atomic_bool gone; /* its memory was given back */
};

struct snapshots {
    struct snapshot **items; /* each stays where it is: readers point to it */
    size_t count, capacity;
    size_t kept;     /* snapshot_keep() without snapshot_forget() */
    size_t reserved; /* buffers that are on the budget and not allocated yet */
    size_t lent;     /* buffers whose memory comes from `lender` */
    struct budget *budget;
    /* Lends the memory of those for slow readers. NULL: the budget is enough. */
    struct gradient_memory *lender;
    uint64_t elements;
    enum value_type type; /* the type in which readers may want values, besides floats */
    struct snapshot *present;
    struct snapshot *previous; /* NULL before the first update */
    atomic_bool wanted;        /* an update waits for a free buffer */
    atomic_bool closed;        /* unused buffers have no memory */
    /* Called once, on the releasing thread, when a buffer became free after snapshots_want(). */
    void (*freed)(void *ctx);
    void *ctx;
};

/* @elements zeros at @version; the caller fills in s->present->values before others read. With a
 * @type of 16 bits each version takes half as much memory again. Errors: ERR_EXHAUSTED. */
int snapshots_init(struct snapshots *s, uint64_t elements, enum value_type type, uint64_t version,
                   struct budget *budget, void (*freed)(void *ctx), void *ctx, struct err *err);
/* Call when no update comes any more: the memory of a version goes as soon as nobody reads it.
 * Nothing but snapshot_release(), snapshots_usage() and snapshots_release() may follow. */
void snapshots_close(struct snapshots *s);
void snapshots_release(struct snapshots *s); /* no reader has a reference */
/* Reserves memory for @kept kept versions besides the two newest; free memory beyond that is
 * returned. Errors: ERR_EXHAUSTED, and what was reserved stays. */
int snapshots_reserve(struct snapshots *s, size_t kept, struct err *err);

/* The buffer that holds @version, or NULL when it is not there; no reference. */
struct snapshot *snapshots_find(struct snapshots *s, uint64_t version);
/* A reference to @version, or NULL when it is not there. */
struct snapshot *snapshot_acquire(struct snapshots *s, uint64_t version);
void snapshot_ref(struct snapshot *snapshot, unsigned n);
/* The values in the snapshots' type of 16 bits, of which [0, end) are computed already; encoded
 * once for all readers. */
const unsigned char *snapshot_coded(struct snapshot *snapshot, uint64_t end);
void snapshot_release(struct snapshot *snapshot);
/* @version, which is readable, stays so until it was forgotten as often as it was kept. */
void snapshot_keep(struct snapshots *s, uint64_t version);
void snapshot_forget(struct snapshots *s, uint64_t version);

/* True if there is a buffer for the next version. Allocates one when that helps. */
bool snapshots_can_update(struct snapshots *s);
/* Calls `freed` as soon as there is such a buffer (at once when there is one already). */
void snapshots_want(struct snapshots *s);
/* The buffer to write the next version to; there must be one. The previous version is given up. Who
 * sends parts of it before it is committed takes references with snapshot_ref(). */
struct snapshot *snapshots_begin(struct snapshots *s);
/* Makes the written version the present one, and the present one the previous. */
void snapshots_commit(struct snapshots *s, struct snapshot *next);

struct snapshots_usage {
    size_t buffers; /* allocated */
    size_t held;    /* with a reference */
    uint64_t bytes; /* allocated and reserved */
};
void snapshots_usage(const struct snapshots *s, struct snapshots_usage *out);

#endif
