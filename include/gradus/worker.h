/* SPDX-License-Identifier: Apache-2.0 */
/* Models of your own for Gradus: the C interface of worker programs, version 1 (libgradus.so.1).
 *
 * A worker program computes losses and gradients of a model that Gradus knows nothing about, in any
 * language that can call C. It is a process of its own, beside the worker that started it
 * (gradus-worker --program "./my_model", or gradus run --worker "./my_model"): the worker speaks
 * with the cluster, and the program sees parameters and gradients as memory that both share. A job
 * names what the program has to compute: `model: {program: NAME}`.
 *
 *     struct gradus_worker *worker;
 *     struct gradus_work work;
 *     gradus_worker_open(NULL, &worker);
 *     while (gradus_worker_next(worker, &work) == GRADUS_OK && work.kind != GRADUS_WORK_STOP) {
 *         switch (work.kind) {
 *         case GRADUS_WORK_JOB:        ... gradus_worker_describe(worker, &description); break;
 *         case GRADUS_WORK_KEYS:       ... gradus_worker_keys(worker, keys, count); break;
 *         case GRADUS_WORK_GRADIENT:   ... gradus_worker_done(worker, &result); break;
 *         case GRADUS_WORK_EVALUATION: ... gradus_worker_done(worker, &result); break;
 *         case GRADUS_WORK_JOB_END:    ... break;
 *         }
 *     }
 *     gradus_worker_close(worker);
 *
 * Which records a batch has, and what becomes of its gradient, is the cluster's business: that is
 * how every batch counts exactly once, whatever dies. So a gradient must be a function of the
 * parameters, the records and the numbers of the work alone. Then training in sync mode gives the
 * same bits for any number of workers and servers, on processors of one kind.
 *
 * Sparse tables. A model may have rows of tables beside its variables: those that the job declares
 * (`model.tables`: dim, initial values, memory, who gets a row), which lie on the servers under
 * 64-bit keys and of which a batch reads and changes a few. The description names all tables of the
 * job. Before a batch the program is asked which keys it will look up, GRADUS_WORK_KEYS, so that
 * their rows come together with the parameters; then the batch brings the rows, and takes a
 * gradient of each. Programs of jobs without tables are never asked.
 *
 *     GRADUS_WORK_KEYS       records, and nothing else of a batch
 *         gradus_worker_keys()    of each table the keys, as often as they are looked up
 *     GRADUS_WORK_GRADIENT   the same records, and of each table
 *         rows[t].values          a row for each different key
 *         rows[t].index           which row the first, second, ... of the keys said has
 *         rows[t].gradients       zeros, to which the gradients of the rows are added
 *
 * The keys of a batch are asked for while the batch before it is under way; other batches and
 * evaluations may come between, what was asked for need not come, and a batch may come to a process
 * that was never asked for its keys, because the one that was has died. So nothing has to be kept:
 * all that a batch needs comes with it.
 *
 * Not for several threads on one worker at the same time. Strings are UTF-8. What is said here
 * stays as it is as long as GRADUS_WORKER_ABI is 1; structs are given with their size, so that
 * fields can be added at their ends. */
#ifndef GRADUS_WORKER_H
#define GRADUS_WORKER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GRADUS_WORKER_ABI 1

#define GRADUS_VARIABLES_MAX 4096
#define GRADUS_VARIABLE_NAME_BYTES_MAX 127
#define GRADUS_RANK_MAX 4
#define GRADUS_TABLES_MAX 256
#define GRADUS_MESSAGE_BYTES_MAX 3800 /* of an error of the program; more is cut in the middle */

/* What functions return; gradus_worker_error() says more. */
enum gradus_status {
    GRADUS_OK = 0,
    GRADUS_ERROR_USE = -1,       /* not what was to be called now, or with such arguments */
    GRADUS_ERROR_NO_WORKER = -2, /* this process was not started by a worker */
    GRADUS_ERROR_ABI = -3,       /* the worker speaks another version */
    GRADUS_ERROR_MEMORY = -4,    /* the system has no such memory */
    GRADUS_ERROR_LOST = -5,      /* the worker is gone without a word */
};

