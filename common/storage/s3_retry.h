/* SPDX-License-Identifier: Apache-2.0 */
/* Repeats what may work later, with growing pauses. */
#ifndef GRADUS_STORAGE_S3_RETRY_H
#define GRADUS_STORAGE_S3_RETRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct s3_attempt {
    bool again;   /* the attempt failed, and another one may succeed */
    bool brought; /* the attempt failed after it had brought something: the count of attempts begins
                     anew */
    uint64_t retry_after_s; /* as the other side wishes; 0: it said nothing */
};
/* @now is zeroed. */
typedef int s3_attempt_fn(void *ctx, struct s3_attempt *now, struct err *err);

/* Calls @fn until it succeeds, says that it is of no use, or has brought nothing @attempts times in
 * a row. Errors: those of @fn; ERR_CANCELLED @stop (which may be NULL) is set. */
int s3_retry(unsigned attempts, const atomic_bool *stop, s3_attempt_fn *fn, void *ctx,
             struct err *err);

bool s3_stopped(const atomic_bool *stop);

#endif
