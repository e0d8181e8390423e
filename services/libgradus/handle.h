/* SPDX-License-Identifier: Apache-2.0 */
/* What is behind struct gradus_worker (include/gradus/worker.h): the program's end of the
 * conversation of program/program_message.h.
 *
 * Belongs to one thread of the process that opened it. Whatever the worker sends is checked; after
 * something that cannot be understood the handle is broken and says the same error for ever. */
#ifndef GRADUS_LIBGRADUS_HANDLE_H
#define GRADUS_LIBGRADUS_HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "gradus/worker.h"
#include "program/channel.h"

/* Memory of the worker's, told apart by its place in the table. */
struct handle_array {
    struct program_memory memory;
    bool writable;
    float **variables; /* where each variable begins; NULL: the program has not asked */
};

/* What lives as long as one job. */
struct handle_job {
    struct gradus_job shown; /* points into the two below */
    struct program_job said;
    char *text;
    struct program_variable *variables; /* NULL: not described */
    uint64_t *offsets;                  /* place of each variable in an array, in floats */
    size_t variable_count;
    uint64_t floats; /* of an array */
    bool started;    /* a START came */
    struct program_start start;
    uint64_t feature_count;
    char (*field_names)[PROGRAM_NAME_BYTES]; /* [start.field_count], like the next */
    struct gradus_field *fields;             /* fields of the batch that the program sees */
    struct program_table *tables;            /* [said.table_count], like the next three */
    struct gradus_table *shown_tables;
    size_t *described; /* of each table, its place in the description */
    /* rows of the batch that the program sees, in the order of the description */
    struct gradus_rows *rows;
    struct program_memory keys; /* memory for answers with keys; bytes NULL: none yet */
    struct handle_array arrays[PROGRAM_ARRAYS_MAX];
};

struct gradus_worker {
    int socket;
    pid_t pid;       /* of the process that opened it */
    int broken;      /* 0, or what all calls return from now on */
    bool stopped;    /* the worker ended between two jobs */
    int asked;       /* enum program_kind that waits for its answer; 0: none */
    uint64_t number; /* of that */
    bool has_job;
    struct handle_job job;
    /* a message is kept for later, which came after the end of a job that it implies */
    bool has_kept;
    struct program_spin spin;
    struct program_message kept;
    int kept_fd;
    struct handle_watch *watch; /* NULL: none */
    struct err err;
};

/* worker_library.c, then: */

/* handle_take.c */
/* Send what the worker waits for. Errors: LOST. */
int handle_answer(struct gradus_worker *w, struct program_message *m, int fd);
/* Takes a message with the memory that it brought (-1: none). @shown: @work tells what the program
 * has to hear. Errors: ABI, MEMORY, LOST, all for good. */
int handle_take(struct gradus_worker *w, const struct program_message *m, int fd,
                struct gradus_work *work, bool *shown);

/* handle_describe.c */
/* Check a description and make the memory that it travels in, and what the job needs of it. Errors:
 * USE (says which variable is wrong), MEMORY. */
int handle_describe(struct gradus_worker *w, const struct gradus_description *given,
                    struct program_memory *out);

/* handle_tables.c: tables of the job, sparse fields of its data */
/* Takes the tables at the beginning of a JOB's memory. Errors: MEMORY. */
int handle_take_tables(struct gradus_worker *w, const struct program_table *from);
/* The tables of a description are those of the job. Errors: USE, with the difference; MEMORY. */
int handle_describe_tables(struct gradus_worker *w, const struct gradus_description *d);
/* The names that came with START; @fd is taken. Errors: ABI, MEMORY. */
int handle_take_fields(struct gradus_worker *w, int fd);
/* Lists of @batch, and rows with their gradients, which become zeros. Errors: ABI the message names
 * something that is not there; MEMORY. */
int handle_show_fields(struct gradus_worker *w, const struct program_work *in,
                       const struct handle_array *batch, struct gradus_work *out);
int handle_show_rows(struct gradus_worker *w, const struct program_work *in, bool gradients,
                     struct gradus_work *out);
/* Put keys where the worker finds them; @fd: of memory that it does not have yet, or -1. Errors:
 * USE, MEMORY. */
int handle_put_keys(struct gradus_worker *w, const struct gradus_keys *keys, size_t table_count,
                    struct program_keys *out, int *fd);

/* handle_arrays.c */
/* Unmaps and frees what the job had; zeroes the rest. */
void handle_job_release(struct handle_job *job);
/* Takes a message of the kind ARRAY, and @fd. Errors: MEMORY, ABI. */
int handle_array_set(struct gradus_worker *w, const struct program_array *array, int fd);
/* The array of that number, with at least that length. NULL: w->err. */
struct handle_array *handle_array(struct gradus_worker *w, uint32_t number, uint64_t bytes,
                                  bool writable, const char *what);
/* @count things of @size bytes each, at @at of @array. NULL: w->err. */
const void *handle_part(struct gradus_worker *w, const struct handle_array *array, uint64_t at,
                        uint64_t count, uint64_t size, size_t align, const char *what);
/* An array of all variables, and where each of them is. NULL: w->err. */
float **handle_variables(struct gradus_worker *w, uint32_t number, bool writable, const char *what);

/* handle_error.c */
/* Fill w->err and return @status (enum gradus_status). */
int handle_error(struct gradus_worker *w, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* handle_error() for good: everything fails like that from now on. */
int handle_break(struct gradus_worker *w, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* As handle_break(), with the code and text of w->err, which a channel's function filled. */
int handle_break_as(struct gradus_worker *w, const char *what);

/* handle_watch.c */
/* A program that hangs ends all the same when its worker has ended. It has some seconds to find out
 * by itself; @socket is not closed. NULL: no thread could be had, and nobody watches. */
struct handle_watch *handle_watch_start(int socket);
/* The program knows, or has no worker any more. @watch becomes NULL, and may have been. */
void handle_watch_end(struct handle_watch **watch);
/* In a child of the program's, which has not the thread: let the descriptors go. */
void handle_watch_forget(struct handle_watch *watch);

#endif
