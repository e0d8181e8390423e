/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker's messages do to a handle: jobs begin and end, batches are shown. */
#include "handle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int handle_answer(struct gradus_worker *w, struct program_message *m, int fd)
{
    if (program_send(w->socket, m, fd, &w->err) != 0) {
        return handle_break_as(w, "answer the worker");
    }
    w->asked = 0;
    return GRADUS_OK;
}

/* The tables and the file of a job, which lie in one memory. */
static int copy_file(struct gradus_worker *w, const char *from)
{
    struct handle_job *job = &w->job;
    const size_t tables = (size_t)job->said.table_count;
    int rc = handle_take_tables(w, (const struct program_table *)(const void *)from);
    memcpy(job->text, from + tables * sizeof(struct program_table), (size_t)job->said.text_bytes);
    return rc;
}

static int take_file(struct gradus_worker *w, int fd)
{
    struct handle_job *job = &w->job;
    const uint64_t text = job->said.text_bytes, tables = job->said.table_count;
    job->text = text < SIZE_MAX / 2 ? malloc((size_t)text + 1) : NULL;
    const bool nothing = text == 0 && tables == 0;
    int rc = GRADUS_OK;
    if (tables > PROGRAM_TABLES_MAX) {
        rc = handle_break(w, GRADUS_ERROR_ABI, "the worker sent a job of %" PRIu64 " tables",
                          tables);
    } else if (job->text == NULL) {
        rc = handle_break(w, GRADUS_ERROR_MEMORY, "no memory for a job of %" PRIu64 " bytes", text);
    } else if (fd < 0 && !nothing) {
        rc = handle_break(w, GRADUS_ERROR_ABI, "a job came without its file");
    }
    if (rc != GRADUS_OK || nothing) {
        if (fd >= 0) {
            (void)close(fd);
        }
        if (job->text != NULL) {
            job->text[0] = '\0';
        }
        return rc;
    }
    job->text[text] = '\0';
    struct program_memory memory;
    const size_t bytes = (size_t)(tables * sizeof(struct program_table) + text);
    if (program_memory_map(fd, bytes, false, &memory, &w->err) != 0) {
        return handle_break_as(w, "the file of a job");
    }
    rc = copy_file(w, memory.bytes);
    program_memory_release(&memory);
    return rc;
}

static int take_job(struct gradus_worker *w, const struct program_message *m, int fd,
                    struct gradus_work *work)
{
    struct handle_job *job = &w->job;
    job->said = m->job;
    int rc = take_file(w, fd);
    if (rc != GRADUS_OK) {
        return rc;
    }
    job->shown = (struct gradus_job){.id = job->said.id,
                                     .program = job->said.program,
                                     .text = job->text,
                                     .seed = job->said.seed,
                                     .batch_records = job->said.batch_records,
                                     .evaluation_records = job->said.evaluation_records,
                                     .tables = job->shown_tables,
                                     .table_count = (size_t)job->said.table_count};
    w->has_job = true;
    w->asked = PROGRAM_JOB;
    w->number = m->number;
    work->kind = GRADUS_WORK_JOB;
    work->job = &job->shown;
    return GRADUS_OK;
}

/* @fd is taken. */
static int take_start(struct gradus_worker *w, const struct program_message *m, int fd)
{
    struct handle_job *job = &w->job;
    job->start = m->start;
    int rc = handle_take_fields(w, fd);
    if (rc != GRADUS_OK) {
        return rc;
    }
    if (job->variables == NULL || m->start.feature_rank > PROGRAM_RANK_MAX) {
        return handle_break(w, GRADUS_ERROR_ABI,
                            job->variables == NULL ? "a job starts that was not described"
                                                   : "records of more than 4 dimensions");
    }
    uint64_t count = 1;
    for (uint32_t i = 0; i < m->start.feature_rank; i++) {
        if (__builtin_mul_overflow(count, m->start.feature_dims[i], &count) || count > UINT32_MAX) {
            return handle_break(w, GRADUS_ERROR_ABI, "records of more than 2^32 features");
        }
    }
    job->started = true;
    job->feature_count = count;
    struct program_message done;
    program_message_init(&done, PROGRAM_DONE, m->number);
    return handle_answer(w, &done, -1);
}

static bool set_records(struct gradus_worker *w, const struct program_work *in,
                        struct gradus_work *out)
{
    const struct handle_job *job = &w->job;
    const struct handle_array *batch = handle_array(w, in->batch, 0, false, "a batch");
    if (batch == NULL) {
        return false;
    }
    out->count = (size_t)in->count;
    out->records = handle_part(w, batch, in->records_at, in->count, sizeof(uint64_t),
                               _Alignof(uint64_t), "records");
    if (out->records == NULL || job->start.has_data == 0) {
        return out->records != NULL;
    }
    if (handle_show_fields(w, in, batch, out) != GRADUS_OK) {
        return false;
    }
    out->feature_dims = job->start.feature_dims;
    out->feature_rank = job->start.feature_rank;
    out->feature_count = job->feature_count;
    out->features = handle_part(w, batch, in->features_at, in->count,
                                job->feature_count * sizeof(float), sizeof(float), "features");
    out->targets =
        handle_part(w, batch, in->targets_at, in->count, sizeof(float), sizeof(float), "targets");
    if (job->start.has_classes != 0) {
        out->classes = handle_part(w, batch, in->classes_at, in->count, sizeof(int32_t),
                                   sizeof(int32_t), "classes");
    }
    return out->features != NULL && out->targets != NULL &&
           (job->start.has_classes == 0 || out->classes != NULL);
}

