/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker sends to a program (services/libgradus): whatever comes, the program sees records,
 * parameters and gradients that it may touch from end to end, or an error that lasts.
 *
 * Input: rows of a message's kind, its memory (0: none, else so many times 16 bytes), how many
 * bytes of its body follow, and these. The memory of a job declares a table in its first bytes;
 * that of an array begins with what its body has too much. */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gradus/worker.h"
#include "program/channel.h"

#define MESSAGES_MAX 16 /* as many fit into the socket */

static void fill(const struct program_message *m, const uint8_t *body, size_t n,
                 const struct program_memory *memory)
{
    static const struct program_table table = {"t", 2};
    const size_t own = sizeof m->array;
    if (m->kind == PROGRAM_JOB && memory->size >= sizeof table) {
        memcpy(memory->bytes, &table, sizeof table);
    } else if (m->kind == PROGRAM_ARRAY && n > own) {
        memcpy(memory->bytes, body + own, n - own < memory->size ? n - own : memory->size);
    }
}

static void send_row(int socket, struct fuzz_input *in)
{
    struct program_message m;
    struct program_memory memory = {.fd = -1};
    program_message_init(&m, fuzz_below(in, PROGRAM_KEYS + 2), 1);
    const size_t bytes = (size_t)fuzz_byte(in) * 16;
    size_t n = fuzz_byte(in);
    n = n < in->n ? n : in->n;
    char *to = (char *)&m.hello;
    size_t room = sizeof m.failed;
    if (m.kind == PROGRAM_JOB) { /* names are long and seldom interesting */
        to = (char *)&m.job.text_bytes;
        room = sizeof m.job - offsetof(struct program_job, text_bytes);
        memset(&m.job, 'x', sizeof m.job);
    }
    if (n > 0) {
        memcpy(to, in->data, n < room ? n : room);
    }
    if (bytes > 0) {
        fuzz_require(program_memory_new(bytes, &memory, NULL) == 0, "there is memory");
        fill(&m, in->data, n, &memory);
    }
    in->data += n;
    in->n -= n;
    fuzz_require(program_send(socket, &m, memory.fd, NULL) == 0, "it fits into the socket");
    program_memory_release(&memory);
}

static const uint64_t dims[] = {2, 3};
static const float initial[6];
static const struct gradus_variable variables[] = {
    {"a", dims, 2, GRADUS_TRAINED, initial},
    {"b", NULL, 0, GRADUS_STATISTIC, initial},
};

static int describe(struct gradus_worker *w, const struct gradus_job *job)
{
    fuzz_require(strlen(job->id) <= 128 && strlen(job->program) <= 128, "names end");
    (void)strlen(job->text);
    const struct gradus_description d = {.size = sizeof d,
                                         .variables = variables,
                                         .variable_count = 2,
                                         .tables = job->tables,
                                         .table_count = job->table_count == 1 ? 1 : 0};
    return gradus_worker_describe(w, &d);
}

static double sum_of(const float *values, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; values != NULL && i < n; i++) {
        sum += values[i];
    }
    return sum;
}

static double sum_of_lists(const struct gradus_work *work)
{
    double sum = 0;
    for (size_t f = 0; f < work->field_count; f++) {
        const struct gradus_field *field = &work->fields[f];
        sum += (double)strlen(field->name);
        for (uint64_t k = field->offsets[0]; k < field->offsets[work->count]; k++) {
            sum += (double)field->keys[k] + (field->weights != NULL ? field->weights[k] : 1);
        }
    }
    return sum;
}

static double use_rows(const struct gradus_work *work)
{
    const struct gradus_rows *rows = work->rows;
    double sum = 0;
    for (size_t i = 0; rows != NULL && i < rows->count; i++) {
        sum += (double)rows->keys[i] + rows->values[2 * i] + rows->values[2 * i + 1];
        fuzz_require((rows->gradients != NULL) == (work->kind == GRADUS_WORK_GRADIENT),
                     "gradients of rows are asked for by batches");
        if (rows->gradients != NULL) {
            fuzz_require(rows->gradients[2 * i + 1] == 0, "they begin with zeros");
            rows->gradients[2 * i] += 1;
        }
    }
    for (size_t i = 0; rows != NULL && i < rows->index_count; i++) {
        sum += rows->index[i];
    }
    return sum;
}

static int say_keys(struct gradus_worker *w, const struct gradus_work *work)
{
    static const uint64_t many[3000];
    const struct gradus_keys keys = {many, work->records[0] % 3000};
    fuzz_require(work->parameters == NULL && work->gradients == NULL && work->rows == NULL,
                 "keys are asked for before the rest is there");
    const size_t tables = work->job->table_count;
    return tables > 1 ? gradus_worker_fail(w, "that many") : gradus_worker_keys(w, &keys, tables);
}

static int compute(struct gradus_worker *w, const struct gradus_work *work)
{
    struct gradus_result result = {.size = sizeof result, .examples = work->count};
    fuzz_require(work->count > 0, "no batch is empty");
    for (size_t i = 0; i < work->count; i++) {
        result.correct += (double)work->records[i];
        result.correct += work->classes != NULL ? work->classes[i] : 0;
    }
    result.correct += sum_of_lists(work);
    if (work->kind == GRADUS_WORK_KEYS) {
        return say_keys(w, work);
    }
    result.correct += use_rows(work);
    result.loss_sum = sum_of(work->features, work->count * work->feature_count) +
                      sum_of(work->targets, work->count) + sum_of(work->parameters[0], 6) +
                      work->parameters[1][0];
    fuzz_require((work->gradients != NULL) == (work->kind == GRADUS_WORK_GRADIENT),
                 "gradients are asked for by batches");
    if (work->gradients != NULL) {
        memset(work->gradients[0], 1, sizeof initial);
        work->gradients[1][0] = 1;
    }
    return work->records[0] % 7 == 6 ? gradus_worker_fail(w, "six")
                                     : gradus_worker_done(w, &result);
}

static void serve(struct gradus_worker *w)
{
    struct gradus_work work;
    int rc = gradus_worker_next(w, &work);
    while (rc == GRADUS_OK && work.kind != GRADUS_WORK_STOP) {
        if (work.kind == GRADUS_WORK_JOB) {
            rc = describe(w, work.job);
        } else if (work.kind != GRADUS_WORK_JOB_END) {
            rc = compute(w, &work);
        }
        rc = rc == GRADUS_OK ? gradus_worker_next(w, &work) : rc;
    }
    if (rc != GRADUS_OK) {
        fuzz_require(rc != GRADUS_ERROR_USE, "the program made no mistake");
        fuzz_require(gradus_worker_error(w)[0] != '\0', "an error says what is wrong");
        fuzz_require(gradus_worker_next(w, &work) == rc, "an error lasts");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    struct gradus_worker *w = NULL;
    int ends[2];
    char number[16];
    fuzz_require(program_channel_pair(ends, NULL) == 0, "there is a socket");
    (void)snprintf(number, sizeof number, "%d", ends[1]);
    (void)setenv(PROGRAM_SOCKET_ENVIRONMENT, number, 1);
    for (int i = 0; i < MESSAGES_MAX && in.n > 0; i++) {
        send_row(ends[0], &in);
    }
    (void)shutdown(ends[0], SHUT_WR);
    fuzz_require(gradus_worker_open("fuzz", &w) == GRADUS_OK, "the worker is there");
    serve(w);
    gradus_worker_close(w);
    (void)close(ends[0]);
    return 0;
}
