/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares the next mini-batches while the current one is computed. The threads and their owner
 * share a few slots; the state of a slot, under one mutex, says which of the two may touch its
 * batch. */
#include "data/loader.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"
#include "data/order.h"
#include "os/host_cpus.h"

#define LOADER_THREADS_MIN 2U /* of streamed data; half of the processors, but */
#define LOADER_THREADS_MAX 4U

/* The order matters: states of slots that can be given up, and of those that can be found, are
 * ranges. */
enum slot_state { SLOT_FREE, SLOT_DECODING, SLOT_REQUESTED, SLOT_READY, SLOT_TAKEN };

/* One request and the batch that answers it. While DECODING it belongs to the thread, in the other
 * states to the owner; all members but the batch are under the mutex. */
struct slot {
    enum slot_state state;
    bool unwanted;   /* DECODING, and forgotten meanwhile */
    uint64_t number; /* requests count up; the smallest is the oldest */
    uint64_t epoch, first;
    size_t count;
    struct batch batch;
    struct err failure; /* READY or TAKEN: code 0, or why the records could not be read */
};

struct loader {
    const struct dataset *data;
    struct loader_prepare prepare; /* no call: nothing */
    uint64_t seed;
    size_t batch_records;
    uint64_t *records; /* [thread_count + 1][batch_records] scratch; the last is the owner's */
    pthread_t threads[LOADER_THREADS_MAX];
    size_t thread_count, started;
    pthread_mutex_t mutex;
    pthread_cond_t requested, decoded;
    bool stop;
    uint64_t next_number;
    size_t slot_count;
    struct slot *slots;
};

/* The oldest slot whose state is in @from..@to, or NULL. A handful of slots: a scan is enough. */
static struct slot *oldest(struct loader *l, enum slot_state from, enum slot_state to)
{
    struct slot *found = NULL;
    for (size_t i = 0; i < l->slot_count; i++) {
        struct slot *s = &l->slots[i];
        if (s->state >= from && s->state <= to && (found == NULL || s->number < found->number)) {
            found = s;
        }
    }
    return found;
}

static void decode(struct loader *l, struct slot *s, uint64_t *records)
{
    struct order order;
    order_init(&order, dataset_info(l->data)->records, l->seed, s->epoch);
    for (size_t i = 0; i < s->count; i++) {
        records[i] = order_record(&order, s->first + i);
    }
    s->failure = (struct err){0};
    int rc = dataset_read(l->data, records, s->count, &s->batch, &s->failure);
    if (rc == 0 && l->prepare.call != NULL) {
        (void)l->prepare.call(l->prepare.ctx, (size_t)(s - l->slots), &s->batch, &s->failure);
    }
}

