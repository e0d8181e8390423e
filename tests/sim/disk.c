/* SPDX-License-Identifier: Apache-2.0 */
/* What survives: the master's rows, and the directory of checkpoints that all share.
 *
 * A file appears whole or not at all, as with rename(); its writer learns of it a moment later, and
 * may be dead by then. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "job/job_spec.h"

#define DIRECTORIES_MAX 256

struct part { /* a shard's file */
    bool present;
    uint64_t version, examples, checksum, opened;
    struct tensor values, slot;
    struct ids ids;
    struct flat_ledger ledger;
};

#define STARTS_MAX 8 /* of a job, while a directory is there */

struct directory {
    char name[80];
    uint32_t job;
    bool there, manifest;
    /* A file's name has the generation that its shard was opened with. */
    struct part parts[SIM_SHARDS_MAX][STARTS_MAX];
    /* of the manifest */
    uint64_t step, version, examples, opened, checksums[SIM_SHARDS_MAX];
    struct flat_ledger ledger;
};

enum op_kind { OP_PREPARE, OP_MANIFEST, OP_FIND, OP_PART };

struct op { /* that is going on */
    enum op_kind kind;
    bool used, done; /* done: only its owner does not know yet */
    uint32_t node, life, job, shard, unary, attempt;
    uint64_t number, step, examples, version;
    size_t keep;
    char name[80];
    struct part part;
    struct flat_ledger ledger;
    uint64_t checksums[SIM_SHARDS_MAX], versions[SIM_SHARDS_MAX], opened[SIM_SHARDS_MAX];
    uint32_t shard_count;
    int code;
    char why[120];
};

struct disk {
    struct directory directories[DIRECTORIES_MAX];
    uint32_t directory_count;
    struct op *ops;
    size_t op_count, op_capacity;
    struct job_record rows[SIM_JOBS_MAX];
    bool has_row[SIM_JOBS_MAX];
};

struct disk *disk_new(void)
{
    return mem_new(1, sizeof(struct disk));
}

void disk_clear(struct disk *d)
{
    for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
        if (d->has_row[i]) {
            job_record_release(&d->rows[i]);
            d->has_row[i] = false;
        }
    }
    d->directory_count = 0;
    d->op_count = 0;
}

void disk_free(struct disk *d)
{
    disk_clear(d);
    free(d->ops);
    free(d);
}

/* ---- rows ---- */

void disk_store(struct world *w, const struct job_record *r)
{
    struct disk *d = w->disk;
    uint32_t job = job_index(w, r->id);
    if (d->has_row[job]) {
        job_record_release(&d->rows[job]);
    }
    job_record_copy(&d->rows[job], r);
    d->has_row[job] = true;
    w->jobs[job].known = true;
}

void disk_restore(struct world *w)
{
    struct disk *d = w->disk;
    for (uint32_t i = 0; i < SIM_JOBS_MAX && w->master != NULL; i++) {
        if (!d->has_row[i]) {
            continue;
        }
        struct job_record record;
        struct job_spec spec = {0};
        job_record_copy(&record, &d->rows[i]);
        bool over = job_state_is_final(record.state);
        struct diags diags = {0};
        bool good = over || job_spec_parse(record.text, strlen(record.text), "job", NULL, 0, &spec,
                                           &diags) == 0;
        struct master_event e = {.kind = MASTER_RESTORE};
        e.restore = (struct master_restore_event){
            .record = &record,
            .spec = over || !good ? NULL : &spec,
            .spec_error = good ? NULL : "it is wrong",
        };
        master_event(w, &e);
        diags_release(&diags);
        job_spec_release(&spec);
        job_record_release(&record);
    }
}

/* ---- directories ---- */

static struct directory *find(struct disk *d, const char *name)
{
    for (uint32_t i = 0; i < d->directory_count; i++) {
        if (d->directories[i].there && strcmp(d->directories[i].name, name) == 0) {
            return &d->directories[i];
        }
    }
    return NULL;
}

/* The file of @shard with @opened in its name; NULL: there is none. */
static struct part *find_part(struct directory *dir, uint32_t shard, uint64_t opened)
{
    for (uint32_t i = 0; i < STARTS_MAX; i++) {
        if (dir->parts[shard][i].present && dir->parts[shard][i].opened == opened) {
            return &dir->parts[shard][i];
        }
    }
    return NULL;
}

