/* SPDX-License-Identifier: Apache-2.0 */
/* What an exchange asks for, flat: a test looks at a few fields of it, whatever its kind. */
#ifndef GRADUS_TESTS_UNIT_WORKER_ASKED_H
#define GRADUS_TESTS_UNIT_WORKER_ASKED_H

#include "worker/core/worker.h"

enum asked_pull {
    ASKED_PULL_NONE,
    ASKED_PULL_LATEST,
    ASKED_PULL_VERSION,
    ASKED_PULL_AT_LEAST,
    ASKED_PULL_PINNED,
};

struct asked {
    uint64_t exchange;
    uint32_t shard;
    uint64_t generation;
    bool push, idle, early;
    uint64_t step; /* of the push, the spare replica, the sums or the totals */
    uint32_t replica_first, replica_end;
    struct {
        uint64_t epoch;
        uint32_t split, batch;
    } batch; /* of the push; without one of the pull */
    uint32_t batch_end;
    uint64_t examples, base_version;
    bool decided, spare;
    enum asked_pull pull;
    uint64_t version; /* that it pulls */
    bool progress, joins;
    uint64_t clock;
    bool has_decision;
    uint64_t decision_step;
    const uint8_t *decision;
    size_t decision_bytes;
    bool ask_spare, ask_sums, totals;
    uint32_t round;
    enum worker_set set;
    uint32_t buffer;
    bool brings_rows; /* with what it pulls, */
    struct ledger_batch rows_of;
};

/* Everything of @r; what it does not have is 0. */
struct asked asked_of(const struct worker_request *r);

#endif
