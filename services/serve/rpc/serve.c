/* SPDX-License-Identifier: Apache-2.0 */
/* Requests, slots and threads. The batcher's decisions are taken and carried out under one lock;
 * nothing is computed or sent with it. */
#include "serve/rpc/serve.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/text.h"
#include "os/chrono.h"
#include "os/thread.h"
#include "serve/core/batcher.h"
#include "serve/rpc/infer_answer.h"
#include "serve/rpc/serve_meters.h"

#define NS_PER_US UINT64_C(1000)
#define NS_PER_S UINT64_C(1000000000)
#define SHOWN_BYTES 64

struct request {
    struct request *next;
    const Inference__ModelInferRequest *message;
    const struct serve_asker *asker;
    void *ctx; /* of the asker */
    struct serve_model *model;
    size_t records;
    uint64_t since_us;
    struct infer_tensor tensors[]; /* [model->inputs.count] */
};

struct serve {
    struct serve_options options;
    struct serve_meters meters;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t due;
    char *name; /* set once */
    struct serve_model *current;
    struct batcher *batcher;
    struct request *first, *last; /* waiting requests, as the batcher has them */
    size_t busy;
    size_t free_slots[SERVE_THREADS_MAX], free_count;
    bool draining, ending;
    pthread_t threads[SERVE_THREADS_MAX];
    size_t thread_count;
};

static uint64_t now_us(void)
{
    return chrono_now_ns() / NS_PER_US;
}

/* ---- what is served ---- */

struct serve_model *serve_current(struct serve *s)
{
    pthread_mutex_lock(&s->lock);
    struct serve_model *m = s->current != NULL ? serve_model_ref(s->current) : NULL;
    pthread_mutex_unlock(&s->lock);
    return m;
}

void serve_swap(struct serve *s, struct serve_model *m)
{
    pthread_mutex_lock(&s->lock);
    struct serve_model *before = s->current;
    if (s->name == NULL) {
        s->name = mem_strdup(s->options.name != NULL ? s->options.name
                                                     : saved_model_about(m->saved)->job);
    }
    s->current = m;
    pthread_mutex_unlock(&s->lock);
    meter_set(s->meters.version, (double)saved_model_about(m->saved)->step);
    meter_add(s->meters.swaps, before != NULL);
    serve_model_unref(before);
}

const char *serve_name(struct serve *s)
{
    pthread_mutex_lock(&s->lock);
    const char *name = s->name != NULL ? s->name : "";
    pthread_mutex_unlock(&s->lock);
    return name;
}

struct serve_model *serve_find(struct serve *s, const char *name, const char *version,
                               struct err *err)
{
    char shown[SHOWN_BYTES];
    struct serve_model *m = serve_current(s);
    if (m == NULL) {
        (void)err_set(err, ERR_UNAVAILABLE, "there is no checkpoint to serve yet");
        return NULL;
    }
    if (strcmp(name, serve_name(s)) != 0) {
        (void)err_set(err, ERR_NOT_FOUND, "model \"%s\" is not served here; \"%s\" is",
                      text_shown(name, shown, sizeof shown), serve_name(s));
    } else if (version[0] != '\0' && strcmp(version, m->version) != 0) {
        (void)err_set(err, ERR_NOT_FOUND, "version \"%s\" of the model is not served; \"%s\" is",
                      text_shown(version, shown, sizeof shown), m->version);
    } else {
        return m;
    }
    serve_model_unref(m);
    return NULL;
}

void serve_drain(struct serve *s)
{
    pthread_mutex_lock(&s->lock);
    s->draining = true;
    pthread_mutex_unlock(&s->lock);
}

bool serve_ready(struct serve *s)
{
    pthread_mutex_lock(&s->lock);
    const bool ready = s->current != NULL && !s->draining;
    pthread_mutex_unlock(&s->lock);
    return ready;
}

uint64_t serve_delay_us(const struct serve *s)
{
    return s->options.delay_us;
}

size_t serve_busy(struct serve *s)
{
    pthread_mutex_lock(&s->lock);
    const size_t busy = s->busy;
    pthread_mutex_unlock(&s->lock);
    return busy;
}

/* ---- computing ---- */

