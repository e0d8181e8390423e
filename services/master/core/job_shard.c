/* SPDX-License-Identifier: Apache-2.0 */
/* The servers of a job are lost, and backups take over their shards. What becomes of the job is
 * decided by advance.c.
 *
 * With `cluster.standby: follower` each shard has a backup on the next server of the job, in a
 * ring. A backup has received what its shard did before anybody hears of it, so when the server of
 * the shard is lost, the backup becomes the primary in a new generation, as if workers had come or
 * gone: nothing is lost or made again. A primary never goes on without its backup by itself; this
 * master says so, in a new generation, too. So of a generation there is never more than one
 * primary. What lost its backup gets another one while the job runs (standby_join.c). */
#include <inttypes.h>
#include <string.h>

#include "base/backoff.h"
#include "base/mem.h"
#include "base/mutant.h"
#include "master/core/core.h"

void shard_opened(struct shard_state *s)
{
    s->node->shards_open += s->answered ? 0 : 1;
    s->answered = true;
}

struct node *shard_give_up(struct shard_state *s)
{
    struct node *n = s->node;
    if (n != NULL && s->answered) {
        n->shards_open--;
    }
    s->node = NULL;
    s->answered = false;
    return n;
}

bool job_has_primary_on(const struct job *j, const struct node *n)
{
    bool has = false;
    for (size_t i = 0; i < j->shard_count; i++) {
        has = has || j->shards[i].node == n;
    }
    return has;
}

bool job_has_shard_on(const struct job *j, const struct node *n)
{
    for (size_t i = 0; i < j->shard_count; i++) {
        if (j->shards[i].node == n || j->shards[i].backup.node == n) {
            return true;
        }
    }
    return false;
}

bool job_has_opening(const struct job *j, const struct node *n, uint64_t opening)
{
    for (size_t i = 0; i < j->shard_count; i++) {
        const struct shard_state *s = &j->shards[i];
        if ((s->node == n && s->opening == opening) ||
            (s->backup.node == n && s->backup.opening == opening)) {
            return true;
        }
    }
    return false;
}

/* ---- backups ---- */

void standby_place(struct job *j)
{
    const size_t count = j->shard_count;
    for (size_t i = 0; i < count && j->spec.cluster.standby == STANDBY_FOLLOWER && count > 1; i++) {
        j->shards[i].backup = (struct shard_backup){.node = j->shards[(i + 1) % count].node};
    }
}

size_t standby_missing(const struct job *j)
{
    const bool wanted =
        j->record.state == JOB_RUNNING && j->spec.cluster.standby == STANDBY_FOLLOWER;
    size_t count = 0;
    for (size_t i = 0; i < j->shard_count && wanted; i++) {
        count += j->shards[i].backup.node == NULL || j->shards[i].backup.stage != BACKUP_FOLLOWS;
    }
    return count;
}

void standby_show(struct job *j)
{
    job_names_clear(&j->record.ps);
    for (size_t i = 0; i < j->shard_count; i++) {
        const struct shard_state *s = &j->shards[i];
        bool named = s->node == NULL;
        for (size_t k = 0; k < i && !named; k++) {
            named = j->shards[k].node == s->node;
        }
        if (!named) {
            job_names_add(&j->record.ps, s->node->id);
        }
        if (j->record.shard_count == j->shard_count) {
            const struct node *backup = s->backup.node;
            job_record_set(&j->record.shards[i].ps, s->node == NULL ? "" : s->node->id);
            job_record_set(&j->record.shards[i].backup, backup == NULL ? "" : backup->id);
            j->record.shards[i].follows = backup != NULL && s->backup.stage == BACKUP_FOLLOWS;
            j->record.shards[i].backup_behind = 0;
            if (j->has_plan && i < j->plan.shard_count) { /* else as its row says */
                j->record.shards[i].value_bytes = j->plan.shard_elements[i] * sizeof(float);
            }
        }
    }
    job_changed(j);
}

void standby_opened(struct job *j, uint32_t shard)
{
    struct shard_backup *b = &j->shards[shard].backup;
    b->stage = b->joins ? BACKUP_OPEN : BACKUP_FOLLOWS;
    standby_show(j);
}

void standby_taken(struct job *j, uint32_t shard)
{
    struct shard_backup *b = &j->shards[shard].backup;
    b->stage = b->node != NULL && b->stage == BACKUP_NAMED ? BACKUP_JOINS : b->stage;
}

void shards_ask(struct master *m, struct job *j)
{
    job_record_set_shards(&j->record, j->shard_count);
    standby_show(j);
    for (size_t i = 0; i < j->shard_count; i++) {
        j->shards[i].opened = true;
        call_start(m, j, j->shards[i].node, MASTER_CALL_OPEN, (uint32_t)i);
        if (j->shards[i].backup.node != NULL) {
            call_start_backup(m, j, (uint32_t)i);
        }
    }
}

