/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes come and go: joining, heartbeats, leaving, silence. What that means for their jobs is
 * recorded with these. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "base/release.h"
#include "base/text.h"
#include "master/core/core.h"

/* A dead node is shown for so long, unless its place is needed. */
#define NODE_FORGET_MS 600000

/* Frees a dead node: no job has it and no call is open to it, so no action of this step, or later,
 * points to it. */
static void forget(struct master *m, size_t i)
{
    name_index_remove(&m->node_index, m->nodes[i]->id);
    m->dead_count--;
    node_free(m->nodes[i]);
    memmove(m->nodes + i, m->nodes + i + 1, (m->node_count - i - 1) * sizeof(struct node *));
    m->node_count--;
}

/* Marks a silent node, and judges it later: its heartbeat may be among messages that have come and
 * were not read yet. They are read after the mark is set. A mark from before its last heartbeat
 * does not count. */
static void overdue(struct master *m, struct node *n)
{
    uint64_t silent_ms = m->now_ms - n->heartbeat_ms;
    uint64_t beats_ms = m->config.heartbeat_timeout_ms;
    uint64_t patience_ms = node_patience_ms(m, n);
    uint64_t limit_ms = silent_ms >= patience_ms ? patience_ms : beats_ms;
    if (!node_is_seen_silent(n, limit_ms)) {
        n->overdue_ms = m->now_ms - (MUTANT(late_and_does_not_know) ? NODE_READ_MS : 0);
        n->overdue_limit_ms = limit_ms;
        n->overdue_again = 0;
    }
    if (node_is_given_up(m, n, patience_ms)) {
        node_lost(m, n, action_printf(m, "no heartbeat for %" PRIu64 " ms", silent_ms));
    }
}

static void forget_dead(struct master *m)
{
    if (m->dead_count == 0 || m->now_ms - m->dead_ms < NODE_FORGET_MS) {
        return;
    }
    for (size_t i = m->node_count; i-- > 0;) {
        if (!m->nodes[i]->alive && m->now_ms - m->nodes[i]->heartbeat_ms >= NODE_FORGET_MS) {
            forget(m, i);
        }
    }
}

void nodes_tick(struct master *m)
{
    forget_dead(m);
    for (struct node *next, *n = m->heard_first; n != NULL && node_is_silent(m, n, m->now_ms);
         n = next) {
        next = n->heard_after;
        overdue(m, n);
    }
}

void node_lost(struct master *m, struct node *n, const char *why)
{
    if (!n->alive) {
        return;
    }
    char quoted[256];
    action_log(m, n->left ? LOG_LEVEL_INFO : LOG_LEVEL_WARN, n->left ? "node_left" : "node_lost",
               "node=%s role=%s reason=%s", n->id, node_role_name(n->role),
               log_quote(why, quoted, sizeof quoted));
    node_dies(m, n);
    m->counts.nodes_lost++;
    m->reschedule = true;
    while (n->job_count > 0) {
        struct job *j = n->jobs[--n->job_count];
        if (n->role == MASTER_WORKER) {
            job_worker_lost(m, j, n, why);
        } else {
            job_ps_lost(m, j, n, why);
        }
        calls_forget_node(&m->calls, n, j);
        job_touch(j);
    }
    calls_forget_node(&m->calls, n, NULL);
}

static bool room_for_one(struct master *m)
{
    if (m->node_count < MASTER_NODES_MAX) {
        return true;
    }
    for (size_t i = 0; i < m->node_count; i++) {
        if (!m->nodes[i]->alive) {
            forget(m, i);
            return true;
        }
    }
    return false;
}

/* A live node keeps its address. One that was killed and started again at once must not wait long:
 * it tries again, and what was there before is silent. With the same wanted name it takes its own
 * place. */
