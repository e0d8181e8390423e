/* SPDX-License-Identifier: Apache-2.0 */
/* A worker as libgradus meets it: the other end of its socket, in the same process. Messages wait
 * in the socket, so what a program will hear is sent before it asks. */
#ifndef GRADUS_TESTS_LIBGRADUS_FAR_END_H
#define GRADUS_TESTS_LIBGRADUS_FAR_END_H

#include "support/test.h"

#include <stdbool.h>

#include "gradus/worker.h"
#include "program/channel.h"

/* The arrays that far_end_job_begins() lends, and one batch in it. */
enum { FAR_PARAMETERS = 3, FAR_GRADIENTS = 7, FAR_BATCH = 1023 };
enum { FAR_RECORDS = 4, FAR_FEATURES = 6, FAR_FLOATS = 16 + 16 + 16 };

struct far_end {
    int socket; /* -1: closed */
    struct gradus_worker *worker;
    uint64_t number; /* of the last message that wants an answer */
    struct program_memory parameters, gradients, batch;
};

/* Sets the environment and opens. */
void far_end_open(struct far_end *f);
void far_end_close(struct far_end *f); /* both sides */
void far_end_hang_up(struct far_end *f);

void far_end_send(struct far_end *f, struct program_message *m, int fd);
/* The next message of the program, which has to be of that @kind and to answer the last one. */
struct program_message far_end_heard(struct far_end *f, enum program_kind kind, int *fd);

void far_end_job(struct far_end *f, const char *id); /* sends JOB */
void far_end_start(struct far_end *f, bool has_data, bool has_classes);
void far_end_array(struct far_end *f, uint32_t number, struct program_memory *memory, size_t bytes);
void far_end_work(struct far_end *f, enum program_kind kind, uint64_t count);
/* Ask, and compare what came and what the call returned. */
struct gradus_work far_end_next(struct far_end *f, int kind);

/* A model of three variables: "a" [2, 3], "b" [] and the statistic "c" [16]. */
struct gradus_description far_end_model(void);
/* All up to the first batch: JOB, description, START, arrays. */
void far_end_job_begins(struct far_end *f, bool has_data, bool has_classes);

#endif
