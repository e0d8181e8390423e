/* SPDX-License-Identifier: Apache-2.0 */
/* A shard's core with eight floats: does its actions and checks what must hold after every one.
 * Rule: w ← w − sum / examples, so that values show which gradients were applied. */
#ifndef GRADUS_TESTS_PS_SHARD_RIG_H
#define GRADUS_TESTS_PS_SHARD_RIG_H

#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "ps/core/shard.h"

#define RIG_FLOATS 8
#define RIG_VERSIONS 4096
#define RIG_REPLIES 20000
#define RIG_ROUNDS 2

struct rig_reply {
    uintptr_t tag;
    int code;
    enum push_result push;
    bool values, rows;
    uint64_t filled;
    bool write;
    uint64_t version;
    uint64_t staleness;
    uint64_t examples;
    bool has_decision;
    uint64_t decision_step;
    uint8_t decision[8];
    size_t decision_bytes;
    bool has_spare, spare_given;
    uint32_t spare_replica, spare_wait_ms;
    bool has_sums, sums_known, sums_over;
    uint64_t sums_step;
    uint32_t sums_round;
    double sums; /* the partial sum, or the total */
    uint64_t clock;
    uint32_t progress;
    uint64_t generation;
    uint32_t done0; /* of the ledger; UINT32_MAX without one */
    uint64_t received;
    char text[ERR_MESSAGE_BYTES];
};

/* Sums over whole variables: what the shell keeps. */
struct rig_sums {
    bool begun;
    uint32_t reduced, settled; /* rounds */
    double partial;            /* of the present round */
    double totals[RIG_ROUNDS]; /* of the update that is begun */
    uint64_t last_version;     /* that the last ones are of; 0: none */
    double last[RIG_ROUNDS];
};

struct rig {
    struct shard *shard;
    struct rig_sums sums;
    struct shard_actions actions;
    float values[RIG_VERSIONS][RIG_FLOATS];
    float slot[RIG_VERSIONS][RIG_FLOATS]; /* half of what it was, and the gradient */
    uint64_t version;                     /* of the newest applied */
    uint64_t examples;                    /* applied */
    unsigned kept[RIG_VERSIONS];
    long buffers; /* alive */
    bool whole;   /* the last SHARD_PUT said so */
    struct rig_reply *replies;
    size_t reply_count;
    bool can_apply;
    uint64_t generation; /* of the next requests */
    uint64_t now_ms;
    struct shard_action applied; /* the last SHARD_APPLY */
    struct ledger ledger;
    struct shard_options options;
    struct era era;                  /* the only one */
    uint64_t sessions[4];            /* bounded: how often each was idle */
    uint64_t clocks[4];              /* bounded: of each of RIG_WORKERS; 0: it has not joined */
    const struct shard_event *event; /* that is stepped */
    const float *load, *load_slots;  /* that came with a record, for SHARD_LOAD */
    /* SHARD_EMIT; NULL: there must be none */
    void (*emit)(struct rig *r, const struct shard_action *a);
};

static const char *const RIG_WORKERS[] = {"w0", "w1", "w2", "w3"};

/* Shard @number of a job with @consistency; 0 is the lead. Sync steps take @rounds of sums. */
void rig_open_rounds(struct rig *r, uint32_t number, const struct consistency *consistency,
                     uint32_t rounds);
void rig_open(struct rig *r, uint32_t number, const struct consistency *consistency);
/* Make the shard once more, with r->options, which were changed; nothing has happened yet. */
void rig_reopen(struct rig *r);
/* The same at @version of another one, whose values are the caller's to copy. */
void rig_reopen_at(struct rig *r, uint64_t version, uint64_t examples, const struct ledger *ledger);
struct consistency rig_consistency(enum training_mode mode, uint32_t replicas);
void rig_init(struct rig *r, enum training_mode mode, uint32_t replicas);
void *rig_buffer(struct rig *r, float first);
/* Of shard @number: depends on the gradient and on the totals of the round before. */
double rig_partial(uint32_t number, const float *gradient, uint32_t round, double before);
void rig_reduce(struct rig *r, const struct shard_action *a);
void rig_settle(struct rig *r, const struct shard_action *a);
void rig_use_sums(struct rig *r, uint64_t version);
double rig_sums_of(const struct rig *r, const struct exchange_sums *a);
void rig_apply(struct rig *r, const struct shard_action *a);
void rig_reply_add(struct rig *r, const struct shard_action *a);
void rig_sum(const struct shard_action *a);
void rig_do(struct rig *r, const struct shard_action *a);
void rig_step(struct rig *r, const struct shard_event *e);
/* The only reply to @tag so far, or NULL. */
struct rig_reply *rig_find(struct rig *r, uintptr_t tag);
struct rig_reply *rig_replied(struct rig *r, uintptr_t tag);
void rig_expect(struct rig *r, uintptr_t tag, int code, const char *says);
void rig_expect_push(struct rig *r, uintptr_t tag, enum push_result push);
void rig_expect_values(struct rig *r, uintptr_t tag, uint64_t version);
struct shard_event rig_exchange(struct rig *r, uintptr_t tag, const char *worker);
void rig_set_push(struct rig *r, struct shard_event *e, float gradient, uint64_t examples);
struct shard_event rig_sync(struct rig *r, uintptr_t tag, uint64_t step, uint32_t lo, uint32_t hi,
                            float gradient, uint64_t examples);
void rig_push_sync(struct rig *r, uintptr_t tag, uint64_t step, uint32_t lo, uint32_t hi,
                   float gradient, uint64_t examples);
void rig_pull(struct rig *r, uintptr_t tag, enum pull_kind kind, uint64_t version);
void rig_ask_sums(struct rig *r, uintptr_t tag, uint64_t step, uint32_t round);
void rig_totals(struct rig *r, uintptr_t tag, uint64_t step, uint32_t round, double total);
/* The clock of @worker, which has done @batches more. */
uint64_t rig_clock(struct rig *r, const char *worker, uint64_t batches);
uint64_t rig_session(const struct rig *r, const char *worker);
struct shard_event rig_async(struct rig *r, uintptr_t tag, const char *worker, uint64_t epoch,
                             uint32_t split, uint32_t batch);
void rig_push_async(struct rig *r, uintptr_t tag, const char *worker, uint64_t epoch,
                    uint32_t split, uint32_t batch);
void rig_pull_latest(struct rig *r, uintptr_t tag, const char *worker);
void rig_idle(struct rig *r, uintptr_t tag, const char *worker);
void rig_membership(struct rig *r, uintptr_t tag, uint64_t generation, size_t workers);
/* The same, and consistency and data position change. */
void rig_change(struct rig *r, uintptr_t tag, uint64_t generation, const struct consistency *c,
                uint64_t version, const struct ledger *ledger);
void rig_pin(struct rig *r, enum shard_event_kind kind, uintptr_t tag, const char *id, bool slots);
void rig_event(struct rig *r, enum shard_event_kind kind, uintptr_t tag);
void rig_expect_sums(struct rig *r, uintptr_t tag, bool known, uint64_t step, uint32_t round);
/* Close, and nothing is left. */
void rig_release(struct rig *r);

#endif