static struct directory *make(struct world *w, const char *name, uint32_t job)
{
    struct disk *d = w->disk;
    struct directory *dir = find(d, name);
    if (dir != NULL) {
        return dir;
    }
    uint32_t i = 0;
    while (i < d->directory_count && d->directories[i].there) {
        i++;
    }
    if (i == DIRECTORIES_MAX) {
        violated(w, INVARIANT_ORDER, "more than %d checkpoints", DIRECTORIES_MAX);
    }
    d->directory_count = i == d->directory_count ? i + 1 : d->directory_count;
    dir = &d->directories[i];
    memset(dir, 0, sizeof *dir);
    snprintf(dir->name, sizeof dir->name, "%s", name);
    dir->job = job;
    dir->there = true;
    return dir;
}

static struct directory *newest(struct disk *d, uint32_t job)
{
    struct directory *best = NULL;
    for (uint32_t i = 0; i < d->directory_count; i++) {
        struct directory *dir = &d->directories[i];
        if (dir->there && dir->manifest && dir->job == job &&
            (best == NULL || strcmp(dir->name, best->name) > 0)) {
            best = dir;
        }
    }
    return best;
}

bool disk_newest(struct world *w, uint32_t job, char directory[80], uint64_t *step)
{
    const struct directory *dir = newest(w->disk, job);
    if (dir == NULL) {
        return false;
    }
    memcpy(directory, dir->name, sizeof dir->name);
    *step = dir->step;
    return true;
}

bool disk_read(struct world *w, const char *directory, struct tensor *values, struct tensor *slot,
               struct disk_cut *cut)
{
    struct directory *dir = find(w->disk, directory);
    if (dir == NULL || !dir->manifest) {
        return false;
    }
    const struct sim_job *j = &w->jobs[dir->job];
    for (uint32_t s = 0; s < j->shard_count; s++) {
        const struct part *p = find_part(dir, s, dir->opened);
        if (p == NULL || p->checksum != dir->checksums[s]) {
            violated(w, INVARIANT_MANIFEST, "%s names a file that is %s: shard %u", directory,
                     p == NULL ? "gone" : "another one", s);
        }
        for (uint32_t i = 0; i < j->shard_elements[s]; i++) {
            values->v[j->map[s][i]] = p->values.v[i];
            slot->v[j->map[s][i]] = p->slot.v[i];
        }
        cut->version = p->version;
        cut->examples = p->examples;
        cut->ids = p->ids;
    }
    return true;
}

static void prune(struct disk *d, uint32_t job, size_t keep)
{
    for (;;) {
        size_t count = 0;
        struct directory *oldest = NULL;
        for (uint32_t i = 0; i < d->directory_count; i++) {
            struct directory *dir = &d->directories[i];
            if (!dir->there || !dir->manifest || dir->job != job) {
                continue;
            }
            count++;
            oldest = oldest == NULL || strcmp(dir->name, oldest->name) < 0 ? dir : oldest;
        }
        if (keep == 0 || count <= keep) {
            return;
        }
        oldest->there = false;
    }
}

/* ---- operations, each of which takes its time ---- */

static struct op *op_new(struct world *w, enum op_kind kind, uint32_t node, uint32_t *index)
{
    struct disk *d = w->disk;
    uint32_t i = 0;
    while (i < d->op_count && d->ops[i].used) {
        i++;
    }
    if (i == d->op_count) {
        d->ops = mem_grow(d->ops, &d->op_capacity, d->op_count + 1, sizeof *d->ops);
        d->op_count++;
    }
    struct op *op = &d->ops[i];
    memset(op, 0, sizeof *op);
    op->kind = kind;
    op->used = true;
    op->node = node;
    op->life = w->nodes[node].life;
    *index = i;
    return op;
}

/* The node has one thread for files. */
static void begin(struct world *w, uint32_t node, uint32_t index)
{
    struct sim_node *n = &w->nodes[node];
    uint64_t us = n->file_free_us > w->now_us ? n->file_free_us : w->now_us;
    us += world_takes(w, "file", w->schedule->knobs.file_us);
    n->file_free_us = us;
    world_at(w, us, EVENT_FILE, node, index, 0);
}

void disk_prepare(struct world *w, const struct master_prepare *p)
{
    uint32_t index;
    struct op *op = op_new(w, OP_PREPARE, 0, &index);
    op->number = p->number;
    snprintf(op->name, sizeof op->name, "%s", p->directory);
    TRACE(w, 0, "prepares %s", p->directory);
    begin(w, 0, index);
}

void disk_manifest(struct world *w, const struct master_manifest *m)
{
    uint32_t index;
    struct op *op = op_new(w, OP_MANIFEST, 0, &index);
    op->number = m->number;
    op->job = job_index(w, m->job->id);
    op->step = m->step;
    op->examples = m->examples;
    op->keep = m->keep;
    op->shard_count = m->plan->shard_count;
    snprintf(op->name, sizeof op->name, "%s", m->directory);
    for (uint32_t s = 0; s < op->shard_count; s++) {
        op->checksums[s] = m->shards[s].checksum;
        op->opened[s] = strtoull(m->shards[s].file, NULL, 10);
        op->versions[s] = m->shards[s].version;
    }
    op->ledger.present = true;
    op->ledger.shape = m->ledger->shape;
    op->ledger.epoch = m->ledger->epoch;
    op->ledger.split_count = m->ledger->split_count;
    memcpy(op->ledger.done, m->ledger->done, m->ledger->split_count * sizeof *m->ledger->done);
    TRACE(w, 0, "writes the manifest of %s: step %llu", m->directory, (unsigned long long)m->step);
    begin(w, 0, index);
}

