/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker's computation of one mini-batch takes on this machine: tried out for a moment, for
 * `gradus plan`. */
#ifndef GRADUS_CLI_STEP_COST_H
#define GRADUS_CLI_STEP_COST_H

#include "data/dataset.h"
#include "graph/model.h"
#include "job/spec/job_spec.h"

#define STEP_COST_SECONDS 0.3    /* no batch is begun after so long; one is always computed */
#define STEP_COST_BATCHES_MAX 40 /* nor more than these */
#define STEP_COST_FLOATS_MAX                                                                       \
    (256U << 20) /* parameters, gradients and activations together: 1 GiB */

/* Forward and backward over the first batch of @train, by as many threads as the job file gives a
 * worker: the shortest of some. Errors: ERR_UNSUPPORTED this model or these data are not tried, and
 * why; those of the data. */
int step_cost_measure(const struct job_spec *spec, const struct model *model,
                      const struct dataset *train, double *seconds, struct err *err);

#endif
