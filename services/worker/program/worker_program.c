/* SPDX-License-Identifier: Apache-2.0 */
/* A program from its start to its end: jobs, batches and the retries of those that fail. */
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/log.h"
#include "worker/program/worker_program_state.h"

#define SHOWN_BYTES 256

int worker_program_new(const char *command, uint64_t answer_ms, struct worker_program **out,
                       struct err *err)
{
    struct worker_program *p = mem_new(1, sizeof *p);
    p->command = mem_strdup(command);
    p->answer_ms = answer_ms;
    p->socket = -1;
    int rc = worker_program_start(p, err);
    if (rc != 0) {
        worker_program_free(p);
        return rc;
    }
    *out = p;
    return 0;
}

void worker_program_free(struct worker_program *p)
{
    if (p == NULL) {
        return;
    }
    worker_program_stop(p);
    worker_program_end(p);
    free(p->command);
    free(p);
}

void worker_program_interrupt(struct worker_program *p)
{
    atomic_store(&p->interrupted, true);
}

int worker_program_await(struct worker_program *p, bool (*ending)(void *ctx), void *ctx,
                         struct err *err)
{
    p->ending = ending;
    p->ending_ctx = ctx;
    int rc = worker_program_ready(p, err);
    p->ending = NULL;
    return rc;
}

/* ---- a job ---- */

/* Prepares the program, and again when its process was gone. A wrong description is wrong for good,
 * and so is a job at which each process ends; that there is none to be asked may be over soon. */
static int prepare(struct worker_program *p, struct err *err)
{
    int rc = worker_program_prepare(p, err);
    for (unsigned attempt = 1; rc == ERR_ABORTED && attempt < WORKER_PROGRAM_ATTEMPTS; attempt++) {
        rc = worker_program_prepare(p, err);
    }
    if (rc == ERR_ABORTED) {
        rc = ERR_STATE;
        err_wrap(err, "it failed %d times as the job began", WORKER_PROGRAM_ATTEMPTS);
    } else if (rc == ERR_EXHAUSTED) {
        rc = ERR_UNAVAILABLE;
    }
    if (rc != 0) {
        err->code = rc;
        err_wrap(err, "program '%s'", p->command);
    }
    return rc;
}

int worker_program_describe(struct worker_program *p, const struct worker_program_job *job,
                            const struct worker_program_model **out, struct err *err)
{
    worker_program_end(p);
    atomic_store(&p->interrupted, false);
    p->job = *job;
    p->has_job = true;
    int rc = prepare(p, err);
    if (rc == 0) {
        *out = &p->told.model;
    }
    return rc;
}

int worker_program_begin(struct worker_program *p, const struct program_start *start,
                         const char (*fields)[PROGRAM_NAME_BYTES], struct err *err)
{
    p->start = *start;
    p->fields = fields;
    p->start_known = true;
    p->begun = false;
    return prepare(p, err);
}

void worker_program_end(struct worker_program *p)
{
    worker_program_settle(p);
    if (p->has_job && p->socket >= 0 && p->greeted) {
        struct program_message m;
        struct err unused = {0};
        program_message_init(&m, PROGRAM_JOB_END, p->number);
        /* on failure the program is gone, and nobody needs to know */
        (void)program_send(p->socket, &m, -1, &unused);
    }
    p->has_job = p->described = p->begun = p->start_known = false;
    for (size_t i = 0; i < PROGRAM_ARRAYS_MAX; i++) {
        program_memory_release(&p->arrays[i].memory);
        p->arrays[i].told = false;
    }
    program_memory_release(&p->keys);
    worker_program_forget(p);
}

/* ---- batches ---- */

void *worker_program_array(struct worker_program *p, uint32_t number, uint64_t bytes,
                           struct err *err)
{
    struct program_shared *a = &p->arrays[number];
    if (a->memory.bytes == NULL || a->memory.size < bytes) {
        const uint64_t size = a->memory.bytes == NULL ? bytes : bytes + bytes / 4;
        program_memory_release(&a->memory);
        if (program_memory_new((size_t)size, &a->memory, err) != 0) {
            return NULL;
        }
        a->told = false;
    }
    return a->memory.bytes;
}

static int tell_array(struct worker_program *p, uint32_t number, struct err *err)
{
    struct program_shared *a = &p->arrays[number];
    if (a->told) {
        return 0;
    }
    struct program_message m;
    program_message_init(&m, PROGRAM_ARRAY, p->number);
    m.array = (struct program_array){number, a->memory.size};
    int rc = program_send(p->socket, &m, a->memory.fd, err);
    if (rc != 0) {
        worker_program_kill(p, err->msg);
        return rc;
    }
    a->told = true;
    return 0;
}

