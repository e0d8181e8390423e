/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench_shard.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "gradus/v1/ps.pb-c.h"
#include "wire/wire.h"

#define COLUMNS 256 /* of the one variable */

void bench_die(const char *what, const struct err *err)
{
    (void)fprintf(stderr, "bench: %s: %s\n", what, err->msg);
    exit(1);
}

void bench_shard_plan(struct plan *plan, uint64_t elements)
{
    struct variable_spec variable = {.name = "w", .shape = {1, {elements}}};
    struct cluster_spec cluster = {
        .workers = {1, 1}, .ps = 1, .partitioner = PARTITIONER_FIXED, .partitions = 1};
    struct err err;
    if (elements % COLUMNS == 0) {
        variable.shape = (struct shape){2, {elements / COLUMNS, COLUMNS}};
    }
    variable.init = (struct init){.kind = INIT_CONSTANT, .a = 0.5};
    if (plan_make(&variable, 1, &cluster, plan, &err) != 0) {
        bench_die("plan", &err);
    }
}

void bench_shard_open(struct rpc_channel *channel, const struct plan *layout,
                      const struct bench_shard *shard)
{
    const struct ledger_shape shape = {.records = (uint64_t)UINT32_MAX * shard->clients,
                                       .batch_records = 1,
                                       .split_batches = UINT32_MAX};
    const struct consistency consistency = {.mode = shard->sync ? TRAINING_SYNC : TRAINING_ASYNC,
                                            .replicas = shard->clients,
                                            .aggregate = shard->clients,
                                            .push_every = 1,
                                            .pull_every = 1};
    struct err err;
    struct ledger ledger;
    if (ledger_init(&ledger, &shape, 0, &err) != 0) {
        bench_die("ledger", &err);
    }
    char *text = mem_printf("name: bench\n"
                            "data: {train: {file: a.csv}}\n"
                            "model: {%slayers: [dense: {units: 10}], loss: "
                            "softmax_cross_entropy}\n"
                            "update: {rule: %s}\n"
                            "training: {mode: %s, replicas: %u, batch_size: 1, "
                            "wire: {gradients: %s, parameters: %s}}\n"
                            "cluster: {workers: %u}\n",
                            !shard->rows ? ""
                                         : "tables: [{name: rows, dim: 16, init: zeros, "
                                           "memory_bytes: 1 GiB}], ",
                            shard->rule, shard->sync ? "sync" : "async", (unsigned)shard->clients,
                            shard->type, shard->type, (unsigned)shard->clients);
    char job[] = BENCH_JOB;
    Gradus__V1__OpenShardRequest r = GRADUS__V1__OPEN_SHARD_REQUEST__INIT;
    Gradus__V1__ShardRef ref = GRADUS__V1__SHARD_REF__INIT;
    Gradus__V1__Plan plan;
    Gradus__V1__Ledger ledger_message;
    Gradus__V1__Consistency consistency_message;
    wire_plan_to_proto(layout, &plan);
    wire_ledger_to_proto(&ledger, &ledger_message);
    wire_consistency_to_proto(&consistency, &consistency_message);
    ref.job = job;
    ref.generation = BENCH_GENERATION;
    r.shard = &ref;
    r.text = text;
    r.plan = &plan;
    r.ledger = &ledger_message;
    r.consistency = &consistency_message;
    struct rpc_request request = {.service = &gradus__v1__parameter_server__descriptor,
                                  .method = "OpenShard",
                                  .body = &r.base,
                                  .timeout_ms = 60000,
                                  .wait_for_ready = true};
    if (rpc_call_blocking(channel, &request, NULL, &err) != 0) {
        bench_die("open the shard", &err);
    }
    wire_plan_release(&plan);
    ledger_release(&ledger);
    free(text);
}
