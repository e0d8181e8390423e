/* SPDX-License-Identifier: Apache-2.0 */
/* What is done on the disk, each of which takes its time: directories are prepared, files and
 * manifests written, checkpoints looked for and removed. */
#include "sim/disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

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
    for (uint64_t i = 1; w->disk->ops[index].part.tables != NULL && i < READS; i++) {
        world_at(w, us - (us - w->now_us) * i / READS, EVENT_FILE, node, index, 1);
    }
    world_at(w, us, EVENT_FILE, node, index, 0); /* the last one: @index is free after it */
}

/* ---- rows of tables, which are asked for while the file is written ---- */

static struct sim_shard *shard_of(struct world *w, const struct op *op)
{
    for (uint32_t i = 0; i < SIM_SHARDS_OF_PS; i++) {
        struct sim_shard *s = w->nodes[op->node].shards[i];
        if (s != NULL && s->serial == op->serial) {
            return s;
        }
    }
    return NULL;
}

/* @n 0: all that are left. */
static void read_rows(struct world *w, struct op *op, size_t n)
{
    const struct sim_shard *s = shard_of(w, op);
    struct err err = {0};
    if (op->code != 0 || op->part.tables == NULL) {
        return;
    }
    if (s == NULL) {
        op->code = ERR_ABORTED;
        snprintf(op->why, sizeof op->why, "the shard is closed");
    } else if (tables_save(w, s, op->part.tables, n, &err) != 0) {
        if (tables_has(s, op->part.version) && !w->jobs[op->job].table_plans[1].tight) {
            violated(w, INVARIANT_READ, "rows of a pinned version: %s", err.msg);
        }
        op->code = err.code;
        snprintf(op->why, sizeof op->why, "%.110s", err.msg);
    }
}

/* The tables of the shard, and what must be in the file. */
static void begin_rows(struct world *w, struct sim_shard *s, struct part *p, uint64_t since)
{
    p->tables = disk_new_saved(w->disk);
    p->tables->version = p->version;
    p->delta = p->delta && tables_save_since(w, s, p->tables, since);
    for (uint32_t i = 0; i < SIM_SNAPSHOTS_MAX; i++) {
        if (s->snapshots[i].refs > 0 && s->snapshots[i].version == p->version) {
            p->tables->expected = s->tables->models[i];
        }
    }
    s->tables->writing++;
}

static void end_rows(struct world *w, const struct op *op)
{
    struct sim_shard *s = op->part.tables == NULL ? NULL : shard_of(w, op);
    if (s == NULL) {
        return;
    }
    s->tables->writing--;
    if (s->open && shard_wants_snapshot(s->core)) {
        struct shard_event more = {.kind = SHARD_SNAPSHOT, .generation = s->opened};
        shard_take(w, s, &more);
    }
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
    op->best = m->best;
    snprintf(op->encoding, sizeof op->encoding, "%s", m->encoding == NULL ? "" : m->encoding);
    op->examples = m->examples;
    op->shard_count = m->plan->shard_count;
    snprintf(op->name, sizeof op->name, "%s", m->directory);
    snprintf(op->base, sizeof op->base, "%s", m->base == NULL ? "" : m->base);
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
    if (p->job->best_checkpoint[0] != '\0') {
        snprintf(op->best_name, sizeof op->best_name, "%s",
                 p->job->best_checkpoint + sizeof "/c/" - 1);
    }
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
    p->delta =
        u->req.base.directory[0] != '\0' && u->req.base.opened == s->opened &&
        /* Now and then it does not know any more; a request that comes twice makes one file. */
        world_draw(w, "delta", a->version << 8 | s->number, 100) > 10;
    p->base_checksum = u->req.base.checksum;
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
    op->serial = s->serial;
    if (s->tables != NULL) {
        begin_rows(w, s, p, u->req.base.version);
        sum = rng_key_mix(sum, w->table_draws++); /* in the order of a walk: never twice the same */
    }
    sum = rng_key_mix(sum, p->delta ? p->base_checksum : 0); /* a delta is another file */
    p->checksum = rng_key_mix(sum, s->number);
    begin(w, s->node, index);
}