static int check_address(struct master *m, const struct master_join_event *join, struct err *err)
{
    for (size_t i = 0; i < m->node_count; i++) {
        struct node *n = m->nodes[i];
        if (!n->alive || strcmp(n->address, join->address) != 0 || strcmp(n->id, join->name) == 0) {
            continue;
        }
        uint64_t silent_ms = m->now_ms - n->heartbeat_ms;
        if (silent_ms < m->late_ms) {
            n->doubted = true;
            return err_set(err, ERR_EXISTS,
                           "%s%s wants the address %.256s of %s, which is alive; when %s is silent "
                           "for %" PRIu64 " ms its place is free",
                           join->name[0] == '\0' ? "another " : "",
                           join->name[0] == '\0' ? node_role_name((enum master_role)join->role)
                                                 : join->name,
                           join->address, n->id, n->id, m->late_ms);
        }
    }
    return 0;
}

static int join_check(struct master *m, const struct master_join_event *join, struct err *err)
{
    if (join->role != MASTER_PS && join->role != MASTER_WORKER) {
        return err_set(err, ERR_INVALID, "role %d; 1 is a parameter server, 2 a worker",
                       join->role);
    }
    if (join->incarnation == 0) {
        return err_set(err, ERR_INVALID, "incarnation 0; must be a random number");
    }
    if (join->address[0] == '\0' || strlen(join->address) > 1024) {
        return err_set(err, ERR_INVALID, "address missing or longer than 1024 bytes");
    }
    if (!text_is_name(join->name, JOB_ID_BYTES_MAX)) {
        return err_set(err, ERR_INVALID,
                       "name: at most %d letters, digits, '.', '_' and '-', not beginning with "
                       "'.' or '-'",
                       JOB_ID_BYTES_MAX);
    }
    if (join->protocol != RELEASE_PROTOCOL) {
        return err_set(err, ERR_STATE,
                       "version %.40s, which speaks protocol %" PRIu32 "; this master is %s and "
                       "speaks %d",
                       join->version, join->protocol, release_version(), RELEASE_PROTOCOL);
    }
    const struct node *same = join->name[0] == '\0' ? NULL : node_named(m, join->name);
    if (same != NULL && same->alive && same->incarnation != join->incarnation &&
        strcmp(same->address, join->address) != 0 &&
        !node_is_given_up(m, same, m->config.heartbeat_timeout_ms) &&
        !(MUTANT(name_of_a_late_node) && node_is_late(m, same, m->now_ms))) {
        return err_set(err, ERR_EXISTS, "name %s belongs to a live node at %s", join->name,
                       same->address);
    }
    return check_address(m, join, err);
}

/* The newcomer has the place of a node that was lost: of the one at its address, else of the one
 * that joined first. */
static void take_place(struct master *m, const struct master_join_event *join)
{
    struct node *lost = NULL;
    for (size_t i = 0; i < m->node_count; i++) {
        struct node *n = m->nodes[i];
        if (n->alive || n->left || n->replaced || (int)n->role != join->role) {
            continue;
        }
        bool same = strcmp(n->address, join->address) == 0;
        lost = lost == NULL || same ? n : lost;
        if (same) {
            break;
        }
    }
    if (lost != NULL) {
        lost->replaced = true;
    }
}

/* Replaces the node that had this name or address before: it is silent, or it is the same process.
 */
static void replace_old(struct master *m, const struct master_join_event *join)
{
    bool placed = false;
    for (size_t i = m->node_count; i-- > 0;) {
        struct node *n = m->nodes[i];
        bool same_name = strcmp(n->id, join->name) == 0;
        if (n->alive && (same_name || strcmp(n->address, join->address) == 0)) {
            const char *why = "another process joined from its address";
            if (strcmp(n->address, join->address) != 0) {
                why = action_printf(
                    m, "no heartbeat for %" PRIu64 " ms, and another process has its name",
                    m->now_ms - n->heartbeat_ms);
            }
            node_lost(m, n, why);
        }
        if (same_name) {
            placed = placed || !(n->left || n->replaced);
            forget(m, i);
        }
    }
    if (!placed) {
        take_place(m, join);
    }
}

static void answer_join(struct master *m, const struct master_event *e, const struct node *n)
{
    struct master_reply *reply = reply_add(m, e->request);
    reply->node = n->id;
    reply->unready = node_waits_for_backups(m, n);
}

