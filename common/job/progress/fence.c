/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a request belongs to this job and this start of it. Secrets are compared in a time
 * that does not depend on where they differ. */
#include "job/progress/fence.h"

#include <stddef.h>

#include "base/mutant.h"

/* Takes the same time wherever they differ. */
static bool fence_secret_equal(const uint8_t a[FENCE_SECRET_BYTES],
                               const uint8_t b[FENCE_SECRET_BYTES])
{
    unsigned difference = 0;
    for (size_t i = 0; i < FENCE_SECRET_BYTES; i++) {
        difference |= (unsigned)(a[i] ^ b[i]);
    }
    return difference == 0;
}

int fence_check_secret(const struct fence *own, const struct fence *asked, struct err *err)
{
    if (fence_secret_equal(own->secret, asked->secret) || MUTANT(secret_not_compared)) {
        return 0;
    }
    return err_set(err, ERR_UNAUTHENTICATED,
                   "this is not asked by the master that the job came from: another cluster may "
                   "have a job of the same name");
}

int fence_check_opening(const struct fence *own, const struct fence *asked, struct err *err)
{
    if (own->opening == asked->opening || MUTANT(opening_not_compared)) {
        return 0;
    }
    return err_set(err, ERR_ABORTED,
                   "this is meant for a shard that was opened another time, or by another cluster");
}
