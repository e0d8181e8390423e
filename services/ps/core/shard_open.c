/* SPDX-License-Identifier: Apache-2.0 */
/* An OpenShard for a shard that may be there already. */
#include <inttypes.h>

#include "base/mutant.h"
#include "ps/core/shard_internal.h"

/* The generation of a shard only rises. A shard that was opened with @generation and has gone on
 * since belongs to the present: then the request is an old one that came late. */
enum shard_open shard_open_decide(const struct shard *present, uint64_t opened_generation,
                                  uint64_t generation, const struct fence *fence, struct err *err)
{
    if (present == NULL) {
        return SHARD_OPEN_NEW;
    }
    if (fence_check_secret(&present->fence, fence, err) != 0) {
        return SHARD_OPEN_REFUSED;
    }
    if (generation < present->generation) {
        (void)err_set(err, ERR_ABORTED,
                      "generation %" PRIu64 " is over: opened with %" PRIu64 ", it is %" PRIu64
                      " now",
                      generation, opened_generation, present->generation);
        return SHARD_OPEN_REFUSED;
    }
    if (generation > present->generation) {
        return SHARD_OPEN_REPLACE;
    }
    return fence_check_opening(&present->fence, fence, err) == 0 ? SHARD_OPEN_SAME
                                                                 : SHARD_OPEN_REFUSED;
}

void shard_closed_add(struct shard_closed *c, uint64_t opening, uint32_t number)
{
    if (opening != 0) {
        size_t i = c->count++ % SHARD_CLOSED_KEPT;
        c->kept[i].opening = opening;
        c->kept[i].number = number;
    }
}

static bool is_closed(const struct shard_closed *c, uint64_t opening, uint32_t number)
{
    size_t count = c->count < SHARD_CLOSED_KEPT ? c->count : SHARD_CLOSED_KEPT;
    for (size_t i = 0; i < count; i++) {
        if (c->kept[i].opening == opening && c->kept[i].number == number) {
            return true;
        }
    }
    return false;
}

void shard_closed_early(struct shard_closed *c, uint64_t opening, uint32_t number)
{
    if (!is_closed(c, opening, number) && !MUTANT(closing_overtakes)) {
        shard_closed_add(c, opening, number);
    }
}

int shard_closed_check(const struct shard_closed *c, uint64_t opening, uint32_t number,
                       struct err *err)
{
    return is_closed(c, opening, number) && !MUTANT(closed_opens_again)
               ? err_set(err, ERR_ABORTED, "this opening of the shard is closed")
               : 0;
}
