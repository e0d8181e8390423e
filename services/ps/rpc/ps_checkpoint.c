/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoint: a pinned version into a file, by a thread that may wait for the disk; and back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/claim.h"
#include "checkpoint/shard_file.h"
#include "os/chrono.h"
#include "os/file.h"
#include "ps/rpc/ps_rows.h"
#include "storage/storage.h"
#include "wire/wire.h"

#define STEP_PREFIX "step-"
#define STEP_DIGITS_MAX 19 /* digits of a number that fits an int64_t */

/* Checks that a message names a checkpoint of its own job, "<job>/step-000000500" below the
 * checkpoint directory: a caller that may speak about one job reads and writes no files of another.
 * @job was checked: it has no slash and does not begin with a dot. */
int ps_check_directory(const char *job, const char *path, struct err *err)
{
    size_t n = strlen(job);
    const char *step = strncmp(path, job, n) == 0 && path[n] == '/' ? path + n + 1 : "";
    bool named = strncmp(step, STEP_PREFIX, sizeof STEP_PREFIX - 1) == 0;
    const char *digits = named ? step + sizeof STEP_PREFIX - 1 : "";
    size_t count = strspn(digits, "0123456789");
    if (count == 0 || count > STEP_DIGITS_MAX || digits[count] != '\0') {
        char shown[96];
        return err_set(err, ERR_INVALID,
                       "directory '%s' is no checkpoint of job %s; expected %s/" STEP_PREFIX
                       "000000500",
                       text_shown(path, shown, sizeof shown), job, job);
    }
    return 0;
}

/* Is the directory of the job, the first part of @directory, @owner's? */
static int check_owner(const struct ps *ps, const char *directory, const char *owner,
                       struct err *err)
{
    if (owner[0] == '\0') {
        return 0;
    }
    char *job = mem_strdup(directory);
    job[strcspn(job, "/")] = '\0';
    int rc = claim_check(ps->checkpoint_dir, job, owner, NULL, err);
    free(job);
    if (rc == ERR_NOT_FOUND) {
        (void)err_wrap(err,
                       "the master and this server (checkpoint directory %s) must see the same "
                       "files",
                       ps->checkpoint_dir);
        rc = err->code = ERR_PERMISSION;
    }
    return rc;
}

void ps_look_for_directory(struct ps_shard *s, const char *owner)
{
    struct err err = {0};
    if (check_owner(s->ps, s->job, owner, &err) != 0) {
        (void)snprintf(s->checkpoint_problem, sizeof s->checkpoint_problem, "%.500s", err.msg);
    }
}

/* ---- back ---- */

int ps_restore(struct ps_shard *s, const char *directory, const char *owner, struct err *err)
{
    int rc = ps_check_directory(s->job, directory, err);
    rc = rc != 0 ? rc : check_owner(s->ps, directory, owner, err);
    if (rc != 0) {
        return err_wrap(err, "restore");
    }
    struct checkpoint *c = NULL;
    char *path = mem_printf("%s/%s", s->ps->checkpoint_dir, directory);
    rc = checkpoint_open(path, CHECKPOINT_PIECES, &c, err);
    if (rc == 0) {
        rc = checkpoint_read_shard(c, &s->plan, s->number, s->spec.update.rule->name, s->update,
                                   s->snapshots.present->values.data, s->slot_data, err);
        rc = rc != 0 ? rc : ps_tables_restore(s, c, err);
        checkpoint_close(c);
    }
    free(path);
    return rc == 0 ? 0 : err_wrap(err, "restore %s", directory);
}

/* ---- into a file ---- */

struct writing {
    struct ps_request *request;
    struct snapshot *snapshot; /* ps_values_acquire() */
    struct buffer *slots;      /* NULL: none */
    struct buffer *gradient;   /* of the last update; NULL: not known, or not wanted */
    struct ledger ledger;
    uint64_t version, generation;
    bool delta; /* that is written */
};

