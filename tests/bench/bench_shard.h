/* SPDX-License-Identifier: Apache-2.0 */
/* A shard for benchmarks: one variable, whole, on one server, trained by clients that have a split
 * each, or in sync mode a replica. Whatever goes wrong ends the process. */
#ifndef GRADUS_TESTS_BENCH_BENCH_SHARD_H
#define GRADUS_TESTS_BENCH_BENCH_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "job/plan/plan.h"
#include "rpc/rpc.h"

#define BENCH_JOB "bench"
#define BENCH_GENERATION 1

_Noreturn void bench_die(const char *what, const struct err *err);
/* plan_release(@plan). */
void bench_shard_plan(struct plan *plan, uint64_t elements);
struct bench_shard {
    const char *rule;
    const char *type; /* how values travel */
    uint32_t clients;
    bool sync; /* else async */
    bool rows; /* the job has a table besides */
};
/* At the server of @channel. */
void bench_shard_open(struct rpc_channel *channel, const struct plan *plan,
                      const struct bench_shard *shard);

#endif
