/* SPDX-License-Identifier: Apache-2.0 */
/* Workers of a job are lost, or cannot take part. What becomes of the job is decided by advance.c.
 */
#include <string.h>

#include "base/mutant.h"
#include "master/core/core.h"

/* Its lease and its chunk go to others. The order of the rest stays: shares depend on it. */
void job_worker_remove(struct master *m, struct job *j, struct job_worker *w)
{
    train_park_clear(m, j, w, ERR_NOT_FOUND, "the worker is not part of the job");
    job_record_drop_times(&j->record, w->node->id);
    if (!MUTANT(lease_lost_with_worker)) {
        train_give_back(m, j, w);
    }
    evaluate_returned(j, w);
    calls_forget_node(&m->calls, w->node, j);
    size_t i = (size_t)(w - j->workers);
    memmove(w, w + 1, (j->worker_count - i - 1) * sizeof *w);
    j->worker_count--;
    job_names_refresh(j);
    job_changed(j);
}

void job_worker_lost(struct master *m, struct job *j, struct node *n, const char *why)
{
    struct job_worker *w = job_worker_of(j, n);
    if (w == NULL) {
        return; /* the node was only being told to drop the job */
    }
    char quoted[256];
    action_log(m, n->alive && n->draining ? LOG_LEVEL_INFO : LOG_LEVEL_WARN, "worker_lost",
               "job=%s node=%s reason=%s", j->record.id, n->id,
               log_quote(why, quoted, sizeof quoted));
    bool counted = job_is_starting(j) || (j->record.state == JOB_RUNNING && w->started);
    j->regroup_needed = j->regroup_needed || counted;
    job_record_set(&j->lost_last,
                   action_printf(m, "waits for a worker: lost the last one, %s (%s)", n->id, why));
    job_worker_remove(m, j, w);
    m->reschedule = true;
    job_touch(j);
}

void job_drop_worker(struct master *m, struct job *j, struct node *n, const char *why)
{
    job_worker_lost(m, j, n, why);
    calls_forget_node(&m->calls, n, j);
    call_start(m, j, n, MASTER_CALL_STOP, 0);
}

void job_refuse(struct master *m, struct job *j, const struct node *n, bool for_good)
{
    struct refusal *r = NULL;
    for (size_t i = 0; i < JOB_REFUSED_MAX && r == NULL; i++) {
        r = j->refused[i].node == n->number ? &j->refused[i] : NULL;
    }
    r = r != NULL ? r : &j->refused[j->refused_count++ % JOB_REFUSED_MAX];
    *r = (struct refusal){.node = n->number,
                          .until_ms = for_good ? UINT64_MAX : m->now_ms + JOB_REFUSED_MS};
}

void job_leave_out(struct master *m, struct job *j, struct node *n, bool for_good, const char *why)
{
    job_refuse(m, j, n, for_good);
    if (j->phase == PHASE_WAIT) {
        job_say(j, why);
    }
    job_drop_worker(m, j, n, why);
}