/* Takes the base that the request names, when this shard wrote it. False: everything is written. */
static bool take_base(const struct ps_shard *s, const char *name,
                      const Gradus__V1__CheckpointBase *m, struct shard_file_base *out)
{
    const char *slash = m == NULL ? NULL : strchr(m->directory, '/');
    if (slash == NULL || s->tables == NULL || strcmp(m->file, name) != 0 ||
        strlen(slash + 1) >= sizeof out->directory) {
        return false;
    }
    *out = (struct shard_file_base){.version = m->version, .checksum = m->checksum};
    memcpy(out->directory, slash + 1, strlen(slash + 1) + 1);
    return true;
}

static int write_file(struct writing *w, const char *name, struct safetensors_written *written,
                      struct err *err)
{
    struct ps_shard *s = w->request->shard;
    const Gradus__V1__CheckpointShardRequest *m =
        (const Gradus__V1__CheckpointShardRequest *)w->request->msg->body;
    float *slots[UPDATE_SLOTS_MAX] = {NULL};
    uint64_t at = 0;
    for (size_t i = 0; i < update_slot_count(s->slots_of); i++) {
        slots[i] = w->slots->floats.data + at;
        at += update_slot_floats(s->slots_of, i);
    }
    struct shard_file_state state = {
        .job = s->job,
        .plan = &s->plan,
        .shard = s->number,
        .rule = s->spec.update.rule->name,
        .update = s->slots_of,
        .version = w->version,
        .generation = w->generation,
        .step = w->version,
        .ledger = &w->ledger,
        .values = w->snapshot->values.data,
        .slots = slots,
        .gradient = w->gradient == NULL ? NULL : w->gradient->floats.data,
    };
    char *dir = mem_printf("%s/%s", s->ps->checkpoint_dir, m->directory);
    char *path = file_join(dir, name);
    struct ps_table_file *tables = NULL;
    int rc = check_owner(s->ps, m->directory, m->owner, err);
    rc = rc != 0 ? rc : storage_make_dirs(dir, err);
    struct shard_file_base base;
    const bool has_base = take_base(s, name, m->base_file, &base);
    rc = rc != 0
             ? rc
             : ps_table_file_begin(s, w->version, has_base ? &base.version : NULL, &tables, err);
    state.tables = ps_table_file_source(tables);
    w->delta = ps_table_file_is_delta(tables);
    state.base = w->delta ? &base : NULL;
    rc = rc != 0 ? rc : shard_file_write(path, &state, written, err);
    ps_table_file_end(tables);
    free(path);
    free(dir);
    return rc;
}

/* ---- once ---- */

static int stamp_of(const struct writing *w, const char *name, struct buf *out, struct err *err)
{
    const Gradus__V1__CheckpointShardRequest *m =
        (const Gradus__V1__CheckpointShardRequest *)w->request->msg->body;
    char *path = mem_printf("%s/%s/%s", w->request->shard->ps->checkpoint_dir, m->directory, name);
    int rc = storage_stamp(path, out, err);
    free(path);
    return rc;
}

static const char *base_of(const struct writing *w)
{
    const Gradus__V1__CheckpointShardRequest *m =
        (const Gradus__V1__CheckpointShardRequest *)w->request->msg->body;
    return m->base_file == NULL ? "" : m->base_file->directory;
}

/* True if the file that this shard wrote for the same pin is there. */
static bool is_written(const struct writing *w, const char *name)
{
    const struct ps_shard *s = w->request->shard;
    struct buf stamp = {0};
    struct err ignored;
    bool same = shard_written_is(&s->written, w->request->event.pin_id, base_of(w)) &&
                s->written_stamp.len > 0 && stamp_of(w, name, &stamp, &ignored) == 0 &&
                stamp.len == s->written_stamp.len &&
                memcmp(stamp.data, s->written_stamp.data, stamp.len) == 0;
    buf_release(&stamp);
    return same;
}

