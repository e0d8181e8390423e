/* SPDX-License-Identifier: Apache-2.0 */
/* What befalls a node that stands still, beside that; and what must hold as long as a server is
 * waited for. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/release.h"

#define ON_TIME_US (400 * SIM_MS)
#define TWICE_US (200 * SIM_MS) /* heartbeats are further apart */

/* Another process wants the name, at an address of its own: a pod that was made anew. It is never
 * heard again. */
void standstill_copy(struct world *w, uint32_t node)
{
    const struct sim_node *n = &w->nodes[node];
    if (w->master == NULL || w->nodes[0].paused || n->name == 0) {
        return;
    }
    char address[16];
    snprintf(address, sizeof address, "n%u.copy", node);
    struct master_event e = {.kind = MASTER_JOIN, .request = CLIENT_REQUEST + ++w->client_request};
    e.join = (struct master_join_event){
        .role = n->role == ROLE_PS ? MASTER_PS : MASTER_WORKER,
        .incarnation = n->incarnation ^ w->client_request << 1,
        .name = w->names[n->name],
        .address = address,
        .http_address = "",
        .version = release_version(),
        .protocol = RELEASE_PROTOCOL,
        .host = "host",
    };
    TRACE(w, 0, "is asked for the name %s by another process", w->names[n->name]);
    master_event(w, &e);
}

/* Has this life of the master heard the node, and lately? A life that has just begun knows from its
 * rows whom to expect, and looks at their addresses itself. */
static bool is_heard(struct world *w, const struct sim_node *n)
{
    struct master_node_info info;
    for (size_t i = 0; master_node_at(w->master, i, node_ms(w, 0), &info); i++) {
        if (info.alive && info.incarnation == n->incarnation) {
            return !info.late;
        }
    }
    return true;
}

/* Somebody found nobody at its address, before it said that it is there. */
void standstill_probe(struct world *w, uint32_t node)
{
    const struct sim_node *n = &w->nodes[node];
    bool on_time = n->up && !n->paused && n->name != 0 && n->beat_name == n->name &&
                   n->beat_us + ON_TIME_US > w->now_us && n->member.state == MEMBERSHIP_IN;
    if (w->master == NULL || w->nodes[0].paused || !on_time || !is_heard(w, n)) {
        return;
    }
    struct master_event e = {.kind = MASTER_UNREACHABLE};
    e.node = (struct master_node_event){.node = w->names[n->name], .incarnation = n->incarnation};
    TRACE(w, 0, "finds nobody at %s, which beats", w->names[n->name]);
    master_event(w, &e);
}

/* ---- what must hold ---- */

/* The milliseconds behind @words in @text; UINT64_MAX: they are not there. */
static uint64_t silence_in(const char *text, const char *words, const char **rest)
{
    const char *at = strstr(text, words);
    char *end;
    if (at == NULL) {
        return UINT64_MAX;
    }
    uint64_t ms = strtoull(at + strlen(words), &end, 10);
    *rest = end;
    return ms;
}

/* A name is not given to another process before its node was silent for the time-out, and none that
 * has been heard is given up because somebody looked there before. */
void check_silence(struct world *w, const char *text, bool beats)
{
    const char *rest = "";
    uint64_t ms = silence_in(text, "no heartbeat for ", &rest);
    if (ms != UINT64_MAX && ms < SIM_HEARTBEAT_TIMEOUT_MS) {
        violated(w, INVARIANT_BEATS, "%s, which is less than the time-out", text);
    }
    if (beats && strstr(text, "nobody listens at its address") != NULL) {
        violated(w, INVARIANT_BEATS, "%s, but it beats", text);
    }
}

/* A line of the log: a running job goes back. */
void check_patience(struct world *w, const char *text)
{
    const char *rest = "";
    uint64_t timeout_ms = w->schedule->knobs.ps_timeout_ms;
    if (strstr(text, "from=RUNNING to=RECOVERING") == NULL) {
        return;
    }
    uint64_t ms = silence_in(text, "was lost (no heartbeat for ", &rest);
    if (strncmp(rest, " ms)", 4) == 0 && ms < timeout_ms &&
        strstr(text, "parameter server") != NULL) {
        violated(w, INVARIANT_STEADY, "%s; it is to be waited for for %llu ms", text,
                 (unsigned long long)timeout_ms);
    }
}

/* Who comes back after more than the time for which a server is waited for has been given up, if
 * the master had a processor. */
void check_waited(struct world *w, uint32_t node)
{
    const struct sim_node *n = &w->nodes[node];
    const uint64_t most_ms = w->schedule->knobs.ps_timeout_ms;
    const uint64_t silent_us = w->now_us - n->beat_us;
    struct master_node_info info;
    for (uint32_t i = 0; i < w->schedule->fault_count; i++) {
        if (w->schedule->faults[i].kind == FAULT_PAUSE && w->schedule->faults[i].node == 0) {
            return;
        }
    }
    if (w->master == NULL || most_ms == 0 || n->beat_us == 0 || schedule_freezes(w->schedule) ||
        silent_us < (most_ms + SIM_HEARTBEAT_TIMEOUT_MS) * SIM_MS * 6 / 5) {
        return;
    }
    for (size_t k = 0; master_node_at(w->master, k, node_ms(w, 0), &info); k++) {
        if (info.alive && info.incarnation == n->incarnation &&
            info.heartbeat_age_ms > most_ms + SIM_HEARTBEAT_TIMEOUT_MS) {
            violated(w, INVARIANT_LIVE, "%s was silent for %llu ms, and is not given up", info.id,
                     (unsigned long long)info.heartbeat_age_ms);
        }
    }
}