void on_join(struct master *m, const struct master_event *e)
{
    const struct master_join_event *join = &e->join;
    for (size_t i = 0; i < m->node_count; i++) {
        struct node *n = m->nodes[i];
        if (n->alive && n->incarnation == join->incarnation && (int)n->role == join->role) {
            const bool back = n->doubted || n->unheard || node_is_silent(m, n, m->now_ms);
            m->reschedule = m->reschedule || back; /* it may be given something again */
            node_heard(m, n);                      /* its first answer was lost */
            answer_join(m, e, n);
            return;
        }
    }
    struct err err = {0};
    if (join_check(m, join, &err) < 0) {
        reply_error(m, e->request, err.code, "%s", err.msg);
        return;
    }
    replace_old(m, join);
    if (!room_for_one(m)) {
        reply_error(m, e->request, ERR_EXHAUSTED, "this master serves at most %d nodes",
                    MASTER_NODES_MAX);
        return;
    }
    const struct node_identity is = {.role = (enum master_role)join->role,
                                     .incarnation = join->incarnation,
                                     .pid = join->pid,
                                     .address = join->address,
                                     .http_address = join->http_address,
                                     .version = join->version,
                                     .host = join->host};
    struct node *n = node_add(m, &is, join->name);
    m->reschedule = true;
    char quoted[256];
    action_log(m, LOG_LEVEL_INFO, "node_joined", "node=%s role=%s address=%s", n->id,
               node_role_name(n->role), log_quote(n->address, quoted, sizeof quoted));
    answer_join(m, e, n);
}

static struct node *known(struct master *m, const struct master_event *e)
{
    struct node *n = node_find(m, e->node.node, e->node.incarnation);
    if (n == NULL || (node_is_silent(m, n, m->now_ms) && MUTANT(silent_is_unknown))) {
        reply_error(m, e->request, ERR_NOT_FOUND, "this master does not know the node; join again");
        return NULL;
    }
    return n;
}

/* Which opening its shard is of, or with which StartJob it was started: the @i-th entry. */
static uint64_t opening_of(const struct master_event *e, size_t i)
{
    return e->node.openings == NULL ? 0 : e->node.openings[i];
}

/* Is what a node has of a job that it serves, its @i-th entry, of an earlier start? A worker that
 * is to have a new one and was not told yet may keep the data that it has loaded. */
static bool is_leftover(const struct master_event *e, size_t i, struct job *j, const struct node *n)
{
    uint64_t opening = opening_of(e, i);
    if (n->role == MASTER_WORKER) {
        const struct job_worker *w = job_worker_of(j, n);
        return w != NULL && w->start != 0 && opening != w->start;
    }
    return !job_has_opening(j, n, opening) && !MUTANT(any_shard_will_do);
}

/* True if a worker has the job, and what it was assigned. A node that lost the job and was made to
 * take it anew by an old message has the job, and does nothing. */
static bool names(const struct master_event *e, struct job *j, const struct node *n)
{
    const struct job_worker *w = job_worker_of(j, n);
    for (size_t i = 0; i < e->node.job_count; i++) {
        bool same = strcmp(e->node.jobs[i], j->record.id) == 0;
        if (!same || (e->node.openings != NULL && is_leftover(e, i, j, n))) {
            continue;
        }
        if (e->node.generations == NULL || e->node.generations[i] >= w->taken) {
            return true;
        }
    }
    return false;
}

/* A server that does not say which opening its shard is of, has it. */
static bool names_opening(const void *said, const struct job *j, uint64_t opening)
{
    const struct master_event *e = said;
    for (size_t i = 0; i < e->node.job_count; i++) {
        uint64_t of = opening_of(e, i);
        if ((of == 0 || of == opening || MUTANT(any_shard_will_do)) &&
            strcmp(e->node.jobs[i], j->record.id) == 0) {
            return true;
        }
    }
    return false;
}

/* Compares the jobs that a node names with those that it should have. A node that lost a job, to an
 * old message or for a reason of its own, says so by not naming it; nobody else would ever notice.
 * One heartbeat may have been on its way already. */
