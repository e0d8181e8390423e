/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps arrays between two starts of a job. */
#include "worker/job/worker_arrays.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct worker_arrays {
    pthread_mutex_t mutex; /* guards what follows */
    char *id;              /* of the job; NULL: none */
    struct {
        float *array;
        size_t floats;
    } kept[WORKER_ARRAYS_MAX];
    size_t count;
};

struct worker_arrays *worker_arrays_new(void)
{
    struct worker_arrays *a = mem_new(1, sizeof *a);
    pthread_mutex_init(&a->mutex, NULL);
    return a;
}

/* Under the mutex. */
static void clear(struct worker_arrays *a)
{
    while (a->count > 0) {
        free(a->kept[--a->count].array);
    }
}

void worker_arrays_free(struct worker_arrays *a)
{
    if (a != NULL) {
        clear(a);
        pthread_mutex_destroy(&a->mutex);
        free(a->id);
        free(a);
    }
}

void worker_arrays_of(struct worker_arrays *a, const char *id)
{
    pthread_mutex_lock(&a->mutex);
    if (a->id == NULL || strcmp(a->id, id) != 0) {
        clear(a);
        free(a->id);
        a->id = mem_strdup(id);
    }
    pthread_mutex_unlock(&a->mutex);
}

void worker_arrays_clear(struct worker_arrays *a)
{
    pthread_mutex_lock(&a->mutex);
    clear(a);
    pthread_mutex_unlock(&a->mutex);
}

float *worker_arrays_take(struct worker_arrays *a, size_t floats, const char *what, struct err *err)
{
    float *found = NULL;
    pthread_mutex_lock(&a->mutex);
    for (size_t i = 0; i < a->count && found == NULL; i++) {
        if (a->kept[i].floats == floats) {
            found = a->kept[i].array;
            a->kept[i] = a->kept[--a->count];
        }
    }
    if (found == NULL) {
        clear(a); /* the job is another one than it was: there is to be room for it */
    }
    pthread_mutex_unlock(&a->mutex);
    return found != NULL ? found : mem_try_aligned(floats, sizeof *found, what, err);
}

void worker_arrays_give(struct worker_arrays *a, float *array, size_t floats)
{
    if (array == NULL) {
        return;
    }
    pthread_mutex_lock(&a->mutex);
    const bool fits = a->count < WORKER_ARRAYS_MAX;
    if (fits) {
        a->kept[a->count].array = array;
        a->kept[a->count++].floats = floats;
    }
    pthread_mutex_unlock(&a->mutex);
    if (!fits) {
        free(array);
    }
}
