/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker and a shard say to each other in one exchange: one struct for each kind, passed on
 * whole between the messages (wire/wire_exchange.h), the shells and both cores. The fields are
 * those of proto/gradus/v1/ps.proto, whose comments say what they mean.
 *
 * Plain data. Bytes are borrowed; whoever makes the struct says for how long.
 *
 * Decisions of the lead travel with the workers (decision 17). Which replicas make up a step that
 * does not wait for all, and whether a gradient is too stale, must be the same on all shards. The
 * lead, shard 0, decides and tells the workers in its answers; the workers tell the other shards.
 * So servers need no connections among themselves and no retries, and whoever needs a step brings
 * the decision along, whatever died. The price is half a round trip on the late shards.
 *
 * A spare replica is asked for by an idle worker, not assigned by the master (decision 19). The
 * lead knows what is missing at this moment, and remembers which worker was slow, so from the
 * second time on nobody waits for a straggler. When the lead has all of a step, the worker asks the
 * other shards in turn for what they lack: another worker may stop between the two pushes of one
 * gradient, and the step would otherwise wait until that worker counts as dead. */
#ifndef GRADUS_JOB_PROGRESS_EXCHANGE_H
#define GRADUS_JOB_PROGRESS_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXCHANGE_PIN_ID_BYTES 130        /* one byte more than any id has, and the NUL */
#define EXCHANGE_DECISION_BYTES_MAX 8192 /* a bit for each of 65536 replicas */

/* The kinds of exchanges. */
enum exchange_kind {
    EXCHANGE_NONE,   /* nothing was said: every peer refuses it */
    EXCHANGE_TRAIN,  /* a decision, a push, a word of being idle, a pull: at least one of them */
    EXCHANGE_PINNED, /* a pull of a pinned version */
    EXCHANGE_SPARE,  /* a request for a spare replica */
    EXCHANGE_SUMS,   /* a request for the sums of a round */
    EXCHANGE_TOTALS, /* brings the totals of a round */
    EXCHANGE_ROWS,   /* reads rows of tables, of one version that was shown */
};

/* ---- requests ---- */

struct exchange_push { /* Push, without its values */
    uint64_t step;     /* sync */
    uint32_t replica_first, replica_end;
    uint64_t epoch;                   /* async, bounded */
    uint32_t split, batch, batch_end; /* batches [batch, batch_end); batch_end 0: batch + 1 */
    uint64_t examples;
    uint64_t base_version;
    bool decided;   /* POLICY_MAX_STALENESS: the lead took it */
    bool spare;     /* sync: of a replica that another worker is late with */
    uint64_t clock; /* bounded: of the worker, with these batches; 0: outside of all waiting */
};

enum pull_kind { PULL_LATEST, PULL_VERSION, PULL_AT_LEAST };

struct exchange_pull { /* Pull */
    enum pull_kind kind;
    uint64_t version;
    bool progress; /* answer with the batches of (epoch, split) that were applied */
    uint64_t epoch;
    uint32_t split;
    uint64_t clock; /* bounded: as in the push */
    bool joins;     /* bounded: answer with the clock to count from */
};

struct exchange_decision { /* Decision; no bytes: there is none */
    uint64_t step;
    const uint8_t *replicas; /* a bit for each */
    size_t bytes;
};

struct exchange_round { /* SumsRequest: a round of sums of a step */
    uint64_t step;
    uint32_t round;
};

struct exchange_totals { /* Totals */
    struct exchange_round of;
    const void *data;
    size_t bytes;
};

enum rows_of { ROWS_OF_LATEST, ROWS_OF_VERSION, ROWS_OF_PIN };

struct exchange_rows { /* RowsRequest, without the keys */
    enum rows_of of;
    uint64_t version; /* ROWS_OF_VERSION: the present version or the one before it */
};

/* Everything but the part of @kind is zero. */
struct exchange_request {
    enum exchange_kind kind;
    /* EXCHANGE_TRAIN */
    bool has_push, has_pull;
    bool idle;        /* bounded: nobody waits for this worker until its next push or pull */
    uint64_t session; /* bounded: from a join to idle; the worker counts them */
    bool has_decision;
    struct exchange_push push;
    struct exchange_pull pull;
    struct exchange_decision decision;
    /* the others */
    char pin_id[EXCHANGE_PIN_ID_BYTES]; /* EXCHANGE_PINNED; EXCHANGE_ROWS: ROWS_OF_PIN */
    uint64_t spare_step;                /* EXCHANGE_SPARE */
    struct exchange_round sums;         /* EXCHANGE_SUMS */
    struct exchange_totals totals;      /* EXCHANGE_TOTALS */
    struct exchange_rows rows;          /* EXCHANGE_ROWS */
};

/* ---- answers ---- */

enum push_result { /* PushResult */
                   PUSH_NONE,
                   PUSH_ACCEPTED,
                   PUSH_APPLIED,
                   PUSH_DUPLICATE,
                   PUSH_STALE,   /* sync: its step is complete without it */
                   PUSH_DROPPED, /* async, bounded: above max_staleness */
};

struct exchange_trained { /* answer to a push, a pull, a decision */
    enum push_result push;
    uint64_t staleness; /* of a push that was applied */
    uint32_t progress;
    uint64_t clock; /* answer to a pull that joins */
};

struct exchange_spare { /* SpareResponse */
    bool given;
    uint32_t replica;
    uint32_t wait_ms; /* 0: all of the step is in */
};

struct exchange_sums { /* Sums */
    struct exchange_round of;
    bool known; /* the data are the totals */
    bool over;  /* no data: the step is so long ago that every shard is past it */
    const void *data;
    size_t bytes;
};

/* All parts are zero but that of @kind, which is that of the request. */
struct exchange_answer {
    enum exchange_kind kind;
    struct exchange_trained train;
    struct exchange_spare spare;
    struct exchange_sums sums;
    struct exchange_decision decision; /* of the lead; in answers to pushes and requests for sums */
};

#endif
