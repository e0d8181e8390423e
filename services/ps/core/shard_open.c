/* SPDX-License-Identifier: Apache-2.0 */
/* An OpenShard for a shard that may be there already. */
#include <inttypes.h>

#include "ps/core/shard_internal.h"

/* A shard's generation only rises, so one that was opened with @generation and has gone on since
 * is of the present all the same: the request is an old one that came late. */
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
