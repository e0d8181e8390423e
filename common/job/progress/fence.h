/* SPDX-License-Identifier: Apache-2.0 */
/* Who may speak about a job: what keeps two clusters apart that have jobs of the same name, and
 * masters apart from everybody else.
 *
 * `opening` is drawn for each start of a job: a request of a worker for a shard that was opened
 * another time, or by another cluster, is recognised by it. `secret` is drawn once for a job and
 * known to its master, and to the nodes that serve it: what changes a shard or a worker's job
 * carries it. Neither is logged.
 *
 * Why random numbers (decision 38): ids come from names and counters, and addresses are used again,
 * so neither tells two clusters apart; a generation orders what one master says. Nothing has to be
 * configured or agreed on. The cores compare them before anything else of a request, so the
 * simulator's strangers meet the same lines. The secret lies in the job's row and not in the
 * process, because a master that was started again has to close what the old one opened. It is no
 * encryption: it stops mistakes and strangers, not somebody who listens.
 *
 * The place of a shard (address, opening) belongs to a generation (decision 47), which fences out
 * the past already, so a worker needs no second rule for which address is the newest. StartJob says
 * what a job is, Assign where it is: a shard may move without its workers loading anything again.
 * Evaluations bring the places along, because the worker that makes one may have no assignment. */
#ifndef GRADUS_JOB_PROGRESS_FENCE_H
#define GRADUS_JOB_PROGRESS_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define FENCE_SECRET_BYTES 16

/* Zeroed is a valid fence: nothing was drawn. */
struct fence {
    uint64_t opening;
    uint8_t secret[FENCE_SECRET_BYTES];
};

/* Is @asked by the master that @own is from? Errors: ERR_UNAUTHENTICATED. */
int fence_check_secret(const struct fence *own, const struct fence *asked, struct err *err);
/* Is @asked meant for the opening of @own? Errors: ERR_ABORTED. */
int fence_check_opening(const struct fence *own, const struct fence *asked, struct err *err);

#endif
