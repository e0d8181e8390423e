/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a program's model share; nobody else includes it. */
#ifndef GRADUS_WORKER_JOB_WORKER_MODEL_PROGRAM_STATE_H
#define GRADUS_WORKER_JOB_WORKER_MODEL_PROGRAM_STATE_H

#include "data/order.h"
#include "worker/job/worker_compute.h"

/* Numbers of the memory that it shares; parameters and gradients have those below. */
enum {
    MODEL_PROGRAM_BATCH = PROGRAM_ARRAYS_MAX - 1,
    MODEL_PROGRAM_ROWS = PROGRAM_ARRAYS_MAX - 2,
    MODEL_PROGRAM_ROW_GRADIENTS = PROGRAM_ARRAYS_MAX - 3
};

struct model_program {
    const struct worker_program_model *model; /* the program's */
    struct program_table *tables;             /* [tables of the job] */
    char (*fields)[PROGRAM_NAME_BYTES];       /* [field_count] sparse fields of the data */
    size_t field_count;
    struct order order; /* order of the train records in an epoch */
    uint64_t epoch;     /* that epoch */
    bool ordered;
    bool failed_ahead; /* the program was asked for the keys of the next one, in vain */
    struct ledger_batch failed;
    /* Places in the memory of batches: */
    uint64_t features_at, targets_at, classes_at, offsets_at, keys_at;
    size_t feature_count; /* of a record */
};

/* worker_model_program.c, then: worker_model_program_batch.c */
struct model_program *model_program(const struct worker_model *m);
/* Bytes up to the next cache line. */
uint64_t model_program_line(uint64_t at);
/* The first @count of m->records, which @b has, unless they are the program's, where it finds them.
 * Errors: ERR_EXHAUSTED. */
int model_program_put(struct worker_model *m, uint64_t count, const struct batch *b,
                      struct program_work *out, struct err *err);
/* m->records become those of @batch, which @work is then told of. */
void model_program_number(struct worker_model *m, const struct ledger_batch *batch,
                          struct program_work *work);

/* As worker_compute.keys and .test_keys. When rows are m->ahead the
 * program is asked once; what fails then is asked again when the batch is taken. */
int model_program_keys(struct worker_model *m, const struct ledger_batch *batch,
                       const struct batch *b, struct worker_rows *rows, struct err *err);
int model_program_keys_of_test(struct worker_model *m, size_t count, struct err *err);
/* The tables that the job declares, for the program. */
void model_program_tables(struct worker_model *m);
/* The names of the data's sparse fields. Errors: ERR_INVALID one is too long. */
int model_program_fields(struct worker_model *m, struct err *err);
/* The rows of m->rows, which have come, where the program finds them; @gradients: and room for
 * those. Errors: ERR_EXHAUSTED. */
int model_program_put_rows(struct worker_model *m, bool gradients, struct program_work *work,
                           struct err *err);
/* Takes the gradient of the rows, which the program wrote there. */
void model_program_take_rows(struct worker_model *m);

#endif