static void *loader_main(void *arg)
{
    struct loader *l = arg;
    pthread_mutex_lock(&l->mutex);
    uint64_t *records = l->records + l->started++ * l->batch_records;
    while (!l->stop) {
        struct slot *s = oldest(l, SLOT_REQUESTED, SLOT_REQUESTED);
        if (s == NULL) {
            pthread_cond_wait(&l->requested, &l->mutex);
            continue;
        }
        s->state = SLOT_DECODING;
        pthread_mutex_unlock(&l->mutex);
        decode(l, s, records);
        pthread_mutex_lock(&l->mutex);
        s->state = s->unwanted ? SLOT_FREE : SLOT_READY;
        s->unwanted = false;
        pthread_cond_signal(&l->decoded);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

static void release(struct loader *l)
{
    for (size_t i = 0; i < l->slot_count; i++) {
        batch_release(&l->slots[i].batch);
    }
    pthread_cond_destroy(&l->decoded);
    pthread_cond_destroy(&l->requested);
    pthread_mutex_destroy(&l->mutex);
    free(l->slots);
    free(l->records);
    free(l);
}

/* Ends all threads. */
static void stop(struct loader *l)
{
    pthread_mutex_lock(&l->mutex);
    l->stop = true;
    pthread_cond_broadcast(&l->requested);
    pthread_mutex_unlock(&l->mutex);
    for (size_t i = 0; i < l->thread_count; i++) {
        pthread_join(l->threads[i], NULL);
    }
}

/* One copies records from memory faster than anybody computes. Streamed ones are read, for which a
 * thread waits, and parsed. */
static size_t threads_for(const struct dataset *data, size_t depth)
{
    if (!dataset_is_streamed(data)) {
        return 1;
    }
    const size_t half = host_cpus("").count / 2, most = depth - 1;
    const size_t threads = half < LOADER_THREADS_MIN   ? LOADER_THREADS_MIN
                           : half > LOADER_THREADS_MAX ? LOADER_THREADS_MAX
                                                       : half;
    return threads < most ? threads : most;
}

int loader_new(const struct dataset *data, uint64_t seed, size_t batch_records, size_t depth,
               struct loader **out, struct err *err)
{
    assert(batch_records > 0 && depth > 1);
    struct loader *l = mem_new(1, sizeof *l);
    l->data = data;
    l->seed = seed;
    l->batch_records = batch_records;
    l->slots = mem_new(depth, sizeof *l->slots);
    l->slot_count = depth;
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->requested, NULL);
    pthread_cond_init(&l->decoded, NULL);
    int rc = 0;
    const size_t threads = threads_for(data, depth);
    size_t records;
    l->records = mem_mul(threads + 1, batch_records, &records)
                     ? mem_try_aligned(records, sizeof(uint64_t), "loader", err)
                     : NULL;
    if (l->records == NULL) {
        rc = ERR_EXHAUSTED;
    }
    for (size_t i = 0; rc == 0 && i < depth; i++) {
        rc = batch_init(&l->slots[i].batch, data, batch_records, err);
    }
    for (size_t i = 0; rc == 0 && i < threads; i++) {
        int e = pthread_create(&l->threads[i], NULL, loader_main, l);
        rc = e == 0 ? 0 : err_errno(err, e, "start the loader thread");
        l->thread_count += rc == 0;
    }
    if (rc != 0) {
        stop(l);
        release(l);
        return rc;
    }
    *out = l;
    return 0;
}

void loader_free(struct loader *l)
{
    if (l == NULL) {
        return;
    }
    stop(l);
    release(l);
}

/* ---- the owner ---- */

void loader_set_prepare(struct loader *l, const struct loader_prepare *prepare)
{
    pthread_mutex_lock(&l->mutex);
    l->prepare = *prepare;
    pthread_mutex_unlock(&l->mutex);
}

static int check(const struct loader *l, uint64_t first, size_t count, struct err *err)
{
    uint64_t records = dataset_info(l->data)->records;
    if (count > l->batch_records || first > records || count > records - first) {
        return err_set(err, ERR_RANGE,
                       "load positions %" PRIu64 "..+%zu: there are %" PRIu64
                       " records, and %zu fit in a batch",
                       first, count, records, l->batch_records);
    }
    return 0;
}

static struct slot *find(struct loader *l, uint64_t epoch, uint64_t first, size_t count)
{
    for (size_t i = 0; i < l->slot_count; i++) {
        struct slot *s = &l->slots[i];
        if (s->state >= SLOT_DECODING && s->state <= SLOT_READY && s->epoch == epoch &&
            s->first == first && s->count == count) {
            s->unwanted = false;
            return s;
        }
    }
    return NULL;
}

/* A slot for a new batch: a free one, or the oldest that was not taken. The thread finishes what it
 * is at. */
static struct slot *make_room(struct loader *l)
{
    struct slot *s = oldest(l, SLOT_FREE, SLOT_FREE);
    return s != NULL ? s : oldest(l, SLOT_REQUESTED, SLOT_READY);
}

static void fill(struct slot *s, enum slot_state state, uint64_t epoch, uint64_t first,
                 size_t count)
{
    s->state = state;
    s->epoch = epoch;
    s->first = first;
    s->count = count;
}

static void forget_before(struct loader *l, uint64_t number)
{
    for (size_t i = 0; i < l->slot_count; i++) {
        struct slot *s = &l->slots[i];
        if (s->number >= number) {
            continue;
        }
        if (s->state == SLOT_DECODING) {
            s->unwanted = true;
        } else if (s->state != SLOT_TAKEN) {
            s->state = SLOT_FREE;
        }
    }
}

static int refuse(const struct loader *l, struct err *err)
{
    return err_set(err, ERR_EXHAUSTED, "load: all %zu batches are in use", l->slot_count);
}

int loader_request(struct loader *l, uint64_t epoch, uint64_t first, size_t count, struct err *err)
{
    int rc = check(l, first, count, err);
    if (rc != 0) {
        return rc;
    }
    pthread_mutex_lock(&l->mutex);
    struct slot *s = find(l, epoch, first, count);
    if (s == NULL && (s = make_room(l)) != NULL) {
        fill(s, SLOT_REQUESTED, epoch, first, count);
        pthread_cond_signal(&l->requested);
    }
    if (s != NULL) {
        s->number = l->next_number++;
    }
    pthread_mutex_unlock(&l->mutex);
    return s != NULL ? 0 : refuse(l, err);
}

/* Called with the mutex, which is released meanwhile. A request that the thread has not begun is
 * decoded here: that takes no longer than waiting for the thread. */
static void get_ready(struct loader *l, struct slot *s)
{
    if (s->state == SLOT_REQUESTED) {
        s->state = SLOT_TAKEN;
        pthread_mutex_unlock(&l->mutex);
        decode(l, s, l->records + l->thread_count * l->batch_records);
        pthread_mutex_lock(&l->mutex);
    }
    while (s->state == SLOT_DECODING) {
        pthread_cond_wait(&l->decoded, &l->mutex);
    }
    s->state = SLOT_TAKEN;
}

int loader_take(struct loader *l, uint64_t epoch, uint64_t first, size_t count,
                const struct batch **out, struct err *err)
{
    int rc = check(l, first, count, err);
    if (rc != 0) {
        return rc;
    }
    pthread_mutex_lock(&l->mutex);
    struct slot *s = find(l, epoch, first, count);
    if (s != NULL) {
        forget_before(l, s->number);
    } else {
        while ((s = make_room(l)) == NULL && oldest(l, SLOT_DECODING, SLOT_DECODING) != NULL) {
            pthread_cond_wait(&l->decoded, &l->mutex);
        }
        if (s != NULL) {
            fill(s, SLOT_REQUESTED, epoch, first, count);
        }
    }
    if (s != NULL) {
        get_ready(l, s);
        *out = &s->batch;
        rc = s->failure.code;
    }
    if (rc != 0) {
        (void)err_set(err, rc, "%s", s->failure.msg);
        s->state = SLOT_FREE;
    }
    pthread_mutex_unlock(&l->mutex);
    return s != NULL ? rc : refuse(l, err);
}

size_t loader_slot(const struct loader *l, const struct batch *b)
{
    size_t i = 0;
    while (&l->slots[i].batch != b) {
        i++;
        assert(i < l->slot_count);
    }
    return i;
}

void loader_return(struct loader *l, const struct batch *b)
{
    pthread_mutex_lock(&l->mutex);
    bool known = false;
    for (size_t i = 0; i < l->slot_count; i++) {
        struct slot *s = &l->slots[i];
        if (&s->batch == b && s->state == SLOT_TAKEN) {
            s->state = SLOT_FREE;
            known = true;
        }
    }
    pthread_mutex_unlock(&l->mutex);
    assert(known);
}
