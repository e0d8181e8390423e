/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the master's request that tells a worker what to compute into what the core takes. All of
 * it is checked first, against this worker's data, too; a wrong one changes nothing. */
#include "worker/job/worker_job_assign.h"

#include <inttypes.h>
#include <string.h>

#include "wire/wire.h"

static int check_replicas(const Gradus__V1__AssignRequest *r, const struct consistency *c,
                          struct err *err)
{
    if (r->replica_first > r->replica_end || r->replica_end > c->replicas) {
        return err_set(err, ERR_INVALID, "replicas [%" PRIu32 ", %" PRIu32 ") of %" PRIu32,
                       r->replica_first, r->replica_end, c->replicas);
    }
    if (r->step < r->ledger_step) {
        return err_set(err, ERR_INVALID, "step %" PRIu64 " is before the ledger's, %" PRIu64,
                       r->step, r->ledger_step);
    }
    return 0;
}

static int take_lease(const Gradus__V1__Lease *in, const struct ledger_shape *shape,
                      struct worker_assignment *a, struct err *err)
{
    if (in->batch_end == 0 || in->batch_end > ledger_shape_split_batches(shape, in->split)) {
        return err_set(err, ERR_INVALID,
                       "a lease of split %" PRIu32 " of epoch %" PRIu64 " up to batch %" PRIu32
                       ", which the data does not have",
                       in->split, in->epoch, in->batch_end);
    }
    for (size_t i = 0; i < a->lease_count; i++) {
        if (a->leases[i].epoch == in->epoch && a->leases[i].split == in->split) {
            return err_set(err, ERR_INVALID, "split %" PRIu32 " is leased twice", in->split);
        }
    }
    a->leases[a->lease_count++] = (struct worker_lease){
        .epoch = in->epoch,
        .split = in->split,
        .batch_end = in->batch_end,
        .fresh = in->fresh != 0,
    };
    return 0;
}

static int take_leases(const Gradus__V1__AssignRequest *r, const struct ledger_shape *shape,
                       struct worker_assignment *a, struct err *err)
{
    if (a->consistency.mode == TRAINING_SYNC) {
        return 0;
    }
    if (r->n_leases > WORKER_LEASES_MAX) {
        return err_set(err, ERR_INVALID, "%zu leases; a worker holds %d at most", r->n_leases,
                       WORKER_LEASES_MAX);
    }
    int rc = 0;
    for (size_t i = 0; i < r->n_leases && rc == 0; i++) {
        rc = take_lease(r->leases[i], shape, a, err);
    }
    return rc;
}

static int take_new_generation(const Gradus__V1__AssignRequest *r, const struct ledger_shape *data,
                               struct ledger *ledger, struct worker_assignment *a, struct err *err)
{
    int rc = wire_consistency_from_proto(r->consistency, &a->consistency, err);
    if (rc == 0) {
        rc = check_replicas(r, &a->consistency, err);
    }
    if (rc == 0) {
        rc = wire_ledger_from_proto(r->ledger, ledger, err);
    }
    if (rc != 0) {
        return rc;
    }
    if (ledger->shape.records != data->records ||
        ledger->shape.batch_records != data->batch_records) {
        rc = err_set(err, ERR_INVALID,
                     "the ledger is of %" PRIu64 " records in batches of %" PRIu32
                     ", this worker's data has %" PRIu64 " in batches of %" PRIu32,
                     ledger->shape.records, ledger->shape.batch_records, data->records,
                     data->batch_records);
    } else {
        rc = take_leases(r, &ledger->shape, a, err);
    }
    if (rc != 0) {
        ledger_release(ledger);
    }
    return rc;
}

int worker_job_assign_from_proto(const Gradus__V1__AssignRequest *r, uint64_t generation,
                                 const struct ledger_shape *data, struct ledger *ledger,
                                 struct worker_assignment *out, struct err *err)
{
    if (r->generation == 0) {
        return err_set(err, ERR_INVALID, "generation 0; the first is 1");
    }
    struct worker_assignment a = {
        .generation = r->generation,
        .number = r->number,
        .replica_first = r->replica_first,
        .replica_end = r->replica_end,
        .step = r->step,
        .step_limit = r->step_limit,
        .ledger_step = r->ledger_step,
        .hold = r->hold != 0,
    };
    if (r->generation > generation) {
        struct ledger found;
        int rc = take_new_generation(r, data, &found, &a, err);
        if (rc != 0) {
            return rc;
        }
        *ledger = found;
        a.ledger = ledger;
    }
    *out = a;
    return 0;
}

int worker_job_places_from_proto(Gradus__V1__ShardLocation *const *list, size_t count,
                                 uint32_t shard_count, struct worker_place *out, struct err *err)
{
    memset(out, 0, shard_count * sizeof *out);
    for (size_t i = 0; i < count; i++) {
        uint32_t shard = list[i]->shard;
        if (shard >= shard_count || out[shard].address != NULL) {
            return err_set(err, ERR_INVALID,
                           "the location of shard %" PRIu32 " is given twice or unknown", shard);
        }
        out[shard] = (struct worker_place){list[i]->address, list[i]->opening};
    }
    for (uint32_t s = 0; s < shard_count; s++) {
        if (out[s].address == NULL) {
            return err_set(err, ERR_INVALID, "the location of shard %" PRIu32 " is missing", s);
        }
    }
    return 0;
}
