/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over whole variables: what the core's rounds mean for bytes and floats, on the strand. */
#include <assert.h>

#include "ps/rpc/ps_shell.h"

static void keep(struct buf *to, const void *data, size_t bytes)
{
    buf_reset(to);
    buf_add(to, data, bytes);
}

/* Those that a worker brings ps_sums_check() has given to the update. */
void ps_settle(struct ps_shard *s, const struct shard_action *a)
{
    struct err err;
    if (s->stepped->kind == SHARD_RECORD &&
        update_settle(s->update, a->round.round, a->totals, a->totals_bytes, &err) != 0) {
        s->failed = err;
        (void)ps_shard_wrap(s, &s->failed);
    }
    keep(&s->sums.totals[a->round.round], a->totals, a->totals_bytes);
}

void ps_sums_applied(struct ps_shard *s)
{
    for (size_t i = 0; i < SHARD_ROUNDS_MAX; i++) {
        struct buf last = s->sums.last[i];
        s->sums.last[i] = s->sums.totals[i];
        s->sums.totals[i] = last;
    }
}

int ps_sums_check(struct ps_shard *s, const struct shard_event *e, struct err *err)
{
    const struct exchange_totals *t = &e->ask.totals;
    if (!shard_takes_totals(s->core, e)) {
        return 0; /* the core says what is wrong, or ignores them */
    }
    return update_settle(s->update, t->of.round, t->data, t->bytes, err);
}

const struct buf *ps_sums_of(const struct ps_shard *s, const struct exchange_sums *sums)
{
    static const struct buf none;
    assert(sums->of.round < SHARD_ROUNDS_MAX);
    if (sums->over) {
        return &none;
    }
    if (!sums->known) {
        return &s->sums.mine;
    }
    struct shard_info info;
    shard_info(s->core, &info);
    return sums->of.step == info.version ? &s->sums.totals[sums->of.round]
                                         : &s->sums.last[sums->of.round];
}
