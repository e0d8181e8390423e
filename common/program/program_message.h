/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker and its program (include/gradus/worker.h) say to each other.
 *
 * They are processes of one host and share a socket (SOCK_SEQPACKET), whose number the program
 * finds in its environment. One message is one struct program_message; some bring a descriptor of
 * anonymous memory, sealed against shrinking, in which lies what is too long for a message. Both
 * sides are of one build or of two that know the same PROGRAM_VERSION; a message is checked all the
 * same, because a program is the user's own.
 *
 *     program                          worker
 *     HELLO                       →
 *                                 ←    JOB       memory: the job file
 *     DESCRIBE  memory: variables →
 *                                 ←    START     memory: names of fields
 *     DONE                        →
 *                                 ←    KEYS      (of jobs with tables)
 *     KEYS      memory: keys      →    (once for each that is used)
 *                                 ←    ARRAY     memory: floats (once for each that is used)
 *                                 ←    GRADIENT | EVALUATION
 *     DONE | FAILED               →
 *                                 ←    JOB_END
 *
 * FAILED may answer JOB, START, KEYS, GRADIENT and EVALUATION. A JOB or JOB_END may come after any
 * answer, and ends what was there of a job before it. Whoever finds the socket closed ends. */
#ifndef GRADUS_PROGRAM_PROGRAM_MESSAGE_H
#define GRADUS_PROGRAM_PROGRAM_MESSAGE_H

#include <stdint.h>

#define PROGRAM_VERSION 1
#define PROGRAM_MAGIC UINT32_C(0x47724450)                 /* "GrDP" */
#define PROGRAM_SOCKET_ENVIRONMENT "GRADUS_PROGRAM_SOCKET" /* the descriptor's number */

#define PROGRAM_TEXT_BYTES 3840
#define PROGRAM_NAME_BYTES 128
#define PROGRAM_RANK_MAX 4
#define PROGRAM_VARIABLES_MAX 4096
#define PROGRAM_VARIABLE_ALIGN 16 /* floats: each variable of an array begins at a cache line */
#define PROGRAM_ARRAYS_MAX 4096
#define PROGRAM_TABLES_MAX 256
#define PROGRAM_FIELDS_MAX 4096

enum program_kind {
    PROGRAM_HELLO = 1,
    PROGRAM_JOB,
    PROGRAM_DESCRIBE,
    PROGRAM_START,
    PROGRAM_ARRAY,
    PROGRAM_GRADIENT,
    PROGRAM_EVALUATION,
    PROGRAM_DONE,
    PROGRAM_FAILED,
    PROGRAM_JOB_END,
    PROGRAM_KEYS,
};

/* In JOB's memory: so many of these, then the job file. DESCRIBE's memory has the same ones, in the
 * same order: the program knows the tables. */
struct program_table {
    char name[PROGRAM_NAME_BYTES]; /* ends with a NUL */
    uint64_t dim;
};

/* DESCRIBE's memory: so many of these, then the tables, then from the next multiple of 64 bytes on
 * the initial values as an array is laid out: variable after variable, each from a multiple of
 * PROGRAM_VARIABLE_ALIGN floats. */
struct program_variable {
    char name[PROGRAM_NAME_BYTES]; /* ends with a NUL */
    uint64_t dims[PROGRAM_RANK_MAX];
    uint32_t rank;
    uint32_t kind; /* enum gradus_variable_kind */
};

struct program_hello {
    uint32_t abi; /* GRADUS_WORKER_ABI of the program's library */
    char name[PROGRAM_NAME_BYTES];
};

struct program_job {
    char id[PROGRAM_NAME_BYTES + 1];
    char program[PROGRAM_NAME_BYTES + 1];
    uint64_t text_bytes; /* of the memory, behind the tables: the job file, without a NUL */
    uint64_t table_count;
    uint64_t seed;
    uint32_t batch_records, evaluation_records;
};

struct program_description {
    uint64_t variable_count, table_count;
    uint64_t memory_bytes;
    uint64_t train_records, test_records, fingerprint;
};

/* The part that all batches have in common. */
struct program_start {
    uint64_t feature_dims[PROGRAM_RANK_MAX];
    uint32_t feature_rank;
    uint32_t has_data;    /* batches bring features and labels */
    uint32_t has_classes; /* the labels are classes, too */
    /* number of sparse fields: so many char [PROGRAM_NAME_BYTES] are in the memory that comes
     * along, each with a NUL at its end */
    uint32_t field_count;
    uint32_t has_weights; /* keys of these fields have weights */
};

/* An array has a number; one with the number of an earlier one takes its place. */
struct program_array {
    uint32_t array;
    uint64_t bytes;
};

struct program_work {
    uint32_t
        parameters; /* array: variables, each from a multiple of PROGRAM_VARIABLE_ALIGN floats */
    uint32_t gradients; /* array, likewise; not of an evaluation */
    uint32_t batch;     /* array of bytes: at the offsets below */
    uint32_t replica;
    uint64_t records_at;  /* uint64_t [count] */
    uint64_t features_at; /* float [count × features] */
    uint64_t targets_at;  /* float [count] */
    uint64_t classes_at;  /* int32_t [count] */
    uint64_t count, epoch, step, seed;
    /* Lists of sparse fields, in the batch, too: */
    uint64_t offsets_at; /* uint64_t [fields × (count + 1)], into the keys */
    uint64_t keys_at;    /* uint64_t [list_keys] */
    uint64_t weights_at; /* float [list_keys] */
    uint64_t list_keys;
    /* Tables: */
    uint32_t rows;          /* array of bytes: a struct program_rows for each table of the job */
    uint32_t row_gradients; /* array of floats; not of an evaluation */
    uint32_t of;            /* KEYS: PROGRAM_GRADIENT or PROGRAM_EVALUATION */
};

/* Rows of one table for one batch. */
struct program_rows {
    uint64_t keys, lookups; /* different keys, and all */
    /* Places in the array of rows, in bytes: */
    uint64_t keys_at;      /* uint64_t [keys] rising */
    uint64_t index_at;     /* uint32_t [lookups] */
    uint64_t values_at;    /* float [keys × dim] */
    uint64_t gradients_at; /* place in the array of row_gradients, in bytes: float [keys × dim] */
};

/* An answer to KEYS: the keys of one table of the job after the other's, from the beginning of the
 * memory that came along or, if none did, with the last answer that brought some. */
struct program_keys {
    uint64_t memory_bytes; /* of that */
    uint32_t table_count;
    uint32_t counts[PROGRAM_TABLES_MAX];
};

struct program_result {
    uint64_t examples;
    double loss_sum, correct, squared_error_sum, absolute_error_sum;
};

struct program_failed {
    char text[PROGRAM_TEXT_BYTES]; /* ends with a NUL */
};

struct program_message {
    uint32_t magic;   /* PROGRAM_MAGIC */
    uint16_t version; /* PROGRAM_VERSION */
    uint16_t kind;    /* enum program_kind */
    uint64_t number;  /* of JOB, START, KEYS, GRADIENT, EVALUATION: the answer has the same */
    union {
        struct program_hello hello;
        struct program_job job;
        struct program_description description;
        struct program_start start;
        struct program_array array;
        struct program_work work;
        struct program_keys keys;
        struct program_result result;
        struct program_failed failed;
    };
};

#endif
