/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/follow_events.h"

#include <stdlib.h>

#include "base/mem.h"
#include "cli/find_job.h"
#include "tensorboard/tensorboard.h"

#define TEXT_MS 1000 /* who waits hears no Ctrl-C, and it is asked again */
#define LAST_TEXT_MS 5000

/* The job file as it is now, which Watch does not bring; NULL: the master did not say. Returns
 * owned. */
static char *ask_text(struct client *client, const char *job, unsigned timeout_ms)
{
    Gradus__V1__GetJobRequest body = GRADUS__V1__GET_JOB_REQUEST__INIT;
    struct rpc_msg *reply = NULL;
    struct err err = {0};
    body.job = client_text(job);
    if (client_call(client, "Get", &body.base, timeout_ms, &reply, &err) != 0) {
        return NULL;
    }
    char *text = mem_strdup(((const Gradus__V1__Job *)reply->body)->text);
    rpc_msg_unref(reply);
    return text;
}

int follow_events_write(struct follow_events *e, struct client *client,
                        const struct follow_options *options, const Gradus__V1__Job *job,
                        size_t count, struct err *err)
{
    const char *dir = options->tensorboard;
    const bool ended = job_has_ended(job), changed = e->told && job->n_changes != e->changes;
    if (dir == NULL || dir[0] == '\0' || count == 0 || e->failed ||
        (!ended && !changed && count == e->count && job->evaluations[count - 1]->step == e->step)) {
        return 0;
    }
    char *text = NULL;
    if (ended || changed || !e->told) {
        text = ask_text(client, options->job, ended ? LAST_TEXT_MS : TEXT_MS);
        e->told = text != NULL;
        e->changes = job->n_changes;
    }
    e->count = count;
    e->step = job->evaluations[count - 1]->step;
    const int rc = tensorboard_write(dir, job, text, count, err);
    e->failed = rc != 0;
    free(text);
    return rc;
}
