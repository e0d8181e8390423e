/* SPDX-License-Identifier: Apache-2.0 */
/* What survives: the master's rows, and the directory of checkpoints that all share.
 *
 * A file appears whole or not at all, as with rename(); its writer learns of it a moment later, and
 * may be dead by then. */
#include "sim/disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "job/spec/job_spec.h"

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
    while (d->saved != NULL) {
        struct sim_saved *file = d->saved;
        d->saved = file->next;
        free(file);
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
#define HOLDS_ONE_OF 16

static uint32_t row_at(const struct world *w, uint64_t place)
{
    for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
        if (w->disk->has_row[i] && w->jobs[i].submit_order == place) {
            return i;
        }
    }
    return SIM_NONE;
}

/* Does this life of the master let no job go on that an earlier one has left, as a local run's
 * does? They wait until somebody resumes them. */
static bool holds(const struct world *w)
{
    return rng_key_mix(w->key, 8000 + w->nodes[0].life) % HOLDS_ONE_OF == 0;
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
            .hold = w->schedule->fair.on && holds(w),
        };
        struct sim_job *j = &w->jobs[job_index(w, record.id)];
        j->steady_step = 0; /* until its shards have answered, the step of the row is shown */
        if (j->shelved && !record.paused) { /* an earlier life did so, and could not store it */
            j->shelved = j->paused = j->pausing = false;
        }
        if (e.restore.hold && !over) { /* it is paused, as if a client had been told so */
            j->shelved = j->shelved || !j->paused;
            j->paused = j->pausing = true;
        }
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

struct directory *directory_find(struct disk *d, const char *name)
{
    for (uint32_t i = 0; i < d->directory_count; i++) {
        if (d->directories[i].there && strcmp(d->directories[i].name, name) == 0) {
            return &d->directories[i];
        }
    }
    return NULL;
}

/* The file of @shard with @opened in its name; NULL: there is none. */
struct part *directory_part(struct directory *dir, uint32_t shard, uint64_t opened)
{
    for (uint32_t i = 0; i < STARTS_MAX; i++) {
        if (dir->parts[shard][i].present && dir->parts[shard][i].opened == opened) {
            return &dir->parts[shard][i];
        }
    }
    return NULL;
}

