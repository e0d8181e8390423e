/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates the memory of a job whose processes all run on one host, for `gradus plan` and `gradus
 * run`. It repeats what servers and workers allocate: change it together with them. */
#include "cli/memory_need.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "job/plan/plan.h"

/* As measured: code, threads, gRPC and what a connection takes. */
#define MASTER_BYTES (UINT64_C(24) << 20)
#define PS_BYTES (UINT64_C(24) << 20)
#define WORKER_BYTES (UINT64_C(40) << 20)
/* As services/worker and common/host/shared_memory.c have them. */
#define BATCHES_AHEAD 5
#define RECORDS_AT_ONCE_MIN 64
#define SHARED_MEMORY_FROM_BYTES (32U << 10)

static const char *const WHO[MEMORY_WHO_COUNT] = {"master", "server", "worker", "shared"};

static void add(struct memory_need *need, enum memory_who who, const char *what, uint64_t bytes,
                uint64_t places, uint64_t total)
{
    if (total == 0 || need->row_count == MEMORY_ROWS_MAX) {
        return;
    }
    need->rows[need->row_count++] = (struct memory_row){who, what, bytes, places, total};
    need->total += total;
}

/* ---- servers ---- */

enum part {
    PART_VALUES,
    PART_SLOTS,
    PART_PINS,
    PART_BASES,
    PART_GRADIENTS,
    PART_TABLES,
    PART_STANDBY,
    PART_COUNT
};

static uint64_t part_floats(const struct output_update *u, uint32_t shard, enum part part,
                            bool shared_memory)
{
    const struct plan_memory *m = &u->memory[shard];
    switch (part) {
    case PART_VALUES: /* two versions, and one that is pinned while the training goes on */
        return m->values + m->values / 2;
    case PART_SLOTS:
    case PART_PINS:
        return m->pins;
    case PART_BASES:
        return m->bases;
    case PART_TABLES:
        return m->tables;
    case PART_STANDBY:
        return m->standby;
    default: /* gradients in shared memory count for the workers */
        return shared_memory ? 0 : m->gradients;
    }
}

static void add_servers(struct memory_need *need, const struct output_update *u, bool shared_memory)
{
    static const char *const NAMES[PART_COUNT] = {
        "values, and a pinned version", "slots",     "their copy for checkpoints",
        "what each worker read",        "gradients", "tables, and copies of rows",
        "the backup of another one"};
    const uint32_t shards = u->plan->shard_count;
    add(need, MEMORY_PS, "the process", PS_BYTES, shards, shards * PS_BYTES);
    for (enum part p = 0; p < PART_COUNT; p++) {
        uint64_t most = 0;
        uint64_t total = 0;
        for (uint32_t s = 0; s < shards; s++) {
            uint64_t bytes = part_floats(u, s, p, shared_memory) * sizeof(float);
            most = bytes > most ? bytes : most;
            total += bytes;
        }
        add(need, MEMORY_PS, NAMES[p], most, shards, total);
    }
}

/* ---- workers ---- */

static uint64_t parameters_of(const struct plan *plan)
{
    uint64_t elements = 0;
    for (uint32_t s = 0; s < plan->shard_count; s++) {
        elements += plan->shard_elements[s];
    }
    return elements;
}

/* Sets of parameters: one to compute with, a second one where a worker pulls while it computes, and
 * that of an evaluation. */
static uint64_t sets_of(const struct output_update *u, const struct consistency *c,
                        const struct dataset *test)
{
    bool second =
        c->mode == TRAINING_SYNC ? consistency_is_nonblocking(c) : u->spec->training.overlap;
    uint64_t sets = second ? 2 : 1;
    return test != NULL ? sets + 1 : sets;
}

/* Gradients: in sync a sum for each node on the way down the tree, and the one that is computed. */
static uint64_t gradients_of(const struct output_update *u, const struct consistency *c)
{
    if (c->mode != TRAINING_SYNC) {
        return u->spec->training.overlap ? 2 : 1;
    }
    uint64_t workers = u->workers < c->replicas ? u->workers : c->replicas;
    uint64_t share = workers == 0 ? 1 : (c->replicas + workers - 1) / workers;
    uint64_t count = share > 1 ? 2 : 1;
    for (uint64_t n = share; n > 2; n = (n + 1) / 2) {
        count++;
    }
    return consistency_is_nonblocking(c) ? share + 1 : count;
}

