/* SPDX-License-Identifier: Apache-2.0 */
/* What the master's calls say: from the state of their jobs at the moment when they are sent. */
#include "base/mem.h"
#include "base/mutant.h"
#include "job/progress/tree.h"
#include "job/spec/job_era.h"
#include "master/core/core.h"

/* Adds the places of the shards in the generation that the call names. */
static void build_places(struct master *m, const struct job *j, struct master_call *out)
{
    struct master_shard_location *shards = action_memory(m, j->shard_count, sizeof *shards);
    for (size_t i = 0; i < j->shard_count; i++) {
        const struct node *n = j->shards[i].node;
        shards[i] =
            (struct master_shard_location){(uint32_t)i, n->id, n->address, j->shards[i].opening};
    }
    out->shards = shards;
    out->shard_count = j->shard_count;
}

/* Copies: a change in the same step may forget them. A job whose update section was never changed
 * has one era, with that of its file. */
static void build_eras(struct master *m, const struct call *c, struct master_call *out)
{
    const struct job *j = c->job;
    const struct job_history *h = &j->record.history;
    out->era_count = h->era_count == 0 ? 1 : h->era_count;
    struct job_era *eras = action_memory(m, out->era_count, sizeof *eras);
    if (h->era_count == 0) {
        eras[0].update = job_update_section(j->record.text);
        action_own(m, eras[0].update);
    }
    if (c->kind == MASTER_CALL_OPEN && h->era_count > 1 && MUTANT(newest_era)) {
        out->era_count = 1;
        eras[0] = (struct job_era){0, action_printf(m, "%s", h->eras[h->era_count - 1].update)};
    }
    for (size_t i = 0; i < h->era_count && out->era_count > 1; i++) {
        eras[i] = (struct job_era){h->eras[i].version, action_printf(m, "%s", h->eras[i].update)};
    }
    out->eras = eras;
}

static void build_assign(struct master *m, const struct call *c, struct master_call *out)
{
    const struct job *j = c->job;
    uint32_t index = 0;
    size_t i = 0;
    for (; i < j->worker_count && j->workers[i].node != c->node; i++) {
        index += j->workers[i].started;
    }
    const struct job_worker *w = &j->workers[i];
    build_places(m, j, out);
    build_eras(m, c, out);
    out->consistency = &j->record.consistency;
    out->hold = c->hold;
    if (!job_is_sync(j)) {
        struct lease *leases = action_memory(m, w->lease_count, sizeof *leases);
        for (size_t k = 0; k < w->lease_count; k++) {
            leases[k] = w->leases[k];
            leases[k].fresh = false; /* the worker may have begun them */
        }
        out->ledger = &j->leases.ledger;
        out->leases = leases;
        out->lease_count = w->lease_count;
        return;
    }
    out->ledger = &j->step_map.ledger;
    out->ledger_step = j->step_map.step + j->version_shift;
    out->step_limit = j->step_limit + j->version_shift;
    out->step = w->from + j->version_shift;
    struct tree_block share =
        tree_share(j->record.consistency.replicas, job_workers_active(j), index);
    out->replica_first = share.lo;
    out->replica_end = share.hi;
}

static void build_workers(struct master *m, const struct job *j, struct master_call *out)
{
    const char **names = action_memory(m, j->worker_count, sizeof *names);
    size_t count = 0;
    for (size_t i = 0; i < j->worker_count; i++) {
        if (j->workers[i].started || job_is_starting(j)) {
            names[count++] = j->workers[i].node->id;
        }
    }
    out->workers = names;
    out->worker_count = count;
}

/* Consistency and data position of the shards, as they begin or as they change. */
static void build_position(const struct job *j, struct master_call *out)
{
    out->consistency = &j->record.consistency;
    out->ledger = &j->step_map.ledger;
    out->version = j->step_map.step + j->version_shift;
}

/* What tables begin with, which have no rows of their own in a checkpoint. */
static void build_rows(const struct job *j, struct master_call *out)
{
    const bool silent = MUTANT(rows_of_nowhere) || (j->resume && MUTANT(rows_once));
    const bool begins = j->restore == NULL && j->rows_from != NULL && !silent;
    out->rows_from = begins ? j->rows_from : "";
    out->rows_manifest = begins ? j->rows_manifest : 0;
}

/* What a job took from a source that may be gone by now. */
static const char *known_encoding(const struct job *j)
{
    return job_spec_takes_encoding(&j->spec) && j->encoding != NULL ? j->encoding : "";
}

