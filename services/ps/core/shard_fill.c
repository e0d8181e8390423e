/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values that only workers know, and bring before training begins. They come in order, so
 * one number says how far the shard is filled. Several workers may bring them at once, each from
 * that number on, because all of them bring the same values. */
#include <inttypes.h>

#include "base/mutant.h"
#include "ps/core/shard_internal.h"

int shard_check_filled(const struct shard *s, struct err *err)
{
    if (s->filled == s->elements || MUTANT(read_unfilled)) {
        return 0;
    }
    return err_set(err, ERR_STATE,
                   "%" PRIu64 " of %" PRIu64
                   " elements have no initial values yet, which workers bring; try again",
                   s->elements - s->filled, s->elements);
}

/* Once it is full it only says so, in any generation: that is all that a worker which joins later
 * has to know. */
static int check_fill(const struct shard *s, const struct shard_event *e, struct err *err)
{
    if (e->first > s->elements || e->elements > s->elements - e->first) {
        return err_set(err, ERR_INVALID,
                       "initial values of elements %" PRIu64 "+%" PRIu64 " of %" PRIu64, e->first,
                       e->elements, s->elements);
    }
    int rc = s->filled == s->elements ? 0 : shard_check_generation(s, e->generation, err);
    rc = e->generation < s->generation && MUTANT(fill_of_any_generation) ? 0 : rc;
    if (rc == 0 && e->first > s->filled) {
        rc = err_set(err, ERR_RANGE,
                     "initial values from element %" PRIu64 " on, of which %" PRIu64 " are filled",
                     e->first, s->filled);
    }
    return rc;
}

void shard_fill_take(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    if (!MUTANT(fill_not_said)) {
        shard_record_event(s, SHARD_RECORD_FILL, out);
    }
    struct shard_action *a = shard_act(out, SHARD_PUT);
    a->version = s->version;
    a->given = e->given;
    if (!MUTANT(late_fill_overwrites)) {
        /* other workers, or an earlier request of this one, have brought these */
        a->skip = s->filled - e->first;
    }
    a->count = e->elements - a->skip;
    a->first = e->first + a->skip;
    s->filled = e->first + e->elements > s->filled ? e->first + e->elements : s->filled;
    a->whole = s->filled == s->elements;
}

void shard_on_fill(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    if (check_fill(s, e, &out->err) != 0) {
        shard_refuse(s, e->tag, out);
        return;
    }
    if (e->first + e->elements > s->filled || (MUTANT(late_fill_overwrites) && e->elements > 0)) {
        shard_fill_take(s, e, out);
    } else if (MUTANT(fill_counts_repeats) && s->elements - s->filled >= e->elements) {
        s->filled += e->elements;
    }
    struct shard_action *a = shard_act(out, SHARD_REPLY);
    a->tag = e->tag;
    a->version = s->version;
    a->generation = s->generation;
    a->filled = s->filled;
}