struct gradus_worker;

enum gradus_variable_kind {
    GRADUS_TRAINED = 0, /* gradients change it, as the job's update rule says */
    /* Of batches, like running means: in place of a gradient comes its new value, TIMES the
     * examples of the batch; an update makes it the mean of what came, whatever the rule. */
    GRADUS_STATISTIC = 1,
};

struct gradus_variable {
    const char *name;     /* "layers.0.weight": each once, printing ASCII without blanks */
    const uint64_t *dims; /* [rank], row-major */
    size_t rank;          /* up to GRADUS_RANK_MAX; 0: a scalar */
    int kind;             /* enum gradus_variable_kind */
    const float *initial; /* [elements] where training begins, finite; same bits on each worker */
};

/* A sparse table of the job (model.tables). */
struct gradus_table {
    const char *name;
    uint64_t dim; /* floats of a row */
};

/* The job that asks for this program's model. Borrowed until the next call. */
struct gradus_job {
    const char *id;
    const char *program;               /* model.program of the job */
    const char *text;                  /* the job file, as YAML */
    uint64_t seed;                     /* training.seed: initial values, and whatever is random */
    uint32_t batch_records;            /* training.batch_size: no batch has more */
    uint32_t evaluation_records;       /* the most of one evaluation */
    const struct gradus_table *tables; /* [table_count] that the job declares */
    size_t table_count;
};

/* The answer to GRADUS_WORK_JOB. Everything is copied. One variable at least is trained. */
struct gradus_description {
    size_t size; /* sizeof(struct gradus_description) */
    const struct gradus_variable *variables;
    size_t variable_count;
    /* Records that the program reads by itself, by number. 0 of both: those of the job's `data`,
     * which come with each batch. */
    uint64_t train_records, test_records;
    uint64_t fingerprint; /* of these records, if anything is known; equal on every worker */
    /* [table_count] the tables of the job, all of them, in an order of the program's choice: that
     * of `rows` and of gradus_worker_keys(). */
    const struct gradus_table *tables;
    size_t table_count;
};

enum gradus_work_kind {
    GRADUS_WORK_STOP = 0,       /* the worker ended between jobs: so should the program */
    GRADUS_WORK_JOB = 1,        /* to be answered by gradus_worker_describe() */
    GRADUS_WORK_GRADIENT = 2,   /* by gradus_worker_done(), like the next one */
    GRADUS_WORK_EVALUATION = 3, /* no gradients, and nothing random; any number of records */
    GRADUS_WORK_JOB_END = 4,    /* no answer: what was made for the job may go */
    GRADUS_WORK_KEYS = 5,       /* by gradus_worker_keys(); only of jobs with tables */
};
/* Each but STOP and JOB_END may be answered by gradus_worker_fail() as well. */

/* The rows of a table that a batch or an evaluation looks up. Likewise good until the answer. */
struct gradus_rows {
    uint64_t dim;
    size_t count;         /* different keys; 0: it looks nothing up here */
    const uint64_t *keys; /* [count] rising */
    const float *values; /* [count × dim] to be read only; a key that has no row (yet) reads as one
                            that was not trained */
    float *gradients;    /* [count × dim] zeros: ADD d loss / d row of each record; NULL in an
                            evaluation. 64-byte aligned */
    size_t index_count;  /* keys that were said to gradus_worker_keys() */
    const uint32_t *index; /* [index_count] of each of them, in the order in which they were said:
                              its row, below `count` */
};

/* A sparse field of the job's `data`: of each record a list of keys, each once, rising. The list of
 * record i is keys[k] for k from offsets[i] up to offsets[i + 1]. */
struct gradus_field {
    const char *name;
    const uint64_t *offsets; /* [count of records + 1]; the first need not be 0 */
    const uint64_t *keys;    /* as the data has them, or hashed as data.columns says */
    const float *weights;    /* of the same keys; NULL: all are 1 */
};

