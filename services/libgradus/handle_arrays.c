/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the worker lends, and where in it things of a batch are. */
#include "handle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void release_array(struct handle_array *a)
{
    program_memory_release(&a->memory);
    free(a->variables);
    a->variables = NULL;
    a->writable = false;
}

void handle_job_release(struct handle_job *job)
{
    for (size_t i = 0; i < PROGRAM_ARRAYS_MAX; i++) {
        release_array(&job->arrays[i]);
    }
    free(job->text);
    free(job->variables);
    free(job->offsets);
    free(job->field_names);
    free(job->fields);
    free(job->tables);
    free(job->shown_tables);
    free(job->described);
    free(job->rows);
    program_memory_release(&job->keys);
    memset(job, 0, sizeof *job);
}

int handle_array_set(struct gradus_worker *w, const struct program_array *array, int fd)
{
    if (fd < 0 || array->array >= PROGRAM_ARRAYS_MAX) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return handle_break(w, GRADUS_ERROR_ABI, "the worker said array %" PRIu32 " %s",
                            array->array,
                            fd < 0 ? "without its memory" : "of an interface that knows fewer");
    }
    struct handle_array *a = &w->job.arrays[array->array];
    release_array(a);
    /* Mapped for reading: a program that writes parameters by mistake gets a fault. */
    if (program_memory_map(fd, array->bytes, false, &a->memory, &w->err) != 0) {
        return handle_break_as(w, "memory of the worker's");
    }
    return GRADUS_OK;
}

struct handle_array *handle_array(struct gradus_worker *w, uint32_t number, uint64_t bytes,
                                  bool writable, const char *what)
{
    struct handle_array *a = number < PROGRAM_ARRAYS_MAX ? &w->job.arrays[number] : NULL;
    if (a == NULL || a->memory.bytes == NULL || a->memory.size < bytes) {
        (void)handle_break(
            w, GRADUS_ERROR_ABI,
            "the worker named array %" PRIu32 " for %s, of %" PRIu64 " bytes: it is %s", number,
            what, bytes, a == NULL || a->memory.bytes == NULL ? "not there" : "shorter");
        return NULL;
    }
    if (writable && !a->writable) {
        if (mprotect(a->memory.bytes, a->memory.size, PROT_READ | PROT_WRITE) != 0) {
            (void)handle_break(w, GRADUS_ERROR_ABI, "array %" PRIu32 " for %s may not be written",
                               number, what);
            return NULL;
        }
        a->writable = true;
    }
    return a;
}

/* An array of all variables, and where each of them is. NULL: w->err. */
static float **variables_of(struct gradus_worker *w, uint32_t number, bool writable,
                            const char *what)
{
    struct handle_job *job = &w->job;
    struct handle_array *a = handle_array(w, number, job->floats * sizeof(float), writable, what);
    if (a == NULL) {
        return NULL;
    }
    if (a->variables == NULL) {
        a->variables = malloc(job->variable_count * sizeof a->variables[0]);
        if (a->variables == NULL) {
            (void)handle_break(w, GRADUS_ERROR_MEMORY, "no memory for %zu addresses",
                               job->variable_count);
            return NULL;
        }
        for (size_t i = 0; i < job->variable_count; i++) {
            a->variables[i] = (float *)a->memory.bytes + job->offsets[i];
        }
    }
    return a->variables;
}

const void *handle_part(struct gradus_worker *w, const struct handle_array *array, uint64_t at,
                        uint64_t count, uint64_t size, size_t align, const char *what)
{
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes) || at > array->memory.size ||
        bytes > array->memory.size - at || at % align != 0) {
        (void)handle_break(w, GRADUS_ERROR_ABI,
                           "the %s of a batch (%" PRIu64 " of %" PRIu64 " bytes, at %" PRIu64
                           ") do not lie in its memory of %zu bytes",
                           what, count, size, at, array->memory.size);
        return NULL;
    }
    return (const char *)array->memory.bytes + at;
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
    work->parameters = (const float *const *)variables_of(w, in->parameters, false, "parameters");
    if (work->parameters == NULL) {
        return w->broken;
    }
    if (gradient) {
        work->gradients = variables_of(w, in->gradients, true, "gradients");
        if (work->gradients == NULL) {
            return w->broken;
        }
    }
    return w->job.said.table_count == 0 ? GRADUS_OK : handle_show_rows(w, in, gradient, work);
}

int handle_work(struct gradus_worker *w, const struct program_message *m, struct gradus_work *work)
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

int handle_clear_gradients(struct gradus_worker *w, const struct program_work *work)
{
    float **gradients = variables_of(w, work->gradients, true, "gradients");
    if (gradients == NULL) {
        return w->broken;
    }
    memset(gradients[0], 0, (size_t)w->job.floats * sizeof(float));
    return GRADUS_OK;
}
