/* SPDX-License-Identifier: Apache-2.0 */
/* The row of a job in the store: when it is written, what waits for it, what is shown meanwhile.
 *
 * A store may refuse a row (its disk is full) and take it later. So nothing of a job ends for that:
 * the newest row is written again with pauses, and three things wait until it is stored:
 *
 *   - calls of a generation that no stored row has: a restarted master would use it once more;
 *   - an end: what clients are told is final, also for a master that is started again;
 *   - answers to Submit and Set. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/mem.h"
#include "base/mutant.h"
#include "master/core/core.h"

static void send(struct master *m, struct job *j)
{
    j->row_sent = j->row;
    j->store_again_ms = 0;
    action_add(m, MASTER_STORE)->store = (struct master_store){.row = j->row, .job = &j->record};
}

void job_store(struct master *m, struct job *j)
{
    j->row++;
    if (j->store_again_ms == 0) {
        send(m, j); /* else it goes with the next attempt */
    }
    job_changed(m, j);
}

bool row_has_generation(const struct job *j)
{
    return j->row_stored >= j->row_generation || MUTANT(generation_not_awaited);
}

bool row_has_end(const struct job *j)
{
    return j->row_stored >= j->row_final || MUTANT(end_not_awaited);
}

void row_restored(struct job *j)
{
    j->row = j->row_sent = j->row_stored = j->row_generation = 1;
    j->row_final = 1;
}

/* ---- answers that wait ---- */

void row_reply(struct master *m, struct job *j, uint64_t request)
{
    if (j->row_stored == j->row) {
        reply_add(m, request)->job = job_shown(j);
        return;
    }
    j->answers = mem_grow(j->answers, &j->answer_capacity, j->answer_count + 1, sizeof *j->answers);
    j->answers[j->answer_count++] = (struct row_answer){.request = request, .row = j->row};
}

/* Those that wait for a row up to @row; with @err they are refused. */
static void answer(struct master *m, struct job *j, uint64_t row, const char *why)
{
    size_t kept = 0;
    for (size_t i = 0; i < j->answer_count; i++) {
        struct row_answer a = j->answers[i];
        if (a.row > row) {
            j->answers[kept++] = a;
        } else if (why != NULL) {
            reply_error(m, a.request, ERR_UNAVAILABLE, "%s", why);
        } else {
            reply_add(m, a.request)->job = job_shown(j);
        }
    }
    j->answer_count = kept;
}

/* ---- what is shown ---- */

/* Until its end is stored a job is shown as it was before. */
const struct job_record *job_shown(struct job *j)
{
    bool ends = job_state_is_final(j->record.state) && !row_has_end(j);
    if (!ends && j->store_failures == 0) {
        return &j->record;
    }
    struct buf words = {0};
    if (ends) {
        buf_printf(&words, "is %s as soon as that is stored: ", job_state_name(j->record.state));
    }
    buf_add_str(&words, j->record.reason);
    if (j->store_failures > 0) {
        buf_printf(&words, "%sits state cannot be stored, which is tried again: %s",
                   words.len == 0 ? "" : "; ", j->store_problem);
    }
    job_record_set(&j->shown_reason, buf_str(&words));
    buf_release(&words);
    j->shown = j->record;
    j->shown.reason = j->shown_reason;
    if (ends) {
        j->shown.state = j->state_before;
        j->shown.finished_ms = 0;
    }
    return &j->shown;
}

/* ---- what the store says ---- */

/* The first row of a job could not be stored: it never was. Nobody knows it but who waits for the
 * answer to Submit. */
static void refuse(struct master *m, struct job *j, const struct err *err)
{
    answer(m, j, UINT64_MAX,
           action_printf(m, "the job cannot be stored, so it is not taken: %s", err->msg));
    size_t i = 0;
    while (m->jobs[i] != j) {
        i++;
    }
    memmove(m->jobs + i, m->jobs + i + 1, (m->job_count - i - 1) * sizeof(struct job *));
    m->job_count--;
    job_free(j);
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
    job_changed(m, j);
}

static void stored(struct master *m, struct job *j, uint64_t row)
{
    m->reschedule = m->reschedule || j->row_stored == 0; /* it may begin */
    j->row_stored = row > j->row_stored ? row : j->row_stored;
    if (j->store_failures > 0) {
        action_log(m, LOG_LEVEL_INFO, "row_stored", "job=%s attempts=%u", j->record.id,
                   j->store_failures + 1);
        j->store_failures = 0;
        job_changed(m, j);
    }
    if (j->row > j->row_sent) {
        send(m, j);
    }
    milestone_prune(m, j);
    if (job_state_is_final(j->record.state) && row_has_end(j)) {
        job_ended(m, j);
    }
    if (row_has_generation(j)) {
        calls_unblock(m, j);
    }
    answer(m, j, row, NULL);
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
    for (size_t i = 0; i < m->job_count; i++) {
        struct job *j = m->jobs[i];
        if (j->store_again_ms != 0 && j->store_again_ms <= m->now_ms) {
            send(m, j);
        }
    }
}
