/* SPDX-License-Identifier: Apache-2.0 */
/* The pauses between the attempts of a request. */
#include "storage/s3_retry.h"

#include <errno.h>
#include <time.h>

#include "base/backoff.h"

#define PAUSE_MS_MIN 200
#define PAUSE_MS_MAX 10000
#define RETRY_AFTER_S_MAX 30
#define STEP_MS 50 /* from one look at @stop to the next */

bool s3_stopped(const atomic_bool *stop)
{
    return stop != NULL && atomic_load(stop);
}

/* False: it is to end. */
static bool wait_ms(const atomic_bool *stop, uint64_t ms)
{
    for (uint64_t slept_ms = 0; slept_ms < ms && !s3_stopped(stop); slept_ms += STEP_MS) {
        uint64_t step_ms = ms - slept_ms < STEP_MS ? ms - slept_ms : STEP_MS;
        struct timespec left = {0, (long)step_ms * 1000000};
        while (nanosleep(&left, &left) != 0 && errno == EINTR) {
        }
    }
    return !s3_stopped(stop);
}

/* Half of the pause is random, so that clients that were refused together do not come back
 * together. */
static uint64_t pause_ms(unsigned failures, uint64_t retry_after_s)
{
    uint64_t most = backoff_ms(failures, PAUSE_MS_MIN, PAUSE_MS_MAX);
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t ms = most / 2 + (uint64_t)now.tv_nsec / 1000 % (most / 2 + 1);
    uint64_t wished = retry_after_s < RETRY_AFTER_S_MAX ? retry_after_s : RETRY_AFTER_S_MAX;
    return ms < wished * 1000 ? wished * 1000 : ms;
}

int s3_retry(unsigned attempts, const atomic_bool *stop, s3_attempt_fn *fn, void *ctx,
             struct err *err)
{
    unsigned failures = 0;
    for (;;) {
        struct s3_attempt now = {0};
        int rc = fn(ctx, &now, err);
        if (rc == 0 || !now.again) {
            return rc;
        }
        failures = now.brought ? 1 : failures + 1;
        if (failures >= attempts) {
            return err_wrap(err, "after %u attempts", failures);
        }
        if (!wait_ms(stop, pause_ms(failures, now.retry_after_s))) {
            return err_set(err, ERR_CANCELLED, "given up");
        }
    }
}