static void build_base(const struct job *j, uint32_t shard, struct master_base *out)
{
    const struct shard_state *s = &j->shards[shard];
    if (j->sync_point.delta) {
        *out = (struct master_base){.directory = j->base.directory,
                                    .file = s->base_file,
                                    .checksum = s->base_checksum,
                                    .version = s->base_version};
    }
}

/* A version that is pinned already, by an earlier master, is as that one wanted it. */
static bool pins_slots(const struct job *j)
{
    const struct sync_point *s = &j->sync_point;
    return !s->adopted && (s->slots || (s->evaluate && j->spec.update.evaluate_average));
}

/* Where the backup of a primary is. */
static void build_backup(const struct job *j, uint32_t shard, struct master_call *out)
{
    const struct shard_backup *b = &j->shards[shard].backup;
    if (b->node != NULL && (!b->joins || b->stage >= BACKUP_NAMED)) {
        out->standby.backup =
            (struct master_shard_location){shard, b->node->id, b->node->address, b->opening};
    }
}

static void build_membership(struct master *m, const struct call *c, struct master_call *out)
{
    struct job *j = c->job;
    out->shard = c->index;
    out->forget_pins = j->adopts && j->adoption.looked && !MUTANT(pins_of_the_dead);
    out->keep_pin = action_printf(m, "%s", j->adoption.pin);
    out->standby.promote = j->shards[c->index].promote;
    build_backup(j, c->index, out);
    if (j->changing) {
        build_position(j, out);
        build_eras(m, c, out);
    }
    build_workers(m, j, out);
}

/* The fields of @c's kind, from the state of its job now. */
void call_build(struct master *m, const struct call *c, struct master_call *out)
{
    struct job *j = c->job;
    const struct job_worker *w = job_worker_of(j, c->node);
    out->start = c->kind == MASTER_CALL_STOP ? c->start : w != NULL ? w->start : 0;
    switch (c->kind) {
    case MASTER_CALL_INSPECT: /* a job that goes on from a checkpoint begins with nothing else */
        out->begins = j->record.checkpoint[0] == '\0' || MUTANT(from_again);
        out->encoding = out->begins ? "" : known_encoding(j);
        break;
    case MASTER_CALL_OPEN:
        out->shard = c->index;
        out->standby.is_backup = c->backup;
        out->standby.joins = c->backup && j->shards[c->index].backup.joins;
        if (!c->backup) {
            build_backup(j, c->index, out);
        }
        out->plan = &j->plan;
        out->restore = j->restore == NULL ? "" : j->restore;
        build_rows(j, out);
        build_position(j, out);
        build_eras(m, c, out);
        build_workers(m, j, out);
        break;
    case MASTER_CALL_START:
        build_eras(m, c, out);
        out->plan = &j->plan;
        out->train = &j->train;
        out->test = &j->test;
        out->given_fingerprint = j->given.fingerprint;
        out->from_fingerprint = MUTANT(from_unknown) ? 0 : j->from_fingerprint;
        out->encoding = MUTANT(encoding_of_first) ? "" : known_encoding(j);
        if (plan_is_given(&j->plan)) { /* the worker brings the values before it answers */
            build_places(m, j, out);
        }
        break;
    case MASTER_CALL_MEMBERSHIP:
        build_membership(m, c, out);
        break;
    case MASTER_CALL_ASSIGN:
        build_assign(m, c, out);
        break;
    case MASTER_CALL_PIN:
    case MASTER_CALL_UNPIN:
    case MASTER_CALL_CHECKPOINT:
        out->shard = c->index;
        out->pin_id = j->sync_point.pin_id;
        out->slots = pins_slots(j);
        out->directory = j->sync_point.directory;
        if (c->kind == MASTER_CALL_CHECKPOINT) {
            build_base(j, c->index, &out->base);
        }
        break;
    case MASTER_CALL_EVALUATE:
        build_places(m, j, out);
        out->pin_id = j->sync_point.pin_id;
        out->first = (uint64_t)c->index * MASTER_EVALUATION_CHUNK;
        out->count = j->test.records - out->first < MASTER_EVALUATION_CHUNK
                         ? j->test.records - out->first
                         : MASTER_EVALUATION_CHUNK;
        break;
    case MASTER_CALL_STOP:
        /* the reason may change in this step */
        out->reason = action_printf(m, "%s", j->record.reason);
        break;
    case MASTER_CALL_CLOSE:
        out->shard = c->index;
        break;
    default:
        break;
    }
}
