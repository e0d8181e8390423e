/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/plan_rig.h"

#include <stdlib.h>

#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "gradus/v1/ps.pb-c.h"
#include "wire/wire.h"

#define TABLES                                                                                     \
    "[{name: a, dim: 2, memory_bytes: 1 MiB, copies_bytes: 1 MiB},"                                \
    " {name: b, dim: 1, memory_bytes: 1 MiB, copies_bytes: 1 MiB, admission: counted,"             \
    " admission_bytes: 256 KiB, rows_max: 1024, evict: {every: 1, unseen: 3}}]"

const char *const plan_rig_words[] = {PLAN_RIG_JOB,
                                      "w0",
                                      "w1",
                                      "w2",
                                      "ps-1",
                                      "worker-1",
                                      "pin-1",
                                      "dense_1.kernel",
                                      "dense_1.bias",
                                      "/",
                                      "..",
                                      "j-1/step-000000500",
                                      "j-1/step-1",
                                      "127.0.0.1:7000",
                                      NULL};

char *plan_rig_text(unsigned mode, const char *rule, enum plan_rig_more more)
{
    static const char *const modes[] = {"sync", "async", "bounded"};
    return mem_printf("name: j\n"
                      "data:\n  train: {file: a.csv}\n"
                      "model:\n  layers:\n    - dense: {units: 3}\n"
                      "  loss: softmax_cross_entropy\n"
                      "  tables: %s\n"
                      "update: {rule: %s%s}\n"
                      "training: {mode: %s, batch_size: 10, seed: 7}\n"
                      "cluster: {workers: 2}\n",
                      more == PLAN_RIG_TABLES ? TABLES : "null", rule,
                      more == PLAN_RIG_CLIPS ? ", clip_norm: 1" : "", modes[mode]);
}

void plan_rig_open(unsigned mode, const char *rule, enum plan_rig_more more, struct buf *out)
{
    static char job[] = PLAN_RIG_JOB, first[] = "w0", second[] = "w1";
    char *workers[] = {first, second};
    struct variable_spec variables[2] = {
        {"dense_1.kernel", {2, {2, 3}}, {INIT_GLOROT_UNIFORM, 0, 0, 2, 3}, 0, 0},
        {"dense_1.bias", {1, {3}}, {INIT_CONSTANT, 0.5, 0, 0, 0}, 0, 0},
    };
    struct cluster_spec cluster = {
        .workers = {1, 1}, .ps = 1, .partitioner = PARTITIONER_FIXED, .partitions = 1};
    struct consistency consistency = {.mode = (enum training_mode)mode,
                                      .replicas = mode == TRAINING_SYNC ? 2 : 1,
                                      .aggregate = mode == TRAINING_SYNC ? 2 : 1,
                                      .push_every = 1,
                                      .pull_every = 1};
    const struct ledger_shape shape = {.records = 50, .batch_records = 10, .split_batches = 2};
    struct plan plan = {0};
    struct ledger ledger = {0};
    struct err err = {0};
    fuzz_require(plan_make(variables, 2, &cluster, &plan, &err) == 0 &&
                     ledger_init(&ledger, &shape, 0, &err) == 0,
                 "the job of the rig is right");
    if (more == PLAN_RIG_GIVEN) {
        plan.variables[0].init.kind = INIT_GIVEN;
    }
    Gradus__V1__OpenShardRequest r = GRADUS__V1__OPEN_SHARD_REQUEST__INIT;
    Gradus__V1__ShardRef ref = GRADUS__V1__SHARD_REF__INIT;
    Gradus__V1__Plan plan_message;
    Gradus__V1__Ledger ledger_message;
    Gradus__V1__Consistency consistency_message;
    wire_plan_to_proto(&plan, &plan_message);
    wire_ledger_to_proto(&ledger, &ledger_message);
    wire_consistency_to_proto(&consistency, &consistency_message);
    ref.job = job;
    ref.generation = 1;
    ref.opening = PLAN_RIG_OPENING;
    r.is_backup = more == PLAN_RIG_BACKUP;
    r.shard = &ref;
    r.text = plan_rig_text(mode, rule, more);
    r.plan = &plan_message;
    r.ledger = &ledger_message;
    r.consistency = &consistency_message;
    r.workers = workers;
    r.n_workers = 2;
    char *room = mem_new(gradus__v1__open_shard_request__get_packed_size(&r), 1);
    buf_add(out, room, gradus__v1__open_shard_request__pack(&r, (uint8_t *)room));
    free(room);
    free(r.text);
    wire_plan_release(&plan_message);
    ledger_release(&ledger);
    plan_release(&plan);
}
