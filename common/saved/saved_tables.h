/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of a trained model in this process: catch-up for rows that are exported, and all rows in
 * memory for evaluation. */
#ifndef GRADUS_SAVED_SAVED_TABLES_H
#define GRADUS_SAVED_SAVED_TABLES_H

#include <pthread.h>

#include "checkpoint/checkpoint.h"
#include "graph/model.h"
#include "job/plan/plan.h"
#include "job/spec/job_spec.h"
#include "saved/saved_file.h"
#include "table/table_keys.h"

struct saved_given;

/* Rows of one table for a batch. */
struct saved_rows {
    struct table_keys keys;
    uint64_t *lookups;
    float *rows;
    size_t lookups_capacity, rows_capacity;
};

/* The rows of all tables for the batches of one thread; begins zeroed. */
struct saved_reader {
    size_t count;
    struct saved_rows *tables; /* [count] */
    struct runner_rows *run;   /* [count] for runner_set_rows() */
};

/* An update section that counted before the job's file had its present one. */
struct saved_era {
    struct update_spec spec;
    struct update *update;
};

struct saved_tables { /* begins zeroed */
    size_t count;
    const struct job_spec *spec; /* borrowed */
    struct plan plan;            /* of one server, for what an update needs of it */
    struct update *update;
    struct saved_era *eras; /* [era_count] earlier ones, oldest first */
    size_t era_count;
    struct rule_past *pasts; /* [count] */
    struct checkpoint_past *catching;
    uint64_t version;
    struct table **tables; /* [count]; NULL: not in memory */
    pthread_mutex_t lock;  /* of reading them */
    bool has_lock;
};

/* Makes rows of @c be exported as they read, from now on. @spec is that of its manifest. Errors:
 * ERR_INVALID, ERR_EXHAUSTED. */
int saved_tables_open(struct saved_tables *t, struct checkpoint *c, const struct job_spec *spec,
                      struct err *err);
/* Loads all rows into memory. Errors: those of checkpoint_restore_tables(). */
int saved_tables_load(struct saved_tables *t, const struct checkpoint *c, struct err *err);
/* Loads all rows of the tables of a file into memory. @model and @spec are those of its job file.
 * Errors: those of saved_file_restore(). */
int saved_tables_load_file(struct saved_tables *t, const struct saved_file *f,
                           const struct model *model, const struct job_spec *spec, struct err *err);
/* Loads all rows that @given has. Errors: ERR_EXHAUSTED they are more than may be; ERR_CORRUPT;
 * those of @given. */
int saved_tables_load_given(struct saved_tables *t, const struct saved_given *given,
                            const struct model *model, const struct job_spec *spec,
                            struct err *err);
/* r->run has the rows that @model looks up for @b. Several threads may read, with a reader each.
 * Errors: ERR_EXHAUSTED; ERR_INVALID. */
int saved_tables_read(struct saved_tables *t, const struct model *model,
                      const struct sparse_batch *b, struct saved_reader *r, struct err *err);
void saved_reader_release(struct saved_reader *r); /* zeroed is fine */
void saved_tables_release(struct saved_tables *t); /* zeroed is fine */

#endif
