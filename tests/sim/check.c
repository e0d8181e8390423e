/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold, whatever goes wrong. */
#include "sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEATS_US (2 * SIM_S) /* of a time-out of 3 s; */
#define HEARD_US                                                                                   \
    (200 * SIM_MS) /* who was silent until then may be given up, just before it is heard */
#define DEAF_US (30 * SIM_S) /* since the last cut, */
#define LOST_US                                                                                    \
    (60 * SIM_S) /* or since two calls were lost, each of them for 20 s: an answer late */

const char *const sim_invariant_names[INVARIANT_COUNT] = {"NONE",
#define X(NAME, text) #NAME,
                                                          SIM_INVARIANTS(X)
#undef X
};
const char *const sim_invariant_texts[INVARIANT_COUNT] = {"",
#define X(NAME, text) text,
                                                          SIM_INVARIANTS(X)
#undef X
};

void violated(struct world *w, enum sim_invariant which, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(w->why, sizeof w->why, fmt, args);
    va_end(args);
    w->broken = which;
    siglongjmp(*w->escape, 1);
}

/* ---- sets of batches ---- */

bool ids_overlap(const struct ids *a, const struct ids *b)
{
    for (uint32_t i = 0; i < SIM_EPOCHS_MAX; i++) {
        if ((a->epoch[i] & b->epoch[i]) != 0) {
            return true;
        }
    }
    return false;
}

