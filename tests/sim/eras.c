/* SPDX-License-Identifier: Apache-2.0 */
/* Update sections that clients change: what the master's messages and rows say of them, and what
 * clients were told. Of a section the simulator goes by its learning rate, and by the rounds of
 * sums that it takes. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "job/spec/job_era.h"

static double value_of(const char *section, const char *key, double none)
{
    char line[64];
    (void)snprintf(line, sizeof line, "\n  %s: ", key);
    const char *at = strstr(section, line);
    return at == NULL ? none : strtod(at + strlen(line), NULL);
}

struct sim_era era_of_section(const struct sim_job *j, uint64_t version, const char *section)
{
    const bool clips = value_of(section, "clip_norm", 0) > 0;
    return (struct sim_era){.version = version,
                            .rate = (float)value_of(section, "learning_rate", 0.125),
                            .rounds = j->rule_rounds + (clips ? 1 : 0)};
}

struct sim_era era_of_text(const struct sim_job *j, const char *text)
{
    char *section = job_update_section(text);
    const struct sim_era era = era_of_section(j, 0, section);
    free(section);
    return era;
}

uint32_t eras_read(struct world *w, const struct sim_job *j, const struct job_era *eras,
                   size_t count, struct sim_era *out)
{
    if (count > SIM_ERAS_MAX) {
        violated(w, INVARIANT_ORDER, "%s has %zu eras", j->id, count);
    }
    for (size_t i = 0; i < count; i++) {
        out[i] = era_of_section(j, eras[i].version, eras[i].update);
    }
    return (uint32_t)count;
}

uint32_t eras_for_core(const struct sim_layout *l, const struct sim_era *eras, uint32_t count,
                       struct era *out)
{
    for (uint32_t i = 0; i < count; i++) {
        out[i] = (struct era){eras[i].version, l->shard_count > 1 ? eras[i].rounds : 0};
    }
    return count;
}

/* Written down again: the cores' own is what is tested. */
const struct sim_era *era_in(const struct sim_era *eras, uint32_t count, uint64_t version)
{
    const struct sim_era *in = eras;
    for (uint32_t i = 1; i < count && eras[i].version <= version; i++) {
        in = &eras[i];
    }
    return in;
}

uint32_t eras_rounds(const struct sim_layout *l, const struct sim_era *eras, uint32_t count,
                     uint64_t step)
{
    return l->shard_count > 1 && count > 0 ? era_in(eras, count, step)->rounds : 0;
}

uint32_t eras_rounds_max(const struct sim_layout *l, const struct sim_era *eras, uint32_t count)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < count && l->shard_count > 1; i++) {
        most = eras[i].rounds > most ? eras[i].rounds : most;
    }
    return most;
}

static bool same_kind(const struct sim_era *a, const struct sim_era *b)
{
    return a->rate == b->rate && a->rounds == b->rounds;
}

/* ---- the job's row is the ledger ---- */

void eras_stored(struct world *w, uint32_t job, const struct job_record *r)
{
    struct sim_job *j = &w->jobs[job];
    struct sim_era eras[SIM_ERAS_MAX] = {{0}};
    uint32_t count = eras_read(w, j, r->history.eras, r->history.era_count, eras);
    const struct sim_era now = era_of_text(j, r->text);
    if (count == 0) {
        eras[count++] = now;
    }
    for (uint32_t i = 1; i < count; i++) {
        if (eras[i].version <= eras[i - 1].version) {
            violated(w, INVARIANT_ERA,
                     "era %u of %s begins at version %llu, the one before at %llu", i, j->id,
                     (unsigned long long)eras[i].version, (unsigned long long)eras[i - 1].version);
        }
    }
    if (!same_kind(&eras[count - 1], &now)) {
        violated(w, INVARIANT_ERA, "the file of %s says another update section than its last era",
                 j->id);
    }
    const bool waits = eras[count - 1].version == ERA_NEXT_START;
    if (j->eras_wait && !waits) { /* where it begins depends on the checkpoint */
        j->eras_opened = r->generation;
    }
    j->eras_wait = waits;
    if (count != j->era_count || memcmp(eras, j->eras, sizeof eras) != 0) {
        w->references[job].begun = false;
    }
    memcpy(j->eras, eras, sizeof eras);
    j->era_count = count;
}

void check_eras_told(struct world *w, const struct sim_job *j, const struct sim_era *eras,
                     uint32_t count)
{
    bool same = count == j->era_count;
    for (uint32_t i = 0; i < count && same; i++) {
        same = same_kind(&eras[i], &j->eras[i]) && eras[i].version == j->eras[i].version;
    }
    if (count > 0 && !same) {
        violated(w, INVARIANT_ERA, "nodes are told of eras of %s that its row does not have",
                 j->id);
    }
}

bool eras_are_of(const struct world *w, const struct sim_shard *s)
{
    const struct sim_job *j = &w->jobs[s->job];
    return s->fence.opening == j->opening && s->opened == j->opened && s->opened >= j->eras_opened;
}