struct directory *directory_make(struct world *w, const char *name, uint32_t job)
{
    struct disk *d = w->disk;
    struct directory *dir = directory_find(d, name);
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

/* That of @dir, when it is a delta and the base is still the one that it was made for; NULL. */
static struct directory *base_of(struct disk *d, const struct directory *dir)
{
    struct directory *base = dir->base[0] == '\0' ? NULL : directory_find(d, dir->base);
    const bool same = base != NULL && base->manifest &&
                      memcmp(base->checksums, dir->base_checksums, sizeof base->checksums) == 0;
    return same ? base : NULL;
}

static bool is_complete(struct disk *d, const struct directory *dir)
{
    return dir->there && dir->manifest && (dir->base[0] == '\0' || base_of(d, dir) != NULL);
}

static bool is_whole(struct disk *d, const struct directory *dir)
{
    return is_complete(d, dir) && !dir->damaged &&
           (dir->base[0] == '\0' || !base_of(d, dir)->damaged);
}

static bool is_newer(const struct directory *a, const struct directory *b)
{
    return a->generation != b->generation ? a->generation > b->generation : a->step > b->step;
}

/* But those that @op avoids; NULL: none is avoided. */
struct directory *directory_newest(struct disk *d, uint32_t job, const struct op *op)
{
    struct directory *best = NULL;
    for (uint32_t i = 0; i < d->directory_count; i++) {
        struct directory *dir = &d->directories[i];
        bool avoided = false;
        for (uint32_t k = 0; op != NULL && k < op->avoid_count; k++) {
            avoided = avoided || strcmp(op->avoid[k], dir->name) == 0;
        }
        if (is_complete(d, dir) && dir->job == job && !avoided &&
            (best == NULL || is_newer(dir, best))) {
            best = dir;
        }
    }
    return best;
}

/* A job whose checkpoints are all damaged cannot go on: when the last whole one is removed the
 * newest is whole. */
void directory_mend(struct disk *d, uint32_t job)
{
    for (uint32_t i = 0; i < d->directory_count; i++) {
        const struct directory *o = &d->directories[i];
        if (o->job == job && is_whole(d, o)) {
            return;
        }
    }
    struct directory *dir = directory_newest(d, job, NULL);
    struct directory *base = dir == NULL ? NULL : base_of(d, dir);
    if (dir != NULL) {
        dir->damaged = false;
    }
    if (base != NULL) {
        base->damaged = false;
    }
}

/* Is one whole that does not need @dir? */
static bool has_other(struct disk *d, const struct directory *dir)
{
    bool has = false;
    for (uint32_t i = 0; i < d->directory_count; i++) {
        const struct directory *o = &d->directories[i];
        has = has || (o != dir && o->job == dir->job && is_whole(d, o) && base_of(d, o) != dir);
    }
    return has;
}

/* As long as another one is whole. Of a delta it is a bit of the base, if that can be. */
void disk_damage(struct world *w, uint32_t job)
{
    struct directory *dir = directory_newest(w->disk, job, NULL);
    struct directory *base = dir == NULL ? NULL : base_of(w->disk, dir);
    dir = base != NULL && has_other(w->disk, base) ? base : dir;
    if (dir != NULL && has_other(w->disk, dir)) {
        dir->damaged = true;
        TRACE(w, 0, "a bit of %s flips", dir->name);
    }
}

bool disk_is_gone(const struct world *w)
{
    return w->gone_us > w->now_us;
}

int disk_readable(const struct world *w, const char *directory)
{
    const struct directory *dir = directory_find(w->disk, directory);
    const struct directory *base = dir == NULL ? NULL : base_of(w->disk, dir);
    const bool damaged = dir != NULL && (dir->damaged || (base != NULL && base->damaged));
    return disk_is_gone(w) ? ERR_PERMISSION : damaged ? ERR_CORRUPT : 0;
}

bool disk_newest(struct world *w, uint32_t job, char directory[80], uint64_t *step)
{
    const struct directory *dir = directory_newest(w->disk, job, NULL);
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
    struct directory *dir = directory_find(w->disk, directory);
    if (dir == NULL || !is_complete(w->disk, dir)) {
        return false;
    }
    const struct sim_layout *l = &w->jobs[dir->job].layouts[dir->shard_count];
    for (uint32_t s = 0; s < dir->shard_count; s++) {
        const struct part *p = directory_part(dir, s, dir->opened);
        if (p == NULL || p->checksum != dir->checksums[s]) {
            violated(w, INVARIANT_MANIFEST, "%s names a file that is %s: shard %u", directory,
                     p == NULL ? "gone" : "another one", s);
        }
        for (uint32_t i = 0; i < l->shard_elements[s]; i++) {
            values->v[l->map[s][i]] = p->values.v[i];
            slot->v[l->map[s][i]] = p->slot.v[i];
        }
        cut->version = p->version;
        cut->examples = p->examples;
        cut->ids = p->ids;
    }
    return true;
}

struct sim_saved *disk_new_saved(struct disk *d)
{
    struct sim_saved *file = mem_new(1, sizeof *file);
    file->next = d->saved;
    d->saved = file;
    return file;
}

uint32_t disk_tables(struct world *w, const char *directory,
                     struct sim_saved *files[SIM_SHARDS_MAX])
{
    struct directory *dir = directory_find(w->disk, directory);
    for (uint32_t s = 0; s < dir->shard_count; s++) {
        struct directory *base = base_of(w->disk, dir);
        const struct part *p = directory_part(dir, s, dir->opened);
        files[s] = p->tables;
        if (p->delta) {
            w->counts.deltas_read++;
            files[s] = disk_new_saved(w->disk);
            struct sim_saved *next = files[s]->next;
            tables_unite(&w->jobs[dir->job], directory_part(base, s, base->opened)->tables,
                         p->tables, files[s]);
            files[s]->next = next;
        }
    }
    return dir->shard_count;
}

/* Complete ones of the job that were made after @dir. */
static size_t newer_than(struct disk *d, const struct directory *dir)
{
    size_t count = 0;
    for (uint32_t i = 0; i < d->directory_count; i++) {
        const struct directory *o = &d->directories[i];
        count += is_complete(d, o) && o->job == dir->job && is_newer(o, dir);
    }
    return count;
}

struct directory *directory_of_step(struct disk *d, uint32_t job, uint64_t step)
{
    for (uint32_t i = 0; i < d->directory_count; i++) {
        struct directory *dir = &d->directories[i];
        if (is_complete(d, dir) && dir->job == job && dir->step == step) {
            return dir;
        }
    }
    return NULL;
}

/* The newest @keep stay, those that are @named or the @best, and bases of these. */
void directory_prune(struct disk *d, uint32_t job, size_t keep, const char *named, const char *best)
{
    static bool stays[DIRECTORIES_MAX];
    memset(stays, 0, sizeof stays);
    for (uint32_t i = 0; keep > 0 && i < d->directory_count; i++) {
        const struct directory *dir = &d->directories[i];
        if (is_complete(d, dir) && dir->job == job &&
            (strcmp(dir->name, named) == 0 || strcmp(dir->name, best) == 0 ||
             newer_than(d, dir) < keep)) {
            const struct directory *base = base_of(d, dir);
            stays[i] = true;
            stays[base == NULL ? i : (size_t)(base - d->directories)] = true;
        }
    }
    for (uint32_t i = 0; keep > 0 && i < d->directory_count; i++) {
        struct directory *dir = &d->directories[i];
        if (dir->there && dir->manifest && dir->job == job && !stays[i]) {
            dir->there = false;
        }
    }
    directory_mend(d, job);
}