/* Something to do. Pointers are good until the answer. */
struct gradus_work {
    int kind; /* enum gradus_work_kind */
    const struct gradus_job *job;
    /* Of gradients and evaluations (and, without parameters and gradients, of keys): */
    const float *const *parameters; /* of each variable: [elements], to be read only (the memory is
                                       protected); the same few addresses come again and again */
    float *const *gradients;        /* likewise: to be overwritten with the SUM over the records of
                                       d loss / d variable; NULL in an evaluation. 64-byte aligned */
    const uint64_t *records;        /* [count] numbers of train or test records */
    size_t count;                   /* never 0: empty batches are answered without the program */
    uint64_t epoch, step;           /* step: of sync mode; else the batch's place in its epoch */
    uint32_t replica;               /* of the step */
    uint64_t seed; /* of whatever is random in this batch: a function of the job's seed, epoch,
                      step and replica; the same when the batch is computed again elsewhere */
    /* Of the job's `data`; NULL when the program reads its own: */
    const float *features;        /* [count × features of a record], scaled as the job says */
    uint64_t feature_count;       /* of one record */
    const uint64_t *feature_dims; /* [feature_rank] */
    size_t feature_rank;
    const float *targets;   /* [count] real labels, scaled; or the number of the class */
    const int32_t *classes; /* [count]; NULL when labels are real numbers */
    const struct gradus_field
        *fields; /* [field_count] sparse fields, whose lists are no features */
    size_t field_count;
    const struct gradus_rows *rows; /* [tables of the description]; NULL: no tables, or KEYS */
    int of; /* of KEYS: GRADUS_WORK_GRADIENT or GRADUS_WORK_EVALUATION, which will come with these
               records: numbers of train or of test records */
};

/* Keys of one table that a batch looks up: any from 0 to 2^64 - 1, in any order, repeated as often
 * as records have them (admission counts that). */
struct gradus_keys {
    const uint64_t *keys; /* [count]; NULL when that is 0 */
    size_t count;         /* below 2^32 */
};

/* What a batch or an evaluation came to. Sums over its records; NaN: that metric was not measured,
 * and the job shows none. */
struct gradus_result {
    size_t size;       /* sizeof(struct gradus_result) */
    uint64_t examples; /* counted in the sums; with them gradients are divided. Mostly the count */
    double loss_sum;
    double correct;            /* metric accuracy: right answers */
    double squared_error_sum;  /* metric rmse */
    double absolute_error_sum; /* metric mae */
};

/* Speak with the worker that started this process, which has one: it is open once at a time. @name
 * is of the program, for messages (NULL: none). Errors: NO_WORKER, USE, MEMORY, LOST; @out is NULL
 * then, and gradus_worker_error(NULL) tells. Programs that this one starts do not get the socket;
 * a process that it forks loses it, may read what was lent and must not call anything but close. */
int gradus_worker_open(const char *name, struct gradus_worker **out);
void gradus_worker_close(struct gradus_worker *w); /* NULL is fine */
/* Wait for something to do. Errors: USE the last work was not answered; LOST; MEMORY; ABI. All but
 * USE are for good: every call returns the same. */
int gradus_worker_next(struct gradus_worker *w, struct gradus_work *work);
/* Errors: USE says which variable is wrong, or how the tables differ from those of the job, and
 * nothing was answered; LOST. */
int gradus_worker_describe(struct gradus_worker *w, const struct gradus_description *description);
int gradus_worker_done(struct gradus_worker *w, const struct gradus_result *result);
/* @keys: [@table_count] of each table of the description. Everything is copied. Errors: USE, and
 * nothing was answered; MEMORY; LOST. */
int gradus_worker_keys(struct gradus_worker *w, const struct gradus_keys *keys, size_t table_count);
/* It cannot be done: @message (a traceback, say) goes to the log and the job's status. A batch that
 * fails is tried again a few times, then the job fails. */
int gradus_worker_fail(struct gradus_worker *w, const char *message);
/* What the last error on @w was; NULL: of gradus_worker_open() in this thread. Never NULL. */
const char *gradus_worker_error(const struct gradus_worker *w);
uint32_t gradus_worker_abi(void); /* of the library */

#ifdef __cplusplus
}
#endif

#endif