/* Heartbeats from before a shard was opened, of which two come after it: one that travels for long,
 * and the same once more. What a connection carries does not. */
static bool is_heard_twice(const struct world *w, const struct job_record *r)
{
    const struct sim_knobs *k = &w->schedule->knobs;
    return k->twice_part > 0 && k->tail_part > 0 && k->tail_us > TWICE_US &&
           strstr(r->reason, "the node has lost the job") != NULL;
}

void check_steady(struct world *w, uint32_t job, const struct job_record *r)
{
    struct sim_job *j = &w->jobs[job];
    if (!w->steady || r->resumes > 0) {
        return;
    }
    if (r->recoveries > 0 && is_heard_twice(w, r)) {
        w->steady = false;
        return;
    }
    if (r->recoveries > 0) {
        violated(w, INVARIANT_STEADY, "%s goes back: %s", r->id, r->reason);
    }
    if (r->step < j->steady_step) {
        violated(w, INVARIANT_STEADY, "%s is at step %llu, and was at step %llu", r->id,
                 (unsigned long long)r->step, (unsigned long long)j->steady_step);
    }
    j->steady_step = r->step;
}

static uint64_t step_of(const char *pin_id)
{
    const char *dash = strchr(pin_id, '-'); /* "step-000000500-3-1" */
    const uint64_t step = dash == NULL ? 0 : strtoull(dash + 1, NULL, 10);
    return step < SIM_VERSIONS_MAX ? step : 0;
}

/* Do all shards have it pinned, and (@stands) are they where they were then? */
static bool is_pinned(const struct world *w, uint32_t job, const char *pin_id, bool stands)
{
    const struct sim_job *j = &w->jobs[job];
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->schedule->ps_count * SIM_SHARDS_OF_PS; i++) {
        const struct sim_shard *s = w->nodes[1 + i / SIM_SHARDS_OF_PS].shards[i % SIM_SHARDS_OF_PS];
        if (s == NULL || !s->open || s->job != job || s->opened != j->opened) {
            continue;
        }
        struct shard_info info;
        shard_info(s->core, &info);
        for (size_t k = 0; k < info.pins; k++) {
            count += strcmp(info.pinned[k].id, pin_id) == 0 &&
                     (!stands || info.pinned[k].version == info.version);
        }
    }
    return count == j->shard_count;
}

void evaluation_begun(struct world *w, uint32_t job, const char *pin_id)
{
    const uint64_t step = step_of(pin_id);
    if (is_pinned(w, job, pin_id, false)) {
        w->jobs[job].begun[step / 64] |= UINT64_C(1) << step % 64;
    }
}

/* A shard is about to give it back. Where all stand it is made anew, of the same version. */
void evaluation_dropped(struct world *w, uint32_t job, const char *pin_id)
{
    const uint64_t step = step_of(pin_id);
    if (is_pinned(w, job, pin_id, true)) {
        w->jobs[job].begun[step / 64] &= ~(UINT64_C(1) << step % 64);
    }
}

/* What workers have evaluated any of is a version that all shards have pinned. */
static void check_begun(struct world *w, const struct sim_job *j, const struct job_record *r)
{
    for (uint64_t step = 0; step < SIM_VERSIONS_MAX; step++) {
        bool there = (j->begun[step / 64] >> step % 64 & 1) == 0;
        for (size_t i = 0; i < r->evaluation_count && !there; i++) {
            there = r->evaluations[i].step == step;
        }
        if (!there) {
            violated(w, INVARIANT_STEADY, "%s: the evaluation of step %llu was begun, and is lost",
                     r->id, (unsigned long long)step);
        }
    }
}

/* Nothing that was due is passed over, although masters die: before the next one is due, by steps
 * (in sync, where nobody is ahead of them) or by epochs, it is there. */
void check_evaluated(struct world *w, uint32_t job, const struct job_record *r)
{
    const struct sim_job *j = &w->jobs[job];
    const struct field_interval *every = &j->stop.every;
    const double apart = (double)every->count;
    const bool ends = r->state == JOB_SUCCEEDED && j->state != r->state && r->evaluation_count > 0;
    const bool strict = every->epochs || (j->first.mode == TRAINING_SYNC && !j->changed);
    if (!ends || !w->steady || r->resumes > 0 || j->unsteady) {
        return;
    }
    check_begun(w, j, r);
    if (apart == 0 || !strict) {
        return;
    }
    double due = apart;
    for (size_t i = 0; i < r->evaluation_count; i++) {
        const struct job_evaluation *e = &r->evaluations[i];
        const double at = every->epochs ? e->epoch : (double)e->step;
        if (at >= due + apart) {
            violated(w, INVARIANT_STEADY, "%s has no evaluation of %s %g; there is one of %g",
                     r->id, every->epochs ? "epoch" : "step", due, at);
        }
        due = at >= due ? due + apart : due;
    }
}