/* Answers a request. It is counted first, so that a client with an answer finds it counted. */
static void finish(struct serve *s, struct request *q, const float *answers, const struct err *err)
{
    meter_add(s->meters.requests, 1);
    meter_add(s->meters.failures, answers == NULL);
    meter_observe(s->meters.seconds, (double)(now_us() - q->since_us) / 1e6);
    if (answers != NULL) {
        struct infer_answer a;
        infer_answer_make(&a, serve_name(s), q->model, q->message, answers, q->records);
        q->asker->answer(q->ctx, &a.message);
        infer_answer_release(&a);
    } else {
        q->asker->fail(q->ctx, err);
    }
    serve_model_unref(q->model);
    free(q);
}

/* The answers of @n requests from @q on, which have @records records. */
static int compute(const struct request *q, size_t n, size_t records, size_t slot, struct err *err)
{
    const struct serve_model *m = q->model;
    struct records r = {0};
    struct dataset *block = NULL;
    struct batch *b = &m->batches[slot];
    const bool lists = encoder_fields(m->inputs.encoder)->count > 0;
    uint64_t *numbers = mem_new(records, sizeof *numbers);
    int rc = infer_records_begin(&m->inputs, records, &r, err);
    for (size_t i = 0; i < n && rc == 0; i++, q = q->next) {
        rc = infer_records_add(&m->inputs, q->tensors, q->records, &r, err);
    }
    rc = rc != 0 ? rc : encoder_apply(m->inputs.encoder, &r, &block, err);
    if (rc == 0 && b->capacity == 0) { /* lists need room for the keys of these records */
        rc = batch_init(b, block, lists ? records : m->batch_max, err);
    }
    for (size_t i = 0; i < records; i++) {
        numbers[i] = i;
    }
    rc = rc != 0 ? rc : dataset_read(block, numbers, records, b, err);
    rc = rc != 0 ? rc : saved_run_answer(m->runs[slot], b, m->answers[slot], err);
    if (lists) {
        batch_release(b);
    }
    dataset_free(block);
    records_release(&r);
    free(numbers);
    return rc;
}

/* Compute and answer @n requests, of one model, that are linked from @q on. */
static void answer_batch(struct serve *s, struct request *q, size_t n, size_t slot)
{
    struct err err = {0};
    size_t records = 0;
    const struct request *each = q;
    for (size_t i = 0; i < n; i++, each = each->next) {
        records += each->records;
    }
    const int rc = compute(q, n, records, slot, &err);
    meter_add(s->meters.batches, 1);
    meter_add(s->meters.records, records);
    meter_observe(s->meters.batch_records, (double)records);
    if (rc != 0 && n > 1) {
        for (size_t i = 0; i < n; i++) { /* one request is wrong, not all of them */
            struct request *next = q->next;
            answer_batch(s, q, 1, slot);
            q = next;
        }
        return;
    }
    const size_t width = saved_model_width(q->model->saved);
    const float *answers = rc == 0 ? q->model->answers[slot] : NULL;
    for (size_t i = 0; i < n; i++) {
        struct request *next = q->next;
        const size_t floats = q->records * width;
        finish(s, q, answers, &err);
        answers = answers != NULL ? answers + floats : NULL;
        q = next;
    }
}

/* Locked. The next batch, and a slot for it; NULL: none is due, or no slot is free. */
static struct request *take(struct serve *s, size_t *n, size_t *slot, uint64_t *wait_us)
{
    *wait_us = UINT64_MAX;
    *n = s->free_count > 0 ? batcher_take(s->batcher, now_us(), wait_us) : 0;
    if (*n == 0) {
        return NULL;
    }
    struct request *batch = s->first;
    for (size_t i = 0; i < *n; i++) {
        s->first = s->first->next;
    }
    *slot = s->free_slots[--s->free_count];
    meter_set(s->meters.waiting, (double)batcher_waiting(s->batcher));
    return batch;
}

/* Locked, and again so on return. */
static void work(struct serve *s, struct request *batch, size_t n, size_t slot)
{
    pthread_mutex_unlock(&s->lock);
    answer_batch(s, batch, n, slot);
    pthread_mutex_lock(&s->lock);
    s->busy -= n;
    s->free_slots[s->free_count++] = slot;
}

static void wait_us_at_most(struct serve *s, uint64_t us)
{
    if (us == UINT64_MAX) {
        (void)pthread_cond_wait(&s->due, &s->lock);
        return;
    }
    const uint64_t end = chrono_now_ns() + us * NS_PER_US;
    const struct timespec until = {.tv_sec = (time_t)(end / NS_PER_S),
                                   .tv_nsec = (long)(end % NS_PER_S)};
    (void)pthread_cond_timedwait(&s->due, &s->lock, &until);
}