void disk_find(struct world *w, const struct master_find *f)
{
    uint32_t index;
    struct op *op = op_new(w, OP_FIND, 0, &index);
    op->number = f->number;
    op->job = job_index(w, f->job);
    begin(w, 0, index);
}

void disk_write(struct world *w, struct sim_shard *s, const struct shard_action *a, uint32_t unary,
                uint32_t attempt)
{
    uint32_t index;
    struct op *op = op_new(w, OP_PART, s->node, &index);
    const struct unary *u = &w->unaries[unary];
    op->job = s->job;
    op->shard = s->number;
    op->unary = unary;
    op->attempt = attempt;
    memcpy(op->name, u->req.directory, sizeof op->name);
    struct part *p = &op->part;
    p->present = true;
    p->version = a->version;
    p->examples = a->examples_applied;
    p->opened = s->opened;
    for (uint32_t i = 0; i < SIM_SNAPSHOTS_MAX; i++) {
        if (s->snapshots[i].refs > 0 && s->snapshots[i].version == a->version) {
            p->values = s->snapshots[i].t;
            p->ids = s->snapshots[i].ids;
        }
    }
    if (a->buffer != NULL) {
        p->slot = ((const struct gradient *)a->buffer)->t;
    } else {
        violated(w, INVARIANT_ORDER, "a checkpoint without slots");
    }
    if (a->ledger != NULL) {
        p->ledger.present = true;
        p->ledger.shape = a->ledger->shape;
        p->ledger.epoch = a->ledger->epoch;
        p->ledger.split_count = a->ledger->split_count;
        memcpy(p->ledger.done, a->ledger->done, a->ledger->split_count * sizeof *a->ledger->done);
    }
    uint64_t sum = rng_key_mix(p->version, p->opened);
    for (uint32_t i = 0; i < SIM_EPOCHS_MAX; i++) {
        sum = rng_key_mix(sum, p->ids.epoch[i]);
    }
    p->checksum = rng_key_mix(sum, s->number);
    begin(w, s->node, index);
}

/* ---- what they do in the end ---- */

static void check_manifest(struct world *w, struct directory *dir, const struct op *op)
{
    const struct part *first = find_part(dir, 0, op->opened[0]);
    struct sim_job *j = &w->jobs[op->job];
    for (uint32_t s = 0; s < op->shard_count; s++) {
        const struct part *p = find_part(dir, s, op->opened[s]);
        if (p->version != op->versions[s]) {
            violated(w, INVARIANT_MANIFEST, "%s: the file of shard %u is of version %llu", op->name,
                     s, (unsigned long long)p->version);
        }
        if (!ids_equal(&p->ids, &first->ids) || p->version != first->version ||
            p->opened != first->opened || p->examples != first->examples) {
            violated(w, INVARIANT_MANIFEST,
                     "%s: shards 0 and %u are of two cuts: versions %llu and %llu, examples %llu "
                     "and %llu",
                     op->name, s, (unsigned long long)first->version,
                     (unsigned long long)p->version, (unsigned long long)first->examples,
                     (unsigned long long)p->examples);
        }
    }
    /* The data position of the manifest is what the shards have applied; replicas that were
     * dropped are done, too. */
    for (uint32_t e = 0; e < j->epochs; e++) {
        for (uint32_t b = 0; b < j->batches; b++) {
            uint32_t split = b / j->split_batches;
            bool done =
                e < op->ledger.epoch || (e == op->ledger.epoch && split < op->ledger.split_count &&
                                         b % j->split_batches < op->ledger.done[split]);
            bool applied = (first->ids.epoch[e] >> b & 1u) != 0;
            if (applied != done && !(done && j->partial)) {
                violated(w, INVARIANT_MANIFEST,
                         "%s: batch %u of epoch %u is %s the shards, its ledger says %s", op->name,
                         b, e, applied ? "in" : "not in", done ? "done" : "open");
            }
        }
    }
}

static void finish_prepare(struct world *w, struct op *op)
{
    char id[48];
    snprintf(id, sizeof id, "%.*s", (int)strcspn(op->name, "/"), op->name);
    struct directory *dir = make(w, op->name, job_index(w, id));
    memset(dir->parts, 0, sizeof dir->parts);
    dir->manifest = false;
}

