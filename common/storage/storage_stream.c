/* SPDX-License-Identifier: Apache-2.0 */
/* Part number p of an object is fetched by thread p modulo the number of threads, into memory of
 * its own, which the reader then owns until it has used all of it. */
#include "storage/storage_stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "storage/storage_kind.h"

struct stream_part {
    struct storage_stream *stream;
    pthread_t thread;
    char *data;
    /* under the lock: */
    uint64_t first; /* byte of the file */
    size_t bytes;
    bool full;      /* the reader owns it */
    struct err err; /* why it is not there */
};

struct storage_stream {
    struct storage_reader reader;
    uint64_t at;       /* the next byte for the reader */
    atomic_bool stop;  /* what is still on its way is not wanted any more */
    size_t started;    /* threads */
    struct err failed; /* of starting them */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct stream_part parts[STREAM_PARTS_AHEAD];
};

int storage_stream_open(const char *location, struct storage_stream **out, struct err *err)
{
    struct storage_reader reader;
    int rc = storage_open(&reader, location, err);
    if (rc != 0) {
        return rc;
    }
    struct storage_stream *s = mem_new(1, sizeof *s);
    s->reader = reader;
    s->reader.stop = &s->stop;
    atomic_init(&s->stop, false);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    *out = s;
    return 0;
}

void storage_stream_close(struct storage_stream *s)
{
    if (s == NULL) {
        return;
    }
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->stop, true);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < s->started; i++) {
        (void)pthread_join(s->parts[i].thread, NULL);
    }
    for (size_t i = 0; i < STREAM_PARTS_AHEAD; i++) {
        free(s->parts[i].data);
    }
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    storage_close(&s->reader);
    free(s);
}

uint64_t storage_stream_bytes(const struct storage_stream *s)
{
    return s->reader.bytes;
}

int storage_stream_peek(struct storage_stream *s, void *out, size_t n, size_t *got, struct err *err)
{
    size_t k = s->reader.bytes < n ? (size_t)s->reader.bytes : n;
    int rc = storage_read_at(&s->reader, 0, out, k, err);
    if (rc == 0) {
        *got = k;
    }
    return rc;
}

/* ---- threads ---- */

static void *run(void *ctx)
{
    struct stream_part *p = ctx;
    struct storage_stream *s = p->stream;
    pthread_mutex_lock(&s->lock);
    while (p->first < s->reader.bytes && p->err.code == 0) {
        uint64_t left = s->reader.bytes - p->first;
        p->bytes = left < STREAM_PART_BYTES ? (size_t)left : STREAM_PART_BYTES;
        pthread_mutex_unlock(&s->lock);
        struct err err = {0};
        (void)storage_read_at(&s->reader, p->first, p->data, p->bytes, &err);
        pthread_mutex_lock(&s->lock);
        p->err = err;
        p->full = true;
        pthread_cond_broadcast(&s->changed);
        while (p->full && !atomic_load(&s->stop)) {
            pthread_cond_wait(&s->changed, &s->lock);
        }
        if (atomic_load(&s->stop)) {
            break;
        }
        p->first += s->started * STREAM_PART_BYTES;
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Starts a thread for each part behind the head, which has come already. */
static int start(struct storage_stream *s, struct err *err)
{
    uint64_t parts =
        (s->reader.bytes - STREAM_HEAD_BYTES + STREAM_PART_BYTES - 1) / STREAM_PART_BYTES;
    size_t wanted = parts < STREAM_PARTS_AHEAD ? (size_t)parts : STREAM_PARTS_AHEAD;
    int rc = 0;
    pthread_mutex_lock(&s->lock); /* held until the number of threads is known */
    for (size_t i = 0; i < wanted && rc == 0; i++) {
        struct stream_part *p = &s->parts[i];
        p->stream = s;
        p->first = STREAM_HEAD_BYTES + i * STREAM_PART_BYTES;
        p->data = mem_try_aligned(STREAM_PART_BYTES, 1, "a part of a file", err);
        int failed = p->data == NULL ? 0 : pthread_create(&p->thread, NULL, run, p);
        rc = p->data == NULL ? ERR_EXHAUSTED
             : failed != 0   ? err_errno(err, failed, "start a thread that reads ahead")
                             : 0;
        s->started += rc == 0;
    }
    if (rc != 0) { /* threads that have begun find nothing to do */
        atomic_store(&s->stop, true);
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* Takes bytes of a part that has come. */
static int take(struct storage_stream *s, void *out, size_t n, size_t *got, struct err *err)
{
    uint64_t behind = s->at - STREAM_HEAD_BYTES;
    struct stream_part *p = &s->parts[behind / STREAM_PART_BYTES % s->started];
    size_t from = (size_t)(behind % STREAM_PART_BYTES);
    pthread_mutex_lock(&s->lock);
    while (!p->full) {
        pthread_cond_wait(&s->changed, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    if (p->err.code != 0) {
        return err_set(err, p->err.code, "%s", p->err.msg);
    }
    size_t k = p->bytes - from < n ? p->bytes - from : n;
    memcpy(out, p->data + from, k);
    *got = k;
    if (from + k == p->bytes) {
        pthread_mutex_lock(&s->lock);
        p->full = false;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
    }
    return 0;
}

int storage_stream_read(struct storage_stream *s, void *out, size_t n, size_t *got, struct err *err)
{
    uint64_t left = s->reader.bytes - s->at;
    bool head = s->at < STREAM_HEAD_BYTES, direct = s->reader.kind == &storage_file;
    size_t k = left < n ? (size_t)left : n, most = (size_t)(STREAM_HEAD_BYTES - s->at);
    int rc = 0;
    if (k > 0 && (head || direct)) {
        k = head && k > most ? most : k;
        rc = storage_read_at(&s->reader, s->at, out, k, err);
    } else if (k > 0) {
        if (s->started == 0 && s->failed.code == 0) {
            (void)start(s, &s->failed);
        }
        rc = s->failed.code != 0 ? err_set(err, s->failed.code, "%s", s->failed.msg)
                                 : take(s, out, n, &k, err);
    }
    if (rc == 0) {
        s->at += k;
        *got = k;
    }
    return rc;
}
