/* SPDX-License-Identifier: Apache-2.0 */
/* Follows a job to its end. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "client_handle.h"
#include "gradus/v1/jobs.pb-c.h"
#include "os/chrono.h"

#define WATCH_PAUSE_MS 200 /* between two looks at a job */

/* The parts of a job that a caller has seen and need not see again. */
struct seen {
    int state;
    uint64_t steps, examples, generation;
    size_t evaluations;
    char *words; /* reason and activity */
};

static bool has_changed(struct seen *seen, const Gradus__V1__Job *job)
{
    char *words = mem_printf("%s\n%s\n%s", job->reason, job->activity, job->checkpoint);
    bool changed = seen->words == NULL || seen->state != (int)job->state ||
                   seen->steps != job->step || seen->examples != job->examples ||
                   seen->generation != job->generation || seen->evaluations != job->n_evaluations ||
                   strcmp(seen->words, words) != 0;
    free(seen->words);
    *seen = (struct seen){(int)job->state, job->step,          job->examples,
                          job->generation, job->n_evaluations, words};
    return changed;
}

static bool has_ended(const struct gradus_job_status *job)
{
    return job->state == GRADUS_JOB_SUCCEEDED || job->state == GRADUS_JOB_FAILED ||
           job->state == GRADUS_JOB_CANCELLED;
}

/* The job's status; of a master that is away for a moment, once it is back. */
static int look(struct gradus_client *c, const char *job, struct gradus_job_status *out)
{
    uint64_t begin = chrono_now_ms();
    int rc = gradus_client_job(c, job, out);
    while (rc == GRADUS_CLIENT_UNREACHABLE && chrono_now_ms() - begin < c->timeout_ms) {
        (void)poll(NULL, 0, WATCH_PAUSE_MS);
        rc = gradus_client_job(c, job, out);
    }
    return rc;
}

int gradus_client_watch(struct gradus_client *c, const char *job, gradus_job_fn *each, void *ctx)
{
    struct seen seen = {.words = NULL};
    struct gradus_job_status status;
    int rc;
    for (;;) {
        rc = look(c, job, &status);
        if (rc != GRADUS_CLIENT_OK) {
            break;
        }
        if (has_changed(&seen, (const Gradus__V1__Job *)c->shown->body) && each != NULL &&
            each(ctx, &status) != 0) {
            rc = GRADUS_CLIENT_STOPPED;
            break;
        }
        if (has_ended(&status)) {
            break;
        }
        (void)poll(NULL, 0, WATCH_PAUSE_MS);
    }
    free(seen.words);
    return rc;
}