static void *run(void *arg)
{
    struct serve *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->ending) {
        size_t n, slot;
        uint64_t wait;
        struct request *batch = take(s, &n, &slot, &wait);
        if (batch != NULL) {
            work(s, batch, n, slot);
        } else {
            wait_us_at_most(s, wait);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static int put(struct serve *s, struct request *q, struct err *err)
{
    if (!batcher_add(s->batcher, q->records, q->model->number, q->since_us)) {
        return err_set(err, ERR_EXHAUSTED,
                       "%zu requests wait already (--waiting-max); try again later",
                       s->options.waiting_max);
    }
    if (s->first == NULL) {
        s->first = q;
    } else {
        s->last->next = q;
    }
    s->last = q;
    s->busy++;
    meter_set(s->meters.waiting, (double)batcher_waiting(s->batcher));
    return 0;
}

/* The request waits from here on, or is computed by this very thread. */
static void enter(struct serve *s, struct request *q)
{
    struct err err = {0};
    size_t n, slot;
    uint64_t wait;
    pthread_mutex_lock(&s->lock);
    const int rc = put(s, q, &err);
    if (rc == 0 && s->options.delay_us == 0 && s->busy == 1) {
        struct request *batch = take(s, &n, &slot, &wait);
        if (batch != NULL) {
            work(s, batch, n, slot);
        }
    }
    if (s->first != NULL) {
        (void)pthread_cond_signal(&s->due);
    }
    pthread_mutex_unlock(&s->lock);
    if (rc != 0) {
        finish(s, q, NULL, &err);
    }
}

void serve_infer(struct serve *s, const Inference__ModelInferRequest *q,
                 const struct serve_asker *asker, void *ctx)
{
    struct err err = {0};
    struct serve_model *m = serve_find(s, q->model_name, q->model_version, &err);
    struct request *r = NULL;
    int rc = m == NULL ? err.code : 0;
    if (rc == 0) {
        r = mem_new(1, sizeof *r + m->inputs.count * sizeof r->tensors[0]);
        rc = infer_inputs_check(&m->inputs, q, s->options.batch_max, r->tensors, &r->records, &err);
        rc = rc != 0 ? rc : infer_outputs_check(m, q, &err);
    }
    if (rc != 0) {
        meter_add(s->meters.requests, 1);
        meter_add(s->meters.failures, 1);
        asker->fail(ctx, &err);
        serve_model_unref(m);
        free(r);
        return;
    }
    r->message = q;
    r->asker = asker;
    r->ctx = ctx;
    r->model = m;
    r->since_us = now_us();
    enter(s, r);
}

/* ---- start and end ---- */

int serve_new(const struct serve_options *options, struct serve **out, struct err *err)
{
    struct serve *s = mem_new(1, sizeof *s);
    const struct batcher_options batching = {.batch_max = options->batch_max,
                                             .delay_us = options->delay_us,
                                             .waiting_max = options->waiting_max};
    pthread_condattr_t monotonic;
    s->options = *options;
    s->batcher = batcher_new(&batching);
    serve_meters_init(&s->meters, options->meters);
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->due, &monotonic);
    pthread_condattr_destroy(&monotonic);
    for (size_t i = 0; i < options->threads; i++) {
        s->free_slots[s->free_count++] = i;
    }
    for (size_t i = 0; i < options->threads; i++) {
        int rc = thread_start(&s->threads[i], "compute", run, s);
        if (rc != 0) {
            serve_free(s);
            return err_errno(err, rc, "start a thread that computes");
        }
        s->thread_count++;
    }
    *out = s;
    return 0;
}

void serve_free(struct serve *s)
{
    const struct err ended = {.code = ERR_UNAVAILABLE, .msg = "the server ends"};
    pthread_mutex_lock(&s->lock);
    s->ending = true;
    pthread_cond_broadcast(&s->due);
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < s->thread_count; i++) {
        (void)pthread_join(s->threads[i], NULL);
    }
    for (struct request *q = s->first, *next; q != NULL; q = next) {
        next = q->next;
        finish(s, q, NULL, &ended);
    }
    serve_model_unref(s->current);
    batcher_free(s->batcher);
    pthread_cond_destroy(&s->due);
    pthread_mutex_destroy(&s->lock);
    free(s->name);
    free(s);
}