void check_era(struct world *w, const struct sim_shard *s, const struct shard_action *a)
{
    const struct sim_job *j = &w->jobs[s->job];
    if (a->era >= s->era_count) {
        violated(w, INVARIANT_ERA, "shard %u makes version %llu in era %zu of %u", s->number,
                 (unsigned long long)a->version, a->era, s->era_count);
    }
    const struct sim_era *used = &s->eras[a->era];
    const struct sim_era *said = era_in(j->eras, j->era_count, a->version - 1);
    if (eras_are_of(w, s) && !same_kind(used, said)) {
        violated(w, INVARIANT_ERA,
                 "shard %u makes version %llu with learning rate %g and %u rounds; the row of %s "
                 "says %g and %u",
                 s->number, (unsigned long long)a->version, (double)used->rate, used->rounds, j->id,
                 (double)said->rate, said->rounds);
    }
}

/* ---- clients ---- */

void eras_known(struct sim_job *j, const struct job_spec *spec)
{
    j->update.told = era_of_text(j, spec->text);
}

/* A master that died answers nobody any more. */
static void forget_dead(const struct world *w, struct sim_job *j)
{
    if (j->update.life != w->nodes[0].life) {
        j->update.unsure = j->update.unsure || j->update.waiting > 0;
        j->update.waiting = 0;
        j->update.life = w->nodes[0].life;
    }
}

static uint64_t file_sum(const char *text)
{
    return checksum_of(text, strlen(text));
}

void eras_asked(struct world *w, struct sim_job *j, uint64_t request, const struct job_spec *spec)
{
    forget_dead(w, j);
    if (j->update.waiting == SIM_ASKED_MAX) {
        violated(w, INVARIANT_ORDER, "more than %d clients want to change a job", SIM_ASKED_MAX);
    }
    j->update.asked[j->update.waiting].request = request;
    j->update.asked[j->update.waiting].servers = false;
    j->update.asked[j->update.waiting].file = file_sum(spec->text);
    j->update.asked[j->update.waiting++].era = era_of_text(j, spec->text);
}

/* It is in force where all shards stand: none of them is before it. One that starts again may come
 * to it again later. */
static void check_told(struct world *w, const struct sim_job *j)
{
    const struct sim_era *last = &j->eras[j->era_count - 1];
    const bool stands = !j->eras_wait && j->state == JOB_RUNNING;
    for (uint32_t n = 1; n <= w->schedule->ps_count && stands; n++) {
        for (uint32_t i = 0; i < SIM_SHARDS_OF_PS; i++) {
            const struct sim_shard *s = w->nodes[n].shards[i];
            if (s == NULL || !s->open || &w->jobs[s->job] != j || !eras_are_of(w, s) ||
                !standby_is_present(w, s)) {
                continue;
            }
            struct shard_info info;
            shard_info(s->core, &info);
            if (info.version < last->version) {
                violated(w, INVARIANT_ERA,
                         "a client is told that its change of %s is in force from version %llu "
                         "on; shard %u is at %llu",
                         j->id, (unsigned long long)last->version, s->number,
                         (unsigned long long)info.version);
            }
        }
    }
}

/* Another client changes the file: who waits until the job has moved hears that its change is in
 * it, and whether the job has moved by then is for the later one. */
static bool is_overtaken(const struct sim_job *j, uint32_t i)
{
    bool later = false;
    for (uint32_t k = 0; k < j->update.waiting; k++) {
        later = later || j->update.asked[k].request > j->update.asked[i].request;
    }
    return later;
}

static void answered(struct world *w, struct sim_job *j, uint32_t i, const struct err *err)
{
    const struct sim_era era = j->update.asked[i].era;
    const bool servers = j->update.asked[i].servers && !is_overtaken(j, i);
    const struct job_record *row = disk_row(w, (uint32_t)(j - w->jobs));
    if (err->code == ERR_EXHAUSTED && row != NULL &&
        file_sum(row->text) == j->update.asked[i].file) {
        violated(w, INVARIANT_ERA,
                 "a client is told that its change of %s is undone; a master that was started "
                 "again would have it",
                 j->id);
    }
    j->update.asked[i] = j->update.asked[--j->update.waiting];
    /* It may be stored all the same; the job ended in the middle. */
    if (err->code == ERR_UNAVAILABLE || strstr(err->msg, " ended ") != NULL) {
        j->update.unsure = true;
    }
    if (err->code == 0 && servers) {
        check_told_servers(w, (uint32_t)(j - w->jobs));
    }
    if (err->code == 0) {
        /* One of other keys leaves it where it was to change, which a job that went back may not
         * have come to again. */
        const bool changes = !j->update.unsure && !same_kind(&era, &j->update.told);
        j->update.told = era;
        j->update.unsure = false;
        if (changes) {
            check_told(w, j);
        }
    }
}

void eras_answered(struct world *w, const struct master_reply *r)
{
    for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
        struct sim_job *j = &w->jobs[i];
        for (uint32_t k = 0; k < j->update.waiting; k++) {
            if (j->update.asked[k].request == r->request) {
                answered(w, j, k, &r->err);
                break;
            }
        }
    }
}

void check_era_record(struct world *w, const struct job_record *r)
{
    struct sim_job *j = &w->jobs[job_index(w, r->id)];
    const struct sim_era now = era_of_text(j, r->text);
    forget_dead(w, j);
    if (j->update.waiting == 0 && !j->update.unsure && !same_kind(&now, &j->update.told)) {
        violated(w, INVARIANT_ERA, "a client was told that %s has learning rate %g; it has %g",
                 j->id, (double)j->update.told.rate, (double)now.rate);
    }
}
