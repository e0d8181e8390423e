/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a job with what it was when it was last looked at. */
#include "cli/job_events.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/text_reason.h"

static bool has(char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* "worker-1, worker-3": those of @names that @others has not. Returns how many. */
static size_t add_missing(char *const *names, size_t count, char *const *others, size_t other_count,
                          struct buf *out)
{
    size_t missing = 0;
    for (size_t i = 0; i < count; i++) {
        if (!has(others, other_count, names[i])) {
            buf_printf(out, "%s%s", missing++ > 0 ? ", " : "", names[i]);
        }
    }
    return missing;
}

static void compare_nodes(const char *what, char *const *before, size_t before_count,
                          char *const *now, size_t now_count, uint64_t step, struct buf *out)
{
    struct buf gone = {0}, come = {0};
    const char *several = strcmp(what, "worker") == 0 && now_count != 1 ? "s" : "";
    const size_t less = add_missing(before, before_count, now, now_count, &gone);
    const size_t more = add_missing(now, now_count, before, before_count, &come);
    if (less > 0) {
        buf_printf(out, "step %" PRIu64 ": %s %s gone; %zu %s%s\n", step, buf_str(&gone),
                   less == 1 ? "is" : "are", now_count, what, several);
    }
    if (more > 0) {
        buf_printf(out, "step %" PRIu64 ": %s joined; %zu %s%s\n", step, buf_str(&come), now_count,
                   what, several);
    }
    buf_release(&gone);
    buf_release(&come);
}

static void keep(char ***names, size_t *count, char *const *from, size_t n)
{
    mem_free_texts(*names, *count);
    *names = mem_copy_texts((const char *const *)from, n);
    *count = n;
}

static void look_at_nodes(struct job_events *e, const Gradus__V1__Job *job, struct buf *out)
{
    if (job->state != GRADUS__V1__JOB_STATE__RUNNING) {
        return;
    }
    if (e->ran) {
        compare_nodes("worker", e->workers, e->worker_count, job->workers, job->n_workers,
                      job->step, out);
        compare_nodes("ps", e->ps, e->ps_count, job->ps, job->n_ps, job->step, out);
    }
    keep(&e->workers, &e->worker_count, job->workers, job->n_workers);
    keep(&e->ps, &e->ps_count, job->ps, job->n_ps);
    e->ran = true;
}

static void look_at_backups(struct job_events *e, const Gradus__V1__Job *job, struct buf *out)
{
    bool covered = job->n_shards > 0;
    for (size_t i = 0; i < job->n_shards; i++) {
        covered = covered && job->shards[i]->backup_follows;
    }
    if (e->ran && covered && !e->covered) {
        buf_printf(out, "step %" PRIu64 ": each shard has a backup\n", job->step);
    }
    e->covered = covered;
}

static void look_at_recovery(struct job_events *e, const Gradus__V1__Job *job, struct buf *out)
{
    if (e->seen && job->adoptions > e->adoptions) {
        buf_printf(out, "adopted by a master that was started again, at step %" PRIu64 "\n",
                   job->step);
    }
    e->adoptions = job->adoptions;
    if (e->seen && job->takeovers > e->takeovers) {
        buf_printf(out, "taken over by a backup at step %" PRIu64 ": no step is lost\n", job->step);
    }
    e->takeovers = job->takeovers;
    if (e->seen && job->recoveries > e->recoveries) {
        e->lost = true;
        buf_printf(out, "recovery %" PRIu64 " at step %" PRIu64 ", epoch %.2f", job->recoveries,
                   e->reached, e->epoch);
        if (job->state == GRADUS__V1__JOB_STATE__RECOVERING) {
            text_reason_line(job, ": ", out);
        }
        buf_add_char(out, '\n');
    }
    e->recoveries = job->recoveries;
    /* A master that was started again shows the step of its row until it has asked the shards. */
    if (job->step < e->reached && !e->back && e->lost) {
        e->back = true;
        e->from = job->step;
        buf_printf(out,
                   "back to step %" PRIu64 " of %" PRIu64 ": what came after it is trained again\n",
                   e->from, e->reached);
    }
    if (e->lost && job->step < e->from) { /* lost once more before it was made up for */
        e->from = job->step;
    }
    if (job->step >= e->reached) {
        /* While it recovers, the step that it goes back to is not shown yet. */
        e->lost = e->lost && !e->back &&
                  (job->step == e->reached || job->state == GRADUS__V1__JOB_STATE__RECOVERING);
        e->back = false;
        e->reached = job->step;
        e->epoch = job->epoch;
    }
}

/* What keeps it after its last step, once for each reason: a disk that is full, say. */
static void look_at_end(struct job_events *e, const Gradus__V1__Job *job, struct buf *out)
{
    const bool over = job->state == GRADUS__V1__JOB_STATE__RUNNING && job->steps_total > 0 &&
                      job->step >= job->steps_total;
    if (over && (e->reason == NULL || !text_is_same_words(e->reason, job->reason))) {
        const size_t before = out->len;
        text_reason_line(job, "", out);
        if (out->len > before) {
            buf_add_char(out, '\n');
        }
    }
    free(e->reason);
    e->reason = over ? mem_strdup(job->reason) : NULL;
}

void job_events_look(struct job_events *e, const Gradus__V1__Job *job, struct buf *out)
{
    look_at_recovery(e, job, out);
    look_at_backups(e, job, out);
    look_at_nodes(e, job, out);
    look_at_end(e, job, out);
    e->seen = true;
}

void job_events_release(struct job_events *e)
{
    free(e->reason);
    mem_free_texts(e->workers, e->worker_count);
    mem_free_texts(e->ps, e->ps_count);
    *e = (struct job_events){0};
}