static void add_workers(struct memory_need *need, const struct output_update *u,
                        const struct consistency *c, const struct model *model,
                        const struct dataset *train, const struct dataset *test)
{
    const uint64_t n = u->workers;
    const uint64_t values = parameters_of(u->plan) * sizeof(float);
    const uint64_t sets = sets_of(u, c, test) * values;
    const uint64_t gradients = gradients_of(u, c) * values;
    const uint64_t batch = (uint64_t)u->spec->training.batch_size;
    const uint64_t at_once = batch > RECORDS_AT_ONCE_MIN ? batch : RECORDS_AT_ONCE_MIN;
    const uint64_t activations = runner_bytes(model, (size_t)at_once);
    add(need, MEMORY_WORKER, "the process", WORKER_BYTES, n, n * WORKER_BYTES);
    add(need, MEMORY_WORKER, "sets of parameters", sets, n, n * sets);
    add(need, MEMORY_WORKER, "gradients", gradients, n, n * gradients);
    add(need, MEMORY_WORKER, "activations", activations, n, n * activations);
    if (train != NULL) {
        uint64_t data = dataset_bytes(train) + (test == NULL ? 0 : dataset_bytes(test));
        uint64_t ahead = BATCHES_AHEAD * dataset_batch_bytes(train, (size_t)batch) +
                         (test == NULL ? 0 : dataset_batch_bytes(test, (size_t)at_once));
        add(need, MEMORY_WORKER, "data set", data, n, n * data);
        add(need, MEMORY_WORKER, "batches that are decoded ahead", ahead, n, n * ahead);
    }
}

/* Adds the memory that each worker shares with its servers: blocks for values that it pushes and
 * pulls to train. */
static void add_shared_memory(struct memory_need *need, const struct output_update *u,
                              const struct consistency *c)
{
    uint64_t pushed = gradients_of(u, c) > 1 ? 2 : 1;
    uint64_t shared_memory = pushed + sets_of(u, c, NULL);
    uint64_t bytes = shared_memory * parameters_of(u->plan) * sizeof(float);
    add(need, MEMORY_SHARED, "gradients and parameters", bytes, u->workers, u->workers * bytes);
}

static bool has_shared_memory(const struct output_update *u)
{
    const struct training_spec *t = &u->spec->training;
    bool large = true;
    for (uint32_t s = 0; s < u->plan->shard_count; s++) {
        large = large && u->plan->shard_elements[s] * sizeof(float) >= SHARED_MEMORY_FROM_BYTES;
    }
    return large && t->wire_gradients == VALUE_FP32 && t->wire_parameters == VALUE_FP32;
}

void memory_need_of(const struct output_update *update, const struct model *model,
                    const struct dataset *train, const struct dataset *test,
                    struct memory_need *out)
{
    struct consistency c;
    bool shared_memory = has_shared_memory(update);
    consistency_of(update->spec, &c);
    *out = (struct memory_need){.total = 0};
    add(out, MEMORY_MASTER, "the process", MASTER_BYTES, 1, MASTER_BYTES);
    add_servers(out, update, shared_memory);
    add_workers(out, update, &c, model, train, test);
    if (shared_memory) {
        add_shared_memory(out, update, &c);
    }
}

bool memory_need_fits(const struct memory_need *need, const struct host_memory *host)
{
    return host->total == 0 || need->total <= host->available;
}

void memory_need_text(const struct memory_need *need, const struct host_memory *host,
                      struct buf *out)
{
    char one[32], all[32];
    buf_printf(out, "%-11s  %-32s  %10s  %5s  %10s\n", "ON ONE HOST", "MEMORY FOR", "EACH", "TIMES",
               "BYTES");
    for (size_t i = 0; i < need->row_count; i++) {
        const struct memory_row *r = &need->rows[i];
        bool first = i == 0 || need->rows[i - 1].who != r->who;
        buf_printf(out, "%-11s  %-32s  %10s  %5" PRIu64 "  %10s\n", first ? WHO[r->who] : "",
                   r->what, text_bytes(r->bytes, one, sizeof one), r->places,
                   text_bytes(r->total, all, sizeof all));
    }
    buf_printf(out, "%-11s  %-32s  %10s  %5s  %10s\n", "total", "", "", "",
               text_bytes(need->total, all, sizeof all));
    if (host->total > 0) {
        buf_printf(out, "This host has %s%s, of which %s are available.\n",
                   text_bytes(host->total, all, sizeof all),
                   host->limited ? " (the limit of a control group)" : "",
                   text_bytes(host->available, one, sizeof one));
    }
}
