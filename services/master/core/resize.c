/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that run with another number of parameter servers than their file says (cluster.ps): the
 * file says what is wanted, the record with how many it ran last.
 *
 * Such a job moves when the servers are there (resize_due.c): it yields like one that is paused,
 * but its workers are kept for it, and starts from that checkpoint with the new number. Nothing is
 * lost or made again by that, so it is no recovery. Where the servers are not there it starts, and
 * recovers, with the number that it had. A number that does not fit in the memory of the servers is
 * taken back: the file says the old one again. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "master/core/core.h"

#define HEAD "cluster:\n"
#define KEY "  ps: "
#define RESIZE_FAILURES_MAX 3 /* starts in a row, before one for which there was no memory */

bool resize_is_wanted(const struct job *j)
{
    return j->record.state == JOB_RUNNING && !j->over && !j->hold_cancel && !j->adopts &&
           j->has_spec && j->shard_count > 0 && j->shard_count != (size_t)j->spec.cluster.ps;
}

size_t resize_servers(const struct master *m, const struct job *j)
{
    size_t count = 0;
    for (size_t i = 0; i < m->node_count; i++) {
        const struct node *n = m->nodes[i];
        const bool speaks = n->alive && !n->doubted && !node_is_silent(m, n, m->now_ms);
        const bool stays = !n->draining && !n->ends;
        count += n->role == MASTER_PS && speaks && stays && job_refused_until(j, n) == 0 &&
                 (node_serves(n, j) || n->job_count < MASTER_JOBS_PER_PS_MAX);
    }
    return count;
}

void resize_keep(struct master *m, struct job *j)
{
    for (size_t i = 0; i < j->worker_count && !MUTANT(resize_keeps_nobody); i++) {
        j->workers[i].node->kept_for = j;
    }
    for (size_t i = 0; i < j->shard_count; i++) {
        if (j->shards[i].node != NULL) {
            j->shards[i].node->kept_for = j;
        }
    }
    (void)m;
}

static bool is_kept(const struct node *n, const struct job *j)
{
    return n->role == MASTER_WORKER && n->alive && !n->draining && n->kept_for == j;
}

size_t resize_kept(const struct master *m, const struct job *j)
{
    size_t count = 0;
    for (size_t i = 0; i < m->node_count; i++) {
        count += is_kept(m->nodes[i], j) && !node_serves(m->nodes[i], j);
    }
    return count;
}

size_t resize_kept_all(const struct master *m, const struct job *j)
{
    size_t count = 0;
    for (size_t i = 0; i < m->node_count; i++) {
        const bool has = job_has_worker(j, m->nodes[i]);
        count += is_kept(m->nodes[i], j) && !has;
    }
    return count;
}

void resize_let_go(struct master *m, struct job *j)
{
    for (size_t i = 0; j->moves && i < m->node_count; i++) {
        if (m->nodes[i]->kept_for == j) {
            m->nodes[i]->kept_for = NULL;
        }
    }
    m->reschedule = m->reschedule || j->moves; /* others may have them */
    j->moves = false;
}

void resize_answer(struct master *m, struct job *j)
{
    if (j->set_waits && j->change == NULL && !j->changing) {
        j->set_waits = false;
        row_reply(m, j, j->set_request, false);
    }
}

/* ---- a number that does not fit ---- */

/* @text, a canonical job file, with another number of servers; owned. */
static char *text_with(const char *text, uint32_t servers)
{
    const char *section = strncmp(text, HEAD, strlen(HEAD)) == 0 ? text : strstr(text, "\n" HEAD);
    const char *line = section == NULL ? NULL : strstr(section + 1, "\n" KEY);
    if (line == NULL) {
        return mem_strdup(text);
    }
    line += 1 + strlen(KEY);
    return mem_printf("%.*s%" PRIu32 "%s", (int)(line - text), text, servers,
                      line + strcspn(line, "\n"));
}

static void set_servers(struct master *m, struct job *j, uint32_t servers)
{
    struct job_revision note = {.time_ms = m->wall_ms,
                                .by = mem_strdup(""),
                                .step = j->record.step,
                                .version = j->step_map.step + j->version_shift};
    job_names_add(&note.sets, action_printf(m, "cluster.ps=%" PRIu32, servers));
    job_history_add(&j->record.history, &note);
    free(note.by);
    job_names_clear(&note.sets);
    free(note.sets.items);
    action_own(m, j->record.text); /* a call of this step may send it */
    j->record.text = text_with(j->record.text, servers);
    char *text = j->spec.text;
    j->spec.text = mem_strdup(j->record.text);
    j->spec.cluster.ps = servers;
    free(text);
}

static void take_back(struct master *m, struct job *j, const char *reason, const char *why)
{
    const size_t wanted = (size_t)j->spec.cluster.ps;
    const char *words =
        action_printf(m, "goes on with %" PRIu32 " parameter server%s, for %s: %s",
                      j->record.servers, j->record.servers == 1 ? "" : "s", reason, why);
    char quoted[1200];
    action_log(m, LOG_LEVEL_WARN, "job_not_moved", "job=%s servers=%zu reason=%s", j->record.id,
               wanted, log_quote(why, quoted, sizeof quoted));
    if (!MUTANT(resize_not_withdrawn)) {
        set_servers(m, j, j->record.servers);
    }
    memset(j->refused, 0, sizeof j->refused); /* what they had before they can have again */
    j->refused_count = 0;
    j->start_failures = 0;
    if (j->record.state == JOB_RUNNING) {
        job_say(j, words);
    } else {
        job_record_set(&j->move_refused, words);
    }
    if (j->set_waits && j->change == NULL && !j->changing) {
        j->set_waits = false;
        row_refuse(m, j, j->set_request, action_printf(m, "job %s %s", j->record.id, words));
    } else {
        job_store(m, j);
    }
}

void resize_take_back(struct master *m, struct job *j, const char *why)
{
    take_back(m, j, action_printf(m, "it cannot move to %" PRId64, j->spec.cluster.ps), why);
}

bool resize_withdraw(struct master *m, struct job *j, const char *why)
{
    const size_t wanted = (size_t)j->spec.cluster.ps;
    const bool moved = j->resume && j->record.servers != 0 && j->record.servers != wanted;
    /* refusals count for a while only, and there are more servers than attempts */
    const bool others = resize_servers(m, j) >= wanted && j->start_failures < RESIZE_FAILURES_MAX;
    if (!moved || j->shard_count != wanted || others) {
        return false;
    }
    take_back(m, j, action_printf(m, "%zu cannot hold it", wanted), why);
    return true;
}

/* ---- it runs ---- */

void resize_done(struct master *m, struct job *j)
{
    if (j->moves) {
        action_log(m, LOG_LEVEL_INFO, "job_moved", "job=%s step=%" PRIu64 " servers=%zu",
                   j->record.id, j->step_map.step, j->shard_count);
    }
    resize_let_go(m, j);
    j->record.servers = (uint32_t)j->shard_count;
    free(j->move_refused);
    j->move_refused = NULL;
    if (resize_is_wanted(j) && j->cannot_save && j->set_waits && j->change == NULL) {
        resize_take_back(m, j, j->warning == NULL ? "no checkpoint can be written" : j->warning);
    }
    m->reschedule = m->reschedule || resize_is_wanted(j); /* when it moves is looked at then */
    if (!resize_is_wanted(j) && !j->adopts) {
        resize_answer(m, j);
    }
}