/* A change of what the row says, which is true from its next storing on. While the job is adopted
 * the row keeps the rest of what it says. */
static void note_handover(struct job *j, size_t i, bool taken)
{
    struct job_handover *h = &j->record.handover;
    if (!j->adopts || i >= h->server_count) {
        return;
    }
    struct job_handover_node *from = &h->servers[i];
    if (taken) {
        const struct job_handover_node *to = job_handover_place(h, from->backup);
        job_record_set(&from->id, to->id);
        job_record_set(&from->address, to->address);
        job_record_set(&from->http_address, to->http_address);
        job_record_set(&from->host, to->host);
        job_record_set(&from->version, to->version);
        from->pid = to->pid;
        from->incarnation = to->incarnation;
        from->opening = from->backup_opening;
    }
    job_handover_no_backup(from);
}

/* The job has its shards, and workers may be told where. */
static bool stands(const struct job *j)
{
    bool waits = j->record.state == JOB_RECOVERING && (j->phase == PHASE_WAIT || j->adopts);
    return (j->record.state == JOB_RUNNING || waits) && !j->restartable && !job_is_ending(j);
}

static void moved(struct job *j, const char *what)
{
    j->standby_moved = true;
    standby_show(j);
    job_say(j, what);
    job_touch(j);
}

void standby_close(struct master *m, struct job *j, uint32_t shard)
{
    struct shard_backup *b = &j->shards[shard].backup;
    calls_forget_opening(&m->calls, j, shard, b->opening);
    if (b->node->alive) {
        call_start_close(m, j, b->node, shard, b->opening);
    }
    j->standby_moved = j->standby_moved || b->stage >= BACKUP_NAMED;
    j->refill = true;
    *b = (struct shard_backup){0};
    note_handover(j, shard, false);
    standby_show(j);
}

void standby_none(struct master *m, struct job *j)
{
    for (size_t i = 0; i < j->shard_count; i++) {
        if (j->shards[i].backup.node != NULL) {
            action_log(m, LOG_LEVEL_INFO, "backup_closed", "job=%s shard=%zu node=%s", j->record.id,
                       i, j->shards[i].backup.node->id);
            standby_close(m, j, (uint32_t)i);
        }
        job_record_set(&j->record.shards[i].backup_problem, "");
    }
}

void standby_back_off(const struct master *m, struct job *j, uint32_t shard, const char *why)
{
    const uint64_t ms = backoff_ms(++j->refill_failures, REFILL_MS_MIN, REFILL_MS_MAX);
    j->refill_after_ms = m->now_ms + ms;
    job_record_set(&j->record.shards[shard].backup_problem, why);
}

bool standby_drop(struct master *m, struct job *j, uint32_t shard, const char *why)
{
    struct shard_backup *b = &j->shards[shard].backup;
    struct node *n = b->node;
    if (n != NULL && job_is_starting(j) && !j->adopts) { /* nobody has to go on without it */
        job_must_restart(j, action_printf(m, "shard %" PRIu32 " on %s has no backup on %s: %s",
                                          shard, j->shards[shard].node->id, n->id, why));
        return true;
    }
    if (n == NULL || !stands(j)) {
        return false;
    }
    char quoted[256];
    action_log(m, LOG_LEVEL_WARN, "backup_lost", "job=%s shard=%" PRIu32 " node=%s reason=%s",
               j->record.id, shard, n->id, log_quote(why, quoted, sizeof quoted));
    const char *what = action_printf(m, "shard %" PRIu32 " on %s has no backup any more: %s", shard,
                                     j->shards[shard].node->id, why);
    if (n->alive) { /* others first */
        job_refuse(m, j, n, false);
    }
    if (n->alive || b->stage < BACKUP_FOLLOWS) { /* its shard has waited, or that killed it */
        standby_back_off(m, j, shard, why);
    }
    standby_close(m, j, shard);
    job_say(j, what);
    job_touch(j);
    return true;
}

static bool can_take_over(const struct shard_backup *b)
{
    const bool follows =
        b->stage == BACKUP_FOLLOWS || (b->stage == BACKUP_JOINS && MUTANT(joining_takes_over));
    return b->node != NULL && b->node->alive && follows;
}

/* Those of @n's shards that have a backup that can take over; false: one has none. */
bool standby_covers(const struct job *j, const struct node *n)
{
    for (size_t i = 0; i < j->shard_count; i++) {
        if (j->shards[i].node == n && !can_take_over(&j->shards[i].backup)) {
            return false;
        }
    }
    return true;
}