static void compare_jobs(struct master *m, struct node *n, const struct master_event *e)
{
    for (size_t i = n->job_count; i-- > 0;) {
        struct job *j = n->jobs[i];
        struct job_worker *w = job_worker_of(j, n);
        if (w == NULL) {
            if (!shards_compare(m, j, n, names_opening, e)) {
                return; /* the list is another now; the next heartbeat looks at the rest */
            }
            continue;
        }
        w->without = !w->started || names(e, j, n) ? 0 : w->without + 1;
        if (w->without >= HEARTBEATS_WITHOUT_MAX) {
            job_worker_lost(m, j, n, "the node has lost the job");
            call_start(m, j, n, MASTER_CALL_STOP, 0);
            return;
        }
    }
}

/* What a server says of its shards and their backups. */
static void hear_standbys(struct master *m, struct node *n, const struct master_event *e)
{
    for (size_t i = 0; e->node.standbys != NULL && i < e->node.job_count; i++) {
        struct job *j = job_find(m, e->node.jobs[i]);
        if (j != NULL) {
            standby_said(m, j, n, opening_of(e, i), &e->node.standbys[i]);
        }
    }
}

/* Tells a node what to drop, by the numbers that it named itself: by the time it hears the answer
 * it may have another job of that name. */
static void say_what_to_drop(struct master *m, const struct node *n, const struct master_event *e,
                             bool back, bool moves)
{
    const char **jobs = action_memory(m, e->node.job_count, sizeof *jobs);
    uint64_t *openings = action_memory(m, e->node.job_count, sizeof *openings);
    size_t job_count = 0;
    size_t opening_count = 0;
    for (size_t i = 0; i < e->node.job_count; i++) {
        struct job *j = job_find(m, e->node.jobs[i]);
        bool over = j == NULL || !node_serves(n, j) || job_state_is_final(j->record.state) ||
                    (back && MUTANT(dropped_when_it_is_back));
        uint64_t opening = opening_of(e, i);
        if (over && opening == 0) {
            jobs[job_count++] = action_printf(m, "%s", e->node.jobs[i]);
        } else if (opening != 0 && (over || is_leftover(e, i, j, n))) {
            openings[opening_count++] = opening;
        }
    }
    struct master_reply *reply = reply_add(m, e->request);
    reply->stop_jobs = jobs;
    reply->stop_job_count = job_count;
    reply->stop_openings = openings;
    reply->stop_opening_count = opening_count;
    reply->unready = node_waits_for_backups(m, n);
    reply->moves = moves;
}

void on_heartbeat(struct master *m, const struct master_event *e)
{
    struct node *n = known(m, e);
    if (n == NULL) {
        return;
    }
    bool back = node_is_silent(m, n, m->now_ms);
    m->reschedule = m->reschedule || n->doubted || n->unheard || back;
    node_heard(m, n);
    n->doubted = false;
    node_works(n, e);
    calls_heard(&m->calls, n);
    compare_jobs(m, n, e);
    hear_standbys(m, n, e);
    say_what_to_drop(m, n, e, back, e->node.leaves && drain_leaves(m, n));
}

void on_leave(struct master *m, const struct master_event *e)
{
    struct node *n = known(m, e);
    if (n != NULL) {
        n->left = true;
        node_lost(m, n, "it left");
        reply_add(m, e->request);
    }
}

/* Whoever drops a node knows more than the master. */
void on_drop(struct master *m, const struct master_event *e)
{
    struct node *n = node_named(m, e->id);
    if (n == NULL) {
        reply_error(m, e->request, ERR_NOT_FOUND, "no node %.128s", e->id);
        return;
    }
    struct master_reply *reply = reply_add(m, e->request);
    reply->node = action_printf(m, "%s", n->id);
    reply->was_alive = n->alive;
    node_lost(m, n, "it is gone for good, by request");
}

/* A heartbeat may have come since somebody looked there. A node to which no connection broke has to
 * be late, too: it may have told a wrong address. */
void on_unreachable(struct master *m, const struct master_event *e)
{
    struct node *n = node_find(m, e->node.node, e->node.incarnation);
    if (n != NULL && (node_is_late(m, n, m->now_ms) || n->heartbeat_ms < e->node.broken_ms ||
                      MUTANT(probe_is_proof))) {
        node_lost(m, n, "its process has ended: nobody listens at its address");
    }
}