/* Tells the program of all arrays that a question of @kind names. */
static int tell_arrays(struct worker_program *p, enum program_kind kind,
                       const struct program_work *work, struct err *err)
{
    const bool gradient = kind == PROGRAM_GRADIENT, tables = p->job.table_count > 0;
    int rc = tell_array(p, work->batch, err);
    if (rc == 0 && kind != PROGRAM_KEYS) {
        rc = tell_array(p, work->parameters, err);
        rc = rc != 0 || !tables ? rc : tell_array(p, work->rows, err);
    }
    rc = rc != 0 || !gradient ? rc : tell_array(p, work->gradients, err);
    return rc != 0 || !gradient || !tables ? rc : tell_array(p, work->row_gradients, err);
}

/* The keys lie in memory that the program has shown, now or before; @fd is taken. */
static int take_keys(struct worker_program *p, const struct program_keys *k, int fd,
                     struct err *err)
{
    struct program_memory came = {.fd = -1};
    if (fd >= 0 && program_memory_map(fd, (size_t)k->memory_bytes, false, &came, err) != 0) {
        return err_wrap(err, "its keys");
    }
    if (fd >= 0) {
        program_memory_release(&p->keys);
        p->keys = came;
    }
    const uint64_t n = program_key_count(k);
    if (k->table_count != p->job.table_count || n > p->keys.size / sizeof(uint64_t)) {
        return err_set(err, ERR_STATE,
                       "it said %" PRIu64 " keys of %" PRIu32 " tables, in %zu bytes; the job has "
                       "%zu tables",
                       n, k->table_count, p->keys.size, p->job.table_count);
    }
    p->said = *k;
    return 0;
}

/* @result is not written by a question for keys. */
static int compute(struct worker_program *p, enum program_kind kind,
                   const struct program_work *work, struct program_result *result, struct err *err)
{
    const bool keys = kind == PROGRAM_KEYS;
    int rc = worker_program_prepare(p, err);
    rc = rc != 0 ? rc : tell_arrays(p, kind, work, err);
    if (rc != 0) {
        return rc;
    }
    struct program_message question, answer;
    int fd = -1;
    program_message_init(&question, kind, 0);
    question.work = *work;
    rc =
        worker_program_ask(p, &question, -1, keys ? PROGRAM_KEYS : PROGRAM_DONE, &answer, &fd, err);
    if (rc == 0 && keys) {
        rc = take_keys(p, &answer.keys, fd, err);
        if (rc != 0) {
            worker_program_kill(p, err->msg);
        }
        return rc;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (rc == 0) {
        *result = answer.result;
    }
    return rc;
}

/* Where fewer than WORKER_PROGRAM_ATTEMPTS are left, the others failed before. */
static int try(struct worker_program *p, enum program_kind kind, const struct program_work *work,
               unsigned attempts, struct program_result *out, struct err *err)
{
    static const char *const what[] = {[PROGRAM_GRADIENT] = "batch",
                                       [PROGRAM_EVALUATION] = "evaluation",
                                       [PROGRAM_KEYS] = "batch, at its keys"};
    struct err why = {0};
    for (unsigned attempt = 1; attempt <= attempts; attempt++) {
        why = (struct err){0};
        int rc = compute(p, kind, work, out, &why);
        if (rc == 0) {
            return 0;
        }
        if (rc == ERR_CANCELLED || rc == ERR_EXHAUSTED) {
            return err_set(err, rc, "%s", why.msg);
        }
        char quoted[SHOWN_BYTES];
        log_warn("batch_again", "job=%s epoch=%" PRIu64 " step=%" PRIu64 " attempt=%u reason=%s",
                 p->job.id, work->epoch, work->step, attempt,
                 log_quote(why.msg, quoted, sizeof quoted));
    }
    return err_set(err, ERR_STATE,
                   "the program failed %d times on one %s (epoch %" PRIu64 ", step %" PRIu64
                   "): %s",
                   WORKER_PROGRAM_ATTEMPTS, what[kind], work->epoch, work->step, why.msg);
}

int worker_program_compute(struct worker_program *p, enum program_kind kind,
                           const struct program_work *work, struct program_result *out,
                           struct err *err)
{
    return try(p, kind, work, WORKER_PROGRAM_ATTEMPTS, out, err);
}

int worker_program_keys(struct worker_program *p, const struct program_work *work,
                        unsigned attempts, struct worker_program_keys *out, struct err *err)
{
    struct program_result unused;
    int rc = try(p, PROGRAM_KEYS, work, attempts, &unused, err);
    if (rc == 0) {
        *out = (struct worker_program_keys){p->keys.bytes, p->said.counts};
    }
    return rc;
}
