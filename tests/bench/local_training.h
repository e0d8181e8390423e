/* SPDX-License-Identifier: Apache-2.0 */
/* A job's network trained inside one process, without any parameter server: the limit that the
 * cluster's throughput is compared with. */
#ifndef GRADUS_TESTS_BENCH_LOCAL_TRAINING_H
#define GRADUS_TESTS_BENCH_LOCAL_TRAINING_H

#include "graph/model.h"
#include "rule/update/update_spec.h"

struct local_training {
    const struct model_spec *model;
    const struct update_spec *update; /* NULL: gradients only */
    struct shape input;
    uint32_t classes; /* 0: real targets */
    size_t batch_size;
    int threads; /* of BLAS */
};

struct local_result {
    double examples_per_second;
    double gradient_seconds; /* forward and backward, of all steps */
    double update_seconds;
    double loss; /* mean over the examples of the last step */
};

/* Run @steps steps over a few random batches, after some to warm up.
 * Errors: those of model_new() and runner_new(). */
int local_training_run(const struct local_training *t, uint64_t steps, struct local_result *out,
                       struct err *err);

#endif