static void finish_manifest(struct world *w, struct op *op)
{
    struct directory *dir = find(w->disk, op->name);
    for (uint32_t s = 0; dir != NULL && s < op->shard_count; s++) {
        const struct part *p = find_part(dir, s, op->opened[s]);
        if (p == NULL || p->checksum != op->checksums[s]) {
            dir = NULL;
        }
    }
    if (dir == NULL) { /* the shell looks before it writes */
        op->code = ERR_CORRUPT;
        snprintf(op->why, sizeof op->why, "a file is not what its server said");
        return;
    }
    check_manifest(w, dir, op);
    dir->manifest = true;
    dir->step = op->step;
    dir->version = op->versions[0];
    dir->examples = op->examples;
    dir->ledger = op->ledger;
    dir->opened = op->opened[0];
    memcpy(dir->checksums, op->checksums, sizeof dir->checksums);
    w->counts.checkpoints++;
    prune(w->disk, op->job, op->keep);
}

static void finish_part(struct world *w, struct op *op)
{
    struct directory *dir = find(w->disk, op->name);
    if (dir == NULL) { /* it was removed meanwhile: the file brings it back */
        dir = make(w, op->name, op->job);
    }
    struct part *p = find_part(dir, op->shard, op->part.opened);
    for (uint32_t i = 0; p == NULL && i < STARTS_MAX; i++) {
        p = dir->parts[op->shard][i].present ? NULL : &dir->parts[op->shard][i];
    }
    if (p == NULL) {
        violated(w, INVARIANT_ORDER, "files of more than %d starts in one directory", STARTS_MAX);
    }
    *p = op->part;
    TRACE(w, op->node, "has written shard %u of %s: version %llu", op->shard, op->name,
          (unsigned long long)op->part.version);
}

static void tell_master(struct world *w, const struct op *op)
{
    struct err err = {0};
    struct master_event e = {.kind = MASTER_PREPARE_DONE};
    struct ledger ledger;
    uint32_t done[SIM_SPLITS_MAX];
    char path[100];
    const struct directory *dir;
    if (op->code != 0) {
        err_set(&err, op->code, "%s", op->why);
    }
    const struct err *why = op->code != 0 ? &err : NULL;
    switch (op->kind) {
    case OP_PREPARE:
        e.prepare = (struct master_prepare_done){op->number, why};
        break;
    case OP_MANIFEST:
        snprintf(path, sizeof path, "/c/%s", op->name);
        e.kind = MASTER_MANIFEST_DONE;
        e.manifest = (struct master_manifest_done){op->number, why, path};
        break;
    default:
        e.kind = MASTER_FOUND;
        e.found = (struct master_found){.number = op->number};
        dir = newest(w->disk, op->job);
        if (dir != NULL) {
            snprintf(path, sizeof path, "/c/%s", dir->name);
            memcpy(done, dir->ledger.done, sizeof done);
            ledger = (struct ledger){dir->ledger.shape, dir->ledger.epoch, dir->ledger.split_count,
                                     done};
            e.found.found = true;
            e.found.directory = dir->name;
            e.found.path = path;
            e.found.step = dir->step;
            e.found.version = dir->version;
            e.found.ledger = &ledger;
        }
        break;
    }
    master_event(w, &e);
}

static void tell_caller(struct world *w, const struct op *op)
{
    struct unary_reply *r = unary_reply(w, op->unary, op->attempt);
    snprintf(r->file, sizeof r->file, "%llu", (unsigned long long)op->part.opened);
    r->bytes = 100;
    r->checksum = op->part.checksum;
    r->version = op->part.version;
    r->examples = op->part.examples;
    r->ledger = op->part.ledger;
    unary_answer(w, op->unary, op->attempt);
}

void on_file(struct world *w, const struct event *e)
{
    struct op *op = &w->disk->ops[e->arg];
    struct sim_node *n = &w->nodes[op->node];
    if (!n->up || n->life != op->life) {
        op->used = false; /* killed before the file was there, or before it could say so */
        return;
    }
    if (!op->done) {
        op->done = true;
        if (op->kind == OP_PREPARE) {
            finish_prepare(w, op);
        } else if (op->kind == OP_MANIFEST) {
            finish_manifest(w, op);
        } else if (op->kind == OP_PART) {
            finish_part(w, op);
        }
        world_at(w, w->now_us + world_takes(w, "tell", 2 * SIM_MS), EVENT_FILE, op->node, e->arg,
                 0);
        return;
    }
    struct op copy = *op;
    op->used = false;
    if (copy.kind == OP_PART) {
        tell_caller(w, &copy);
    } else {
        tell_master(w, &copy);
    }
}
