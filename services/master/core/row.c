/* SPDX-License-Identifier: Apache-2.0 */
/* The row of a job in the store: when it is written, what waits for it, what is shown meanwhile.
 *
 * A store may refuse a row (its disk is full) and take it later. No job ends for that: the newest
 * row is written again with pauses, and four things wait until it is stored:
 *
 * - calls of a generation that is in no stored row: a restarted master would use the generation
 * once more;
 *
 * - unpinning a version that was evaluated or written: a restarted master does both again where
 * its row does not say that they are done (while the store refuses, training goes on without);
 *
 * - an end: what clients are told is final, also for a master that is started again;
 *
 * - answers to Submit and Set (also that a change was undone), and to a Cancel that ends the job.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "master/core/core.h"

void row_send(struct master *m, struct job *j)
{
    j->row_sent = j->row;
    j->store_again_ms = 0;
    action_add(m, MASTER_STORE)->store = (struct master_store){.row = j->row, .job = &j->record};
}

void job_store(struct master *m, struct job *j)
{
    j->row++;
    handover_note(j);
    if (j->store_again_ms == 0) {
        row_send(m, j); /* otherwise it goes with the next attempt */
    }
    job_changed(j);
}

bool row_has_generation(const struct job *j)
{
    return j->row_stored >= j->row_generation || MUTANT(generation_not_awaited);
}

bool row_has_end(const struct job *j)
{
    return j->row_stored >= j->row_final || MUTANT(end_not_awaited);
}

bool row_has_let_go(const struct job *j)
{
    return j->row_stored >= j->row_let_go || j->store_failures > 0;
}

void row_restored(struct job *j)
{
    j->row = j->row_sent = j->row_stored = j->row_generation = 1;
    j->row_final = 1;
    j->told = job_state_is_final(j->record.state);
}

/* ---- answers that wait ---- */

static void wait_for_row(struct job *j, struct row_answer answer)
{
    answer.row = j->row;
    j->answers = mem_grow(j->answers, &j->answer_capacity, j->answer_count + 1, sizeof *j->answers);
    j->answers[j->answer_count++] = answer;
}

void row_reply(struct master *m, struct job *j, uint64_t request, bool taken)
{
    if (j->row_stored == j->row || (taken && j->store_failures > 0)) {
        reply_add(m, request)->job = job_shown(j);
    } else {
        wait_for_row(j, (struct row_answer){.request = request, .taken = taken});
    }
}

void row_refuse(struct master *m, struct job *j, uint64_t request, const char *why)
{
    if (MUTANT(undone_not_awaited)) {
        reply_error(m, request, ERR_EXHAUSTED, "%s", why);
        return; /* the next generation's row has it */
    }
    job_store(m, j);
    wait_for_row(j, (struct row_answer){.request = request, .undone = mem_strdup(why)});
}

void row_answers_release(struct job *j)
{
    for (size_t i = 0; i < j->answer_count; i++) {
        free(j->answers[i].undone);
    }
    free(j->answers);
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
