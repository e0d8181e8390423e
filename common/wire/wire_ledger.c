/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger (which batches of the epoch are done) as a message and back. A count above what its
 * split holds is refused. */
#include <inttypes.h>
#include <string.h>

#include "wire/wire.h"

void wire_ledger_to_proto(const struct ledger *ledger, Gradus__V1__Ledger *out)
{
    gradus__v1__ledger__init(out);
    out->epoch = ledger->epoch;
    out->records = ledger->shape.records;
    out->batch_records = ledger->shape.batch_records;
    out->split_batches = ledger->shape.split_batches;
    out->done = ledger->done;
    out->n_done = ledger->split_count;
}

static int check_counts(const Gradus__V1__Ledger *in, const struct ledger_shape *shape,
                        struct err *err)
{
    for (uint32_t s = 0; s < in->n_done; s++) {
        uint32_t batches = ledger_shape_split_batches(shape, s);
        if (in->done[s] > batches) {
            return err_set(err, ERR_INVALID,
                           "ledger: %u batches done of split %" PRIu32 ", which has %u",
                           in->done[s], s, batches);
        }
    }
    return 0;
}

int wire_ledger_from_proto(const Gradus__V1__Ledger *in, struct ledger *out, struct err *err)
{
    if (in == NULL) {
        return err_set(err, ERR_INVALID, "ledger: missing");
    }
    struct ledger_shape shape = {in->records, in->batch_records, in->split_batches};
    struct ledger made;
    int rc = ledger_init(&made, &shape, in->epoch, err);
    if (rc != 0) {
        return err_wrap(err, "ledger");
    }
    if (in->n_done != made.split_count) {
        rc = err_set(err, ERR_INVALID, "ledger: counts of %zu splits; its shape has %" PRIu32,
                     in->n_done, made.split_count);
    } else {
        rc = check_counts(in, &shape, err);
    }
    if (rc != 0) {
        ledger_release(&made);
        return rc;
    }
    memcpy(made.done, in->done, made.split_count * sizeof *made.done);
    *out = made;
    return 0;
}
