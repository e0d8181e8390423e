/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that need not wait for every worker: what their tests begin with. */
#ifndef GRADUS_TESTS_NONBLOCKING_RIG_H
#define GRADUS_TESTS_NONBLOCKING_RIG_H

#include "unit/worker/script.h"

struct worker_assignment nonblocking_partial(uint32_t aggregate, uint32_t first, uint32_t end);
/* Pull the first version, which is @version on both shards. */
void nonblocking_start(struct script *t, const struct worker_assignment *a, uint64_t version);
void nonblocking_answer_spare(struct script *t, const struct asked *ask, bool given,
                              uint32_t replica, uint32_t wait_ms);

#endif
