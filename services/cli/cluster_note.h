/* SPDX-License-Identifier: Apache-2.0 */
/* What a cluster lacks for a job, said at once to who submits or changes it. */
#ifndef GRADUS_CLI_CLUSTER_NOTE_H
#define GRADUS_CLI_CLUSTER_NOTE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "gradus/v1/jobs.pb-c.h"

struct cluster_counts {
    size_t workers, ps; /* alive */
    bool known;         /* otherwise there is nothing to say */
};

void cluster_count(Gradus__V1__NodeInfo *const *nodes, size_t count, struct cluster_counts *out);
/* Appends one line, without a newline, when @job, whose file asks for at least @workers_min workers
 * and @ps servers, waits for nodes or goes on with fewer; otherwise nothing. */
void cluster_note(const Gradus__V1__Job *job, uint64_t workers_min, uint64_t ps,
                  const struct cluster_counts *counts, struct buf *out);

#endif