/* Sets the kind of work, and returns how many records it may have at most. */
static uint32_t set_kind(const struct handle_job *job, const struct program_message *m,
                         struct gradus_work *work)
{
    const bool keys = m->kind == PROGRAM_KEYS;
    const bool gradient = (keys ? m->work.of : m->kind) == PROGRAM_GRADIENT;
    const int kind = gradient ? GRADUS_WORK_GRADIENT : GRADUS_WORK_EVALUATION;
    work->kind = keys ? GRADUS_WORK_KEYS : kind;
    work->of = keys ? kind : 0;
    return gradient ? job->said.batch_records : job->said.evaluation_records;
}

static int set_parameters(struct gradus_worker *w, const struct program_work *in,
                          struct gradus_work *work)
{
    const bool gradient = work->kind == GRADUS_WORK_GRADIENT;
    work->parameters =
        (const float *const *)handle_variables(w, in->parameters, false, "parameters");
    if (work->parameters == NULL) {
        return w->broken;
    }
    if (gradient) {
        work->gradients = handle_variables(w, in->gradients, true, "gradients");
        if (work->gradients == NULL) {
            return w->broken;
        }
    }
    return w->job.said.table_count == 0 ? GRADUS_OK : handle_show_rows(w, in, gradient, work);
}

static int show_work(struct gradus_worker *w, const struct program_message *m,
                     struct gradus_work *work)
{
    const struct program_work *in = &m->work;
    const uint32_t most = set_kind(&w->job, m, work);
    if (in->count > most) {
        return handle_break(w, GRADUS_ERROR_ABI,
                            "the worker sent %" PRIu64
                            " records at once; it had said at most %" PRIu32,
                            in->count, most);
    }
    work->epoch = in->epoch;
    work->step = in->step;
    work->replica = in->replica;
    work->seed = in->seed;
    int rc = work->kind == GRADUS_WORK_KEYS ? GRADUS_OK : set_parameters(w, in, work);
    return rc != GRADUS_OK || set_records(w, in, work) ? rc : w->broken;
}

/* The gradients of a batch without records. */
static int clear_gradients(struct gradus_worker *w, const struct program_work *work)
{
    float **gradients = handle_variables(w, work->gradients, true, "gradients");
    if (gradients == NULL) {
        return w->broken;
    }
    memset(gradients[0], 0, (size_t)w->job.floats * sizeof(float));
    return GRADUS_OK;
}

static int take_work(struct gradus_worker *w, const struct program_message *m,
                     struct gradus_work *work, bool *shown)
{
    if (!w->job.started) {
        return handle_break(w, GRADUS_ERROR_ABI, "a batch came before the start of its job");
    }
    if (m->work.count == 0) { /* an empty batch: the gradient is zero, and nobody else writes it */
        int rc = m->kind == PROGRAM_KEYS ? handle_break(w, GRADUS_ERROR_ABI, "keys of no records")
                 : m->kind == PROGRAM_GRADIENT ? clear_gradients(w, &m->work)
                                               : GRADUS_OK;
        if (rc != GRADUS_OK) {
            return rc;
        }
        struct program_message done;
        program_message_init(&done, PROGRAM_DONE, m->number);
        return handle_answer(w, &done, -1);
    }
    int rc = show_work(w, m, work);
    if (rc != GRADUS_OK) {
        return rc;
    }
    w->asked = m->kind;
    w->number = m->number;
    work->job = &w->job.shown;
    *shown = true;
    return GRADUS_OK;
}

static void end_job(struct gradus_worker *w, struct gradus_work *work, bool *shown)
{
    *shown = w->has_job;
    if (w->has_job) {
        handle_job_release(&w->job);
        w->has_job = false;
        work->kind = GRADUS_WORK_JOB_END;
    }
}

int handle_take(struct gradus_worker *w, const struct program_message *m, int fd,
                struct gradus_work *work, bool *shown)
{
    if (m->kind == PROGRAM_JOB) {
        if (w->has_job) { /* the job before ends first */
            w->kept = *m;
            w->kept_fd = fd;
            w->has_kept = true;
            end_job(w, work, shown);
            return GRADUS_OK;
        }
        *shown = true;
        return take_job(w, m, fd, work);
    }
    if (m->kind == PROGRAM_ARRAY && w->has_job) {
        return handle_array_set(w, &m->array, fd);
    }
    if (m->kind == PROGRAM_START) {
        return take_start(w, m, fd);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    switch (m->kind) {
    case PROGRAM_JOB_END:
        end_job(w, work, shown);
        return GRADUS_OK;
    case PROGRAM_KEYS:
    case PROGRAM_GRADIENT:
    case PROGRAM_EVALUATION:
        return take_work(w, m, work, shown);
    default:
        return handle_break(
            w, GRADUS_ERROR_ABI, "the worker sent message %d, which is %s", (int)m->kind,
            m->kind == PROGRAM_ARRAY ? "of a job, between jobs" : "what programs send");
    }
}
