/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the worker lends. */
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

float **handle_variables(struct gradus_worker *w, uint32_t number, bool writable, const char *what)
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
