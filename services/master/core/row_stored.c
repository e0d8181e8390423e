/* SPDX-License-Identifier: Apache-2.0 */
/* What the store answers: a row is stored, or could not be and is written again. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/mutant.h"
#include "master/core/core.h"

static void answer_one(struct master *m, struct job *j, const struct row_answer *a, const char *why)
{
    if (a->undone != NULL && why != NULL) {
        reply_error(m, a->request, ERR_UNAVAILABLE, "%s; %s", a->undone, why);
    } else if (a->undone != NULL) {
        reply_error(m, a->request, ERR_EXHAUSTED, "%s", a->undone);
    } else if (why != NULL && (!a->taken || j->row_stored == 0)) { /* the job is about to go */
        reply_error(m, a->request, ERR_UNAVAILABLE, "%s", why);
    } else {
        reply_add(m, a->request)->job = job_shown(j);
    }
}

/* Answers requests that wait for a row up to @row; with @why they are refused. */
static void answer(struct master *m, struct job *j, uint64_t row, const char *why)
{
    size_t kept = 0;
    for (size_t i = 0; i < j->answer_count; i++) {
        struct row_answer a = j->answers[i];
        if (a.row > row) {
            j->answers[kept++] = a;
        } else {
            answer_one(m, j, &a, why);
            free(a.undone);
        }
    }
    j->answer_count = kept;
}

/* The first row of a job could not be stored: it never was. Nobody knows it but who waits for the
 * answer to Submit. */
static void refuse(struct master *m, struct job *j, const struct err *err)
{
    answer(m, j, UINT64_MAX,
           action_printf(m, "the job cannot be stored, so it is not taken: %s", err->msg));
    job_forget(m, j);
}

static void failed(struct master *m, struct job *j, const struct err *err)
{
    uint64_t wait = backoff_ms(j->store_failures + 1, STORE_BACKOFF_MS_MIN, STORE_BACKOFF_MS_MAX);
    if (j->store_failures++ == 0) {
        char quoted[1200];
        action_log(m, LOG_LEVEL_ERROR, "row_not_stored", "job=%s reason=%s", j->record.id,
                   log_quote(err->msg, quoted, sizeof quoted));
    }
    j->store_again_ms = MUTANT(row_not_stored_again) ? UINT64_MAX : m->now_ms + wait;
    job_record_set(&j->store_problem, err->msg);
    answer(m, j, j->row,
           action_printf(m, "job %s is changed, but that cannot be stored yet: %s", j->record.id,
                         err->msg));
    job_changed(j);
}

static void stored(struct master *m, struct job *j, uint64_t row)
{
    m->reschedule = m->reschedule || j->row_stored == 0; /* it may begin */
    j->row_stored = row > j->row_stored ? row : j->row_stored;
    if (j->store_failures > 0) {
        action_log(m, LOG_LEVEL_INFO, "row_stored", "job=%s attempts=%u", j->record.id,
                   j->store_failures + 1);
        j->store_failures = 0;
        job_changed(j);
    }
    if (j->row > j->row_sent) {
        row_send(m, j);
    }
    answer(m, j, row, NULL);
    job_touch(j); /* what waited for the row goes on */
}

void on_stored(struct master *m, const struct master_stored *done)
{
    struct job *j = job_find(m, done->job);
    if (j == NULL) {
        return;
    }
    if (done->err == NULL) {
        stored(m, j, done->row);
    } else if (j->row_stored == 0) {
        refuse(m, j, done->err);
    } else if (done->row == j->row_sent) {
        failed(m, j, done->err);
    }
}

void rows_tick(struct master *m)
{
    for (size_t i = 0; i < m->live_count; i++) {
        struct job *j = m->live[i];
        if (j->store_again_ms != 0 && j->store_again_ms <= m->now_ms) {
            row_send(m, j);
        }
    }
}