static int write_once(struct writing *w, const char *name, struct safetensors_written *written,
                      struct err *err)
{
    struct ps_shard *s = w->request->shard;
    if (is_written(w, name)) {
        *written = (struct safetensors_written){s->written.bytes, s->written.checksum};
        w->delta = s->written.delta;
        return 0;
    }
    int rc = write_file(w, name, written, err);
    if (rc == 0) {
        struct err ignored; /* without a stamp the file is written again */
        const struct shard_written file = {
            .bytes = written->bytes, .checksum = written->checksum, .delta = w->delta};
        shard_written_note(&s->written, w->request->event.pin_id, base_of(w), &file);
        buf_reset(&s->written_stamp);
        (void)stamp_of(w, name, &s->written_stamp, &ignored);
    }
    return rc;
}

static void answer(struct writing *w)
{
    struct ps_shard *s = w->request->shard;
    char name[SHARD_FILE_NAME_BYTES];
    struct safetensors_written written;
    struct err err;
    uint64_t began = chrono_now_ns();
    (void)shard_file_name(s->number, s->plan.shard_count, s->file_generation, name);
    if (write_once(w, name, &written, &err) != 0) {
        if (err.code != ERR_EXHAUSTED && err.code != ERR_PERMISSION) {
            /* of files: another code would speak of the shard, or of the call */
            err.code = ERR_INTERNAL;
        }
        (void)err_wrap(&err, "checkpoint");
        (void)ps_shard_wrap(s, &err);
        (void)rpc_fail(w->request->call, &err);
        return;
    }
    meter_observe(s->ps->meters.checkpoint_seconds, (double)(chrono_now_ns() - began) * 1e-9);
    meter_add(s->ps->meters.checkpoint_bytes, written.bytes);
    Gradus__V1__CheckpointShardResponse m = GRADUS__V1__CHECKPOINT_SHARD_RESPONSE__INIT;
    Gradus__V1__Ledger ledger;
    m.file = name;
    m.bytes = written.bytes;
    m.checksum = written.checksum;
    m.version = w->version;
    m.delta = w->delta;
    wire_ledger_to_proto(&w->ledger, &ledger);
    m.ledger = &ledger;
    (void)rpc_reply(w->request->call, &m.base, NULL);
}

static void free_writing(struct writing *w)
{
    ledger_release(&w->ledger);
    buffer_put(w->slots);
    buffer_put(w->gradient);
    ps_values_release(w->snapshot);
    ps_request_unref(w->request);
    free(w);
}

/* Ends writing: updates may have waited for it. */
static void end_writing(struct ps_shard *s)
{
    work_end(&s->file_work);
    if (atomic_fetch_sub(&s->writing, 1) == 1 && s->tables != NULL) {
        ps_shard_wake(s);
    }
}

static void run_write(void *ctx)
{
    struct writing *w = ctx;
    answer(w);
    end_writing(w->request->shard);
    free_writing(w);
}

void ps_write(struct ps_request *r, const struct shard_action *a)
{
    struct ps_shard *s = r->shard;
    struct writing *w = mem_new(1, sizeof *w);
    r->answered = true; /* the file's thread answers, and returns the reference */
    w->request = r;
    w->snapshot = ps_values_acquire(s, a->version, 1);
    w->slots = a->buffer == NULL ? NULL : buffer_ref(a->buffer);
    w->gradient = ps_last_gradient_of(s, a->version);
    ledger_copy(&w->ledger, a->ledger == NULL ? &s->ledger : a->ledger);
    w->version = a->version;
    w->generation = a->generation;
    struct err err;
    work_begin(&s->file_work, "Checkpoint", 0, "");
    atomic_fetch_add(&s->writing, 1);
    if (pool_post(s->ps->files, run_write, w, &err) != 0) {
        end_writing(s);
        (void)err_wrap(&err, "checkpoint");
        (void)ps_shard_wrap(s, &err);
        (void)rpc_fail(r->call, &err);
        free_writing(w);
    }
}
