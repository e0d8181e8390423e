/* SPDX-License-Identifier: Apache-2.0 */
/* A list of some hundred pieces at most, so that to look through it costs nothing beside unpacking
 * one. */
#include "data/frame_cache.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"

struct frame {
    struct frame *next;
    uint64_t file, number, used; /* used: the later, the greater */
    unsigned holders;
    char *bytes;
    size_t n;
};

struct frame_cache {
    pthread_mutex_t lock;
    struct frame *frames;
    uint64_t allowed, kept, clock, files; /* kept: bytes of all */
};

struct frame_cache *frame_cache_new(uint64_t bytes)
{
    struct frame_cache *c = mem_new(1, sizeof *c);
    c->allowed = bytes;
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

static void drop(struct frame_cache *c, struct frame **at)
{
    struct frame *f = *at;
    *at = f->next;
    c->kept -= f->n;
    free(f->bytes);
    free(f);
}

void frame_cache_free(struct frame_cache *c)
{
    if (c != NULL) {
        while (c->frames != NULL) {
            drop(c, &c->frames);
        }
        pthread_mutex_destroy(&c->lock);
        free(c);
    }
}

uint64_t frame_cache_file(struct frame_cache *c)
{
    pthread_mutex_lock(&c->lock);
    const uint64_t file = c->files++;
    pthread_mutex_unlock(&c->lock);
    return file;
}

struct frame *frame_cache_take(struct frame_cache *c, uint64_t file, uint64_t number)
{
    pthread_mutex_lock(&c->lock);
    struct frame *f = c->frames;
    while (f != NULL && (f->file != file || f->number != number)) {
        f = f->next;
    }
    if (f != NULL) {
        f->holders++;
        f->used = ++c->clock;
    }
    pthread_mutex_unlock(&c->lock);
    return f;
}

/* Under the lock. */
static void make_room(struct frame_cache *c)
{
    while (c->kept > c->allowed) {
        struct frame **oldest = NULL;
        for (struct frame **at = &c->frames; *at != NULL; at = &(*at)->next) {
            if ((*at)->holders == 0 && (oldest == NULL || (*at)->used < (*oldest)->used)) {
                oldest = at;
            }
        }
        if (oldest == NULL) {
            return;
        }
        drop(c, oldest);
    }
}

struct frame *frame_cache_add(struct frame_cache *c, uint64_t file, uint64_t number, char *bytes,
                              size_t n)
{
    struct frame *f = mem_new(1, sizeof *f);
    *f = (struct frame){.file = file, .number = number, .holders = 1, .bytes = bytes, .n = n};
    pthread_mutex_lock(&c->lock);
    f->used = ++c->clock;
    f->next = c->frames;
    c->frames = f;
    c->kept += n;
    make_room(c);
    pthread_mutex_unlock(&c->lock);
    return f;
}

const char *frame_bytes(const struct frame *f)
{
    return f->bytes;
}

size_t frame_size(const struct frame *f)
{
    return f->n;
}

void frame_cache_give(struct frame_cache *c, struct frame *f)
{
    pthread_mutex_lock(&c->lock);
    f->holders--;
    make_room(c);
    pthread_mutex_unlock(&c->lock);
}
