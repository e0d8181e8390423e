/* SPDX-License-Identifier: Apache-2.0 */
/* Large arrays of a job that was stopped, for the next start of the same job: one that moves to
 * other servers is started again at once, and memory that was never touched costs more than a step
 * of a large model. Any thread. */
#ifndef GRADUS_WORKER_JOB_WORKER_ARRAYS_H
#define GRADUS_WORKER_JOB_WORKER_ARRAYS_H

#include <stddef.h>

#include "base/err.h"

#define WORKER_ARRAYS_MAX 32 /* more than nearly all jobs have; the others are freed */

struct worker_arrays;

struct worker_arrays *worker_arrays_new(void);
void worker_arrays_free(struct worker_arrays *a); /* NULL is fine */
/* From now on arrays are of job @id; those of another one are freed. */
void worker_arrays_of(struct worker_arrays *a, const char *id);
/* Frees what nobody has taken. */
void worker_arrays_clear(struct worker_arrays *a);
/* [floats] for @what, to be given back: zeros, or what the job left in an array of that size. NULL
 * and ERR_EXHAUSTED. */
float *worker_arrays_take(struct worker_arrays *a, size_t floats, const char *what,
                          struct err *err);
void worker_arrays_give(struct worker_arrays *a, float *array, size_t floats); /* NULL: none */

#endif