/* ---- what they do in the end ---- */

static void check_manifest(struct world *w, struct directory *dir, const struct op *op)
{
    const struct part *first = directory_part(dir, 0, op->opened[0]);
    struct sim_job *j = &w->jobs[op->job];
    for (uint32_t s = 0; s < op->shard_count; s++) {
        const struct part *p = directory_part(dir, s, op->opened[s]);
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
    struct directory *dir = directory_make(w, op->name, job_index(w, id));
    memset(dir->parts, 0, sizeof dir->parts);
    dir->manifest = false;
    dir->damaged = false;
    directory_mend(w->disk, dir->job);
}

static void finish_discard(struct world *w, struct op *op)
{
    struct directory *dir = directory_find(w->disk, op->name);
    if (dir != NULL) {
        dir->there = false;
        directory_mend(w->disk, dir->job);
    }
}

/* Can nothing be written (or removed) at the moment? */
static bool refused(struct world *w, struct op *op)
{
    if (disk_is_gone(w)) {
        op->code = op->kind == OP_PART ? ERR_PERMISSION : ERR_UNAVAILABLE;
        snprintf(op->why, sizeof op->why, "the disk is not there");
    } else if (w->full_us > w->now_us && (op->kind == OP_PART || op->kind == OP_MANIFEST)) {
        op->code = ERR_EXHAUSTED;
        snprintf(op->why, sizeof op->why, "the disk is full");
    }
    return op->code != 0;
}

/* What is a delta is one of the base that the manifest names, which has everything. */
static void check_base(struct world *w, struct directory *dir, const struct op *op)
{
    struct directory *base = directory_find(w->disk, op->base);
    dir->base[0] = '\0';
    for (uint32_t s = 0; s < op->shard_count; s++) {
        const struct part *p = directory_part(dir, s, op->opened[s]);
        if (!p->delta) {
            continue;
        }
        if (base == NULL || !base->manifest || base->job != op->job) {
            violated(w, INVARIANT_MANIFEST, "%s is a delta of '%s', which is gone", op->name,
                     op->base);
        }
        if (base->base[0] != '\0') {
            violated(w, INVARIANT_MANIFEST, "%s is a delta of %s, which is one itself", op->name,
                     op->base);
        }
        if (p->base_checksum != base->checksums[s]) {
            violated(w, INVARIANT_MANIFEST,
                     "%s: shard %u is a delta of another file than that in %s", op->name, s,
                     op->base);
        }
        memcpy(dir->base, op->base, sizeof dir->base);
        memcpy(dir->base_checksums, base->checksums, sizeof base->checksums);
    }
}

static void finish_manifest(struct world *w, struct op *op)
{
    struct directory *dir = directory_find(w->disk, op->name);
    for (uint32_t s = 0; dir != NULL && s < op->shard_count; s++) {
        const struct part *p = directory_part(dir, s, op->opened[s]);
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
    check_base(w, dir, op);
    dir->manifest = true;
    dir->generation = op->generation;
    dir->step = op->step;
    dir->shard_count = op->shard_count;
    dir->version = op->versions[0];
    dir->examples = op->examples;
    dir->ledger = op->ledger;
    dir->best = op->best;
    memcpy(dir->encoding, op->encoding, sizeof dir->encoding);
    dir->opened = op->opened[0];
    memcpy(dir->checksums, op->checksums, sizeof dir->checksums);
    if (w->jobs[op->job].tables) {
        struct sim_saved *files[SIM_SHARDS_MAX];
        tables_check_files(w, op->job, files, disk_tables(w, op->name, files));
    }
    w->counts.checkpoints++;
}

static void finish_part(struct world *w, struct op *op)
{
    struct directory *dir = directory_find(w->disk, op->name);
    if (dir == NULL) { /* it was removed meanwhile: the file brings it back */
        dir = directory_make(w, op->name, op->job);
    }
    struct part *p = directory_part(dir, op->shard, op->part.opened);
    for (uint32_t i = 0; p == NULL && i < STARTS_MAX; i++) {
        p = dir->parts[op->shard][i].present ? NULL : &dir->parts[op->shard][i];
    }
    if (p == NULL) {
        violated(w, INVARIANT_ORDER, "files of more than %d starts in one directory", STARTS_MAX);
    }
    struct sim_shard *shard = shard_of(w, op);
    const char *pin_id = w->unaries[op->unary].req.pin_id;
    const char *base = w->unaries[op->unary].req.base.directory;
    if (shard != NULL && p->present && shard_written_is(&shard->written, pin_id, base) &&
        p->checksum == shard->written.checksum) {
        if (p->delta && base[0] == '\0') {
            violated(w, INVARIANT_MANIFEST, "shard %u of %s is a delta, and was asked for whole",
                     op->shard, op->name);
        }
        op->part = *p;
        TRACE(w, op->node, "has shard %u of %s already", op->shard, op->name);
        return;
    }
    *p = op->part;
    if (shard != NULL) {
        const struct shard_written file = {.checksum = p->checksum, .delta = p->delta};
        shard_written_note(&shard->written, pin_id, base, &file);
    }
    TRACE(w, op->node, "has written shard %u of %s: version %llu", op->shard, op->name,
          (unsigned long long)op->part.version);
}

static void tell_master(struct world *w, const struct op *op)
{
    struct err err = {0};
    struct master_event e = {.kind = MASTER_PREPARE_DONE};
    char best_path[96];
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
        e.prepare = (struct master_files_done){.number = op->number, .err = why};
        break;
    case OP_MANIFEST:
        snprintf(path, sizeof path, "/c/%s", op->name);
        e.kind = MASTER_MANIFEST_DONE;
        e.manifest = (struct master_files_done){op->number, why, path};
        break;
    default:
        e.kind = MASTER_FOUND;
        e.found = (struct master_found){.number = op->number, .skipped = ""};
        dir = directory_newest(w->disk, op->job, op);
        if (disk_is_gone(w)) { /* nobody knows, or there is nothing where it was */
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
            e.found.encoding = dir->encoding;
            e.found.directory = dir->name;
            e.found.path = path;
            e.found.step = dir->step;
            e.found.version = dir->version;
            e.found.ledger = &ledger;
            e.found.best = &dir->best;
            if (dir->best.kept &&
                directory_of_step(w->disk, op->job, dir->best.kept_step) != NULL) {
                snprintf(best_path, sizeof best_path, "/c/%s",
                         directory_of_step(w->disk, op->job, dir->best.kept_step)->name);
                e.found.best_path = best_path;
            }
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
    r->delta = op->part.delta;
    r->version = op->part.version;
    r->examples = op->part.examples;
    r->ledger = op->part.ledger;
    unary_answer(w, op->unary, op->attempt);
}

void on_file(struct world *w, const struct event *e)
{
    struct op *op = &w->disk->ops[e->arg];
    struct sim_node *n = &w->nodes[op->node];
    bool reads = e->more == 1;
    if (!n->up || n->life != op->life) {
        op->used = reads; /* killed before the file was there, or before it could say so */
        return;
    }
    if (reads) {
        read_rows(w, op, 1 + (size_t)world_draw(w, "rows at once", w->table_draws++, 9));
        return;
    }
    if (!op->done) {
        op->done = true;
        read_rows(w, op, 0);
        if (op->code != 0) {
            TRACE(w, op->node, "cannot write %s: %s", op->name, op->why);
        } else if (op->kind != OP_FIND && refused(w, op)) {
            TRACE(w, op->node, "cannot write %s: %s", op->name, op->why);
        } else if (op->kind == OP_PREPARE) {
            finish_prepare(w, op);
        } else if (op->kind == OP_DISCARD) {
            finish_discard(w, op);
        } else if (op->kind == OP_PRUNE) {
            directory_prune(w->disk, op->job, op->keep, op->name, op->best_name);
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
    end_rows(w, &copy);
    if (!n->up || n->life != copy.life) {
        return;
    }
    if (copy.kind == OP_PART) {
        tell_caller(w, &copy);
    } else if (copy.kind != OP_PRUNE) {
        tell_master(w, &copy);
    }
}
