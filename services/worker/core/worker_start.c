/* SPDX-License-Identifier: Apache-2.0 */
/* StartJob and StopJob that come late. */
#include <inttypes.h>

#include "base/mutant.h"
#include "worker/core/worker.h"

enum worker_start worker_start_decide(uint64_t started_generation, const struct fence *own,
                                      uint64_t generation, const struct fence *asked,
                                      struct err *err)
{
    if (fence_check_secret(own, asked, err) != 0) {
        return WORKER_START_REFUSED;
    }
    if (started_generation == 0) {
        return WORKER_START_NEW;
    }
    if (generation < started_generation) {
        (void)err_set(err, ERR_ABORTED,
                      "generation %" PRIu64 " is over: the job was started here with %" PRIu64,
                      generation, started_generation);
        return WORKER_START_REFUSED;
    }
    return generation == started_generation || MUTANT(late_start) ? WORKER_START_SAME
                                                                  : WORKER_START_AGAIN;
}

bool worker_stop_decide(uint64_t started_generation, uint64_t generation)
{
    return generation >= started_generation;
}