/* The calls about its pinned version go to the backup, when that knows the generation; then workers
 * that are at an evaluation are told where it is, for they may not be assigned anything else. */
static void move_calls(struct master *m, struct job *j, size_t shard)
{
    const struct shard_state *s = &j->shards[shard];
    for (size_t i = 0; i < m->calls.count; i++) {
        struct call *c = &m->calls.rows[i];
        if (c->job == j && call_follows_generation(c->kind) && c->index == shard) {
            c->node = s->node;
            c->opening = s->opening;
            call_wait(c);
        } else if (c->job == j && c->kind == MASTER_CALL_EVALUATE) {
            call_again(m, c);
        }
    }
}

/* Returns the server that it had. */
static struct node *take_over(struct master *m, struct job *j, size_t i)
{
    struct shard_state *s = &j->shards[i];
    struct node *before = s->node;
    if (before->alive) {
        call_start_close(m, j, before, (uint32_t)i, s->opening);
    }
    (void)shard_give_up(s);
    s->node = s->backup.node;
    s->opening = s->backup.opening;
    s->without = 0;
    s->promote = true;
    s->backup = (struct shard_backup){0};
    j->refill = true;
    shard_opened(s);
    note_handover(j, i, true);
    move_calls(m, j, i);
    return before;
}

void standby_moves(struct master *m, struct job *j, uint32_t shard)
{
    const struct node *before = take_over(m, j, shard);
    const struct node *n = j->shards[shard].node;
    action_log(m, LOG_LEVEL_INFO, "shard_moved", "job=%s shard=%" PRIu32 " from=%s to=%s",
               j->record.id, shard, before->id, n->id);
    moved(j, action_printf(m, "shard %" PRIu32 " has moved from %s to %s: no step is lost", shard,
                           before->id, n->id));
}

static const char *lost_words(struct master *m, const struct node *n, const char *why)
{
    return action_printf(m, "parameter server %s was lost (%s)", n->id, why);
}

static void take_over_lost(struct master *m, struct job *j, size_t i)
{
    const struct node *before = take_over(m, j, i);
    j->record.takeovers++;
    m->counts.takeovers++;
    action_log(m, LOG_LEVEL_WARN, "shard_taken_over", "job=%s shard=%zu from=%s to=%s",
               j->record.id, i, before->id, j->shards[i].node->id);
}

bool standby_takes_over(struct master *m, struct job *j, const struct node *n, const char *why)
{
    if (!stands(j) || !job_has_shard_on(j, n) || !standby_covers(j, n)) {
        return false;
    }
    const char *what = lost_words(m, n, why);
    struct buf words = {0};
    for (size_t i = 0; i < j->shard_count; i++) {
        if (j->shards[i].node == n) {
            take_over_lost(m, j, i);
            buf_printf(&words, "%s%s has taken over shard %zu", words.len == 0 ? "" : ", ",
                       j->shards[i].node->id, i);
        }
    }
    for (size_t i = 0; i < j->shard_count; i++) {
        if (j->shards[i].backup.node == n) {
            (void)standby_drop(m, j, (uint32_t)i, what);
        }
    }
    if (words.len > 0) {
        moved(j, action_printf(m, "%s; %s: no step is lost", what, buf_str(&words)));
    }
    buf_release(&words);
    return true;
}

bool standby_takes_shard(struct master *m, struct job *j, const struct node *n, uint32_t shard,
                         const char *why)
{
    if (standby_takes_over(m, j, n, why)) {
        return true;
    }
    const struct shard_state *s = &j->shards[shard];
    if (!stands(j) || s->node != n || !can_take_over(&s->backup)) {
        return false;
    }
    take_over_lost(m, j, shard);
    moved(j, action_printf(m,
                           "shard %" PRIu32 " was lost on %s (%s); %s has taken it over: no step "
                           "is lost",
                           shard, n->id, why, s->node->id));
    return true;
}

void job_ps_lost(struct master *m, struct job *j, struct node *n, const char *why)
{
    const char *what = lost_words(m, n, why);
    if (!job_has_shard_on(j, n) || standby_takes_over(m, j, n, why)) {
        return; /* the former: it was only being told to drop the job */
    }
    for (size_t i = 0; i < j->shard_count && !n->alive; i++) {
        if (j->shards[i].node == n) { /* its place may be freed in this step */
            (void)shard_give_up(&j->shards[i]);
        }
        if (j->shards[i].backup.node == n) {
            j->shards[i].backup = (struct shard_backup){0};
        }
    }
    if (job_is_starting(j)) {
        job_must_restart(j, what);
    } else if ((j->record.state == JOB_RUNNING || j->record.state == JOB_RECOVERING) &&
               !j->restartable) {
        job_must_recover(j, what);
    }
}

