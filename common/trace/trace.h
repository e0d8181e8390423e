/* SPDX-License-Identifier: Apache-2.0 */
/* A recorder of what a process does when, while somebody asks for it.
 *
 * Any thread adds spans. While nobody asks that costs one load of a flag; while somebody does, a
 * lock and a copy. All memory is taken when a recording begins and has a limit: what comes beyond
 * it is counted and lost. One recording at a time, of one job. It ends when it is taken; what ends
 * after its deadline is not recorded, so that a client that went away costs no more than memory
 * until the next recording. */
#ifndef GRADUS_TRACE_TRACE_H
#define GRADUS_TRACE_TRACE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/recording.h"

#define TRACE_SPANS_MAX 32768 /* a few hundred steps with all their messages */
#define TRACE_WORKERS_MAX 64  /* names; a name beyond is none */
#define TRACE_NAME_BYTES 129  /* an id of WIRE_ID_BYTES_MAX */

/* The numbers are those of SpanKind in trace.proto, which says what they mean. */
enum trace_kind {
    TRACE_STEP = 1,
    TRACE_LOAD,
    TRACE_COMPUTE,
    TRACE_ADD,
    TRACE_EVALUATE,
    TRACE_SEND,
    TRACE_WAIT,
    TRACE_EXCHANGE,
    TRACE_RECEIVE,
    TRACE_CHUNK,
    TRACE_QUEUE,
    TRACE_SUM,
    TRACE_APPLY,
    TRACE_ANSWER,
};

struct trace_span {
    enum trace_kind kind;
    uint32_t shard;
    uint32_t worker;           /* set by trace_add() from a name: its number, from 1 on; 0: none */
    uint64_t begin_ns, end_ns; /* chrono_now_ns() */
    uint64_t exchange, step, bytes;
    uint64_t waited_ns, applied_ns;
    uint32_t push; /* QUEUE of a push: enum push_result, and */
    bool spare;
    uint64_t base, made; /* versions: computed on, and made with it (0: with others) */
};

/* The spans of a recording. */
struct trace_spans {
    struct trace_span *items;
    size_t count;
    uint64_t lost;
    char (*workers)[TRACE_NAME_BYTES];
    size_t worker_count;
};
void trace_spans_release(struct trace_spans *s);

struct trace {
    atomic_bool on;
    pthread_mutex_t mutex; /* guards what follows */
    struct recording recording;
    char job[TRACE_NAME_BYTES];
    size_t spans_max;
    struct trace_spans spans;
};

void trace_init(struct trace *t);
void trace_release(struct trace *t);

/* Begins to record @job: at most @spans_max spans (at most TRACE_SPANS_MAX; 0: so many) that end
 * before @deadline_ns. The same @id again goes on with what there is. Errors: ERR_EXISTS another
 * recording is under way; ERR_CANCELLED the one of this @id is over; ERR_EXHAUSTED no memory. */
int trace_begin(struct trace *t, uint64_t id, const char *job, size_t spans_max, uint64_t now_ns,
                uint64_t deadline_ns, struct err *err);
/* True while something is recorded. For code that would have to read a clock. */
static inline bool trace_on(const struct trace *t)
{
    return atomic_load_explicit(&t->on, memory_order_relaxed);
}
/* @worker: a name for span->worker, or NULL. */
void trace_add(struct trace *t, const char *job, const struct trace_span *span, const char *worker);
/* End it; @out is overwritten on success. Errors: ERR_NOT_FOUND no recording of this @id. */
int trace_take(struct trace *t, uint64_t id, struct trace_spans *out, struct err *err);

/* An id that all processes with the same chrono_now_ns() share: that of the machine's boot. At most
 * TRACE_BOOT_BYTES with the NUL; empty when it is not known. */
#define TRACE_BOOT_BYTES 64
void trace_boot(char out[TRACE_BOOT_BYTES]);

#endif
