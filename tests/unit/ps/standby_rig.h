/* SPDX-License-Identifier: Apache-2.0 */
/* A primary's core, its backup's, and what is on its way between them. */
#ifndef GRADUS_TESTS_PS_STANDBY_RIG_H
#define GRADUS_TESTS_PS_STANDBY_RIG_H

#include "shard_gradient.h"

#define PAIR_RECORDS_MAX 4096
#define PAIR_OPENING UINT64_C(77) /* of the first backup; of those that join one more each */
#define PAIR_PIN_BYTES 32

/* A record, with all that it borrowed. */
struct said {
    struct shard_record record;
    uint8_t decision[8];
    uint32_t sent[3];
    bool has_gradient;
    float gradient[RIG_FLOATS];
    double totals[RIG_ROUNDS];
    /* of the event that it came with */
    uint64_t generation;
    size_t workers;
    bool changes;
    struct consistency consistency;
    struct ledger ledger;
    uint64_t version;
    bool forget_pins, slots;
    char keep_pin[PAIR_PIN_BYTES], pin_id[PAIR_PIN_BYTES];
    uint64_t first, elements;
    float given[RIG_FLOATS];
    const float *slots_from; /* of a state: the copy that the primary keeps */
};

struct pair {
    struct rig primary; /* the first member */
    struct rig backup;
    struct said *said;
    size_t count;     /* records that the primary has said, */
    size_t heard;     /* and that have come to the backup */
    uint64_t receipt; /* the newest that it sent */
    uintptr_t tag;    /* of the last record */
    size_t seen;      /* replies of the primary that were checked */
    uint64_t opening; /* of the backup */
    uint64_t first;   /* version that the backup began with */
};

/* Shard @number of a job with @consistency, twice. */
struct pair *pair_new(uint32_t number, const struct consistency *consistency, uint32_t rounds,
                      bool given);
struct pair *pair_of_mode(enum training_mode mode, uint32_t replicas); /* of the lead */
/* The same, and the primary has no backup yet: that is of no use before pair_join(). */
struct pair *pair_alone(uint32_t number, const struct consistency *consistency, uint32_t rounds);
/* The primary, which is alone, gets an empty backup in @generation. The records are those that it
 * says to this one. */
void pair_join(struct pair *p, uintptr_t tag, uint64_t generation);
bool pair_follows(const struct pair *p);
/* Pushes replica @replica of @step, and pulls the next version. */
void pair_push(struct rig *r, uintptr_t tag, uint64_t step, uint32_t replica);
/* Closes both; so the memory of a primary that is dead goes back, too. */
void pair_free(struct pair *p);
/* The event that brings @said to a shard. @totals: for its rounds. */
struct shard_event pair_event(struct rig *r, const struct said *said,
                              struct exchange_totals totals[RIG_ROUNDS]);
/* The next record comes to the backup, which sends a receipt; false: there is none. */
bool pair_hear(struct pair *p);
/* The newest receipt comes to the primary. */
void pair_receive(struct pair *p);
/* Both, for all that is on its way. */
void pair_settle(struct pair *p);
/* What the primary has answered the backup has. */
void pair_check(struct pair *p);
/* The master makes @r the primary. */
void standby_promote(struct rig *r, uintptr_t tag, uint64_t generation);
/* A new generation of a primary; @stays: with its backup. */
void standby_membership(struct rig *r, uintptr_t tag, uint64_t generation, bool stays);
void standby_same_values(const struct rig *a, const struct rig *b, uint64_t version);

#endif
