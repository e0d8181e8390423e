/* SPDX-License-Identifier: Apache-2.0 */
/* Where jobs outlive the master: one row per job. An interface, because tests keep rows in memory
 * and a later master may keep them elsewhere.
 *
 * Owner: the master's loop thread. A row that was put is durable when put returns.
 *
 * The core asks for a row and is told when it is stored (decision 13). What must not be before that
 * (calls of a new generation, an end that clients see) waits, so a disk that is full for an hour
 * costs an hour at most, and no job. */
#ifndef GRADUS_MASTER_STORE_STORE_H
#define GRADUS_MASTER_STORE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct store_row {
    const char *id; /* "<name>-<number>" */
    const char *name;
    const char *request_id; /* "" none; else unique among the rows */
    uint64_t number;
    int state;
    int64_t submitted_ms;
    int64_t ended_ms; /* 0: it has not; put: since when its state is an end */
    const void *job;  /* a packed gradus.v1.Job */
    size_t job_bytes;
    const char *damage; /* load: why this is not what was stored; NULL: it is */
};

/* A point of a job's curve: how far the training was at a step. */
struct store_point {
    const char *job;
    uint64_t step;
    int64_t time_ms;  /* Unix time */
    const void *data; /* a packed gradus.v1.CurvePoint */
    size_t bytes;
};
#define STORE_POINTS_MAX 500000 /* of all jobs, about 60 MB */

/* A text besides jobs: the directory in which the jobs' checkpoints are, as an absolute path. */
#define STORE_CHECKPOINT_ROOT "checkpoint_root"

/* Which rows of ended jobs are removed. */
struct store_trim {
    size_t listed;   /* the newest so many stay: they are in memory, and `gradus list` shows them */
    size_t rows_max; /* of ended jobs; of more, those that ended first are removed */
    /* jobs that ended before are removed, however few there are; INT64_MIN: none */
    int64_t old_ms;
    int64_t settled_ms; /* jobs that ended later stay: clients may still ask for them */
    int64_t now_ms;     /* the end of rows of earlier versions, which do not say when that was */
};
#define STORE_TRIM_MAX 1000 /* in one call */

struct store;
struct store_ops {
    /* Insert the row, or replace the one with its id. Errors: ERR_EXHAUSTED, ERR_CORRUPT,
     * ERR_UNAVAILABLE, ERR_EXISTS another job has the request id. */
    int (*put)(struct store *s, const struct store_row *row, struct err *err);
    /* Calls @each for all rows of jobs that have not ended and the newest @finished_limit of those
     * that have, oldest first; a result of @each below 0 ends the walk. A damaged row is passed on
     * with what is known of it. */
    int (*load)(struct store *s, size_t finished_limit,
                int (*each)(void *ctx, const struct store_row *row, struct err *err), void *ctx,
                struct err *err);
    /* Append the packed job of @id to @job. Errors: ERR_NOT_FOUND; ERR_CORRUPT it is not what was
     * stored. */
    int (*get)(struct store *s, const char *id, struct buf *job, struct err *err);
    /* Append the id of the job that @request_id made. Errors: ERR_NOT_FOUND. */
    int (*find_request)(struct store *s, const char *request_id, struct buf *id, struct err *err);
    /* One more than the highest number of this name, also of rows that were removed; the first is
     * 1. Errors: ERR_EXHAUSTED. */
    int (*next_number)(struct store *s, const char *name, uint64_t *number, struct err *err);
    /* Removes rows of jobs that have ended, with everything else that is kept of them but the
     * highest number of their name: no later job gets the id of an earlier one. @removed: how many;
     * as many as STORE_TRIM_MAX: there may be more. Errors: as put(); then all are still there. */
    int (*trim)(struct store *s, const struct store_trim *trim, size_t *removed, struct err *err);
    /* Likewise the row of @id alone. Errors: ERR_NOT_FOUND no job that has ended is called so. */
    int (*remove)(struct store *s, const char *id, struct err *err);
    /* Small texts besides jobs: append the value of @key to @value. Errors: ERR_NOT_FOUND. */
    int (*get_text)(struct store *s, const char *key, struct buf *value, struct err *err);
    int (*put_text)(struct store *s, const char *key, const char *value, struct err *err);
    /* Add points in their order, all or none. Each replaces what its job has at that step and
     * later: the job went back. Above STORE_POINTS_MAX the curves of the jobs that ended first go.
     * Errors: as put(). */
    int (*add_points)(struct store *s, const struct store_point *points, size_t count,
                      struct err *err);
    /* Calls @each for the points of @job, by their steps. */
    int (*each_point)(struct store *s, const char *job,
                      void (*each)(void *ctx, const struct store_point *point), void *ctx,
                      struct err *err);
    /* Removes the points of @job at @steps. Errors: as put(). */
    int (*thin_points)(struct store *s, const char *job, const uint64_t *steps, size_t count,
                       struct err *err);
    void (*close)(struct store *s);
};
struct store {
    const struct store_ops *ops;
};

/* Keys of texts: whose a job is, and how many bad records its files had, by its id; the highest
 * number of a name that a removed row had. */
#define STORE_OWNER_OF "owner:"
#define STORE_BAD_RECORDS_OF "bad_records:"
#define STORE_TENSORBOARD_OF "tensorboard:" /* why its event files are not written */
#define STORE_NUMBER_OF "number:"

/* @state_dir/master.db, made when it is missing. @owner ("gradus-master pid 7 at host:port") is
 * shown to who tries to open it while we have it. Errors: ERR_STATE another master has it, named;
 * ERR_CORRUPT some page of it cannot be read; ERR_INVALID a file of another program;
 * ERR_UNSUPPORTED of a newer version. */
int store_sqlite_open(const char *state_dir, const char *owner, struct store **out,
                      struct err *err);
/* Opens the store for reading, without a lock, while no master has it: put() fails. Errors:
 * ERR_NOT_FOUND there is no such file; ERR_UNSUPPORTED of another version, or program; ERR_CORRUPT.
 */
int store_sqlite_read(const char *state_dir, struct store **out, struct err *err);

#endif