/* ---- what servers say ---- */

static bool all_follow(const struct job *j)
{
    bool all = true;
    for (size_t i = 0; i < j->shard_count; i++) {
        all =
            all && j->shards[i].backup.node != NULL && j->shards[i].backup.stage == BACKUP_FOLLOWS;
    }
    return all;
}

/* What the primary says of a backup that joins; whether the row has it matters to a master that is
 * started again when the primary is gone. */
static void hear_of_state(struct master *m, struct job *j, size_t i,
                          const struct master_standby_said *said)
{
    struct shard_backup *b = &j->shards[i].backup;
    if (b->stage < BACKUP_NAMED || b->stage == BACKUP_FOLLOWS) {
        return; /* the former: of a start, and its own server has not answered yet */
    }
    j->record.shards[i].state_sent = said->state_sent;
    j->record.shards[i].state_bytes = said->state_bytes;
    if (said->follows) {
        b->stage = BACKUP_FOLLOWS;
        j->refill_failures = 0;
        action_log(m, LOG_LEVEL_INFO, "backup_follows", "job=%s shard=%zu node=%s", j->record.id, i,
                   b->node->id);
        standby_show(j);
        if (all_follow(j)) {
            job_say(j, "every shard has a backup again");
        }
        job_store(m, j);
    }
}

/* Is the server at a change of the job, which it makes before it receives the next one? The larger
 * the shard, the longer that takes: what it says of itself counts, as for calls (decision 40). A
 * file is written beside that, and an opening is of another shard. */
static bool is_at_a_change(const struct master *m, const struct node *n, const struct job *j)
{
    bool at = false;
    for (size_t i = 0; i < n->work_count; i++) {
        const struct node_work *w = &n->works[i];
        at = at || (strcmp(w->job, j->record.id) == 0 && strcmp(w->what, "Checkpoint") != 0 &&
                    strcmp(w->what, "OpenShard") != 0);
    }
    return at && !node_is_late(m, n, m->now_ms);
}

void standby_said(struct master *m, struct job *j, const struct node *n, uint64_t opening,
                  const struct master_standby_said *said)
{
    for (size_t i = 0; i < j->shard_count; i++) {
        struct shard_state *s = &j->shards[i];
        if (s->backup.node == NULL) {
            continue;
        }
        bool primary = s->node == n && s->opening == opening && said->backup == s->backup.opening;
        bool backup = s->backup.node == n && s->backup.opening == opening;
        if (primary) { /* after a standstill the first heartbeat may overtake what came meanwhile */
            const bool waits = said->waits_ms >= m->config.heartbeat_timeout_ms &&
                               !is_at_a_change(m, s->backup.node, j);
            s->backup.waits = waits ? s->backup.waits + 1 : 0;
        }
        if (primary && i < j->record.shard_count) {
            j->record.shards[i].backup_behind = said->behind;
            hear_of_state(m, j, i, said);
        }
        if (primary && s->backup.waits >= HEARTBEATS_WAITING_MAX) {
            (void)standby_drop(m, j, (uint32_t)i,
                               action_printf(m, "%s has not received a change for %" PRIu64 " ms",
                                             s->backup.node->id, said->waits_ms));
        } else if (backup && said->problem != NULL && said->problem[0] != '\0') {
            (void)standby_drop(m, j, (uint32_t)i,
                               action_printf(m, "%s could not follow: %s", n->id, said->problem));
        }
    }
}

bool shards_compare(struct master *m, struct job *j, struct node *n,
                    bool (*names)(const void *said, const struct job *j, uint64_t opening),
                    const void *said)
{
    static const char why[] = "the node has lost the job";
    for (size_t i = 0; i < j->shard_count; i++) {
        struct shard_state *s = &j->shards[i];
        if (s->node == n && s->answered) {
            s->without = names(said, j, s->opening) ? 0 : s->without + 1;
            if (s->without >= HEARTBEATS_WITHOUT_MAX) {
                if (!standby_takes_shard(m, j, n, (uint32_t)i, why)) {
                    job_ps_lost(m, j, n, why);
                }
                return false;
            }
        }
        struct shard_backup *b = &s->backup;
        if (b->node == n && b->stage >= BACKUP_OPEN) {
            b->without = names(said, j, b->opening) ? 0 : b->without + 1;
            if (b->without >= HEARTBEATS_WITHOUT_MAX &&
                standby_drop(m, j, (uint32_t)i, "its server has lost it")) {
                return false;
            }
        }
    }
    return true;
}