bool ids_equal(const struct ids *a, const struct ids *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

void ids_add(struct ids *to, const struct ids *from)
{
    for (uint32_t i = 0; i < SIM_EPOCHS_MAX; i++) {
        to->epoch[i] |= from->epoch[i];
    }
}

uint64_t ids_examples(const struct sim_job *j, const struct ids *ids)
{
    uint64_t last = UINT64_C(1) << (j->batches - 1);
    uint64_t examples = 0;
    for (uint32_t i = 0; i < SIM_EPOCHS_MAX; i++) {
        examples += (uint64_t)__builtin_popcountll(ids->epoch[i]) * j->batch_records;
        if ((ids->epoch[i] & last) != 0) {
            examples -= (uint64_t)j->batches * j->batch_records - j->records;
        }
    }
    return examples;
}

/* ---- an update ---- */

static bool is_sync(const struct sim_shard *s)
{
    struct shard_info info;
    shard_info(s->core, &info);
    return info.consistency.mode == TRAINING_SYNC;
}

/* All shards make the same versions of the same batches. */
static void check_same(struct world *w, struct sim_shard *s, uint64_t version,
                       const struct ids *ids, uint64_t totals)
{
    struct sim_job *j = &w->jobs[s->job];
    if (version >= SIM_VERSIONS_MAX || s->opened != j->opened || standby_may_vanish(s)) {
        return;
    }
    bool sync = is_sync(s);
    if (!j->made[version].known || j->made[version].opened != s->opened) {
        j->made[version].known = true;
        j->made[version].opened = s->opened;
        j->made[version].sync = sync;
        j->made[version].ids = *ids;
        j->made[version].totals = totals;
        return;
    }
    if (sync && j->made[version].sync && j->made[version].totals != totals) {
        violated(w, INVARIANT_SAME,
                 "version %llu of shard %u has other totals than the first shard that made it",
                 (unsigned long long)version, s->number);
    }
    if (sync && j->made[version].sync && !ids_equal(&j->made[version].ids, ids)) {
        violated(w, INVARIANT_SAME,
                 "version %llu of shard %u has other batches than the first shard that made it",
                 (unsigned long long)version, s->number);
    }
}

static void check_skew(struct world *w, struct sim_shard *s, uint64_t version)
{
    for (uint32_t n = 1; n <= w->schedule->ps_count; n++) {
        for (uint32_t i = 0; i < SIM_SHARDS_OF_PS; i++) {
            const struct sim_shard *o = w->nodes[n].shards[i];
            if (o == NULL || !o->open || o == s || o->job != s->job || o->opened != s->opened ||
                !is_sync(o) || !standby_is_present(w, o)) {
                continue;
            }
            struct shard_info info;
            shard_info(o->core, &info);
            if (version > info.version + 1 && info.version >= o->version_first) {
                violated(w, INVARIANT_SKEW, "shard %u makes version %llu, shard %u has %llu",
                         s->number, (unsigned long long)version, o->number,
                         (unsigned long long)info.version);
            }
        }
    }
}

void check_applied(struct world *w, struct sim_shard *s, const struct shard_action *a,
                   const struct gradient *g)
{
    static const struct ids none;
    const struct sim_job *j = &w->jobs[s->job];
    struct shard_info info;
    shard_info(s->core, &info);
    if (w->tracing) {
        trace(w, s->node, "shard %u makes version %llu of %llu examples, generation %llu",
              s->number, (unsigned long long)a->version, (unsigned long long)a->examples,
              (unsigned long long)info.generation);
    }
    if (g != NULL && g->generation != info.generation) {
        violated(w, INVARIANT_FENCE,
                 "shard %u applies a gradient of generation %llu in generation %llu", s->number,
                 (unsigned long long)g->generation, (unsigned long long)info.generation);
    }
    if (g != NULL && ids_overlap(&s->applied, &g->ids)) {
        violated(w, INVARIANT_ONCE, "shard %u applies a batch again in version %llu", s->number,
                 (unsigned long long)a->version);
    }
    if (g != NULL && ids_examples(j, &g->ids) != a->examples) {
        violated(w, INVARIANT_EXAMPLES, "shard %u applies %llu examples as %llu", s->number,
                 (unsigned long long)ids_examples(j, &g->ids), (unsigned long long)a->examples);
    }
    const uint32_t rounds = eras_rounds(s->layout, s->eras, s->era_count, a->version - 1);
    if (s->begun != (rounds > 0 && is_sync(s)) || (s->begun && s->settled < rounds)) {
        violated(w, INVARIANT_ORDER, "shard %u applies after %u of %u rounds of sums", s->number,
                 s->settled, rounds);
    }
    if (!standby_may_vanish(s)) {
        check_era(w, s, a);
    }
    check_same(w, s, a->version, g == NULL ? &none : &g->ids,
               s->begun ? s->totals[rounds - 1].value : 0);
    if (is_sync(s) && standby_is_present(w, s)) {
        check_skew(w, s, a->version);
    }
}

/* ---- a step of a shard ---- */

/* In async and bounded modes: the ledger is what was applied. */
void check_ledger(struct world *w, const struct sim_shard *s)
{
    struct shard_info info;
    shard_info(s->core, &info);
    const struct sim_job *j = &w->jobs[s->job];
    if (info.ledger == NULL || j->partial || info.ledger->epoch >= SIM_EPOCHS_MAX) {
        return; /* dropped replicas are done, but not applied */
    }
    uint64_t bits = 0;
    for (uint32_t i = 0; i < info.ledger->split_count; i++) {
        for (uint32_t b = 0; b < info.ledger->done[i]; b++) {
            bits |= UINT64_C(1) << (i * j->split_batches + b);
        }
    }
    if (bits != s->applied.epoch[info.ledger->epoch]) {
        violated(w, INVARIANT_LEDGER,
                 "the ledger of shard %u (epoch %llu, version %llu) is not what it applied",
                 s->number, (unsigned long long)info.ledger->epoch,
                 (unsigned long long)info.version);
    }
    if (info.examples != s->examples) {
        violated(w, INVARIANT_LEDGER, "shard %u counts %llu examples of %llu", s->number,
                 (unsigned long long)info.examples, (unsigned long long)s->examples);
    }
}

/* Not of a worker that was told of this opening, or not of the job's master. */
static bool is_foreign(const struct sim_shard *s, const struct shard_event *e)
{
    if (e->own || e->kind == SHARD_GONE || e->kind == SHARD_SNAPSHOT) {
        return false;
    }
    return e->kind == SHARD_EXCHANGE || e->kind == SHARD_FILL || e->kind == SHARD_READ
               ? e->fence.opening != s->fence.opening
               : memcmp(e->fence.secret, s->fence.secret, sizeof s->fence.secret) != 0;
}

void check_step(struct world *w, struct sim_shard *s, const struct shard_event *e,
                const struct shard_info *before)
{
    struct shard_info after;
    shard_info(s->core, &after);
    if (after.version != s->snapshots[s->present].version) {
        violated(w, INVARIANT_VERSION, "shard %u says version %llu, its values are of %llu",
                 s->number, (unsigned long long)after.version,
                 (unsigned long long)s->snapshots[s->present].version);
    }
    if (after.generation < before->generation) {
        violated(w, INVARIANT_FENCE, "the generation of shard %u falls", s->number);
    }
    if (after.pins > 1) {
        violated(w, INVARIANT_PINS, "shard %u keeps %zu versions, of \"%s\" and \"%s\"", s->number,
                 after.pins, after.pinned[0].id, after.pinned[1].id);
    }
    bool asks = e->kind == SHARD_EXCHANGE || e->kind == SHARD_FILL || e->kind == SHARD_MEMBERSHIP ||
                e->kind == SHARD_PIN;
    if (asks && e->generation < before->generation &&
        (after.version != before->version || after.generation != before->generation ||
         after.queued != before->queued || after.parked > before->parked ||
         after.filled != before->filled || after.pins != before->pins ||
         after.pushes_applied != before->pushes_applied)) {
        violated(
            w, INVARIANT_FENCE, "a request of generation %llu changes shard %u of generation %llu",
            (unsigned long long)e->generation, s->number, (unsigned long long)before->generation);
    }
    if (e->kind == SHARD_READ && e->read.kind == SHARD_READ_PIN &&
        e->generation < before->generation && after.readers > before->readers) {
        violated(w, INVARIANT_FENCE, "a reader of generation %llu pins a version of shard %u",
                 (unsigned long long)e->generation, s->number);
    }
    if (is_foreign(s, e) &&
        (after.version != before->version || after.generation != before->generation ||
         after.queued != before->queued || after.parked > before->parked ||
         after.filled != before->filled || after.pins != before->pins ||
         after.readers > before->readers || after.closed != before->closed ||
         after.pushes_applied != before->pushes_applied)) {
        violated(w, INVARIANT_FENCE,
                 "a request that is not for this opening of shard %u, or not "
                 "of its master, changes it",
                 s->number);
    }
    if ((after.version != before->version || e->kind == SHARD_MEMBERSHIP) && !s->standby.empty) {
        check_ledger(w, s);
    }
}

/* ---- a job as its clients see it ---- */

void check_generation(struct world *w, uint32_t job, uint64_t generation)
{
    const struct job_record *row = disk_row(w, job);
    if (row == NULL || row->generation < generation) {
        violated(w, INVARIANT_STORED, "generation %llu of %s is used; its row has %llu",
                 (unsigned long long)generation, w->jobs[job].id,
                 row == NULL ? 0ULL : (unsigned long long)row->generation);
    }
}

void check_record(struct world *w, const struct job_record *r)
{
    uint32_t job = job_index(w, r->id);
    struct sim_job *j = &w->jobs[job];
    const struct job_record *row = disk_row(w, job);
    if (job_state_is_final(r->state) && (row == NULL || row->state != r->state)) {
        violated(w, INVARIANT_STORED, "clients are told that %s is %s; its row says %s", r->id,
                 job_state_name(r->state), row == NULL ? "nothing" : job_state_name(row->state));
    }
    check_resumed(w, job, r);
    check_era_record(w, r);
    check_steady(w, job, r);
    check_servers(w, job, r);
    departure_record(w, job, r);
    if (j->state != 0 && j->state != r->state) {
        check_yielded(w, job, r);
        TRACE(w, 0, "%s is %s: %s", r->id, job_state_name(r->state), r->reason);
        w->counts.recoveries += r->state == JOB_RECOVERING;
    }
    if (r->state == JOB_SUCCEEDED && j->test_records > 0 &&
        (r->evaluation_count == 0 || r->evaluations[r->evaluation_count - 1].step != r->step)) {
        violated(w, INVARIANT_STATE, "%s SUCCEEDED without an evaluation at its end", r->id);
    }
    check_evaluated(w, job, r);
    if (j->state != r->state) {
        check_stop(w, job, r);
    }
    bool ends = job_state_is_final(r->state) && j->state != r->state;
    j->state = r->state;
    if (ends) {
        again_ended(w, job, r);
    }
    snprintf(j->reason, sizeof j->reason, "%s", r->reason);
    snprintf(j->checkpoint, sizeof j->checkpoint, "%s", r->checkpoint);
}

/* Batches of the split that a shard has applied; one that its backup took over from does not count.
 */
static uint64_t applied_of(const struct world *w, uint32_t job, const struct lease *l)
{
    uint64_t bits = 0;
    uint32_t size = w->jobs[job].split_batches;
    for (uint32_t n = 1; n <= w->schedule->ps_count; n++) {
        for (uint32_t i = 0; i < SIM_SHARDS_OF_PS; i++) {
            const struct sim_shard *s = w->nodes[n].shards[i];
            if (s != NULL && s->open && s->job == job && s->opened == w->jobs[job].opened &&
                standby_is_present(w, s)) {
                bits |= s->applied.epoch[l->epoch];
            }
        }
    }
    return bits >> (l->split * size) & ((UINT64_C(1) << size) - 1);
}

/* Who gets a fresh lease does not look what is done: nobody may have worked on it. */
void check_lease(struct world *w, uint32_t job, uint16_t name, uint64_t generation,
                 const struct lease *lease)
{
    struct sim_job *j = &w->jobs[job];
    if (lease->epoch >= SIM_EPOCHS_MAX || lease->split >= SIM_SPLITS_MAX) {
        violated(w, INVARIANT_LEASE, "a lease of split %u of epoch %llu", lease->split,
                 (unsigned long long)lease->epoch);
    }
    TRACE(w, 0, "leases split %u of epoch %llu up to %u to %s%s", lease->split,
          (unsigned long long)lease->epoch, lease->batch_end, w->names[name],
          lease->fresh ? ", fresh" : "");
    struct sim_grant *g = &j->granted[lease->epoch][lease->split];
    if (lease->fresh && (g->generation == generation || applied_of(w, job, lease) != 0)) {
        violated(w, INVARIANT_LEASE,
                 "split %u of epoch %llu is leased to %s as fresh, but %s had it", lease->split,
                 (unsigned long long)lease->epoch, w->names[name], w->names[g->name]);
    }
    g->generation = generation;
    g->name = name;
}

/* ---- a worker ---- */

void check_compute(struct world *w, uint32_t node, const struct worker_do_compute *a)
{
    const struct sim_worker_job *j = w->nodes[node].job;
    const struct worker_values *set = &j->sets[a->set];
    struct sim_job *job = &w->jobs[j->job];
    if (a->batch.count == 0 || a->batch.epoch >= job->epochs) {
        violated(w, INVARIANT_ORDER, "a worker computes batch %u of split %u of epoch %llu",
                 a->batch.batch, a->batch.split, (unsigned long long)a->batch.epoch);
    }
    if (j->filling[a->set] > 0) {
        violated(w, INVARIANT_READ, "a worker computes with parameters that are being replaced");
    }
    bool sync = j->consistency.mode == TRAINING_SYNC;
    for (uint32_t s = 0; s < j->shard_count; s++) {
        if (!set->shard[s].known) {
            violated(w, INVARIANT_READ, "a worker computes without the values of shard %u", s);
        }
        if (!sync) {
            continue;
        }
        if (set->shard[s].version != a->step) {
            violated(w, INVARIANT_READ, "a worker computes step %llu with version %llu of shard %u",
                     (unsigned long long)a->step, (unsigned long long)set->shard[s].version, s);
        }
        if (!ids_equal(&set->shard[s].ids, &set->shard[0].ids) ||
            set->shard[s].opened != set->shard[0].opened) {
            violated(w, INVARIANT_READ, "a worker computes with shards that applied other batches");
        }
    }
}

/* In async and bounded modes what is evaluated within an epoch is pinned while training goes on. */
void check_evaluate(struct world *w, uint32_t node)
{
    const struct sim_worker_job *j = w->nodes[node].job;
    const struct sim_job *job = &w->jobs[j->job];
    bool cut = job->first.mode == TRAINING_SYNC && !job->changed;
    const struct worker_values *set = &j->sets[WORKER_SET_EVALUATION];
    for (uint32_t s = 0; s < j->shard_count; s++) {
        if (!set->shard[s].known || j->filling[WORKER_SET_EVALUATION] > 0) {
            violated(w, INVARIANT_READ, "a worker evaluates without the values of shard %u", s);
        }
        if ((cut && !ids_equal(&set->shard[s].ids, &set->shard[0].ids)) ||
            set->shard[s].opened != set->shard[0].opened) {
            violated(w, INVARIANT_READ, "a worker evaluates shards that are of two cuts");
        }
    }
}

/* ---- the end ---- */

static void check_bits(struct world *w, uint32_t job, const struct tensor *values,
                       const struct tensor *slot)
{
    const struct sim_job *j = &w->jobs[job];
    struct tensor expected, expected_slot;
    if (j->tables) {
        const uint64_t steps = numbers_steps(j, j->first.replicas);
        if (w->references[job].version > steps) { /* it was further once, and stopped earlier now */
            w->references[job].begun = false;
        }
        (void)rows_reference(w, job, steps);
        expected = w->references[job].values;
        expected_slot = w->references[job].slot;
    } else {
        numbers_reference(j, j->first.replicas, key_of_job(w, job), &expected, &expected_slot);
    }
    for (uint32_t i = 0; i < j->elements; i++) {
        if (memcmp(&expected.v[i], &values->v[i], sizeof(float)) != 0 ||
            memcmp(&expected_slot.v[i], &slot->v[i], sizeof(float)) != 0) {
            violated(w, INVARIANT_BITS, "%s: element %u is %a, the reference says %a", j->id, i,
                     (double)values->v[i], (double)expected.v[i]);
        }
    }
}

void check_job_end(struct world *w, uint32_t job)
{
    struct sim_job *j = &w->jobs[job];
    char directory[80];
    uint64_t step;
    struct tensor values, slot;
    struct disk_cut cut;
    if (j->state != JOB_SUCCEEDED) {
        return;
    }
    if (!disk_newest(w, job, directory, &step) || !disk_read(w, directory, &values, &slot, &cut)) {
        violated(w, INVARIANT_ALL, "%s has succeeded and has no checkpoint", j->id);
    }
    uint64_t all = j->batches == 64 ? UINT64_MAX : (UINT64_C(1) << j->batches) - 1;
    for (uint32_t e = 0; e < j->epochs && j->steps == 0 && j->stopped == 0 && !j->partial; e++) {
        if (cut.ids.epoch[e] != all) {
            violated(w, INVARIANT_ALL, "%s: epoch %u has applied %d of %u batches", j->id, e,
                     __builtin_popcountll(cut.ids.epoch[e]), j->batches);
        }
    }
    if (j->first.mode == TRAINING_SYNC && !j->partial && !j->changed) {
        check_bits(w, job, &values, &slot);
    }
}

/* A heartbeat is on its way for a while, and clocks differ; who has not been heard for most of the
 * time-out may be given up. One that beats and is not at work can be deaf: a call to it was cut
 * off. */
void check_lost(struct world *w, const char *text)
{
    struct master_node_info info;
    for (size_t k = 0; master_node_at(w->master, k, 0, &info); k++) {
        char id[SIM_NAME_BYTES + 8];
        snprintf(id, sizeof id, "node=%s ", info.id);
        uint32_t i = (uint32_t)strtoul(info.address + 1, NULL, 10);
        const struct sim_node *n = &w->nodes[i];
        if (!n->up || strncmp(text, id, strlen(id)) != 0) {
            continue;
        }
        bool beats = info.incarnation == n->incarnation && /* else a late Join of a dead process */
                     strcmp(w->names[n->beat_name], info.id) == 0 &&
                     n->beat_us + BEATS_US > w->now_us && n->heard_us + HEARD_US < w->now_us;
        check_silence(w, text, beats);
        if (beats && strstr(text, "no heartbeat") != NULL) {
            violated(w, INVARIANT_BEATS, "%s, but it beat %llu ms ago", text,
                     (unsigned long long)((w->now_us - n->beat_us) / SIM_MS));
        }
        bool lost = n->lost_us[0] > 0 && n->lost_us[0] + LOST_US > w->now_us;
        if (beats && strstr(text, "it beats, but") != NULL && !lost &&
            w->blocked_until[0][i] + DEAF_US < w->now_us) {
            violated(w, INVARIANT_BEATS, "%s, but it hears the master", text);
        }
    }
}

void check_clean(struct world *w)
{
    if (trace_open(w) != NULL) {
        violated(w, INVARIANT_TRACE, "trace %llu of a job that is over goes on",
                 (unsigned long long)trace_open(w)->id);
    }
    for (uint32_t i = 1; i < w->node_count; i++) {
        const struct sim_node *n = &w->nodes[i];
        if (n->job->there) {
            violated(w, INVARIANT_CLEAN, "worker n%u still has %s, which is over", i,
                     w->jobs[n->job->job].id);
        }
        for (uint32_t k = 0; k < SIM_SHARDS_OF_PS; k++) {
            if (n->shards[k] != NULL && n->shards[k]->open) {
                violated(w, INVARIANT_CLEAN, "server n%u still has a shard of %s, which is over", i,
                         w->jobs[n->shards[k]->job].id);
            }
        }
    }
}
