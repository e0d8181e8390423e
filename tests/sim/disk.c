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
#include "job/spec/job_spec.h"

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
    bool damaged; /* a bit of it is not what was written */
    /* A file's name has the generation that its shard was opened with. */
    struct part parts[SIM_SHARDS_MAX][STARTS_MAX];
    /* of the manifest */
    uint64_t generation, step, version, examples, opened, checksums[SIM_SHARDS_MAX];
    struct flat_ledger ledger;
};

enum op_kind { OP_PREPARE, OP_DISCARD, OP_MANIFEST, OP_PRUNE, OP_FIND, OP_PART };
#define AVOID_NAMES_MAX 8

struct op { /* that is going on */
    enum op_kind kind;
    bool used, done; /* done: only its owner does not know yet */
    uint32_t node, life, job, shard, unary, attempt;
    uint64_t number, generation, step, examples, version;
    size_t keep;
    char name[80]; /* PRUNE: of the checkpoint that the job's row has */
    char avoid[AVOID_NAMES_MAX][80];
    uint32_t avoid_count;
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

bool disk_store(struct world *w, const struct job_record *r)
{
    struct disk *d = w->disk;
    uint32_t job = job_index(w, r->id);
    if (w->rows_full_us > w->now_us) {
        return false;
    }
    if (d->has_row[job]) {
        if (r->generation < d->rows[job].generation) {
            violated(w, INVARIANT_STORED, "the generation of %s falls from %llu to %llu", r->id,
                     (unsigned long long)d->rows[job].generation,
                     (unsigned long long)r->generation);
        }
        job_record_release(&d->rows[job]);
    }
    job_record_copy(&d->rows[job], r);
    d->has_row[job] = true;
    if (!w->jobs[job].known) {
        w->jobs[job].submit_order = ++w->submits;
    }
    w->jobs[job].known = true;
    return true;
}

const struct job_record *disk_row(const struct world *w, uint32_t job)
{
    return w->disk->has_row[job] ? &w->disk->rows[job] : NULL;
}

/* The row that came as the @place-th; SIM_NONE: it is none of these. */
static uint32_t row_at(const struct world *w, uint64_t place)
{
    for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
        if (w->disk->has_row[i] && w->jobs[i].submit_order == place) {
            return i;
        }
    }
    return SIM_NONE;
}

