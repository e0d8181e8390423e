/* SPDX-License-Identifier: Apache-2.0 */
/* Moving averages of versions that readers have pinned. Updates change slots in place, so the
 * average is copied when its version is pinned, between two updates; it goes with the last pin of
 * the version. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ps/rpc/ps_average.h"

struct ps_average {
    struct ps_average *next;
    uint64_t version, bytes; /* on the budget */
    float values[];
};

const float *ps_average_of(const struct ps_shard *s, uint64_t version)
{
    const struct ps_average *a = s->averages;
    while (a != NULL && a->version != version) {
        a = a->next;
    }
    return a == NULL ? NULL : a->values;
}

int ps_average_keep(struct ps_shard *s, uint64_t version, struct err *err)
{
    const int slot = update_spec_average(ps_newest_update(s));
    const uint64_t bytes = s->elements * sizeof(float);
    if (slot < 0) {
        return err_set(err, ERR_STATE, "the job has no moving average (update.average)");
    }
    if (ps_average_of(s, version) != NULL) {
        return 0;
    }
    if (s->snapshots.present->version != version) {
        return err_set(err, ERR_RANGE,
                       "the average of version %" PRIu64
                       ", which is gone; the shard is at %" PRIu64,
                       version, s->snapshots.present->version);
    }
    int rc = budget_take(&s->ps->budget, bytes, "the average that a reader reads", err);
    if (rc != 0) {
        return rc;
    }
    struct ps_average *a =
        mem_try_aligned(sizeof *a + bytes, 1, "the average that a reader reads", err);
    if (a == NULL) {
        budget_give(&s->ps->budget, bytes);
        return ERR_EXHAUSTED;
    }
    *a = (struct ps_average){s->averages, version, bytes};
    memcpy(a->values, s->slots[slot].data, bytes);
    s->averages = a;
    return 0;
}

/* @all: else those alone whose version no reader has pinned. */
static void drop(struct ps_shard *s, bool all)
{
    for (struct ps_average **at = &s->averages; *at != NULL;) {
        struct ps_average *a = *at;
        if (!all && shard_reads(s->core, a->version)) {
            at = &a->next;
            continue;
        }
        *at = a->next;
        budget_give(&s->ps->budget, a->bytes);
        free(a);
    }
}

void ps_averages_trim(struct ps_shard *s)
{
    drop(s, false);
}

void ps_averages_release(struct ps_shard *s)
{
    drop(s, true);
}
