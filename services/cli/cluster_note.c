/* SPDX-License-Identifier: Apache-2.0 */
/* Tells a user in one line that the cluster has too few nodes for a job. It only words what the
 * master has decided: such a job waits, or trains with fewer workers. */
#include "cli/cluster_note.h"

#include <inttypes.h>

#include "cli/text_reason.h"

void cluster_count(Gradus__V1__NodeInfo *const *nodes, size_t count, struct cluster_counts *out)
{
    *out = (struct cluster_counts){.known = true};
    for (size_t i = 0; i < count; i++) {
        if (nodes[i]->alive) {
            out->workers += nodes[i]->role == GRADUS__V1__NODE_ROLE__WORKER;
            out->ps += nodes[i]->role == GRADUS__V1__NODE_ROLE__PS;
        }
    }
}

static void add_counts(const struct cluster_counts *c, struct buf *out)
{
    buf_printf(out, "%zu worker%s and %zu parameter server%s", c->workers,
               c->workers == 1 ? "" : "s", c->ps, c->ps == 1 ? "" : "s");
}

void cluster_note(const Gradus__V1__Job *job, uint64_t workers_min, uint64_t ps,
                  const struct cluster_counts *counts, struct buf *out)
{
    if (!counts->known) {
        return;
    }
    const uint64_t enough = job->servers != 0 && job->servers < ps ? job->servers : ps;
    switch (job->state) {
    case GRADUS__V1__JOB_STATE__PENDING:
        buf_printf(out, "job %s%s", job->id, job->reason[0] == '\0' ? " waits" : "");
        text_reason_line(job, " ", out);
        buf_add_str(out, "; the cluster has ");
        add_counts(counts, out);
        if (counts->workers < workers_min || counts->ps < enough) {
            buf_add_str(out, ", so it begins when more have joined");
        }
        return;
    case GRADUS__V1__JOB_STATE__STARTING:
    case GRADUS__V1__JOB_STATE__RUNNING:
    case GRADUS__V1__JOB_STATE__RECOVERING:
        break;
    default:
        return;
    }
    if (counts->workers < workers_min) {
        buf_printf(out, "job %s asks for %" PRIu64 " worker%s, and the cluster has ", job->id,
                   workers_min, workers_min == 1 ? "" : "s");
        add_counts(counts, out);
        if (job->n_workers > 0) {
            buf_printf(out, ": it goes on with %zu and takes more as they join", job->n_workers);
        }
    } else if (job->servers != 0 && job->servers != ps) {
        buf_printf(out, "job %s asks for %" PRIu64 " parameter server%s, and the cluster has ",
                   job->id, ps, ps == 1 ? "" : "s");
        add_counts(counts, out);
        buf_printf(out, ": it goes on with %" PRIu32 " and moves when it can", job->servers);
    }
}