void disk_restore(struct world *w)
{
    struct disk *d = w->disk;
    for (uint64_t place = 1; place <= w->submits && w->master != NULL; place++) {
        uint32_t i = row_at(w, place);
        if (i == SIM_NONE) {
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
        const struct job_record *seen =
            w->master == NULL ? NULL : master_job(w->master, d->rows[i].id, node_ms(w, 0));
        if (seen != NULL) {
            check_record(w, seen); /* who asks is told */
        }
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

static bool is_newer(const struct directory *a, const struct directory *b)
{
    return a->generation != b->generation ? a->generation > b->generation : a->step > b->step;
}

/* But those that @op avoids; NULL: none is avoided. */
static struct directory *newest(struct disk *d, uint32_t job, const struct op *op)
{
    struct directory *best = NULL;
    for (uint32_t i = 0; i < d->directory_count; i++) {
        struct directory *dir = &d->directories[i];
        bool avoided = false;
        for (uint32_t k = 0; op != NULL && k < op->avoid_count; k++) {
            avoided = avoided || strcmp(op->avoid[k], dir->name) == 0;
        }
        if (dir->there && dir->manifest && dir->job == job && !avoided &&
            (best == NULL || is_newer(dir, best))) {
            best = dir;
        }
    }
    return best;
}

/* A job whose checkpoints are all damaged cannot go on: when the last whole one is removed the
 * newest is whole. */
static void mend(struct disk *d, uint32_t job)
{
    for (uint32_t i = 0; i < d->directory_count; i++) {
        const struct directory *o = &d->directories[i];
        if (o->there && o->manifest && o->job == job && !o->damaged) {
            return;
        }
    }
    struct directory *dir = newest(d, job, NULL);
    if (dir != NULL) {
        dir->damaged = false;
    }
}

/* As long as an older one is whole. */
void disk_damage(struct world *w, uint32_t job)
{
    struct directory *dir = newest(w->disk, job, NULL);
    bool older = false;
    for (uint32_t i = 0; i < w->disk->directory_count; i++) {
        const struct directory *o = &w->disk->directories[i];
        older = older || (o != dir && o->there && o->manifest && o->job == job && !o->damaged);
    }
    if (dir != NULL && older) {
        dir->damaged = true;
        TRACE(w, 0, "a bit of %s flips", dir->name);
    }
}

static bool is_gone(const struct world *w)
{
    return w->gone_us > w->now_us;
}

int disk_readable(const struct world *w, const char *directory)
{
    const struct directory *dir = find(w->disk, directory);
    return is_gone(w) ? ERR_PERMISSION : dir != NULL && dir->damaged ? ERR_CORRUPT : 0;
}

bool disk_newest(struct world *w, uint32_t job, char directory[80], uint64_t *step)
{
    const struct directory *dir = newest(w->disk, job, NULL);
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

/* Complete ones of the job that were made after @dir. */
static size_t newer_than(const struct disk *d, const struct directory *dir)
{
    size_t count = 0;
    for (uint32_t i = 0; i < d->directory_count; i++) {
        const struct directory *o = &d->directories[i];
        count += o->there && o->manifest && o->job == dir->job && is_newer(o, dir);
    }
    return count;
}

/* The newest @keep stay, and the one that is @named. */
static void prune(struct disk *d, uint32_t job, size_t keep, const char *named)
{
    for (uint32_t i = 0; keep > 0 && i < d->directory_count; i++) {
        struct directory *dir = &d->directories[i];
        if (dir->there && dir->manifest && dir->job == job && strcmp(dir->name, named) != 0 &&
            newer_than(d, dir) >= keep) {
            dir->there = false;
        }
    }
    mend(d, job);
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
    n->file_us = n->file_free_us > w->now_us ? n->file_us : w->now_us;
    n->file_job = w->disk->ops[index].job;
    n->file_free_us = us;
    world_at(w, us, EVENT_FILE, node, index, 0);
}

void disk_prepare(struct world *w, const struct master_prepare *p)
{
    uint32_t index;
    struct op *op = op_new(w, p->discard ? OP_DISCARD : OP_PREPARE, 0, &index);
    op->number = p->number;
    snprintf(op->name, sizeof op->name, "%s", p->directory);
    TRACE(w, 0, "%s %s", p->discard ? "removes" : "prepares", p->directory);
    begin(w, 0, index);
}

void disk_manifest(struct world *w, const struct master_manifest *m)
{
    uint32_t index;
    struct op *op = op_new(w, OP_MANIFEST, 0, &index);
    op->number = m->number;
    op->job = job_index(w, m->job->id);
    op->generation = m->generation;
    op->step = m->step;
    op->examples = m->examples;
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
    op->job = job_index(w, f->job->id);
    for (size_t i = 0; i < f->avoid_count && i < AVOID_NAMES_MAX; i++) {
        snprintf(op->avoid[op->avoid_count++], sizeof op->avoid[0], "%s", f->avoid[i]);
    }
    begin(w, 0, index);
}

void disk_prune(struct world *w, const struct master_prune *p)
{
    uint32_t index;
    struct op *op = op_new(w, OP_PRUNE, 0, &index);
    op->job = job_index(w, p->job->id);
    op->keep = p->release ? 0 : p->keep;
    snprintf(op->name, sizeof op->name, "%s",
             p->job->checkpoint[0] == '\0' ? "" : p->job->checkpoint + sizeof "/c/" - 1);
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
    dir->damaged = false;
    mend(w->disk, dir->job);
}

static void finish_discard(struct world *w, struct op *op)
{
    struct directory *dir = find(w->disk, op->name);
    if (dir != NULL) {
        dir->there = false;
        mend(w->disk, dir->job);
    }
}

/* Can nothing be written (or removed) at the moment? */
static bool refused(struct world *w, struct op *op)
{
    if (is_gone(w)) {
        op->code = op->kind == OP_PART ? ERR_PERMISSION : ERR_UNAVAILABLE;
        snprintf(op->why, sizeof op->why, "the disk is not there");
    } else if (w->full_us > w->now_us && (op->kind == OP_PART || op->kind == OP_MANIFEST)) {
        op->code = ERR_EXHAUSTED;
        snprintf(op->why, sizeof op->why, "the disk is full");
    }
    return op->code != 0;
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
    dir->generation = op->generation;
    dir->step = op->step;
    dir->version = op->versions[0];
    dir->examples = op->examples;
    dir->ledger = op->ledger;
    dir->opened = op->opened[0];
    memcpy(dir->checksums, op->checksums, sizeof dir->checksums);
    w->counts.checkpoints++;
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
    case OP_DISCARD:
        e.prepare = (struct master_prepare_done){op->number, why};
        break;
    case OP_MANIFEST:
        snprintf(path, sizeof path, "/c/%s", op->name);
        e.kind = MASTER_MANIFEST_DONE;
        e.manifest = (struct master_manifest_done){op->number, why, path};
        break;
    default:
        e.kind = MASTER_FOUND;
        e.found = (struct master_found){.number = op->number, .skipped = ""};
        dir = newest(w->disk, op->job, op);
        if (is_gone(w)) { /* nobody knows, or there is nothing where it was */
            err_set(&err, ERR_UNAVAILABLE, "the disk is not there");
            e.found.err = w->gone_silently ? NULL : &err;
            e.found.skipped = "there is no such directory";
        } else if (dir != NULL) {
            e.found.skipped = op->avoid_count > 0 ? "one is damaged" : "";
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
    if (op->code != 0) {
        unary_refuse(w, op->unary, op->attempt, op->code, op->why);
        return;
    }
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
        if (op->kind != OP_FIND && refused(w, op)) {
            TRACE(w, op->node, "cannot write %s: %s", op->name, op->why);
        } else if (op->kind == OP_PREPARE) {
            finish_prepare(w, op);
        } else if (op->kind == OP_DISCARD) {
            finish_discard(w, op);
        } else if (op->kind == OP_PRUNE) {
            prune(w->disk, op->job, op->keep, op->name);
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
    } else if (copy.kind != OP_PRUNE) {
        tell_master(w, &copy);
    }
}
