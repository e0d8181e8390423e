/* SPDX-License-Identifier: Apache-2.0 */
/* A push becomes an update as soon as a snapshot is free to write it to. */
#include <inttypes.h>

#include "ps/core/shard_internal.h"

/* examples of one push, so that no sum of them overflows */
#define EXAMPLES_MAX (UINT64_C(1) << 40)

int shard_check_push(const struct shard *s, const struct shard_event *e, struct err *err)
{
    const struct exchange_push *p = &e->ask.push;
    if (p->examples > EXAMPLES_MAX) {
        return err_set(err, ERR_INVALID, "%" PRIu64 " examples in one push; at most %" PRIu64,
                       p->examples, EXAMPLES_MAX);
    }
    bool whole = e->elements == s->elements && e->gradient != NULL;
    bool none = e->elements == 0 && e->gradient == NULL;
    if (!whole && !(none && p->examples == 0)) {
        return err_set(err, ERR_INVALID,
                       "%" PRIu64 " gradient elements of %" PRIu64 " examples; expected %" PRIu64,
                       e->elements, p->examples, s->elements);
    }
    return 0;
}

bool shard_wants_snapshot(const struct shard *s)
{
    return !s->closed && (s->queue_count > 0 || (shard_sync_ready(s) && !shard_sums_wanting(s)));
}

void shard_on_snapshot(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    if (!e->can_apply || !shard_wants_snapshot(s)) {
        return;
    }
    if (s->consistency.mode == TRAINING_SYNC) {
        shard_sync_go_on(s, e, out);
    } else {
        shard_async_apply(s, out);
    }
    shard_wake(s, out);
}
